"""Replaying a journal: rebuild a state by applying its entries, or decide again and compare (design 6).

Applying asks nobody: it gives the state that wrote the journal, whatever policy or version is at hand.
Deciding again feeds the recorded events to a fresh engine; the same version with the same policy gives the
same commands (invariant I10). With another policy it is a what-if, and only the first difference has a plain
meaning: the events after it answer commands that the other policy never gave. So from the first difference
on nothing is decided any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry, encode_message
from weft.engine.messages import Command
from weft.engine.state.plan import StoredPlan

__all__ = ["CommandDifference", "ReplayResult", "rebuild", "replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDifference:
    """One command of an entry that came out otherwise."""

    sequence: int
    now: float
    event: str
    position: int
    """Which command of the entry, from 0."""
    expected: Command | None
    """As the journal has it; None: it has none there."""
    got: Command | None
    """As it was decided now; None: nothing was."""

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
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
    """What a replay found."""

    entries: int
    """How many entries were decided again."""
    commands: int
    differences: tuple[CommandDifference, ...]
    """All of the first entry in which there are any."""
    total: int
    """How many entries the journal has."""

    @property
    def same(self) -> bool:
        """Say whether every command came out the same."""
        return not self.differences


def rebuild(engine: Engine, entries: Iterable[JournalEntry], plans: Mapping[str, StoredPlan]) -> Engine:
    """Apply entries to a fresh engine, deciding nothing."""
    engine.state.plans.update(plans)
    for entry in entries:
        engine.apply(entry.event, entry.now, entry.commands)
    return engine


def replay(
    engine: Engine,
    entries: Iterable[JournalEntry],
    plans: Mapping[str, StoredPlan],
    *,
    watch: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Decide again with a fresh engine, up to the first entry that comes out otherwise."""
    engine.state.plans.update(plans)
    decided = commands = total = 0
    differences: tuple[CommandDifference, ...] = ()
    for entry in entries:
        total += 1
        if differences:
            continue
        if watch is not None:
            watch(entry.sequence)
        got = engine.handle(entry.event, entry.now)
        decided += 1
        commands += len(got)
        differences = _compare_commands(entry, got)
    return ReplayResult(entries=decided, commands=commands, differences=differences, total=total)


def _compare_commands(entry: JournalEntry, got: list[Command]) -> tuple[CommandDifference, ...]:
    if tuple(got) == entry.commands:
        return ()
    pairs = enumerate(zip_longest(entry.commands, got))
    return tuple(
        CommandDifference(
            sequence=entry.sequence,
            now=entry.now,
            event=type(entry.event).__name__,
            position=position,
            expected=old,
            got=new,
        )
        for position, (old, new) in pairs
        if old != new
    )
