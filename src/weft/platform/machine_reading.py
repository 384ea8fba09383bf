"""The keys of a machine in a platform file, and how each is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.documents import Node, Reader
from weft.platform.machine import OCCUPANCIES, QUEUES, Attribute, Machine
from weft.units import parse_bytes

__all__ = ["MACHINE_KEYS", "quantity", "read_machine"]

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


def read_machine(reader: Reader, node: Node, name: str) -> Machine:
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


def quantity(reader: Reader, node: Node, parse: Callable[[str], float | None], wanted: str) -> float | None:
    """Read a number, or text with a unit."""
    value = node.value
    if isinstance(value, str):
        found = parse(value)
        if found is None:
            reader.complain(node, f"{node.shown()} is not allowed", rule=f"must be {wanted}")
        return found
    return _number(reader, node, wanted)


def _number(reader: Reader, node: Node, wanted: str = "a number") -> float | None:
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        reader.wanted(node, wanted)
        return None
    return float(node.value)


def _size(reader: Reader, node: Node) -> float | None:
    return quantity(reader, node, parse_bytes, "a size such as 4GB or 4GiB, at least 0")


def _speeds(reader: Reader, node: Node) -> dict[str, Any]:
    """Read a speed, or a default speed and those of services."""
    if not isinstance(node.value, dict):
        speed = _number(reader, node, "a number, or a mapping from services to numbers")
        return {} if speed is None else {"speed": speed}
    speeds = _numbers(reader, node)
    default = speeds.pop("default", 1.0)
    return {"speed": default, "speeds": speeds}


def _numbers(reader: Reader, node: Node) -> dict[str, float]:
    found = {name: _number(reader, entry) for name, entry in reader.mapping(node).items()}
    return {name: value for name, value in found.items() if value is not None}


def _names(reader: Reader, node: Node) -> tuple[str, ...]:
    found = (reader.text(entry) for entry in reader.listing(node))
    return tuple(name for name in found if name is not None)


def _attributes(reader: Reader, node: Node) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for name, entry in reader.mapping(node).items():
        if isinstance(entry.value, str | bool):
            found[name] = entry.value
        elif entry.value is not None:
            number = _number(reader, entry, "text, a number or true/false")
            if number is not None:
                found[name] = entry.value if isinstance(entry.value, int) else number
    return found


def _backend(reader: Reader, node: Node) -> dict[str, object]:
    reader.mapping(node)
    return node.plain() if isinstance(node.value, dict) else {}


def _count(least: int) -> Callable[[Reader, Node], object]:
    return lambda reader, node: reader.integer(node, least=least)


def _choice(allowed: tuple[str, ...]) -> Callable[[Reader, Node], object]:
    return lambda reader, node: reader.choice(node, allowed)


_FIELDS: dict[str, Callable[[Reader, Node], object]] = {
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
