"""Decoding of stored records by the type hints of their classes, and errors about damaged records.

Files and databases can be changed by hand, cut or damaged. A value of a wrong type is refused here, where it
is read; an entry that does not fit the state before it is refused where it is applied.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from weft.engine.states import STATES, TaskState
from weft.errors import InvalidInput, WeftError, shorten

_Record = TypeVar("_Record")

FLOAT = "float"
"""Key of a JSON object that holds a number which JSON cannot express (infinity, NaN)."""

_INDICES = frozenset(
    ("run", "task", "attempt", "machine", "source", "part", "body", "nodes", "count", "position", "execution")
)
"""Names of fields whose value is the number of an object (run, task, ...) or a count; -1: no object."""

_MOMENT = "_at_s"
"""Suffix of the names of fields that hold a wall-clock time."""
LAST_MOMENT_S = 253_402_300_799.0
"""The end of the year 9999; later times cannot be printed."""
_MOST_WHOLE = 10**300
"""Whole numbers must be smaller than this limit.

Numbers above about 10**308 cannot be converted to floating point.
"""

DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that are raised when a record with wrong content is decoded or applied."""

ADVICE = "restore the journal from a backup; `weft run --fresh` or `weft simulate --journal` writes a new one"


def damaged_journal(place: str, error: Exception) -> InvalidInput:
    """Return the error about a record that cannot be read, or that does not fit the records before it.

    ``place`` says where the record is in the journal; "": the caller adds the place to the message.
    """
    at = f" at {place}" if place else ""
    return InvalidInput(f"journal damaged{at}: {describe_error(error)}", advice=ADVICE)


def describe_error(error: Exception) -> str:
    """Return the message for an error that occurred while a record was decoded or applied."""
    if isinstance(error, WeftError):
        return str(error)
    if isinstance(error, KeyError):
        return f"{shorten(error.args[0] if error.args else '')!r} is missing"
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error.msg} at column {error.colno})"
    if isinstance(error, IndexError):
        return "a number is out of range"
    return shorten(str(error), 200) or "the record contradicts the records before it"


def decode_record(kind: type[_Record], record: Mapping[str, Any]) -> _Record:
    """Create an object of a dataclass from its fields as plain data; raise TypeError for wrong types."""
    decoders = _field_decoders(typing.cast("Hashable", kind))
    try:
        return kind(**{key: decoders[key](value) for key, value in record.items()})
    except DAMAGE as error:
        raise TypeError(_find_mistake(kind, record) or str(error)) from None


def _find_mistake(kind: type, record: object) -> str:
    """Return the first mistake in the fields of a record, in words; "": no mistake was found."""
    if not isinstance(record, Mapping):
        return f"the fields of {kind.__name__} must be a mapping, not {shorten(repr(record))}"
    decoders = _field_decoders(kind)
    for key, value in record.items():
        if key not in decoders:
            return f"{kind.__name__} has no field {shorten(repr(key))}"
        try:
            decoders[key](value)
        except DAMAGE as error:
            return f"{key!r} of {kind.__name__}: {describe_error(error)}"
    for field in dataclasses.fields(kind):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and field.name not in record:
            return f"{field.name!r} of {kind.__name__} is missing"
    return ""


@functools.cache
def _field_decoders(kind: Hashable) -> dict[str, Callable[[Any], Any]]:
    """Return, for each field, the function that checks a plain value and converts it to the field's type."""
    hints = typing.get_type_hints(typing.cast("type", kind))
    return {name: _field_decoder(name, hint) for name, hint in hints.items()}


def _field_decoder(name: str, hint: Any) -> Callable[[Any], Any]:
    if hint is int and name in _INDICES:
        return decode_index
    if name.endswith(_MOMENT) and hint is float:
        return decode_moment
    if name.endswith(_MOMENT) and hint == float | None:
        return functools.partial(_decode_optional, decode_moment)
    return _decoder(hint)


def _decoder(hint: Any) -> Callable[[Any], Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in _DECODERS:
        return _DECODERS[hint]
    if origin is types.UnionType and len(arguments) == 2 and type(None) in arguments:
        given = arguments[0] if arguments[1] is type(None) else arguments[1]
        return functools.partial(_decode_optional, _decoder(given))
    if origin is tuple:
        return functools.partial(decode_list, _decoder(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_decode_mapping, _decoder(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        return functools.partial(_decode_enum, hint)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(decode_record, hint)
    return _decode_value


def _checked(noun: str, *types: type) -> Callable[[Any], Any]:
    """Return a function that returns values of these types and raises TypeError for all other values."""

    def check(value: Any) -> Any:
        if type(value) in types:
            return value
        raise TypeError(f"{shorten(repr(value))} is not {noun}")

    return check


decode_text, decode_whole = _checked("a text", str), _checked("a whole number", int)
_check_list, _check_mapping = _checked("a list", list), _checked("a mapping", dict)


def decode_index(value: Any) -> int:
    """Return the number of a run, task, attempt or machine, or a count; -1: no such object."""
    if type(value) is int and value >= -1:
        return value
    raise TypeError(f"{shorten(repr(value))} is not a whole number of -1 or more")


def decode_number(value: Any) -> float:
    """Return a number; infinity and NaN, which JSON cannot express, are stored as ``{"float": "inf"}``."""
    if type(value) is float or (type(value) is int and abs(value) < _MOST_WHOLE):
        return value
    if type(value) is dict and value.keys() == {FLOAT}:
        return float(value[FLOAT])
    raise TypeError(f"{shorten(value)} is not a number")


def decode_moment(value: Any) -> float:
    """Return a time of the wall clock, in seconds since 1970."""
    if 0 <= (moment := decode_number(value)) <= LAST_MOMENT_S:
        return moment
    raise TypeError(f"{shorten(value)} is not a time in seconds since 1970")


def _decode_enum(kind: type[enum.StrEnum], value: Any) -> str:
    """Return the member of an enum; a text that is no member (of a refused request) is returned unchanged."""
    return kind(value) if value in kind.__members__.values() else decode_text(value)


def _decode_optional(decode: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else decode(value)


def decode_list(decode: Callable[[Any], Any], value: Any) -> tuple[Any, ...]:
    """Return the decoded items of a list."""
    return tuple([decode(item) for item in _check_list(value)])


def _decode_mapping(decode: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    return {key: decode(item) for key, item in _check_mapping(value).items()}


def _decode_value(value: Any) -> Any:
    """Return a value of any type; convert numbers that JSON cannot express."""
    return float(value[FLOAT]) if isinstance(value, dict) and value.keys() == {FLOAT} else value


_DECODERS: dict[Any, Callable[[Any], Any]] = {
    int: decode_whole,
    float: decode_number,
    str: decode_text,
    bool: _checked("true or false", bool),
    TaskState: lambda value: STATES[decode_text(value)],
}
