"""Values of expressions: their kinds, the meaning of names, and the errors of evaluation.

``None`` and NaN are the *unknown* value, for example of a machine attribute that is not stated. Comparisons
with it are false, arithmetic gives NaN, and as a condition it is false. A name is a variable of the context,
or else a unit or constant of the language. Operators and functions raise ``Refusal`` without a column; the
tree walkers add the column and raise ``ExpressionError``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from weft.errors import InvalidInput, Problem, shorten, suggest
from weft.redaction import redact, redact_start
from weft.units import BYTES, SECONDS

_BEFORE, _AFTER = 30, 40


class ExpressionError(InvalidInput):
    """An expression that cannot be parsed or evaluated; ``column`` (from 1) is the position of the error."""

    def __init__(self, message: str, text: str, column: int, rule: str = "", advice: str = "") -> None:
        self.message = message
        self.text = text
        self.column = column
        self.rule = rule
        self.advice = advice
        what = f"{message} at column {column} of expression `{_excerpt(text, column)}`"
        super().__init__(Problem(what=what, rule=rule, advice=advice))

    def __reduce__(self) -> tuple[type[ExpressionError], tuple[str, str, int, str, str]]:
        # Exceptions are pickled between processes of a pool; the default would lose these arguments.
        return ExpressionError, (self.message, self.text, self.column, self.rule, self.advice)


class Refusal(Exception):
    """An operation that is undefined for its operands; the tree walker sets ``column``."""

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
        """Set the column unless an inner node has set it, and return the exception."""
        if self.column is None:
            self.column = column
        return self

    def error(self, text: str) -> ExpressionError:
        """Return the corresponding ExpressionError for this text."""
        return ExpressionError(self.message, text, self.column or 1, self.rule, self.advice)


def _excerpt(text: str, column: int) -> str:
    if (redacted := redact(text)) != text:
        return shorten(redacted, _BEFORE + _AFTER)  # a part of a secret would not be recognised later
    start, stop = max(0, column - 1 - _BEFORE), column - 1 + _AFTER
    part = "".join(_visible(character) for character in text[start:stop])
    return f"{'…' if start > 0 else ''}{part}{'…' if stop < len(text) else ''}"


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


Value: TypeAlias = bool | int | float | str | list[Any] | Mapping[Any, Any] | None
"""Values of literals and results: the types of JSON."""


class ValueKind(enum.Enum):
    """The kind of a value. Integers and floats are numbers, booleans are not."""

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
    """Return the kind of a value; None and NaN are unknown."""
    if isinstance(value, float):
        return ValueKind.UNKNOWN if math.isnan(value) else ValueKind.NUMBER
    kind = _KINDS.get(type(value))
    return kind if kind is not None else _kind_by_base_class(value)


def _kind_by_base_class(value: Value) -> ValueKind:
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
    """Return a value of the context as a ``Value``: NumPy scalars, arrays and tuples are converted."""
    if isinstance(value, (float, int, str, list, Mapping)) or value is None:
        return value if type(value).__module__ != "numpy" else _from_numpy(value)
    if isinstance(value, tuple):
        return list(value)
    return _from_numpy(value)


def _from_numpy(value: object) -> Value:
    import numpy as np

    if isinstance(value, np.generic | np.ndarray):
        inner = value.tolist()
        if isinstance(inner, bool | int | float | str | list):
            return inner
    raise Refusal(
        f"a value of type {type(value).__name__} cannot be used in expressions",
        rule="values are numbers, strings, truth values, lists and mappings",
    )


def describe(value: Value) -> str:
    """Return the description of a value for messages: ``the number 3``."""
    if (kind := kind_of(value)) is ValueKind.UNKNOWN:
        return "an unknown value"
    if isinstance(value, int) and value.bit_length() > 200:
        return "a very large number"
    if isinstance(value, str):
        return f"the string {shorten(repr(redact_start(value, 80)), 40)}"
    if isinstance(value, list | Mapping):
        return f"a {kind.value} of {len(value)}"
    return f"the {kind.value} {value}"


def format_kinds(kinds: Iterable[ValueKind]) -> str:
    """Return kinds as alternatives for messages, in the order of ValueKind: ``a number or string``."""
    chosen = frozenset(kinds)
    return "a " + " or ".join(kind.value for kind in ValueKind if kind in chosen)


UNITS: Mapping[str, float] = {
    **BYTES,
    **{name: SECONDS[name] for name in ("us", "ms", "s")},
    "minute": SECONDS["m"],
    "hour": SECONDS["h"],
    "day": SECONDS["d"],
}
"""Names of units (``4*GB``, ``2*hour``), in bytes and seconds; variables take precedence."""

_CONSTANTS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
"""YAML's spelling of constants; variables take precedence."""

BUILT_IN: Mapping[str, Value] = {**UNITS, **_CONSTANTS}
"""Every name that is defined without a context."""

MISSING: Final = object()
"""The result of ``find_variable`` and ``find_nested`` if nothing was found; None is a valid value."""


def find_variable(name: str, context: Mapping[str, Any]) -> object:
    """Return the variable with this dotted name; else its entry in nested mappings; else MISSING."""
    if name in context:
        return context[name]
    return find_nested(context, name.split(".")) if "." in name else MISSING


def find_nested(value: object, parts: Iterable[str]) -> object:
    """Return the entry of nested mappings under these keys, or MISSING; object attributes are not read."""
    for part in parts:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def look_up(name: str, context: Mapping[str, Any], *, optional: bool = False) -> Value:
    """Return the value of a name. An undefined name raises Refusal, or is unknown if it is optional."""
    if (value := find_variable(name, context)) is not MISSING:
        return to_value(value)
    if name in BUILT_IN:
        return BUILT_IN[name]
    if optional:
        return None
    raise unknown_name(name, context)


def unknown_name(name: str, known: Iterable[str]) -> Refusal:
    """Return the exception for an undefined name; its advice contains the most similar known name."""
    advice = suggest(name, [*known, *BUILT_IN], "check its spelling, or define it")
    return Refusal(f"unknown name {shorten(name, 60)!r}", advice=advice)
