"""The keys of a machine in a platform file, and how each is read.

Platform files: what their keys mean. Every problem is found before any is reported.

Platforms as plain mappings in the file format; what has its default value is left out.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeVar

from weft.documents import MOST_NAMES, Document, DocumentNode, Reader, expand_braces
from weft.platform.machine import OCCUPANCIES, QUEUES, Attribute, Machine
from weft.platform.platform import DEFAULT_LINK, Link, NamedPair, Platform, Share
from weft.units import parse_bytes, parse_rate, parse_seconds

__all__ = [
    "LINKS_KEYS",
    "LINK_KEYS",
    "MACHINE_KEYS",
    "PAIR_KEYS",
    "PLATFORM_KEYS",
    "SHARE_KEYS",
    "VERSION",
    "Item",
    "platform_document",
    "read_machine",
    "read_platform",
    "read_unit",
]


MACHINE_KEYS: dict[str, str] = {
    "nodes": "how many identical nodes it has (1)",
    "cores": "cores per node (1)",
    "memory": "memory in total: bytes, or with a unit (192GB)",
    "disk": "disk in total: bytes, or with a unit",
    "gpus": "GPUs in total (0)",
    "speed": "work one node does per second (1), or a speed per service: {default: 1, dock: 2.5}",
    "price_per_node_hour": "what one node costs per hour (0)",
    "services": "the services it offers: a name or a list of names",
    "arch": "architecture of its processors (x86_64)",
    "os": "operating system (linux)",
    "site": "the site it stands at; a site of its own by default",
    "availability": "the share of its speed that is ours, above 0 and at most 1 (1)",
    "queue": f"how its queue lets tasks start: {', '.join(QUEUES)}",
    "occupancy": f"whether tasks have nodes for themselves: {', '.join(OCCUPANCIES)}",
    "attributes": "free names with text, numbers or true/false, for requirements and ranks",
    "backend": "how to reach it: {kind: local, ...}",
    "resources": "countable things in total: {licence: 4}",
}
"""What may be written of a machine, with a line about each."""


def read_machine(reader: Reader, node: DocumentNode, name: str) -> Machine:
    """Read one machine; what cannot be read becomes a problem and keeps its default."""
    if node.value is None:
        return Machine(name=name)
    values: dict[str, Any] = {}
    for key, entry in reader.mapping(node, MACHINE_KEYS, "key of a machine").items():
        if entry.value is None:
            continue
        if key == "speed":
            values |= _speeds(reader, entry)
        elif (found := _FIELDS[key](reader, entry)) is not None:
            values[key] = found
    return Machine(name=name, **values)


def read_unit(
    reader: Reader, node: DocumentNode, parse: Callable[[str], float | None], wanted: str
) -> float | None:
    """Read a number, or text with a unit."""
    value = node.value
    if isinstance(value, str):
        found = parse(value)
        if found is None:
            reader.add_problem(node, f"{node.display()} is not allowed", rule=f"must be {wanted}")
        return found
    return _number(reader, node, wanted)


def _number(reader: Reader, node: DocumentNode, wanted: str = "a number") -> float | None:
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        reader.add_type_problem(node, wanted)
        return None
    return float(node.value)


def _size(reader: Reader, node: DocumentNode) -> float | None:
    return read_unit(reader, node, parse_bytes, "a size such as 4GB or 4GiB, at least 0")


def _speeds(reader: Reader, node: DocumentNode) -> dict[str, Any]:
    """Read a speed, or a default speed and those of services."""
    if not isinstance(node.value, dict):
        speed = _number(reader, node, "a number, or a mapping from services to numbers")
        return {} if speed is None else {"speed": speed}
    speeds = _numbers(reader, node)
    default = speeds.pop("default", 1.0)
    return {"speed": default, "speeds": speeds}


def _numbers(reader: Reader, node: DocumentNode) -> dict[str, float]:
    found = {name: _number(reader, entry) for name, entry in reader.mapping(node).items()}
    return {name: value for name, value in found.items() if value is not None}


def _names(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    found = (reader.text(entry) for entry in reader.listing(node))
    return tuple(name for name in found if name is not None)


def _attributes(reader: Reader, node: DocumentNode) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for name, entry in reader.mapping(node).items():
        if isinstance(entry.value, str | bool):
            found[name] = entry.value
        elif entry.value is not None:
            number = _number(reader, entry, "text, a number or true/false")
            if number is not None:
                found[name] = entry.value if isinstance(entry.value, int) else number
    return found


def _backend(reader: Reader, node: DocumentNode) -> dict[str, object]:
    reader.mapping(node)
    return node.to_plain() if isinstance(node.value, dict) else {}


def _count(least: int) -> Callable[[Reader, DocumentNode], object]:
    return lambda reader, node: reader.integer(node, least=least)


def _choice(allowed: tuple[str, ...]) -> Callable[[Reader, DocumentNode], object]:
    return lambda reader, node: reader.choice(node, allowed)


_FIELDS: dict[str, Callable[[Reader, DocumentNode], object]] = {
    "nodes": _count(1),
    "cores": _count(1),
    "memory": _size,
    "disk": _size,
    "gpus": _count(0),
    "price_per_node_hour": _number,
    "services": _names,
    "arch": Reader.text,
    "os": Reader.text,
    "site": Reader.text,
    "availability": _number,
    "queue": _choice(QUEUES),
    "occupancy": _choice(OCCUPANCIES),
    "attributes": _attributes,
    "backend": _backend,
    "resources": _numbers,
}


Item = TypeVar("Item")

VERSION = 1
"""The version of the language: ``weft: 1``."""

PLATFORM_KEYS: dict[str, str] = {
    "weft": "version of the language: 1",
    "name": "name of the platform; the file's name by default",
    "machines": "the machines by name; altix{1..16} means sixteen of them",
    "sites": "the link inside each site",
    "links": "the links between sites and machines",
    "virtual": "nodes of machines set aside for one service, machines of their own to planners",
}
"""What may be written in a platform file, with a line about each."""

LINK_KEYS: dict[str, str] = {
    "bandwidth": "bytes per second, or with a unit: 160MB/s; inf where data move at once (1GB/s)",
    "latency": "seconds, or with a unit: 0.1ms (0)",
}
"""What may be written of a link."""

LINKS_KEYS: dict[str, str] = {
    "default": "the link wherever no other is described",
    "between": "a list of links between two machines or sites",
}
"""What may be written under ``links``."""

PAIR_KEYS: dict[str, str] = {"pair": "the names of two machines or sites", **LINK_KEYS}
"""What may be written of a link between two places."""

SHARE_KEYS: dict[str, str] = {
    "machine": "the machine whose nodes are set aside",
    "service": "the only service they serve",
    "nodes": "how many of its nodes (1)",
    "name": "what planners call it; machine/service by default",
}
"""What may be written of a virtual machine."""


def read_platform(node: DocumentNode, document: Document | None = None) -> Platform:
    """Read a platform from a document's tree, or raise every problem found in it."""
    reader = Reader()
    keys = reader.mapping(node, PLATFORM_KEYS)
    if not isinstance(node.value, dict):
        reader.finish(document)
    absent = DocumentNode(value=None, place=node.place, path=node.path)
    _check_version(reader, keys.get("weft", absent))
    machines = _machines(reader, keys.get("machines", absent))
    default_link, links = _links(reader, keys.get("links", absent))
    platform = Platform(
        name=_name(reader, keys.get("name", absent), document),
        machines=machines,
        sites=_sites(reader, keys.get("sites", absent)),
        default_link=default_link,
        links=links,
        virtual=_shares(reader, keys.get("virtual", absent)),
        document=document,
    )
    if machines or not reader.problems:
        reader.problems += platform.find_problems()
    reader.finish(document)
    return platform


