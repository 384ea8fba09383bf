"""Shapes of values in our files, as pieces of JSON Schema: what a number, a name or a list may look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "ANYTHING",
    "AT_LEAST_0",
    "COUNT",
    "EXPRESSION",
    "FLAG",
    "NUMBER",
    "QUANTITY",
    "TEXT",
    "Shape",
    "choice",
    "described",
    "either",
    "listing",
    "mapping",
    "named",
    "record",
]

Shape = dict[str, Any]

ANYTHING: Shape = {}
FLAG: Shape = {"type": "boolean"}
NUMBER: Shape = {"type": "number"}
AT_LEAST_0: Shape = {"type": "number", "minimum": 0}
TEXT: Shape = {"type": ["string", "number"]}
"""Names, commands, paths; a number is taken as it is written."""
QUANTITY: Shape = {"type": ["number", "string"], "minimum": 0}
"""A number, a quantity with unit, or an expression."""
COUNT: Shape = {"type": ["number", "string"], "minimum": 1}
"""A whole number or an expression."""
EXPRESSION: Shape = {"type": ["string", "number", "boolean"]}


def choice(words: Sequence[str]) -> Shape:
    """One of a few words."""
    return {"enum": list(words)}


def either(*shapes: Shape) -> Shape:
    """Whichever of several shapes fits."""
    return {"anyOf": list(shapes)}


def listing(item: Shape) -> Shape:
    """A list, or its only entry alone; nothing is an empty list."""
    return either(item, {"type": "array", "items": item}, {"type": "null"})


def mapping(values: Shape) -> Shape:
    """Any names, each with a value of one shape."""
    return {"type": "object", "additionalProperties": values}


def named(name: str) -> Shape:
    """A shape described once, under ``$defs``."""
    return {"$ref": f"#/$defs/{name}"}


def described(keys: Mapping[str, str], shapes: Mapping[str, Shape]) -> Shape:
    """Give every key of a table its shape and the table's line about it. The two must name the same keys."""
    if keys.keys() != shapes.keys():
        raise ValueError(f"keys without shape or shapes without key: {sorted(keys.keys() ^ shapes.keys())}")
    return {key: {"description": line, **shapes[key]} for key, line in keys.items()}


def record(keys: Mapping[str, str], shapes: Mapping[str, Shape], required: Sequence[str] = ()) -> Shape:
    """A mapping with these keys and no others."""
    found: Shape = {
        "type": "object",
        "properties": described(keys, shapes),
        "additionalProperties": False,
    }
    return {**found, "required": list(required)} if required else found
