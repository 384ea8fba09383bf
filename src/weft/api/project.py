"""Projects (directories that contain ``.weft/``): open them, read journals, send requests.

Reading a journal, also while it grows, needs no lock, whether an engine is running or not.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Self

from weft.api.progress import ExecutionProgress
from weft.backends.layout import ProjectLayout, refuse_links
from weft.backends.secret_values import hide_secrets
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.replay import apply_entry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.state import EngineState
from weft.engine.stored_fields import ADVICE
from weft.errors import InvalidInput, SourceLocation
from weft.private_files import find_foreign_owner
from weft.records import dataclass
from weft.reports.execution_records import AttemptLogs
from weft.repository.database import Database, open_database
from weft.repository.journal import Journal
from weft.repository.journal_store import JournalStore, find_nonce
from weft.repository.requests import RequestReply, RequestTable
from weft.repository.runs import UNFINISHED, RunRecord, RunTable
from weft.runtime.execution import Execution
from weft.runtime.lock import LockOwner, find_holder, user_name


def find_project(stated: str | Path | None = None) -> ProjectLayout:
    """Return the stated project, or the nearest project in the current directory and its parents.

    The nearest project is returned if ``stated`` is None. If there is none, the current directory is returned
    as a new project. A folder ``.weft`` of another user in a parent directory, such as ``/tmp``, is ignored.
    """
    layout = _locate_project(stated)
    refuse_links(layout.project)
    return layout


def _locate_project(stated: str | Path | None) -> ProjectLayout:
    if stated is not None:
        folder = Path(stated)
        if not folder.is_dir():
            raise InvalidInput(f"project {str(stated)!r}", rule="must be a directory")
        return ProjectLayout(folder.resolve())
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        layout = ProjectLayout(folder)
        if not layout.home.is_dir():
            continue
        if find_foreign_owner(layout.home):
            if folder == here:
                return layout  # the caller rejects this project
        elif os.path.lexists(layout.database):
            return layout
    return ProjectLayout(here)


def require_project(stated: str | Path | None = None) -> ProjectLayout:
    """Return the stated or nearest project; raise InvalidInput if it contains no runs."""
    layout = find_project(stated)
    if not os.path.lexists(layout.database):
        raise InvalidInput(
            f"no runs in {str(layout.project)!r}",
            advice="`weft run WORKFLOW` starts one; `--project DIR` selects another directory",
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
        """Return the process of the running engine; None if no engine is running."""
        return find_holder(self.layout.lock)

    def state_of(self, run: RunRecord) -> str:
        """Return the state of a run; ``interrupted`` if its engine died while it was running."""
        if run.state != "running":
            return run.state
        # A running engine drives the last execution whose state is "running".
        running = [each.number for each in self.runs.executions() if each.state == "running"]
        is_driven = self.engine is not None and run.execution == max(running, default=0)
        return "running" if is_driven else "interrupted"

    def resumable(self, run: RunRecord) -> bool:
        """Return whether ``weft resume`` can continue a run."""
        return self.state_of(run) in UNFINISHED and self.engine is None

    def attempt_nonce(self, execution: int, attempt: int) -> str:
        """Return the nonce of an attempt; "" if none is stored (see ``ProjectContext.attempt_nonce``)."""
        return find_nonce(self.database, execution, attempt)

    def records(self, execution: int, attempt: int) -> Path:
        """Return the directory of an attempt's ``command.sh``, ``out``, ``err`` and ``exitcode``."""
        return self.layout.records(execution, attempt, self.attempt_nonce(execution, attempt))

    def logs(self, execution: int, nonces: Mapping[int, str] | None = None) -> AttemptLogs:
        """Return access to the logs of an execution.

        ``nonces`` are the nonces by attempt. Without them, nonces are read from the database, so the logs can
        be read only while the project is open.
        """
        nonce = partial(self.attempt_nonce, execution)
        if nonces is not None:
            nonce = partial(_find_nonce, nonces)
        return AttemptLogs(layout=self.layout, execution=execution, nonce=nonce)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _find_nonce(nonces: Mapping[int, str], attempt: int) -> str:
    return nonces.get(attempt, "")