def _check_version(reader: Reader, node: DocumentNode) -> None:
    if node.value is None:
        return
    if isinstance(node.value, bool) or node.value != VERSION:
        what = f"version {node.display()} of the language"
        reader.add_problem(node, what, rule=f"this weft reads version {VERSION}", advice="write 'weft: 1'")


def _name(reader: Reader, node: DocumentNode, document: Document | None) -> str:
    if node.value is not None:
        return reader.text(node) or "platform"
    return PurePath(document.file).stem if document and document.file else "platform"


def _machines(reader: Reader, node: DocumentNode) -> tuple[Machine, ...]:
    """Read all machines; none at all if a key cannot be expanded, lest their names be missed elsewhere."""
    entries = _entries(reader, node)
    templates = [read_machine(reader, entry, key) for key, entry in entries.items()]
    names = [
        reader.collect_problems(entry, functools.partial(expand_braces, key))
        for key, entry in entries.items()
    ]
    if not all(names):
        return ()
    count = sum(len(group) for group in names)
    if count > MOST_NAMES:
        reader.add_problem(node, f"{count:,} machines", rule=f"a platform has at most {MOST_NAMES:,}")
        return ()
    groups = zip(templates, names, strict=True)
    return tuple(machine for template, group in groups for machine in template.under_names(group))


def _sites(reader: Reader, node: DocumentNode) -> dict[str, Link]:
    return {
        site: _link(reader, reader.mapping(entry, LINK_KEYS))
        for site, entry in _entries(reader, node).items()
    }


