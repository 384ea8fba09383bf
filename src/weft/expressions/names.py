"""What names mean: a variable of the context, else a unit or a constant of the language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.errors import nearest, shorten
from weft.expressions.failure import Refusal
from weft.expressions.kinds import Value, plain
from weft.units import BYTES, SECONDS

__all__ = ["BUILT_IN", "CONSTANTS", "MISSING", "UNITS", "find", "look_up", "unknown_name", "walk_down"]

UNITS: Mapping[str, float] = {
    **BYTES,
    **{name: SECONDS[name] for name in ("us", "ms", "s")},
    "minute": SECONDS["m"],
    "hour": SECONDS["h"],
    "day": SECONDS["d"],
}
"""Units usable as names (``4*GB``, ``2*hour``), in bytes and seconds; a variable of that name wins."""

CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
"""YAML's spelling of constants; a variable of that name wins."""

BUILT_IN: Mapping[str, Value] = {**UNITS, **CONSTANTS}
"""Every name that has a meaning without a context."""

MISSING: Final = object()
"""Stands for "not there", since None is a value."""


def find(name: str, context: Mapping[str, Any]) -> object:
    """Find a variable: the dotted name as a whole, else entry by entry in nested mappings; else MISSING."""
    if name in context:
        return context[name]
    return walk_down(context, name.split(".")) if "." in name else MISSING


def walk_down(value: object, parts: Iterable[str]) -> object:
    """Go down nested mappings; attributes of objects are never looked at."""
    for part in parts:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def look_up(name: str, context: Mapping[str, Any], *, optional: bool = False) -> Value:
    """Give the value of a name, or refuse; an optional one that nobody knows is unknown."""
    value = find(name, context)
    if value is not MISSING:
        return plain(value)
    if name in BUILT_IN:
        return BUILT_IN[name]
    if optional:
        return None
    raise unknown_name(name, context)


def unknown_name(name: str, known: Iterable[str]) -> Refusal:
    """Word the refusal of a name nobody knows, with the one that was probably meant."""
    close = nearest(name, [*known, *BUILT_IN])
    advice = f"did you mean {close!r}?" if close else "check its spelling, or define it"
    return Refusal(f"unknown name {shorten(name, 60)!r}", advice=advice)
