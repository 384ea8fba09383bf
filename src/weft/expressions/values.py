"""What goes wrong with an expression: the error users see, and the refusal that becomes one.

Operators and functions know values, not columns: they raise a ``Refusal``. Whoever walks the tree knows the
column and turns it into an ``ExpressionError``.

The values of expressions and their kinds.

*Unknown* is a value too: ``None``, or a float that is not a number. It stands for what nobody has said of a
machine: comparisons with it are false, arithmetic with it gives NaN, and as a condition it counts as false.

What names mean: a variable of the context, else a unit or a constant of the language.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from weft.errors import InvalidInput, Problem, nearest, shorten
from weft.units import BYTES, SECONDS

__all__ = [
    "BUILT_IN",
    "CONSTANTS",
    "MISSING",
    "UNITS",
    "ExpressionError",
    "Refusal",
    "Value",
    "ValueKind",
    "describe",
    "find_nested",
    "find_variable",
    "format_kinds",
    "kind_of",
    "look_up",
    "to_value",
    "unknown_name",
]


_BEFORE, _AFTER = 30, 40


class ExpressionError(InvalidInput):
    """An expression that cannot be read or evaluated, with the column (from 1) where the trouble is."""

    def __init__(self, message: str, text: str, column: int, rule: str = "", advice: str = "") -> None:
        self.message = message
        self.text = text
        self.column = column
        self.rule = rule
        self.advice = advice
        what = f"{message} at column {column} of expression `{_excerpt(text, column)}`"
        super().__init__(Problem(what=what, rule=rule, advice=advice))

    def __reduce__(self) -> tuple[type[ExpressionError], tuple[str, str, int, str, str]]:
        # The default rebuilds an exception from its message alone; errors cross process borders in pools.
        return ExpressionError, (self.message, self.text, self.column, self.rule, self.advice)


class Refusal(Exception):
    """An operation that has no value for these operands; ``column`` is filled in by the tree walker."""

    def __init__(
        self, message: str, *, rule: str = "", advice: str = "", argument: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.rule = rule
        self.advice = advice
        self.argument = argument
        self.column: int | None = None

    def at(self, column: int) -> Refusal:
        """Say where it happened, unless a part further inside has said so already."""
        if self.column is None:
            self.column = column
        return self

    def error(self, text: str) -> ExpressionError:
        """Turn the refusal into the error users see."""
        return ExpressionError(self.message, text, self.column or 1, self.rule, self.advice)


def _excerpt(text: str, column: int) -> str:
    start, stop = max(0, column - 1 - _BEFORE), column - 1 + _AFTER
    part = "".join(_visible(character) for character in text[start:stop])
    return f"{'…' if start > 0 else ''}{part}{'…' if stop < len(text) else ''}"


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


Value: TypeAlias = bool | int | float | str | list[Any] | Mapping[Any, Any] | None
"""What an expression is made of and gives: JSON-like values."""


class ValueKind(enum.Enum):
    """What sort of value; ints and floats are both numbers, truth values are not."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "truth value"
    LIST = "list"
    MAPPING = "mapping"
    UNKNOWN = "unknown value"


_KINDS: dict[type, ValueKind] = {
    bool: ValueKind.BOOLEAN,
    int: ValueKind.NUMBER,
    str: ValueKind.STRING,
    list: ValueKind.LIST,
    dict: ValueKind.MAPPING,
    type(None): ValueKind.UNKNOWN,
}


def kind_of(value: Value) -> ValueKind:
    """Tell the kind of a value; None and NaN are unknown."""
    if isinstance(value, float):
        return ValueKind.UNKNOWN if math.isnan(value) else ValueKind.NUMBER
    kind = _KINDS.get(type(value))
    return kind if kind is not None else _kind_of_relative(value)


def _kind_of_relative(value: Value) -> ValueKind:
    for base, kind in (
        (int, ValueKind.NUMBER),
        (str, ValueKind.STRING),
        (list, ValueKind.LIST),
        (Mapping, ValueKind.MAPPING),
    ):
        if isinstance(value, base):
            return kind
    return ValueKind.UNKNOWN


def to_value(value: object) -> Value:
    """Take a value from outside into the language: NumPy's scalars and arrays and tuples become Python's."""
    if isinstance(value, (float, int, str, list, Mapping)) or value is None:
        return value if type(value).__module__ != "numpy" else _from_numpy(value)
    if isinstance(value, tuple):
        return list(value)
    return _from_numpy(value)


def _from_numpy(value: object) -> Value:
    # NumPy is loaded already if the value is one of its own, and else there is no hurry.
    import numpy as np

    if isinstance(value, np.generic | np.ndarray):
        inner = value.tolist()
        if isinstance(inner, bool | int | float | str | list):
            return inner
    raise Refusal(
        f"a value of type {type(value).__name__} is not usable in expressions",
        rule="values are numbers, strings, truth values, lists and mappings",
    )


def describe(value: Value) -> str:
    """Name a value in a message: ``the number 3``."""
    kind = kind_of(value)
    if kind is ValueKind.UNKNOWN:
        return "an unknown value"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a very large number"
    if isinstance(value, str):
        return f"the string {shorten(repr(value[:80]), 40)}"
    if isinstance(value, list | Mapping):
        return f"a {kind.value} of {len(value)}"
    return f"the {kind.value} {value}"


def format_kinds(kinds: Iterable[ValueKind]) -> str:
    """Name alternatives in a message: ``a number or string``, in the order of the enumeration."""
    chosen = frozenset(kinds)
    return "a " + " or ".join(kind.value for kind in ValueKind if kind in chosen)


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


def find_variable(name: str, context: Mapping[str, Any]) -> object:
    """Find a variable: the dotted name as a whole, else entry by entry in nested mappings; else MISSING."""
    if name in context:
        return context[name]
    return find_nested(context, name.split(".")) if "." in name else MISSING


def find_nested(value: object, parts: Iterable[str]) -> object:
    """Go down nested mappings; attributes of objects are never looked at."""
    for part in parts:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def look_up(name: str, context: Mapping[str, Any], *, optional: bool = False) -> Value:
    """Give the value of a name, or refuse; an optional one that nobody knows is unknown."""
    value = find_variable(name, context)
    if value is not MISSING:
        return to_value(value)
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
