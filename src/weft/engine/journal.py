"""Journal entries as plain data: the stored names of messages, and the conversion of older journals.

An entry is (sequence, now, event, commands), one JSON object per line. A message is stored as [name, {field:
value}]; fields with their default value are omitted. ``messages.TYPE_NAMES`` fixes the stored names, so
classes can be renamed. Plans are stored once, by content hash.

Journals of schema 1 hold ``Note`` commands, each with a kind and a text. ``_NOTES`` converts them to the
commands of today when they are read; everything else is equal in both schemas.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from weft.engine import messages
from weft.engine.messages import TYPE_NAMES, Command, Event, Parcel
from weft.engine.states import STATES, TaskState
from weft.errors import InvalidInput
from weft.records import dataclass

SCHEMA = 2
"""Schema version of the entries that this version of weft writes."""

READABLE_SCHEMAS = (1, 2)
"""Schema versions that this version of weft can read."""

_TYPES = {name: kind for kind, name in TYPE_NAMES.items()}

_FLOAT = "float"
"""Key of a JSON object that stands for a number that JSON cannot express (infinite, NaN)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One event with the commands that followed from it."""

    sequence: int
    now: float
    event: Event
    commands: tuple[Command, ...]

    def as_record(self) -> dict[str, Any]:
        """Return the entry as plain data."""
        return {
            "n": self.sequence,
            "now": self.now,
            "event": encode_message(self.event),
            "commands": [encode_message(command) for command in self.commands],
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> JournalEntry:
        """Create an entry from the result of ``as_record``; older schemas are converted."""
        try:
            return cls(
                sequence=int(record["n"]),
                now=float(record["now"]),
                event=decode_message(record["event"]),
                commands=tuple(decode_message(command) for command in record["commands"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"cannot read a journal entry: {error!r}",
                rule=f"this version reads the schemas {READABLE_SCHEMAS}",
            ) from None


def encode_message(message: Event | Command) -> list[Any]:
    """Return a message as [name, {field: value}] without the fields that have their default value."""
    return [TYPE_NAMES[type(message)], encode_fields(message)]


def encode_fields(message: Event | Command | Parcel) -> dict[str, Any]:
    """Return the fields of a message that do not have their default value, as plain data."""
    found: dict[str, Any] = {}
    for name, default in _field_defaults(typing.cast("Hashable", type(message))):
        if (value := getattr(message, name)) is not default and value != default:
            found[name] = _to_plain(value)
    return found


def _to_plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name if isinstance(value, TaskState) else value.value
    if isinstance(value, Parcel):
        return encode_fields(value)
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT: str(value)}
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
    """Create a message from the result of ``encode_message``; older schemas are converted."""
    name, fields = record
    if name == "Note":
        name, fields = _convert_note(fields)
    if (kind := _TYPES.get(name)) is None:
        what = f"the journal holds a message of unknown type {name!r}"
        raise InvalidInput(what, advice="read it with the version of weft that wrote it")
    decoders = _field_decoders(kind)
    return kind(**{key: decoders.get(key, _decode_number)(value) for key, value in fields.items()})


def _decode_number(value: Any) -> Any:
    """Return a JSON value unchanged, except the objects that stand for infinite numbers and NaN."""
    return float(value[_FLOAT]) if isinstance(value, dict) else value


@functools.cache
def _field_decoders(kind: type) -> dict[str, Callable[[Any], Any]]:
    """Return, by field name, the functions that convert JSON values to tuples, parcels and enums."""
    found: dict[str, Callable[[Any], Any]] = {}
    for name, hint in typing.get_type_hints(kind).items():
        if hint is TaskState:
            found[name] = STATES.__getitem__
        elif isinstance(hint, type) and issubclass(hint, enum.StrEnum):
            found[name] = functools.partial(_decode_enum, hint)
        elif typing.get_origin(hint) is tuple:
            found[name] = _decode_parcels if typing.get_args(hint)[0] is Parcel else tuple
        elif kind is messages.TasksAdded and name == "lines":
            found[name] = _decode_lines
        elif kind is messages.Ended and name == "result":
            found[name] = _decode_results
    return found


def _decode_enum(kind: type[enum.StrEnum], value: str) -> str:
    """Return the member with this value; a text without a member (a refused request) stays a text."""
    return kind(value) if value in kind.__members__.values() else value


def _decode_parcels(values: list[dict[str, Any]]) -> tuple[Parcel, ...]:
    return tuple(Parcel(**{key: _decode_number(item) for key, item in value.items()}) for value in values)


def _decode_results(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _decode_number(item) for key, item in values.items()}


def _decode_lines(values: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(lines) for key, lines in values.items()}


class NoteFields(typing.NamedTuple):
    """A record command as kind, number and text of schema 1; ``events.jsonl`` still uses these."""

    kind: str
    value: float | None
    text: str


class _NoteKind(typing.NamedTuple):
    """One kind of Note of schema 1 and the command that replaces it."""

    command: type
    value: str = ""
    """Field of the command that holds the number; "": no field."""
    text: str = ""
    """Field of the command that holds the text; "": no field."""
    constants: Mapping[str, Any] = {}


_NOTES: Mapping[str, _NoteKind] = {
    "stopping": _NoteKind(messages.StopRun, text="reason"),
    "believed": _NoteKind(messages.EstimateSpeed, value="speed_factor", text="reason"),
    "up": _NoteKind(messages.MarkMachine, text="reason", constants={"up": True}),
    "down": _NoteKind(messages.MarkMachine, text="reason", constants={"up": False}),
    "unknown": _NoteKind(messages.AbandonAttempt),
    "lost": _NoteKind(messages.LoseAttempt),
    "requeued": _NoteKind(messages.CountRequeue, value="times"),
    "violating": _NoteKind(messages.MarkViolating, constants={"violating": True}),
    "recovered": _NoteKind(messages.MarkViolating, value="ratio", constants={"violating": False}),
    "rebound": _NoteKind(messages.Unbind, text="reason"),
    "adopted": _NoteKind(messages.AdoptPlan, value="finish_s", text="plan"),
    "refused": _NoteKind(messages.Refuse, text="reason"),
    "condition": _NoteKind(messages.ReportCondition, text="reason"),
    "violation": _NoteKind(messages.ReportViolation, value="ratio", text="reason"),
    "stay": _NoteKind(messages.KeepAttempt, text="reason"),
    "requirement": _NoteKind(messages.IgnoreRequirement, text="reason"),
    "reattached": _NoteKind(messages.ReattachJob),
    "target-lost": _NoteKind(messages.ReportTargetLoss, text="reason"),
    "too-late": _NoteKind(messages.ReportLateCancel, text="reason"),
}
"""The kinds of Note of schema 1."""


def _convert_note(fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Convert the fields of a Note of schema 1 to the stored name and fields of the new command."""
    if (kind := _NOTES.get(fields["kind"])) is None:
        raise InvalidInput(f"the journal holds a note of unknown kind {fields['kind']!r}")
    names = {"value": kind.value, "text": kind.text}
    found = dict(kind.constants)
    for key, value in fields.items():
        if (name := names.get(key, key)) and key != "kind":
            found[name] = value
    if kind.command is messages.CountRequeue:
        found["times"] = int(found["times"])
    return TYPE_NAMES[kind.command], found


def note_fields(command: Command) -> NoteFields | None:
    """Return a record command as kind, number and text; None: the command is not a record."""
    if type(command) not in messages.RECORDS:
        return None
    for name, kind in _NOTES.items():
        if type(command) is kind.command and all(
            getattr(command, key) == value for key, value in kind.constants.items()
        ):
            value = getattr(command, kind.value) if kind.value else None
            text = getattr(command, kind.text) if kind.text else ""
            return NoteFields(name, None if value is None else float(value), text)
    return None
