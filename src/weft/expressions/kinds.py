"""The values of expressions and their kinds.

*Unknown* is a value too: ``None``, or a float that is not a number. It stands for what nobody has said of a
machine: comparisons with it are false, arithmetic with it gives NaN, and as a condition it counts as false.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from weft.errors import shorten
from weft.expressions.failure import Refusal

__all__ = ["Kind", "Value", "describe", "kind_of", "listed", "plain"]

Value: TypeAlias = bool | int | float | str | list[Any] | Mapping[Any, Any] | None
"""What an expression is made of and gives: JSON-like values."""


class Kind(enum.Enum):
    """What sort of value; ints and floats are both numbers, truth values are not."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "truth value"
    LIST = "list"
    MAPPING = "mapping"
    UNKNOWN = "unknown value"


_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    str: Kind.STRING,
    list: Kind.LIST,
    dict: Kind.MAPPING,
    type(None): Kind.UNKNOWN,
}


def kind_of(value: Value) -> Kind:
    """Tell the kind of a value; None and NaN are unknown."""
    if isinstance(value, float):
        return Kind.UNKNOWN if math.isnan(value) else Kind.NUMBER
    kind = _KINDS.get(type(value))
    return kind if kind is not None else _kind_of_relative(value)


def _kind_of_relative(value: Value) -> Kind:
    for base, kind in ((int, Kind.NUMBER), (str, Kind.STRING), (list, Kind.LIST), (Mapping, Kind.MAPPING)):
        if isinstance(value, base):
            return kind
    return Kind.UNKNOWN


def plain(value: object) -> Value:
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
    if kind is Kind.UNKNOWN:
        return "an unknown value"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a very large number"
    if isinstance(value, str):
        return f"the string {shorten(repr(value[:80]), 40)}"
    if isinstance(value, list | Mapping):
        return f"a {kind.value} of {len(value)}"
    return f"the {kind.value} {value}"


def listed(kinds: Iterable[Kind]) -> str:
    """Name alternatives in a message: ``a number or string``, in the order of the enumeration."""
    chosen = frozenset(kinds)
    return "a " + " or ".join(kind.value for kind in Kind if kind in chosen)
