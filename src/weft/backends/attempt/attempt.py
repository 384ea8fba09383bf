"""Attempts of a backend that runs programs: their state, their working directories and their record files.

A task may create symbolic or hard links at paths to which weft writes next. Therefore every directory is
entered without following links, and a record is always written to a new file. The parent directories of
attempts are opened once, because thousands of attempts may start and end in a second. They stay open while
their paths lead to the same directories. If this fast path fails (an entry already exists or was moved), the
slow path tries again and reports errors.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from weft.backends.attempt.command import RESULT_FILE
from weft.backends.attempt.content import write_all
from weft.backends.attempt.safe_paths import FileDescriptor, StagingProblem, open_directory, staging_errors
from weft.backends.attempt.task_files import ReportedProgress, TaskFiles
from weft.backends.attempt.trees import remove_tree
from weft.engine.messages import Assign, Start
from weft.private_files import FILE_MODE, FOLDER_MODE, find_foreign_owner, make_folder
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.backends.attempt.remote_disk import RemoteDisk

ProgramReport = Mapping[str, Any]
"""Report of a transport on a program: ``is`` (``ended``, ``stopped``, ``continued``), ``attempt``, ``nonce``.

The report of an end also has ``code``, ``signal``, ``cause``, ``text``, ``at`` (wall-clock time), ``seconds``
(run time) and ``strays`` (number of processes of the program that were still running after it had ended by
itself). If the program ended by a signal, or with an exit code other than 0, the report has ``disk``:
``folder``, ``free_bytes``, ``size_bytes`` and ``free_files`` of the fullest file system that the program
wrote to, measured at the end of the program. ``disk`` is None if these values are unknown. With ``lasting``
a program could not be started, and another try would not help. With ``delayed`` the report
arrived so late, as after an outage of the network, that the times in it count, not that of its arrival.
"""

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


@dataclass(slots=True, eq=False)
class ActiveAttempt:
    """State of an attempt from its assignment to its end."""

    number: int
    nonce: str
    """Random identity of the attempt; a report with another nonce belongs to another attempt."""
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    workdir_path: str
    records_path: str
    disk: RemoteDisk | None = None
    """Disk of a machine that has its own file system; None: the machine uses a file system of this host."""
    restart_from: float = 0.0
    """Share of the task's work that the restart files contain, as known at the assignment; 0: no restart
    files.
    """
    iteration: int = 1
    counters: tuple[int, ...] = ()
    """Iterations of all loops around the task, outermost first; (): the task is in one loop at most."""
    tries: int = 1
    """How often the task was started in this iteration, including this attempt; 1: the first start."""
    recovered: bool = False
    """Whether an earlier engine had assigned the attempt."""
    has_workdir: bool = False
    """Whether this engine created the working directory of the attempt."""
    routes: dict[str, None] = field(default_factory=dict)
    """In words: how outputs on the disks of other hosts were copied to the disk of this one."""
    has_host_workdir: bool = False
    """Whether this engine created the directory on the disk of a host; else the start of the program does."""
    workdir_lock: Lock = field(default_factory=Lock)
    """Lock to hold while the working directory is created; several threads may stage inputs into it."""
    start: Start | None = None
    """The command that starts the program of the attempt; None: not received yet."""
    staged_parts: set[int] = field(default_factory=set)
    """Numbers (``part``) of the StageIn commands that were received."""
    cancelled: bool = False
    """Whether the engine cancelled the attempt."""
    moves: bool = False
    """Whether the attempt was cancelled because its task moves to another machine. Another attempt then
    replaces it, and its files are removed after the prolog of the other attempt.
    """
    has_prolog: bool = False
    """Whether the task's own prolog has prepared the directory of the attempt."""
    restarted: bool = False
    """Whether restart files were staged before the prolog."""
    scripts: dict[str, str] | None = None
    """Digests of the staged files that the command names; None: not staged yet."""
    owes_epilog: bool = False
    """Whether the task's own epilog must still run. It runs when the files of the attempt are removed, for
    example after the task has moved to another machine, or when the task has ended.
    """
    module_problem: str = ""
    """The last problem that was reported for the evaluator; "": none was reported."""
    halted: bool = False
    """Whether the attempt is terminated because the engine stops; its task will run again."""
    abandoned_at: float = math.inf
    """Monotonic time at which hashing and copying of the attempt's files stops; infinity: never."""
    delay: str | None = None
    """Why the job of the program waits; "": an earlier engine knew the reason; None: it does not wait."""
    launched: bool = False
    """Whether the program of the attempt was passed to the transport."""
    over: bool = False
    """Whether the end of the attempt was reported or is being processed."""
    inherited: bool = False
    """Whether an earlier engine had decided to start the attempt."""
    rebooted: bool = False
    """Whether the computer may have been restarted since the program ran. Data that the program wrote without
    a sync may then be lost.
    """
    began_at: float = 0.0
    """Wall-clock time at which the program started."""
    end: ProgramReport | None = None
    """The transport's report on the end of the program; None: no end was reported."""
    record_problem: str = ""
    """Why the record files of the attempt cannot be written; "": no problem."""
    staleness: str = ""
    """Why the product of an earlier execution was not reused; "": there was no such product."""
    fingerprint: str = ""
    fingerprint_parts: dict[str, str] = field(default_factory=dict)
    input_digests: dict[str, str] = field(default_factory=dict)
    """Digest of each staged input, by name."""
    files: TaskFiles | None = None
    """Observer of the files that the program writes; None: they are not observed yet."""
    seen: ReportedProgress = ReportedProgress()
    """Progress as last reported by the program."""
    done: float | None = None
    """Completed share of the work as last reported by the program."""
    sent_done: float | None = None
    """Value of ``done`` that the engine got last; None: it got none."""
    unsaved: bool = False
    """Whether the restart files have changed since they were last copied."""
    copies_at_s: float = 0.0
    """Time on the monotonic clock at which the restart files are requested next; infinity: never."""
    requested_at_s: float | None = None
    """Time on the monotonic clock at which restart files were last requested; None: no copy is awaited."""
    copying: bool = False
    """Whether a thread is copying the restart files."""
    saved_share: float | None = None
    """Share of the task's work in the copied restart files; None: already reported, or nothing was copied."""
    copy_problem: str = ""
    """Why the last copy of the restart files failed; "": no problem."""
    copy_problem_reported: str = ""
    copy_lock: Lock = field(default_factory=Lock)
    """Lock to hold while the restart files are copied."""
    reported_at: float | None = None
    """Wall-clock time of the program's last progress report; None: the program has not reported."""
    reports_every_s: float | None = None
    """Longest time between two progress reports, or between the start and the first; None: no report."""

    def note_report(self, at: float) -> None:
        """Record that the program wrote a progress report at the wall-clock time ``at``."""
        since = self.began_at if self.reported_at is None else self.reported_at
        if self.began_at:
            self.reports_every_s = max(self.reports_every_s or 0.0, at - since)
        self.reported_at = at

    @property
    def workdir(self) -> Path:
        """Return the path of the working directory."""
        return Path(self.workdir_path)

    def abandon(self, grace_s: float = 0.0) -> None:
        """Stop hashing and copying the files of the attempt after a grace period."""
        self.abandoned_at = min(self.abandoned_at, time.monotonic() + grace_s)

    @property
    def abandoned(self) -> bool:
        """Return whether hashing and copying of the attempt's files must stop now."""
        return time.monotonic() >= self.abandoned_at

    def save(self) -> str:
        """Return the data that a later engine needs; the transport stores them when the program starts."""
        return _encode({"made": self.fingerprint, "from": self.fingerprint_parts, "stale": self.staleness})

    def restore(self, saved: str) -> None:
        """Restore the data that ``save`` returned; an empty text restores nothing."""
        if saved:
            known = json.loads(saved)
            self.fingerprint, self.fingerprint_parts = known["made"], known["from"]
            self.staleness = known["stale"]

    @classmethod
    def of(
        cls, command: Assign, nonce: str, workdir: str, records: str, disk: RemoteDisk | None = None
    ) -> ActiveAttempt:
        """Return the initial state of the attempt that an Assign command creates."""
        place = command.machine, command.nodes, command.count
        saved = command.restart_from
        return cls(command.attempt, nonce, command.run, command.task, *place, workdir, records, disk, saved)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WORKDIR_DEPTH, _RECORDS_DEPTH = 3, 3