class JournalFollower:
    """State of one execution, rebuilt from its journal and updated while the journal grows."""

    def __init__(
        self, opened: OpenProject, execution: int, *, compiled: WorkflowLibrary | None = None
    ) -> None:
        """Read the header of the journal but no entry.

        ``compiled`` are the workflows, if they are already compiled.
        """
        self.opened = opened
        self.execution = execution
        self._store = JournalStore(opened.database)
        self.header = self._store.header(execution)
        hide_secrets(opened.layout, self.header.workflows, self.header.folders)
        self.engine = Journal(header=self.header, plans={}, entries=(), compiled=compiled).engine()
        self.history = History()
        self.progress = ExecutionProgress(self.history, self.engine.state)
        self._read = -1

    @property
    def state(self) -> EngineState:
        """Return the engine state after the last entry that was read."""
        return self.engine.state

    def new_entries(self) -> Iterator[JournalEntry]:
        """Read and apply the entries written since the last call; yield each one after it was applied."""
        for entry in self._store.all_after(self.execution, self._read):
            if getattr(entry.event, "machine", None) == len(self.state.machines):
                self._extend_platform()
            plan = getattr(entry.event, "plan", "")
            if plan and plan not in self.state.plans:
                self.state.plans.update(self._store.plans(self.execution))
            apply_entry(self.engine, entry, self._take)
            self._read = entry.sequence
            yield entry

    def _extend_platform(self) -> None:
        """Rebuild the state with the machines that have joined since the header was read."""
        self.header = self._store.header(self.execution)
        self.engine = Journal(header=self.header, plans={}, entries=()).engine()
        self.state.plans.update(self._store.plans(self.execution))
        for entry in self._store.all_after(self.execution):
            if entry.sequence > self._read:
                break
            apply_entry(self.engine, entry)
        self.progress.state = self.state

    def _take(self, entry: JournalEntry, _: EngineState) -> None:
        self.progress.take(entry)

    def catch_up(self) -> None:
        """Read and apply the entries written since the last call."""
        for _ in self.new_entries():
            pass

    @property
    def now_s(self) -> float:
        """Return the time of the last entry that was read, in seconds of the execution."""
        return self.state.now


def read_progress(execution: Execution) -> ExecutionProgress:
    """Return the progress of an execution that this process drives.

    For a resumed execution this includes the progress before it was resumed.
    """
    return ExecutionProgress(execution.history, execution.engine.state)


def follow_run(opened: OpenProject, run: int | None) -> tuple[RunRecord, JournalFollower]:
    """Return a run and a follower that has read all entries of the run's journal.

    If ``run`` is None, it is the last run.
    """
    meant = opened.runs.run(run)
    followed = JournalFollower(opened, meant.execution)
    followed.catch_up()
    if meant.position >= len(followed.state.runs):
        raise InvalidInput(
            f"journal damaged: no entry submits run {meant.number}",
            advice=ADVICE,
            location=SourceLocation(file=str(opened.database.path)),
        )
    return meant, followed


REPLY_TIMEOUT_S = 10.0
"""Seconds to wait for a reply; the engine polls for requests several times per second."""

_PAUSE_S = 0.05


NO_ENGINE = RequestReply(granted=False, text="no engine is running in this project", replied=False)
"""Reply to every request while no engine is running."""


def send_request(
    opened: OpenProject,
    what: str,
    run: RunRecord,
    *,
    task: str | None = None,
    machine: str | None = None,
    timeout_s: float = REPLY_TIMEOUT_S,
) -> RequestReply:
    """Send a request about a run to the running engine and return the reply.

    If no engine is running, or no reply arrives within ``timeout_s``, the request is withdrawn and the result
    says why, with ``replied=False``.
    """
    if opened.engine is None:
        return NO_ENGINE
    requests = RequestTable(opened.database)
    number = requests.insert(
        what,
        execution=run.execution,
        run=run.position,
        task=task,
        machine=machine,
        owner=user_name(),
        at_s=time.time(),
    )
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s and opened.engine is not None:
        if (reply := requests.reply(number)) is not None:
            # The request must survive a power failure before the user relies on the reply.
            opened.database.sync_now()
            return reply
        time.sleep(_PAUSE_S)
    if requests.withdraw(number):
        gone, late = opened.engine is None, f"the engine did not reply within {timeout_s:g} s"
        why = "the engine ended before it replied" if gone else late
        return RequestReply(granted=False, text=why, replied=False)
    reply = requests.reply(number)
    assert reply is not None
    opened.database.sync_now()
    return reply


def stop_engine(opened: OpenProject) -> tuple[list[int], str]:
    """Stop the running engine with SIGTERM and wait for its end.

    Return (numbers of the runs that can be resumed, reason why the engine was not stopped). The reason is ""
    if the engine was stopped.
    """
    if (engine := opened.engine) is None:
        return [], "no engine is running in this project"
    if engine.host != socket.gethostname():
        return [], f"the engine is {engine}; run `weft stop` on {engine.host}"
    running = [run for run in opened.runs.all() if opened.state_of(run) == "running"]
    try:
        # Not SIGINT, which background processes of a shell script ignore.
        os.kill(engine.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # the engine has ended meanwhile
    except PermissionError:
        return [], f"the engine is {engine}; only {engine.user} can stop it"
    while opened.engine == engine:
        time.sleep(_PAUSE_S)
    return [run.number for run in running if opened.resumable(opened.runs.run(run.number))], ""
