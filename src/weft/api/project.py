"""Projects (directories that contain ``.weft/``): open them, read journals, send requests, clean up.

Reading a journal, also while it grows, needs no lock, whether an engine is running or not. Cleanup holds the
project lock, so that no engine uses the files, and never follows symbolic links. In a sandbox that several
projects may share, cleanup removes only the directory of this project. Files that a later run reused stay,
because that run has its own hard links to them.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Self

from weft.api.progress import ExecutionProgress
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.temporary_files import remove_stale_below
from weft.backends.attempt.trees import remove_tree
from weft.backends.layout import ProjectLayout, refuse_links
from weft.backends.secret_values import hide_secrets
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.replay import apply_entry
from weft.engine.state.compiled import WorkflowLibrary
from weft.engine.state.state import EngineState
from weft.engine.stored_fields import ADVICE
from weft.errors import InvalidInput, SourceLocation, WeftError
from weft.platform.machine import Machine
from weft.platform.platform import planned_machines
from weft.private_files import find_foreign_owner
from weft.records import dataclass
from weft.reports.execution_records import AttemptLogs
from weft.repository.database import Database, open_database
from weft.repository.journal import Journal, JournalHeader
from weft.repository.journal_store import JournalStore, find_nonce
from weft.repository.products import ProductTable
from weft.repository.requests import RequestReply, RequestTable
from weft.repository.runs import UNFINISHED, ExecutionRecord, RunRecord, RunTable
from weft.runtime.execution import Execution, find_shared_sandbox
from weft.runtime.lock import Lock, LockOwner, find_holder, user_name


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
        return RequestReply(granted=False, text="no engine is running in this project", replied=False)
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


@dataclass(slots=True, kw_only=True)
class CleanupResult:
    """Runs, folders and files that were removed or, in a dry run, would be removed."""

    runs: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    """Numbers of unfinished runs, which are kept."""
    originals: dict[int, str] = field(default_factory=dict)
    """In a copied project, by number of an unfinished run: the folder of the original project.

    Only the original project can resume or cancel the run.
    """
    folders: list[str] = field(default_factory=list)
    files: int = 0
    freed_bytes: int = 0
    """Bytes of the removed files that have no other hard link."""
    shared: dict[str, str] = field(default_factory=dict)
    """In a copied project, by path of a kept sandbox: the folder of the original project.

    The sandbox is kept because the original project may use it.
    """


def clean(
    opened: OpenProject,
    runs: Sequence[int],
    *,
    keep_results: bool = False,
    everything: bool = False,
    dry_run: bool = False,
    force: bool = False,
    command: Sequence[str] = (),
) -> CleanupResult:
    """Remove the files of the executions that contain ``runs``; without ``runs``, of all finished executions.

    ``keep_results`` keeps the directories that hold outputs, so that later runs can reuse them;
    ``everything`` also removes reports and input caches. Outputs that a kept run reuses are kept. In a copy
    of a project, sandboxes of the original project that are outside of the copy are kept unless ``force``.
    Raises Locked if an engine is running.
    """
    with Lock(opened.layout.lock, command):
        chosen, kept = _choose_executions(opened, runs)
        found, products = CleanupResult(kept=kept), ProductTable(opened.database)
        found.originals = _list_originals(opened, kept)
        shared = {} if force else _list_shared(opened)
        reused = _list_directories(
            products, {each.number for each in opened.runs.executions()} - {each.number for each in chosen}
        )
        for execution in chosen:
            own = [run.number for run in opened.runs.of(execution.number)]
            found.runs += own
            header = JournalStore(opened.database).header(execution.number)
            spared = reused | (_list_directories(products, {execution.number}) if keep_results else set())
            for root, name in _folders(opened, execution.number, header, spared):
                _remove(root, name, found, shared, dry_run=dry_run)
            for number in own if everything else ():
                _remove(opened.layout.home, f"reports/{number}", found, {}, dry_run=dry_run)
        if everything and not keep_results and not runs:
            for root in _sandboxes(opened):
                _remove(root, "cache", found, shared, dry_run=dry_run)
        own_sandboxes = [root for root in _sandboxes(opened) if str(root) not in shared]
        for root in () if dry_run else (opened.layout.project, *own_sandboxes):
            remove_stale_below(root)
        for root in () if dry_run else own_sandboxes:
            with suppress(OSError):  # the directory is not empty, or does not exist
                root.rmdir()
    return found


def _list_originals(opened: OpenProject, runs: Sequence[int]) -> dict[int, str]:
    """Return, by run number, the folder of the original project, for runs that only the original can resume.

    In a copied project, some of ``runs`` can be resumed or cancelled by the original project but not by the
    copy; only these are returned.
    """
    found: dict[int, str] = {}
    for number in runs:
        execution = opened.runs.run(number).execution
        platform = JournalStore(opened.database).header(execution).platform
        shared = find_shared_sandbox(opened.layout, opened.database, execution, platform)
        found |= {number: shared[0]} if shared is not None else {}
    return found


def _list_shared(opened: OpenProject) -> dict[str, str]:
    """Return, by path of a sandbox, the folder of the original project that may use this sandbox.

    Sandboxes inside of this copied project are left out, because the original does not use them.
    """
    originals, layout = opened.database.list_originals(), opened.layout
    store, found = JournalStore(opened.database), dict[str, str]()
    for execution in opened.runs.executions() if originals else ():
        identity = opened.database.identity_of(execution.number)
        for machine in planned_machines(store.header(execution.number).platform):
            root = layout.own_sandbox(machine, identity)
            if identity in originals and not root.is_relative_to(layout.project) and root.exists():
                found[str(root)] = originals[identity]
    return found


def _list_directories(products: ProductTable, executions: set[int]) -> set[str]:
    """Return the directories that hold the stored outputs of these executions."""
    return {directory for number in executions for directory in products.directories(number)}


def _choose_executions(opened: OpenProject, runs: Sequence[int]) -> tuple[list[ExecutionRecord], list[int]]:
    """Return the executions to clean and the numbers of the unfinished runs, which are kept.

    Raises InvalidInput if one of ``runs`` belongs to an unfinished execution.
    """
    if not runs:
        over = [each for each in opened.runs.executions() if each.state not in UNFINISHED]
        rest = [
            run.number
            for run in opened.runs.all()
            if opened.runs.execution(run.execution).state in UNFINISHED
        ]
        return over, rest
    meant = {}
    for number in runs:
        run = opened.runs.run(number)
        execution = opened.runs.execution(run.execution)
        if execution.state in UNFINISHED:
            what = f"run {number} is not finished: it can be resumed"
            raise InvalidInput(what, advice=f"`weft resume {number}`, or `weft cancel {number}` first")
        meant[execution.number] = execution
    return list(meant.values()), []


def _folders(
    opened: OpenProject, execution: int, header: JournalHeader, spared: set[str]
) -> Iterator[tuple[Path, str]]:
    """Yield (root, path relative to root) of each folder of an execution, without those in ``spared``."""
    number = str(execution)
    for machine in planned_machines(header.platform):
        for sandbox in _own_sandboxes(opened, execution, machine):
            if not any(directory.startswith(f"{sandbox / number}/") for directory in spared):
                yield sandbox, number
                continue
            for name in _names(sandbox / number):
                if str(sandbox / number / name) not in spared:
                    yield sandbox, f"{number}/{name}"
    for name in ("attempts", "runners", "checkpoints"):
        yield opened.layout.home, f"{name}/{number}"


def _own_sandboxes(opened: OpenProject, execution: int, machine: Machine) -> list[Path]:
    """Return the directories for attempts of an execution on a machine.

    The first is the subdirectory of the sandbox that belongs to this project or, for a copied execution, to
    the original project. Older versions of weft used the sandbox itself; it is included only if it is inside
    ``.weft``, where no other project uses it.
    """
    layout, identity = opened.layout, opened.database.identity_of(execution)
    sandbox = layout.sandbox(machine)
    own = [layout.own_sandbox(machine, identity)] if identity else []
    return [*own, sandbox] if sandbox.is_relative_to(layout.home) else own


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:
        return []


def _sandboxes(opened: OpenProject) -> list[Path]:
    """Return the directories of this project in the sandboxes of all executions."""
    store = JournalStore(opened.database)
    found: dict[Path, None] = {}
    for execution in opened.runs.executions():
        for machine in planned_machines(store.header(execution.number).platform):
            found |= dict.fromkeys(_own_sandboxes(opened, execution.number, machine))
    return list(found)


def _remove(root: Path, name: str, found: CleanupResult, shared: Mapping[str, str], *, dry_run: bool) -> None:
    """Remove the folder ``name`` below a root and count its files in ``found``.

    If the root is in ``shared`` (see ``_list_shared``), only add the root to ``found.shared``.
    """
    if not os.path.lexists(root / name):
        return
    if str(root) in shared:
        found.shared[str(root)] = shared[str(root)]
        return
    files, freed = _disk_usage(root / name)
    found.files += files
    found.freed_bytes += freed
    found.folders.append(str(root / name))
    if dry_run:
        return
    try:
        remove_tree(root, name)
    except StagingProblem as problem:
        raise WeftError(f"{root}: {problem}; files removed before this error are not restored") from None


def _disk_usage(folder: Path) -> tuple[int, int]:
    """Return the number of files in a folder, and the total size of those that have no other hard link."""
    files = freed = 0
    for parent, _, names in os.walk(folder, followlinks=False):
        for name in names:
            try:
                found = os.lstat(os.path.join(parent, name))  # noqa: PTH118 -- many of them
            except OSError:
                continue
            files += 1
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                freed += found.st_size
    return files, freed
