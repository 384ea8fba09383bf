"""Journal entries as plain data: the stored names of messages, and the conversion of older journals.

An entry is (sequence, now, event, commands), one JSON object per line. A message is stored as [name, {field:
value}]; fields with their default value are omitted. ``messages.TYPE_NAMES`` fixes the stored names, so
classes can be renamed. Plans are stored once, by content hash.

Journals of schema 1 hold ``Note`` commands, each with a kind, a number and a text. When such a journal is
read, the Note commands are converted to today's commands (``_NOTES``). Everything else is equal in both
schemas.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import typing
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from weft.engine import messages
from weft.engine.messages import TYPE_NAMES, Command, Event, Parcel, SelectionCandidate
from weft.engine.states import TaskState
from weft.engine.stored_fields import (
    DAMAGE,
    FLOAT,
    damaged_journal,
    decode_index,
    decode_list,
    decode_number,
    decode_record,
)
from weft.errors import InvalidInput, shorten
from weft.records import dataclass

SCHEMA = 2
"""Schema version of the entries that this version of weft writes."""

READABLE_SCHEMAS = (1, 2)
"""Schema versions that this version of weft can read."""

_TYPES = {name: kind for kind, name in TYPE_NAMES.items()}
_EVENTS = frozenset(typing.get_args(Event))


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
            entry = cls(
                sequence=decode_index(record["n"]),
                now=float(decode_number(record["now"])),
                event=decode_message(record["event"]),
                commands=decode_list(decode_message, record["commands"]),
            )
        except DAMAGE as error:
            raise damaged_journal("", error) from None
        if type(entry.event) not in _EVENTS or any(type(command) in _EVENTS for command in entry.commands):
            raise damaged_journal("", TypeError("a command is in the place of an event, or the reverse"))
        return entry


def encode_message(message: Event | Command) -> list[Any]:
    """Return a message as [name, {field: value}] without the fields that have their default value."""
    return [TYPE_NAMES[type(message)], encode_fields(message)]


def encode_fields(message: Event | Command | Parcel | SelectionCandidate) -> dict[str, Any]:
    """Return the fields of a message that do not have their default value, as plain data."""
    found: dict[str, Any] = {}
    for name, default in _field_defaults(typing.cast("Hashable", type(message))):
        if (value := getattr(message, name)) is not default and value != default:
            found[name] = _to_plain(value)
    return found


def _to_plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name if isinstance(value, TaskState) else value.value
    if isinstance(value, Parcel | SelectionCandidate):
        return encode_fields(value)
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {FLOAT: str(value)}
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


def decode_message(record: list[Any]) -> Any:
    """Create a message from the result of ``encode_message``; older schemas are converted."""
    if type(record) is not list or len(record) != 2:
        raise TypeError(f"{shorten(repr(record))} is not a message with a name and fields")
    name, fields = record
    if name == "Note":
        name, fields = _convert_note(fields)
    if (kind := _TYPES.get(name)) is None:
        what = f"the journal holds a message of unknown type {shorten(repr(name))}"
        raise InvalidInput(what, advice="read the journal with the version of weft that wrote it")
    return decode_record(kind, fields)


class NoteFields(typing.NamedTuple):
    """Kind, number and text that schema 1 stored for a record command; ``events.jsonl`` contains them."""

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
    "awaits": _NoteKind(messages.AwaitMachine, text="reason"),
    "stay": _NoteKind(messages.KeepAttempt, text="reason"),
    "postponed": _NoteKind(messages.PostponeStaging, text="reason"),
    "plan-postponed": _NoteKind(messages.PostponeReplan, text="reason"),
    "requirement": _NoteKind(messages.IgnoreRequirement, text="reason"),
    "module": _NoteKind(messages.ReportModule, text="reason"),
    "reattached": _NoteKind(messages.ReattachJob),
    "target-lost": _NoteKind(messages.ReportTargetLoss, text="reason"),
    "too-late": _NoteKind(messages.ReportLateCancel, text="reason"),
}
"""The kinds of Note commands and the commands that replace them.

Besides the kinds of schema 1, the table has kinds for record commands that were added later.
"""


def _convert_note(fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Convert the fields of a Note of schema 1 to the stored name and fields of the new command."""
    if (kind := _NOTES.get(fields["kind"])) is None:
        what = f"the journal contains a Note command of the unknown kind {fields['kind']!r}"
        raise InvalidInput(what, advice="use the weft version that wrote the journal")
    names = {"value": kind.value, "text": kind.text}
    found = dict(kind.constants)
    for key, value in fields.items():
        if (name := names.get(key, key)) and key != "kind":
            found[name] = value
    if kind.command is messages.CountRequeue:
        found["times"] = int(found["times"])
    return TYPE_NAMES[kind.command], found


def note_fields(command: Command) -> NoteFields | None:
    """Return the kind, number and text of a record command; None: the command is not a record command."""
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