"""Number of trailing path components that weft creates if they are missing.

The first number is for working directories (below the sandbox), the second for record directories (below
``.weft``).
"""

_Identity = tuple[int, int]
_OnFailure = Callable[[str], None]
_NOT_OPEN = -1, (-1, -1)


class AttemptRecords:
    """Creates working directories and record files of attempts. Threads may share it."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, _Identity]] = {}
        """By path of an open parent directory: its descriptor, and the pair of its device and inode."""
        self._pending: deque[tuple[str, str, Callable[[], bytes], _OnFailure]] = deque()
        """Deferred records: directory, name, content and failure callback."""

    def make_workdir(self, path: str, *, recovered: bool = False) -> None:
        """Create an empty working directory for an attempt; raises StagingProblem.

        If ``recovered`` is True, an earlier engine may have created the directory; then it is removed first.
        """
        try:
            os.mkdir(_name(path), FOLDER_MODE, dir_fd=self._checked_parent(path))
        except OSError:
            workdir = Path(path)
            _make_sandbox(workdir.parents[_WORKDIR_DEPTH - 1], workdir.parts[-_WORKDIR_DEPTH])
            if recovered:
                remove_tree(workdir.parent, workdir.name)
            with (
                _open_nested(workdir.parent, _WORKDIR_DEPTH - 1) as parent,
                staging_errors("cannot be created", path),
            ):
                os.mkdir(workdir.name, FOLDER_MODE, dir_fd=parent)
            self._keep_open(workdir.parent)

    def has_no_result(self, workdir: str) -> bool:
        """Return whether an attempt certainly wrote no result file; False: it may have written one."""
        try:
            parent, name = self._parent(workdir), _name(workdir)
            if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                return False
            os.stat(f"{name}/{RESULT_FILE}", dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def create(self, path: str) -> None:
        """Create a directory for the records of an attempt, or remove old records from an existing one.

        Raises StagingProblem.
        """
        try:
            os.mkdir(_name(path), FOLDER_MODE, dir_fd=self._checked_parent(path))
        except OSError:
            records = Path(path)
            _clear(records, ("command.sh", "out", "err"))
            self._keep_open(records.parent)

    def ensure(self, path: str) -> None:
        """Create a directory for the records of an attempt if there is none; raises StagingProblem."""
        with _open_nested(Path(path), _RECORDS_DEPTH):
            return

    def write(self, path: str, name: str, content: bytes) -> None:
        """Write a record file; an existing entry with this name is replaced. Raises StagingProblem."""
        try:
            _write_new(self._parent(path), _name(path), name, content)
        except OSError:
            _replace(Path(path), name, content)

    def write_later(self, path: str, name: str, content: Callable[[], bytes], on_failure: _OnFailure) -> None:
        """Write a record at the next ``write_pending``, so that writing does not delay program starts."""
        self._pending.append((path, name, content, on_failure))

    def write_pending(self) -> None:
        """Write the deferred records; if one cannot be written, call its ``on_failure`` with the reason."""
        while self._pending:
            path, name, content, on_failure = self._pending.popleft()
            try:
                self.write(path, name, content())
            except StagingProblem as problem:
                on_failure(str(problem))

    def close(self) -> None:
        """Close the open parent directories."""
        while self._open:
            os.close(self._open.popitem()[1][0])

    def _checked_parent(self, path: str) -> int:
        """Return the descriptor of a path's parent directory.

        Raises OSError if no descriptor of the parent directory is open, or if another directory has replaced
        it.
        """
        directory = path[: path.rfind("/")]
        fd, identity = self._open.get(directory, _NOT_OPEN)
        found = os.stat(directory)  # noqa: PTH116 -- for every attempt
        if (found.st_dev, found.st_ino) != identity:
            raise BlockingIOError(f"{directory} is not open")
        return fd

    def _parent(self, path: str) -> int:
        """Return the descriptor of a path's parent directory, even if the directory was replaced meanwhile.

        Raises OSError if no descriptor of the parent directory is open.
        """
        directory = path[: path.rfind("/")]
        fd, _ = self._open.get(directory, _NOT_OPEN)
        if fd < 0:
            raise BlockingIOError(f"{directory} is not open")
        return fd

    def _keep_open(self, directory: Path) -> None:
        """Open a directory and keep it open, unless a descriptor for this path is already kept."""
        if str(directory) in self._open:
            return
        with open_directory(directory.parent, (directory.name,)) as entered:
            found = os.fstat(entered)
            kept = os.open(f"/proc/self/fd/{entered}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        mine = kept, (found.st_dev, found.st_ino)
        if self._open.setdefault(str(directory), mine) is not mine:
            os.close(kept)


def _make_sandbox(sandbox: Path, project: str) -> None:
    """Create a sandbox if it does not exist, and a directory for a project in it."""
    if not sandbox.exists():
        with staging_errors("cannot be created", str(sandbox)):
            make_folder(sandbox)
    own = sandbox / project
    with open_directory(sandbox, ()) as top, staging_errors("cannot be created", str(own)):
        with suppress(FileExistsError):
            os.mkdir(project, FOLDER_MODE, dir_fd=top)
            return
        if owner := find_foreign_owner(own):
            raise StagingProblem(
                "is not used", str(own), f"it belongs to another user, {owner}", lasting=True
            )


def _name(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def _write_new(parent: int, attempt: str, name: str, content: bytes) -> None:
    """Write a record file; raises OSError, also if the file already exists."""
    with FileDescriptor(os.open(attempt, _ENTER, dir_fd=parent)) as directory:
        file = os.open(name, _NEW, FILE_MODE, dir_fd=directory)
    with FileDescriptor(file):
        if os.write(file, content) < len(content):
            raise OSError(errno.ENOSPC, name)


def _clear(records: Path, names: Sequence[str]) -> None:
    """Create the directory of records if it is missing, and remove the records with these names from it."""
    with (
        _open_nested(records, _RECORDS_DEPTH) as directory,
        staging_errors("cannot be cleared", str(records)),
    ):
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


def _replace(records: Path, name: str, content: bytes) -> None:
    """Write a record file; an existing entry with this name is replaced."""
    with (
        _open_nested(records, _RECORDS_DEPTH) as directory,
        staging_errors("cannot be written", str(records / name)),
    ):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
        with FileDescriptor(os.open(name, _NEW, FILE_MODE, dir_fd=directory)) as file:
            write_all(content, file)


def _open_nested(path: Path, depth: int) -> FileDescriptor:
    """Open a directory; its last ``depth`` components are created if they are missing."""
    try:
        return open_directory(path.parents[depth - 1], path.parts[-depth:], make=True, mode=FOLDER_MODE)
    except StagingProblem as problem:
        raise StagingProblem("cannot be created", str(path), problem.why, number=problem.number) from problem
