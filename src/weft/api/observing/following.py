"""Following an execution from outside: its journal is read as far as it is written, and applied.

Whoever follows decides nothing and holds no lock: an engine may be at work, may have died, or may be long
gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from weft.api.executions.project import existing_project
from weft.api.observing.tally import Tally
from weft.backends.layout import Layout
from weft.engine.history.history import History
from weft.engine.journal import Entry
from weft.engine.messages.events import PlanReady
from weft.engine.state.state import State
from weft.repository.database import Database, open_database
from weft.repository.journal import Journal
from weft.repository.journal_store import JournalStore
from weft.repository.runs import UNFINISHED, Run, Runs
from weft.runtime.execution import Execution
from weft.runtime.lock import holder
from weft.runtime.owner import Owner

__all__ = ["Followed", "Place", "look_at", "tally_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """A project in which something was run, opened for reading."""

    layout: Layout
    database: Database

    @classmethod
    def at(cls, project: str | None = None) -> Self:
        """Open the project that is stated, or the nearest."""
        layout = existing_project(project)
        return cls(layout=layout, database=open_database(layout.database))

    @property
    def runs(self) -> Runs:
        """Give the runs."""
        return Runs(self.database)

    @property
    def engine(self) -> Owner | None:
        """Say which engine is at work; None: none is."""
        return holder(self.layout.lock)

    def state_of(self, run: Run) -> str:
        """Give what became of a run: what an engine that died could not say is said here."""
        if run.state == "running" and (self.engine is None or self._last != run.execution):
            return "interrupted"
        return run.state

    @property
    def _last(self) -> int:
        """Give the execution that an engine at work drives: the last that is called running."""
        going = [each.number for each in self.runs.executions() if each.state == "running"]
        return max(going, default=0)

    def resumable(self, run: Run) -> bool:
        """Say whether ``weft resume`` can go on with a run."""
        return self.state_of(run) in UNFINISHED and self.engine is None

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Followed:
    """One execution, as far as its journal was read."""

    def __init__(self, place: Place, execution: int) -> None:
        self.place = place
        self.execution = execution
        self._store = JournalStore(place.database)
        self.header = self._store.header(execution)
        self.engine = Journal(header=self.header, plans={}, entries=()).engine()
        self.history = History()
        self.tally = Tally()
        self._read = -1

    @property
    def state(self) -> State:
        """Give the state after the last entry that was read."""
        return self.engine.state

    def catch_up(self) -> list[Entry]:
        """Read what was written since the last time."""
        found = list(self._store.all_after(self.execution, self._read))
        if any(type(entry.event) is PlanReady for entry in found):
            self.state.plans.update(self._store.plans(self.execution))
        for entry in found:
            self.engine.apply(entry.event, entry.now, entry.commands)
            self.history.take(entry, self.state)
            self.tally.hear(entry, self.engine)
            self._read = entry.sequence
        return found

    @property
    def now_s(self) -> float:
        """Give the time of the last entry."""
        return self.state.now


def tally_of(execution: Execution) -> Tally:
    """Give the tally of what an execution in this process has done before it was gone on with."""
    tally = Tally()
    with Place.at(str(execution.layout.project)) as place:
        for entry in JournalStore(place.database).all_after(execution.number):
            tally.hear(entry, execution.engine)
    return tally


def look_at(place: Place, run: int | None) -> tuple[Run, Followed]:
    """Read the journal behind a run: that of this number, or the last."""
    meant = place.runs.run(run)
    followed = Followed(place, meant.execution)
    followed.catch_up()
    return meant, followed
