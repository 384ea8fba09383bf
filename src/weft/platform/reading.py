"""Platform files: what their keys mean. Every problem is found before any is reported."""

from __future__ import annotations

import functools
import math
from pathlib import PurePath
from typing import TypeVar

from weft.braces import MOST_NAMES, expand_braces
from weft.documents import Document, Node, Reader
from weft.platform.link import DEFAULT_LINK, Link
from weft.platform.machine import Machine
from weft.platform.machine_reading import MACHINE_KEYS, quantity, read_machine
from weft.platform.platform import NamedPair, Platform
from weft.platform.share import Share
from weft.units import parse_rate, parse_seconds

__all__ = [
    "LINKS_KEYS",
    "LINK_KEYS",
    "MACHINE_KEYS",
    "PAIR_KEYS",
    "PLATFORM_KEYS",
    "SHARE_KEYS",
    "VERSION",
    "Item",
    "read_platform",
]

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


def read_platform(node: Node, document: Document | None = None) -> Platform:
    """Read a platform from a document's tree, or raise every problem found in it."""
    reader = Reader()
    keys = reader.mapping(node, PLATFORM_KEYS)
    if not isinstance(node.value, dict):
        reader.finish(document)
    absent = Node(value=None, place=node.place, path=node.path)
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
        reader.problems += platform.faults()
    reader.finish(document)
    return platform


def _check_version(reader: Reader, node: Node) -> None:
    if node.value is None:
        return
    if isinstance(node.value, bool) or node.value != VERSION:
        what = f"version {node.shown()} of the language"
        reader.complain(node, what, rule=f"this weft reads version {VERSION}", advice="write 'weft: 1'")


def _name(reader: Reader, node: Node, document: Document | None) -> str:
    if node.value is not None:
        return reader.text(node) or "platform"
    return PurePath(document.file).stem if document and document.file else "platform"


def _machines(reader: Reader, node: Node) -> tuple[Machine, ...]:
    """Read all machines; none at all if a key cannot be expanded, lest their names be missed elsewhere."""
    entries = _entries(reader, node)
    templates = [read_machine(reader, entry, key) for key, entry in entries.items()]
    names = [reader.guard(entry, functools.partial(expand_braces, key)) for key, entry in entries.items()]
    if not all(names):
        return ()
    count = sum(len(group) for group in names)
    if count > MOST_NAMES:
        reader.complain(node, f"{count:,} machines", rule=f"a platform has at most {MOST_NAMES:,}")
        return ()
    groups = zip(templates, names, strict=True)
    return tuple(machine for template, group in groups for machine in template.under_names(group))


def _sites(reader: Reader, node: Node) -> dict[str, Link]:
    return {
        site: _link(reader, reader.mapping(entry, LINK_KEYS))
        for site, entry in _entries(reader, node).items()
    }


def _links(reader: Reader, node: Node) -> tuple[Link, tuple[NamedPair, ...]]:
    if node.value is None:
        return DEFAULT_LINK, ()
    keys = reader.mapping(node, LINKS_KEYS)
    default = _link(reader, reader.mapping(keys["default"], LINK_KEYS)) if "default" in keys else DEFAULT_LINK
    between = reader.listing(keys["between"]) if "between" in keys else []
    return default, _all_or_none([_pair(reader, entry) for entry in between])


def _link(reader: Reader, keys: dict[str, Node]) -> Link:
    """Read a link; what is not stated of it is that of ``DEFAULT_LINK``."""
    latency_s = bandwidth = None
    if "latency" in keys:
        latency_s = quantity(reader, keys["latency"], parse_seconds, "a time such as 0.1ms, at least 0")
    if "bandwidth" in keys:
        wanted = "a rate such as 160MB/s, above 0, or inf"
        bandwidth = quantity(reader, keys["bandwidth"], _rate, wanted)
    return Link(
        latency_s=DEFAULT_LINK.latency_s if latency_s is None else latency_s,
        bandwidth_Bps=DEFAULT_LINK.bandwidth_Bps if bandwidth is None else bandwidth,
    )


def _rate(text: str) -> float | None:
    return math.inf if text.strip() == "inf" else parse_rate(text)


def _pair(reader: Reader, node: Node) -> NamedPair | None:
    keys = reader.mapping(node, PAIR_KEYS)
    link = _link(reader, keys)
    names = [reader.text(entry) for entry in reader.listing(keys["pair"])] if "pair" in keys else []
    if len(names) != 2:
        if isinstance(node.value, dict):
            at = keys.get("pair", node)
            reader.complain(at, f"{len(names)} names", rule="a pair names two machines or sites")
        return None
    first, second = names
    return None if first is None or second is None else (first, second, link)


def _shares(reader: Reader, node: Node) -> tuple[Share, ...]:
    return _all_or_none([_share(reader, entry) for entry in reader.listing(node)])


def _share(reader: Reader, node: Node) -> Share | None:
    keys = reader.mapping(node, SHARE_KEYS)
    if not isinstance(node.value, dict):
        return None
    texts = {key: reader.text(keys[key]) for key in ("machine", "service", "name") if key in keys}
    nodes = reader.integer(keys["nodes"], least=1) if "nodes" in keys else 1
    for key in ("machine", "service"):
        if key not in keys:
            reader.complain(node, f"a share without the key {key!r}", rule="it names a machine and a service")
    machine, service = texts.get("machine"), texts.get("service")
    if machine is None or service is None or nodes is None:
        return None
    return Share(machine=machine, service=service, nodes=nodes, name=texts.get("name"))


def _all_or_none(items: list[Item | None]) -> tuple[Item, ...]:
    """Keep a list only if every entry was read: later checks name entries by their position in it."""
    found = tuple(item for item in items if item is not None)
    return found if len(found) == len(items) else ()


def _entries(reader: Reader, node: Node) -> dict[str, Node]:
    return {} if node.value is None else reader.mapping(node)