def _links(reader: Reader, node: DocumentNode) -> tuple[Link, tuple[NamedPair, ...]]:
    if node.value is None:
        return DEFAULT_LINK, ()
    keys = reader.mapping(node, LINKS_KEYS)
    default = _link(reader, reader.mapping(keys["default"], LINK_KEYS)) if "default" in keys else DEFAULT_LINK
    between = reader.listing(keys["between"]) if "between" in keys else []
    return default, _all_or_none([_pair(reader, entry) for entry in between])


def _link(reader: Reader, keys: dict[str, DocumentNode]) -> Link:
    """Read a link; what is not stated of it is that of ``DEFAULT_LINK``."""
    latency_s = bandwidth = None
    if "latency" in keys:
        latency_s = read_unit(reader, keys["latency"], parse_seconds, "a time such as 0.1ms, at least 0")
    if "bandwidth" in keys:
        wanted = "a rate such as 160MB/s, above 0, or inf"
        bandwidth = read_unit(reader, keys["bandwidth"], _rate, wanted)
    return Link(
        latency_s=DEFAULT_LINK.latency_s if latency_s is None else latency_s,
        bandwidth_Bps=DEFAULT_LINK.bandwidth_Bps if bandwidth is None else bandwidth,
    )


def _rate(text: str) -> float | None:
    return math.inf if text.strip() == "inf" else parse_rate(text)


def _pair(reader: Reader, node: DocumentNode) -> NamedPair | None:
    keys = reader.mapping(node, PAIR_KEYS)
    link = _link(reader, keys)
    names = [reader.text(entry) for entry in reader.listing(keys["pair"])] if "pair" in keys else []
    if len(names) != 2:
        if isinstance(node.value, dict):
            at = keys.get("pair", node)
            reader.add_problem(at, f"{len(names)} names", rule="a pair names two machines or sites")
        return None
    first, second = names
    return None if first is None or second is None else (first, second, link)


def _shares(reader: Reader, node: DocumentNode) -> tuple[Share, ...]:
    return _all_or_none([_share(reader, entry) for entry in reader.listing(node)])


def _share(reader: Reader, node: DocumentNode) -> Share | None:
    keys = reader.mapping(node, SHARE_KEYS)
    if not isinstance(node.value, dict):
        return None
    texts = {key: reader.text(keys[key]) for key in ("machine", "service", "name") if key in keys}
    nodes = reader.integer(keys["nodes"], least=1) if "nodes" in keys else 1
    for key in ("machine", "service"):
        if key not in keys:
            reader.add_problem(
                node, f"a share without the key {key!r}", rule="it names a machine and a service"
            )
    machine, service = texts.get("machine"), texts.get("service")
    if machine is None or service is None or nodes is None:
        return None
    return Share(machine=machine, service=service, nodes=nodes, name=texts.get("name"))


def _all_or_none(items: list[Item | None]) -> tuple[Item, ...]:
    """Keep a list only if every entry was read: later checks name entries by their position in it."""
    found = tuple(item for item in items if item is not None)
    return found if len(found) == len(items) else ()


def _entries(reader: Reader, node: DocumentNode) -> dict[str, DocumentNode]:
    return {} if node.value is None else reader.mapping(node)


def platform_document(platform: Platform) -> dict[str, object]:
    """Give the mapping that ``read_platform`` reads back as an equal platform."""
    links: dict[str, object] = {}
    if platform.default_link != DEFAULT_LINK:
        links["default"] = _link_document(platform.default_link)
    if platform.links:
        links["between"] = [
            {"pair": [first, second], **_link_document(link)} for first, second, link in platform.links
        ]
    optional = {
        "sites": {site: _link_document(link) for site, link in platform.sites.items()},
        "links": links,
        "virtual": [_share_document(share) for share in platform.virtual],
    }
    return {
        "weft": VERSION,
        "name": platform.name,
        "machines": {machine.name: _machine_document(machine) for machine in platform.machines},
        **{key: value for key, value in optional.items() if value},
    }


def _machine_document(machine: Machine) -> dict[str, object]:
    defaults = Machine(name=machine.name)
    found: dict[str, object] = {}
    for key in MACHINE_KEYS:
        value = getattr(machine, key)
        if key == "speed" and machine.speeds:
            found[key] = {"default": value, **machine.speeds}
        elif value != getattr(defaults, key):
            found[key] = _plain_value(value)
    return found


def _plain_value(value: object) -> object:
    """Give tuples as lists and mappings as dictionaries, as files have them."""
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if hasattr(value, "keys") else value  # type: ignore[call-overload]


def _link_document(link: Link) -> dict[str, object]:
    # JSON has no number for infinity, so it is written as the word.
    bandwidth = "inf" if link.bandwidth_Bps == math.inf else link.bandwidth_Bps
    return {"bandwidth": bandwidth, "latency": link.latency_s}


def _share_document(share: Share) -> dict[str, object]:
    stated = dataclasses.asdict(share)
    return {key: value for key, value in stated.items() if value is not None}
