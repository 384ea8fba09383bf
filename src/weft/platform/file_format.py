"""Platform files: the fields of every record, reading, and writing."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Any, TypeVar

from weft.documents import Document, DocumentNode, Reader
from weft.fields import (
    ANY_SHAPE,
    NULL_SHAPE,
    QUANTITY_SHAPE,
    TEXT,
    TEXT_SHAPE,
    TEXTS_BY_NAME,
    Field,
    Record,
    Shape,
    ValueType,
    any_of,
    choice,
    integer,
    list_shape,
    mapping_shape,
    version_field,
)
from weft.platform.machine import MOST_MACHINES, OCCUPANCIES, QUEUES, Attribute, Machine, ServiceProgram
from weft.platform.platform import DEFAULT_LINK, Link, NamedPair, Platform, Share
from weft.predictions import PREDICTIONS
from weft.units import exact_bytes, format_count, parse_bytes, parse_rate, parse_seconds

_Item = TypeVar("_Item")

_AT_LEAST_0: Shape = {"type": "number", "minimum": 0}
_ABOVE_0: Shape = {"type": "number", "exclusiveMinimum": 0}


def _read_number(reader: Reader, node: DocumentNode, wanted: str = "a number") -> float | None:
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        reader.add_type_problem(node, wanted)
        return None
    return float(node.value)


def _read_unit(
    reader: Reader, node: DocumentNode, parse: Callable[[str], float | None], wanted: str
) -> float | None:
    """Return the number in a node, parsed from text if it has a unit; None after adding a problem."""
    if not isinstance(node.value, str):
        return _read_number(reader, node, wanted)
    if (found := parse(node.value)) is None:
        reader.add_problem(node, f"{node.display()} is not allowed", rule=f"must be {wanted}")
    return found


def _parse_bandwidth(text: str) -> float | None:
    return math.inf if text.strip() == "inf" else parse_rate(text)


def _read_speed(reader: Reader, node: DocumentNode) -> dict[str, Any]:
    """Return the attributes ``speed`` and, where services have speeds of their own, ``speeds``."""
    if not isinstance(node.value, dict):
        speed = _read_number(reader, node, "a number, or a mapping from services to numbers")
        return {} if speed is None else {"speed": speed}
    speeds = _read_numbers(reader, node)
    return {"speed": speeds.pop("default", 1.0), "speeds": speeds}


def _write_speed(machine: Machine) -> object:
    if machine.speeds:
        return {"default": machine.speed, **machine.speeds}
    return None if machine.speed == 1.0 else machine.speed


def _write_memory(machine: Machine) -> object:
    if machine.memory is None or machine.memory_per_node is not None:
        return None
    return exact_bytes(machine.memory)


def _read_numbers(reader: Reader, node: DocumentNode) -> dict[str, float]:
    found = {name: _read_number(reader, entry) for name, entry in reader.mapping(node).items()}
    return {name: value for name, value in found.items() if value is not None}


def _read_names(reader: Reader, node: DocumentNode) -> tuple[str, ...]:
    found = (reader.text(entry) for entry in reader.listing(node))
    return tuple(name for name in found if name is not None)


def _read_command(reader: Reader, node: DocumentNode) -> str | tuple[str, ...] | None:
    return _read_names(reader, node) if isinstance(node.value, list) else reader.text(node)


def _read_attributes(reader: Reader, node: DocumentNode) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for name, entry in reader.mapping(node).items():
        if isinstance(entry.value, str | bool):
            found[name] = entry.value
        elif entry.value is not None:
            number = _read_number(reader, entry, "text, a number or true/false")
            if number is not None:
                found[name] = entry.value if isinstance(entry.value, int) else number
    return found


def _read_backend(reader: Reader, node: DocumentNode) -> dict[str, object]:
    reader.mapping(node)
    return node.to_plain() if isinstance(node.value, dict) else {}


_NUMBER_AT_LEAST_0 = ValueType("number", _AT_LEAST_0, _read_number)
_read_size = partial(_read_unit, parse=parse_bytes, wanted="a size such as 4GB or 4GiB, at least 0")
_SIZE = ValueType("size", QUANTITY_SHAPE, _read_size, exact_bytes, unit="bytes")

_read_latency = partial(_read_unit, parse=parse_seconds, wanted="a time such as 0.1ms, at least 0")
_LATENCY = ValueType("time", QUANTITY_SHAPE, _read_latency, unit="s")

_SPEED = ValueType(
    "number or mapping", any_of(_ABOVE_0, mapping_shape(_ABOVE_0)), _read_speed, unit="work per second"
)
_AVAILABILITY = ValueType("number", {**_ABOVE_0, "maximum": 1}, _read_number)
_ATTRIBUTES = ValueType(
    "mapping", mapping_shape({"type": ["string", "number", "boolean", "null"]}), _read_attributes, dict
)
_BACKEND = ValueType("mapping", mapping_shape(ANY_SHAPE), _read_backend, dict)
_RESOURCES = ValueType("mapping", mapping_shape(_AT_LEAST_0), _read_numbers, dict)

_COMMAND = ValueType(
    "text or list of texts",
    any_of(TEXT_SHAPE, {"type": "array", "items": TEXT_SHAPE, "minItems": 1}),
    _read_command,
    lambda command: list(command) if isinstance(command, tuple) else command,
)

# fmt: off
PROGRAM = Record("a service", (
    Field("command", _COMMAND, "what a task of the service executes; `{PORT}` is a port of a DIET task",
          required=True, advice="add `command: ./PROGRAM {inputs}`"),
    Field("work", _NUMBER_AT_LEAST_0, "work of one call, where the task states none",
          default_text="not stated"),
    Field("env", TEXTS_BY_NAME, "environment variables of the program", default={}),
))
# fmt: on


def _read_program(reader: Reader, node: DocumentNode) -> ServiceProgram | None:
    values = PROGRAM.read(reader, node)
    return ServiceProgram(**values) if "command" in values else None


def _read_programs(reader: Reader, node: DocumentNode) -> dict[str, ServiceProgram]:
    found = {name: _read_program(reader, entry) for name, entry in reader.mapping(node).items()}
    return {name: program for name, program in found.items() if program is not None}


def _read_services(reader: Reader, node: DocumentNode) -> dict[str, Any]:
    """Return the attributes ``services`` and, where the machine has programs of its own, ``programs``."""
    if not isinstance(node.value, dict):
        return {"services": _read_names(reader, node)}
    entries = reader.mapping(node)
    found = {
        name: None if entry.value is None else _read_program(reader, entry) for name, entry in entries.items()
    }
    programs = {name: program for name, program in found.items() if program is not None}
    return {"services": tuple(entries), "programs": programs}


def _write_services(machine: Machine) -> object:
    if not machine.programs:
        return list(machine.services) or None
    return {
        name: PROGRAM.write(machine.programs[name]) if name in machine.programs else None
        for name in machine.services
    }


_SERVICES = ValueType(
    "list of names, or mapping of programs",
    any_of(list_shape(TEXT_SHAPE), mapping_shape(any_of(PROGRAM.shape(), {"type": "null"}))),
    _read_services,
)
PROGRAMS = ValueType(
    "mapping of services",
    mapping_shape(PROGRAM.shape()),
    _read_programs,
    lambda programs: {name: PROGRAM.write(program) for name, program in programs.items()},
)
"""The type of ``services`` in a platform file and in a file of services: programs by name of the service."""

# fmt: off
MACHINE = Record("a machine", (
    Field("nodes", integer(1), "identical nodes behind one queue", default=1),
    Field("cores", integer(1), "cores of a node", default=1),
    Field("memory", _SIZE, "memory of the whole machine, such as `192GB`; tasks share it",
          default_text="not stated", write_record=_write_memory),
    Field("memory_per_node", _SIZE,
          "memory of each node, in place of `memory`; a task uses that of its own nodes",
          default_text="the nodes share `memory`"),
    Field("startup", _LATENCY,
          "time from the start of an attempt to the start of its program, such as `1.5s`",
          attribute="startup_s", default=0.0),
    Field("parallel_startup", _LATENCY,
          "the same for programs on several nodes, which are jobs of their own on Slurm",
          attribute="parallel_startup_s", default_text="`startup`"),
    Field("disk", _SIZE, "disk space of the whole machine", default_text="not stated"),
    Field("gpus", integer(0), "GPUs of the whole machine", default=0),
    Field("speed", _SPEED, "work that a node does per second; by service: `{default: 1, dock: 2.5}`",
          attribute="*", default=1.0, write_record=_write_speed),
    Field("price_per_node_hour", _NUMBER_AT_LEAST_0, "price of one node for one hour", default=0.0),
    Field("services", _SERVICES,
          "services that the machine offers: a name, a list of names, or a mapping to programs",
          attribute="*", default=(), write_record=_write_services),
    Field("arch", TEXT, "architecture of the processors, such as `x86_64`", default_text="not stated"),
    Field("os", TEXT, "operating system, such as `linux`", default_text="not stated"),
    Field("site", TEXT, "site of the machine", default_text="a site of its own"),
    Field("availability", _AVAILABILITY, "share of the speed that is available, above 0 and at most 1",
          default=1.0),
    Field("queue", choice(QUEUES),
          "order in which the queue starts tasks; `easy` and `conservative` backfill", default="fifo"),
    Field("occupancy", choice(OCCUPANCIES),
          "`exclusive`: a node runs one task at a time; `shared`: any number of tasks share the nodes, each "
          "slower; `unlimited`: tasks do not disturb each other",
          default="exclusive"),
    Field("attributes", _ATTRIBUTES,
          "free names with texts, numbers or true/false, for `requirements` and `rank`", default={}),
    Field("backend", _BACKEND, "how weft reaches the machine: `{kind: local, ...}`", default={}),
    Field("resources", _RESOURCES, "other countable totals of the machine: `{licence: 4}`", default={}),
), null_is_absent=True)
# fmt: on

_BANDWIDTH = ValueType(
    "rate",
    {"type": ["number", "string"], "exclusiveMinimum": 0},
    partial(_read_unit, parse=_parse_bandwidth, wanted="a rate such as 160MB/s, above 0, or inf"),
    lambda rate: "inf" if rate == math.inf else rate,  # JSON has no number for infinity
    unit="bytes per second",
)

# fmt: off
_LINK_FIELDS = (
    Field("bandwidth", _BANDWIDTH, "bytes per second, such as `160MB/s`; `inf` where data take no time",
          attribute="bandwidth_Bps", default_text="1GB/s"),
    Field("latency", _LATENCY, "seconds before the first byte of a file, such as `0.1ms`",
          attribute="latency_s", default_text="0"),
)
# fmt: on
LINK = Record("a link", _LINK_FIELDS)


def _read_link(reader: Reader, node: DocumentNode) -> Link:
    return Link(**LINK.read(reader, node))


def _read_pair_names(reader: Reader, node: DocumentNode) -> tuple[str, ...] | None:
    names = [reader.text(entry) for entry in reader.listing(node)]
    if len(names) != 2:
        reader.add_problem(
            node,
            f"the pair has {format_count(len(names), 'name')}",
            rule="must be the names of two machines or sites",
        )
        return None
    return tuple(name for name in names if name is not None)


_PAIR = ValueType(
    "two names", {"type": "array", "items": TEXT_SHAPE, "minItems": 2, "maxItems": 2}, _read_pair_names, list
)

# fmt: off
PAIR = Record("a link between two places", (
    Field("pair", _PAIR, "names of two machines or sites", required=True, advice="add `pair: [A, B]`"),
    *_LINK_FIELDS,
))
# fmt: on


def _read_all(
    reader: Reader, node: DocumentNode, *, read: Callable[[Reader, DocumentNode], _Item | None]
) -> tuple[_Item, ...]:
    """Return the items of a list; () if one is invalid, because later checks refer to items by position."""
    items = [read(reader, entry) for entry in reader.listing(node)]
    found = tuple(item for item in items if item is not None)
    return found if len(found) == len(items) else ()


def _read_pair(reader: Reader, node: DocumentNode) -> NamedPair | None:
    values = PAIR.read(reader, node)
    names = values.pop("pair", ())
    return (names[0], names[1], Link(**values)) if len(names) == 2 else None


_DEFAULT = ValueType("link", LINK.shape(), _read_link, LINK.write)
_BETWEEN = ValueType(
    "list of links",
    list_shape(PAIR.shape()),
    partial(_read_all, read=_read_pair),
    lambda pairs: [{"pair": [pair[0], pair[1]], **LINK.write(pair[2])} for pair in pairs],
)

# fmt: off
LINKS = Record("the links", (
    Field("default", _DEFAULT, "link between machines for which no other link is described",
          attribute="default_link", default=DEFAULT_LINK, default_text="1GB/s, no latency"),
    Field("between", _BETWEEN, "links between two machines or sites", attribute="links", default=()),
))
# fmt: on

# fmt: off
SHARE = Record("a share", (
    Field("machine", TEXT, "machine whose nodes are set aside", required=True, advice="add `machine: NAME`"),
    Field("service", TEXT, "the only service that the nodes serve", required=True,
          advice="add `service: NAME`"),
    Field("nodes", integer(1), "number of nodes of the share", default_text="1"),
    Field("name", TEXT, "name of the share in plans and reports", default_text="`machine/service`"),
))
# fmt: on


def _read_share(reader: Reader, node: DocumentNode) -> Share | None:
    before = len(reader.problems)
    values = SHARE.read(reader, node)
    return Share(**{"nodes": 1, **values}) if len(reader.problems) == before else None


def _read_machines(reader: Reader, node: DocumentNode) -> tuple[Machine, ...]:
    """Return all machines; () if a key cannot be expanded, because later checks need all names."""
    entries = reader.mapping(node)
    templates = [_read_machine(reader, entry, key) for key, entry in entries.items()]
    names = [reader.expand_names(entry, key) for key, entry in entries.items()]
    if not all(names):
        return ()
    if (count := sum(len(group) for group in names)) > MOST_MACHINES:
        reader.add_problem(
            node, f"the platform has {count:,} machines", rule=f"at most {MOST_MACHINES:,} are allowed"
        )
        return ()
    groups = zip(templates, names, strict=True)
    return tuple(machine for template, group in groups for machine in template.under_names(group))


def _read_machine(reader: Reader, node: DocumentNode, name: str) -> Machine:
    return Machine(name=name, **({} if node.value is None else MACHINE.read(reader, node)))


_MACHINES = ValueType(
    "mapping of machines",
    mapping_shape(any_of({"$ref": "#/$defs/machine"}, NULL_SHAPE), least=1),
    _read_machines,
    lambda machines: {machine.name: MACHINE.write(machine) for machine in machines},
)
_SITES = ValueType(
    "mapping of links",
    mapping_shape(LINK.shape()),
    lambda reader, node: {site: _read_link(reader, entry) for site, entry in reader.mapping(node).items()},
    lambda sites: {site: LINK.write(link) for site, link in sites.items()},
)
_LINKS = ValueType("mapping", LINKS.shape(), LINKS.read)
_VIRTUAL = ValueType(
    "list of shares",
    list_shape(SHARE.shape()),
    partial(_read_all, read=_read_share),
    lambda shares: [SHARE.write(share) for share in shares],
)

# fmt: off
PLATFORM = Record("a platform", (
    version_field(required=False),
    Field("name", TEXT, "name of the platform", default_text="the file's name"),
    Field("machines", _MACHINES, "the machines by name; `altix{1..16}` stands for sixteen machines",
          required=True, advice="add `machines:` with at least one machine"),
    Field("sites", _SITES, "the link inside each site", default={}),
    Field("links", _LINKS, "the links between sites and machines", attribute="*",
          write_record=lambda platform: LINKS.write(platform) or None),
    Field("virtual", _VIRTUAL,
          "nodes of machines set aside for one service; each share is a machine of its own in plans",
          default=()),
    Field("predictions", PREDICTIONS,
          "predicted or measured times of tasks on its machines: a CSV or YAML file, or rows", default=()),
    Field("services", PROGRAMS, "programs of the services that tasks name, for all machines", default={}),
), null_is_absent=True)
# fmt: on


PLATFORM_RECORDS = {
    "platform": PLATFORM,
    "machine": MACHINE,
    "links": LINKS,
    "link": LINK,
    "pair": PAIR,
    "share": SHARE,
    "service": PROGRAM,
}
"""The records of a platform file by the names of their tables on the reference page."""


def platform_schema() -> Shape:
    """Return the JSON Schema of a platform file."""
    return {**PLATFORM.shape(), "$defs": {"machine": MACHINE.shape()}}


def read_platform(node: DocumentNode, document: Document | None = None) -> Platform:
    """Return the platform that a document describes, or raise InvalidInput with all its problems."""
    reader = Reader()
    values = PLATFORM.read(reader, node)
    if not isinstance(node.value, dict):
        reader.finish(document)
    name = PurePath(document.file).stem if document and document.file else "platform"
    platform = Platform(**{"name": name, "machines": (), **values}, document=document)
    if platform.machines or not reader.problems:
        reader.problems += platform.find_problems()
    reader.finish(document)
    return platform


def platform_document(platform: Platform) -> dict[str, object]:
    """Return the mapping that ``read_platform`` reads back as an equal platform."""
    return PLATFORM.write(platform)
