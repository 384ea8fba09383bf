"""The journal: what came in and what was decided, entry by entry (design section 6).

An entry is (sequence, now, event, commands). Entries are plain data in JSON lines; a record's type stands
beside its fields, and fields that have their default value are left out. Plans are kept once, by content
hash.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Any

from weft.engine import messages
from weft.engine.messages import Command, Event, Parcel
from weft.errors import InvalidInput, Problem

__all__ = ["SCHEMA", "JournalEntry", "decode_message", "encode_message"]

SCHEMA = 1
"""Version of the entries."""

_FLOAT = "float"
"""Beside this word stand numbers that are none or without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One step of the engine."""

    sequence: int
    now: float
    event: Event
    commands: tuple[Command, ...]

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "n": self.sequence,
            "now": self.now,
            "event": encode_message(self.event),
            "commands": [encode_message(command) for command in self.commands],
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> JournalEntry:
        """Read what ``as_record`` gives."""
        try:
            return cls(
                sequence=int(record["n"]),
                now=float(record["now"]),
                event=decode_message(record["event"]),
                commands=tuple(decode_message(command) for command in record["commands"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                Problem(what=f"an entry that cannot be read: {error!r}", rule="see SCHEMA")
            ) from None


def encode_message(message: Event | Command) -> list[Any]:
    """Give a message as [type, {field: value}] without the fields that have their default."""
    kind = type(message)
    found: dict[str, Any] = {}
    for name, default in _field_defaults(typing.cast("Hashable", kind)):
        value = getattr(message, name)
        if value is not default and value != default:
            found[name] = _to_plain(value)
    return [kind.__name__, found]


def _to_plain(value: Any) -> Any:
    if isinstance(value, Parcel):
        return encode_message(value)[1]  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: str(value)}  # JSON has no word for it
    return value


@functools.cache
def _field_defaults(kind: Hashable) -> tuple[tuple[str, Any], ...]:
    found = []
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        found.append((field.name, default))
    return tuple(found)


def decode_message(record: Sequence[Any]) -> Any:
    """Read what ``encode_message`` gives."""
    name, fields = record
    kind = _message_types().get(name)
    if kind is None:
        raise InvalidInput(
            Problem(
                what=f"a journal entry of unknown type {name!r}", advice="it was written by another version"
            )
        )
    shapes = _field_decoders(kind)
    return kind(**{key: shapes.get(key, _decode_number)(value) for key, value in fields.items()})


def _decode_number(value: Any) -> Any:
    """Read a number that JSON has no word for."""
    return float(value[_FLOAT]) if isinstance(value, dict) else value


@functools.cache
def _message_types() -> dict[str, type]:
    return {kind.__name__: kind for module in (messages, messages) for kind in _list_records(module)}


def _list_records(module: types.ModuleType) -> list[type]:
    return [
        found
        for name in module.__all__
        if dataclasses.is_dataclass(found := getattr(module, name)) and isinstance(found, type)
    ]


@functools.cache
def _field_decoders(kind: type) -> dict[str, Any]:
    """Give what turns lists of JSON back into the tuples of records."""
    hints = typing.get_type_hints(kind)
    found: dict[str, Any] = {}
    for name, hint in hints.items():
        if typing.get_origin(hint) is tuple:
            parcels = typing.get_args(hint)[0] is Parcel
            found[name] = _decode_parcels if parcels else tuple
        elif kind is messages.TasksAdded and name == "lines":
            found[name] = _decode_lines
        elif kind is messages.Ended and name == "result":
            found[name] = _decode_results
    return found


def _decode_parcels(values: list[dict[str, Any]]) -> tuple[Parcel, ...]:
    return tuple(Parcel(**{key: _decode_number(item) for key, item in value.items()}) for value in values)


def _decode_results(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _decode_number(item) for key, item in values.items()}


def _decode_lines(values: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(lines) for key, lines in values.items()}
