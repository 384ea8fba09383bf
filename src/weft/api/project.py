"""Open a project (the directory that contains ``.weft/``), follow its journals and send requests to its
engine.

Following a journal takes no lock and makes no decisions; the engine may be running or not.
"""

from __future__ import annotations

import getpass
import time
from pathlib import Path
from typing import Self

from weft.api.progress import ExecutionCounters
from weft.backends.layout import ProjectLayout, refuse_links
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.messages import PlanReady
from weft.engine.state.state import EngineState
from weft.errors import InvalidInput, Problem
from weft.records import dataclass
from weft.repository.database import Database, open_database
from weft.repository.journal import Journal
from weft.repository.journal_store import JournalStore
from weft.repository.requests import RequestTable
from weft.repository.runs import UNFINISHED, RunRecord, RunTable
from weft.runtime.execution import Execution
from weft.runtime.lock import LockOwner, find_holder

__all__ = [
    "REPLY_TIMEOUT_S",
    "JournalFollower",
    "OpenProject",
    "RequestReply",
    "count_journal",
    "find_project",
    "follow_run",
    "require_project",
    "send_request",
]


def find_project(stated: str | Path | None = None) -> ProjectLayout:
    """Return the stated project, else the nearest parent directory with a project, else the current
    directory.
    """
    layout = _locate_project(stated)
    refuse_links(layout.project)
    return layout


def _locate_project(stated: str | Path | None) -> ProjectLayout:
    if stated is not None:
        folder = Path(stated)
        if not folder.is_dir():
            raise InvalidInput(Problem(what=f"project {str(stated)!r}", rule="must be a directory"))
        return ProjectLayout(folder.resolve())
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / ".weft" / "weft.db").is_file():
            return ProjectLayout(folder)
    return ProjectLayout(here)


def require_project(stated: str | Path | None = None) -> ProjectLayout:
    """Return a project that contains runs. Raises InvalidInput if there are none."""
    layout = find_project(stated)
    if not layout.database.is_file():
        raise InvalidInput(
            Problem(
                what=f"no runs in {str(layout.project)!r}",
                advice="`weft run WORKFLOW` starts one; `--project DIR` selects another directory",
            )
        )
    return layout


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenProject:
    """A project with runs, opened for reading."""

    layout: ProjectLayout
    database: Database

    @classmethod
    def at(cls, project: str | None = None) -> Self:
        """Open the stated or nearest project."""
        layout = require_project(project)
        return cls(layout=layout, database=open_database(layout.database))

    @property
    def runs(self) -> RunTable:
        """Return the table of runs."""
        return RunTable(self.database)

    @property
    def engine(self) -> LockOwner | None:
        """Return the process that runs the engine; None if there is none."""
        return find_holder(self.layout.lock)

    def state_of(self, run: RunRecord) -> str:
        """Return the state of a run; ``interrupted`` if its engine died while it was running."""
        if run.state == "running" and (self.engine is None or self._last != run.execution):
            return "interrupted"
        return run.state

    @property
    def _last(self) -> int:
        """Return the execution driven by a running engine: the last one in state running."""
        going = [each.number for each in self.runs.executions() if each.state == "running"]
        return max(going, default=0)

    def resumable(self, run: RunRecord) -> bool:
        """Return whether ``weft resume`` can continue a run."""
        return self.state_of(run) in UNFINISHED and self.engine is None

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JournalFollower:
    """State of one execution, rebuilt from its journal and updated while the journal grows."""

    def __init__(self, place: OpenProject, execution: int) -> None:
        self.place = place
        self.execution = execution
        self._store = JournalStore(place.database)
        self.header = self._store.header(execution)
        self.engine = Journal(header=self.header, plans={}, entries=()).engine()
        self.history = History()
        self.tally = ExecutionCounters()
        self._read = -1

    @property
    def state(self) -> EngineState:
        """Return the state after the last entry read."""
        return self.engine.state

    def catch_up(self) -> list[JournalEntry]:
        """Read and apply the entries written since the last call."""
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
        """Return the time of the last entry."""
        return self.state.now


def count_journal(execution: Execution) -> ExecutionCounters:
    """Return the counters of the entries written before this process resumed the execution."""
    tally = ExecutionCounters()
    with OpenProject.at(str(execution.layout.project)) as place:
        for entry in JournalStore(place.database).all_after(execution.number):
            tally.hear(entry, execution.engine)
    return tally


def follow_run(place: OpenProject, run: int | None) -> tuple[RunRecord, JournalFollower]:
    """Return a run (default: the last) and a follower that has read its journal."""
    meant = place.runs.run(run)
    followed = JournalFollower(place, meant.execution)
    followed.catch_up()
    return meant, followed


REPLY_TIMEOUT_S = 10.0
"""Timeout for a reply; the engine polls for requests several times per second."""

_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReply:
    """Result of a request."""

    granted: bool
    text: str
    heard: bool = True
    """Whether an engine replied."""


def send_request(
    place: OpenProject,
    what: str,
    run: RunRecord,
    *,
    task: str | None = None,
    machine: str | None = None,
    patience_s: float = REPLY_TIMEOUT_S,
) -> RequestReply:
    """Send a request about a run to the running engine and wait for the reply."""
    if place.engine is None:
        return RequestReply(granted=False, text="no engine is running in this project", heard=False)
    requests = RequestTable(place.database)
    number = requests.ask(
        what,
        execution=run.execution,
        run=run.position,
        task=task,
        machine=machine,
        owner=getpass.getuser(),
        at_s=time.time(),
    )
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s and place.engine is not None:
        reply = requests.reply(number)
        if reply is not None:
            return RequestReply(granted=reply.granted, text=reply.text)
        time.sleep(_PAUSE_S)
    if requests.withdraw(number):
        gone = place.engine is None
        why = (
            "the engine ended before it replied"
            if gone
            else f"the engine did not reply within {patience_s:g} s"
        )
        return RequestReply(granted=False, text=why, heard=False)
    reply = requests.reply(number)
    assert reply is not None
    return RequestReply(granted=reply.granted, text=reply.text)
