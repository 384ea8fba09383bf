"""The journal in the database: written before a command leaves, group-committed, read back after a crash.

Entries are gathered by ``append`` and written by ``commit``, all since the last in one transaction, together
with the plans they name and whatever else was remembered meanwhile (products, states of runs, answers). A
snapshot is written every 10,000 entries, in large states not before as many entries as there are tasks have
passed: so its cost per entry is bounded. Only the last is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.messages.events import PlanReady
from weft.engine.state.plans import StoredPlan
from weft.engine.state.snapshot import snapshot
from weft.engine.state.state import State
from weft.errors import InvalidInput, Place, Problem
from weft.repository.database import Database
from weft.repository.encoding import entry_text, json_text
from weft.repository.header import Header, checked_header
from weft.repository.journal import Journal

__all__ = ["SNAPSHOT_EVERY", "JournalStore", "Rebuilt"]

_Read = TypeVar("_Read")

SNAPSHOT_EVERY = 10_000
"""Entries between two snapshots, at least."""

_BEGIN = """INSERT INTO execution (fingerprint, state, owner, command, version, started_at_s, header)
    VALUES (?, 'running', ?, ?, ?, ?, ?)"""
_KEEP = "INSERT INTO kept VALUES (?, ?, ?)"
_NOTHING: Mapping[str, str] = {}
_ENTRY = "INSERT INTO entry VALUES (?, ?, ?)"
_ENTRIES = """SELECT number, record FROM entry WHERE execution = ? AND number > ?
    ORDER BY number LIMIT ?"""
_PLAN = "INSERT OR IGNORE INTO plan VALUES (?, ?, ?)"
_SNAPSHOT = "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)"
_AT_ONCE = 2_000
"""Entries that are read in one go: readers must not keep the engine from tidying the file up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """An engine as it was when the journal ended."""

    engine: Engine
    header: Header
    entries: int
    """How many the journal has: the number of the next one."""


class JournalStore:
    """The journals of a database. One is written at a time: that of the last ``begin`` or ``resume``."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.execution = 0
        """The one that is written; 0: none yet."""
        self._plans: set[str] = set()
        self._snapshot_at = 0

    def begin(self, header: Header, kept: Mapping[str, str] = _NOTHING) -> int:
        """Begin an execution; give its number, counted from 1. ``kept``: what is remembered of it, by key.

        Both are there or none: an execution of which only the header is known could not be gone on with.
        """
        row = (
            header.fingerprint,
            header.owner,
            json_text(list(header.command)),
            header.version,
            header.started_at_s,
            json_text(header.as_record()),
        )
        with self.database.at_once():
            self.execution = self.database.now(_BEGIN, row)
            for key, value in kept.items():
                self.database.now(_KEEP, (self.execution, key, value))
        self._plans = set()
        self._snapshot_at = SNAPSHOT_EVERY - 1
        return self.execution

    def resume(self, execution: int) -> Rebuilt:
        """Rebuild an execution's engine, and write its journal from now on."""
        rebuilt = self.rebuilt(execution)
        self.execution = execution
        self._plans = set(rebuilt.engine.state.plans)
        self._snapshot_at = rebuilt.entries - 1 + SNAPSHOT_EVERY
        return rebuilt

    def append(self, entry: Entry, state: State) -> None:
        """Keep an entry for the next commit; ``state`` is the engine's after it."""
        event = entry.event
        if type(event) is PlanReady and event.plan and event.plan not in self._plans:
            self._plans.add(event.plan)
            record = json_text(state.plans[event.plan].as_record())
            self.database.insert_later(_PLAN, (self.execution, event.plan, record))
        self.database.insert_later(_ENTRY, (self.execution, entry.sequence, entry_text(entry)))
        if entry.sequence >= self._snapshot_at:
            tasks = sum(len(run.state) for run in state.runs)
            self._snapshot_at = entry.sequence + max(SNAPSHOT_EVERY, tasks)
            self.database.insert_later(
                _SNAPSHOT, (self.execution, entry.sequence, json_text(snapshot(state)))
            )

    def commit(self) -> None:
        """Write what was kept; after this commands may leave."""
        self.database.commit()

    def header(self, execution: int) -> Header:
        """Read a header."""
        found = self.database.row("SELECT header FROM execution WHERE number = ?", (execution,))
        if found is None:
            raise InvalidInput(
                Problem(
                    what=f"no execution {execution}",
                    advice="`weft ls` lists those there are",
                    place=Place(file=str(self.database.path)),
                )
            )
        return self._read("the header", found[0], checked_header)

    def entries_after(self, execution: int, after: int = -1, *, most: int = _AT_ONCE) -> list[Entry]:
        """Read the entries that follow one, by its number, at most so many."""
        found = self.database.rows(_ENTRIES, (execution, after, most))
        return [self._read(f"entry {number}", text, Entry.of_record) for number, text in found]

    def all_after(self, execution: int, after: int = -1) -> Iterator[Entry]:
        """Read all entries that follow one."""
        while True:
            found = self.entries_after(execution, after)
            yield from found
            if len(found) < _AT_ONCE:
                return
            after = found[-1].sequence

    def read(self, execution: int) -> Journal:
        """Read a journal whole."""
        header = self.header(execution)
        # Before the plans: what is committed meanwhile must not name a plan that was not read.
        entries = tuple(self.all_after(execution))
        snapshots = {after: state for after, state in self._snapshot(execution) if after < len(entries)}
        return Journal(header=header, plans=self.plans(execution), entries=entries, snapshots=snapshots)

    def rebuilt(self, execution: int) -> Rebuilt:
        """Rebuild the engine as it was when the journal ended, without reading what the snapshot spares."""
        snapshots = dict(self._snapshot(execution))
        last = max(snapshots, default=-1)
        entries = list(self.all_after(execution, last))
        journal = Journal(
            header=self.header(execution), plans=self.plans(execution), entries=(), snapshots=snapshots
        )
        engine = journal.rebuilt_from(last, entries)
        return Rebuilt(engine=engine, header=journal.header, entries=last + 1 + len(entries))

    def plans(self, execution: int) -> dict[str, StoredPlan]:
        """Read the plans of an execution."""
        found = self.database.rows("SELECT key, record FROM plan WHERE execution = ?", (execution,))
        return {key: self._read(f"plan {key}", text, StoredPlan.of_record) for key, text in found}

    def _snapshot(self, execution: int) -> list[tuple[int, Mapping[str, Any]]]:
        found = self.database.rows("SELECT entry, state FROM snapshot WHERE execution = ?", (execution,))
        return [(after, self._read("the snapshot", text, dict)) for after, text in found]

    def _read(self, what: str, text: str, read: Callable[[Any], _Read]) -> _Read:
        """Read a record; whatever is wrong with it is told with its place."""
        place = Place(file=str(self.database.path))
        try:
            return read(json.loads(text))
        except InvalidInput as error:
            raise InvalidInput(
                [Problem(what=f"{what}: {each}", place=place) for each in error.problems]
            ) from None
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            advice = "the database is damaged: restore it from a copy"
            raise InvalidInput(
                Problem(what=f"{what} cannot be read: {error!r}", advice=advice, place=place)
            ) from None
