"""Replay of a journal: rebuild the state from its entries, or decide again and compare the commands.

``rebuild`` applies entries and returns an engine in the state of the engine that wrote the journal, whatever
policy or version of weft is installed. ``replay`` passes the recorded events to a fresh engine; the same
version with the same policy emits the same commands (invariant I10). With another policy only the first
difference is meaningful, because the later events answer commands that this policy did not emit. Therefore
the comparison ends at the first entry that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry, encode_message
from weft.engine.messages import TYPE_NAMES, Assign, Command
from weft.engine.state.plan import StoredPlan
from weft.engine.state.run import IllegalTransition
from weft.engine.state.state import EngineState
from weft.engine.stored_fields import DAMAGE, damaged_journal
from weft.records import dataclass

View = Callable[[JournalEntry, EngineState], None]
"""Function that is called with an entry and the engine's state after the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDifference:
    """A position of an entry at which the replayed command differs from the recorded one."""

    sequence: int
    now: float
    event: str
    position: int
    """Position of the command in the entry, from 0."""
    expected: Command | None
    """The recorded command; None: the entry has no command at this position."""
    got: Command | None
    """The command of the replay; None: the replay gave no command at this position."""

    def as_record(self) -> dict[str, Any]:
        """Return the difference as plain data."""
        return {
            "entry": self.sequence,
            "now_s": self.now,
            "event": self.event,
            "position": self.position,
            "expected": None if self.expected is None else encode_message(self.expected),
            "got": None if self.got is None else encode_message(self.got),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The number of entries that were replayed, and the first entry in which the commands differ."""

    entries: int
    """Number of entries whose commands were computed again."""
    commands: int
    differences: tuple[CommandDifference, ...]
    """The differences in the first entry whose commands differ; empty: all commands were equal."""
    total: int
    """Number of entries in the journal."""

    @property
    def same(self) -> bool:
        """Return whether all commands were equal."""
        return not self.differences


def rebuild(engine: Engine, entries: Iterable[JournalEntry], plans: Mapping[str, StoredPlan]) -> Engine:
    """Apply entries to a fresh engine without making decisions, and return the engine."""
    engine.state.plans.update(plans)
    for entry in entries:
        apply_entry(engine, entry)
    return engine


def apply_entry(engine: Engine, entry: JournalEntry, *views: View) -> None:
    """Apply a stored entry, then call each view with the entry and the state.

    Raise InvalidInput if the entry does not fit the state.
    """
    with refuse_damage(entry):
        _check_time(engine, entry)
        engine.apply(entry.event, entry.now, entry.commands)
        for view in views:
            view(entry, engine.state)


@contextmanager
def refuse_damage(entry: JournalEntry) -> Iterator[None]:
    """Convert errors that a damaged entry causes to InvalidInput, with the number of the entry."""
    try:
        yield
    except (*DAMAGE, IllegalTransition) as error:
        raise damaged_journal(f"entry {entry.sequence}", error) from error


def _check_time(engine: Engine, entry: JournalEntry) -> None:
    if not entry.now >= engine.state.now:  # also NaN
        raise ValueError(f"its time, {entry.now} s, is earlier than the time of the previous entry")


def replay(
    engine: Engine,
    entries: Iterable[JournalEntry],
    plans: Mapping[str, StoredPlan],
    *,
    watch: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Compute the commands again with a fresh engine, up to the first entry whose commands differ.

    ``watch`` is called with the sequence number of each entry before its commands are computed.
    """
    engine.state.plans.update(plans)
    decided = commands = total = 0
    differences: tuple[CommandDifference, ...] = ()
    for entry in entries:
        total += 1
        if differences:
            continue
        if watch is not None:
            watch(entry.sequence)
        with refuse_damage(entry):
            _check_time(engine, entry)
            got = engine.handle(entry.event, entry.now)
        decided += 1
        commands += len(got)
        differences = _compare_commands(entry, got)
    return ReplayResult(entries=decided, commands=commands, differences=differences, total=total)


def _compare_commands(entry: JournalEntry, got: list[Command]) -> tuple[CommandDifference, ...]:
    if all(map(_is_same, entry.commands, got)) and len(got) == len(entry.commands):
        return ()
    pairs = enumerate(zip_longest(entry.commands, got))
    return tuple(
        CommandDifference(
            sequence=entry.sequence,
            now=entry.now,
            event=TYPE_NAMES[type(entry.event)],
            position=position,
            expected=old,
            got=new,
        )
        for position, (old, new) in pairs
        if not _is_same(old, new)
    )


def _is_same(old: Command | None, new: Command | None) -> bool:
    """Return whether two commands are equal; the texts in which policies explain placements may differ.

    The reason of a migration is a code, so it must be equal too.
    """
    if isinstance(old, Assign) and isinstance(new, Assign) and old.replaces is None:
        return old == replace(new, reason=old.reason)
    return old == new
