"""Live attempts: what the local world remembers of each, from its assignment to its end.

Records of an attempt (``command.sh``, ``exitcode``) and its directory: made without following links.

A task can put links, also hard ones, where weft will write next: so every directory on the way is entered as
itself, and a record is always a new file. The directories in which those of attempts lie are entered once and
held, as long as their paths lead to them: thousands of attempts begin and end in a second. What does not go
this short way (something is there already, or was moved) goes the long one, which says what is wrong.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.backends.attempt.command import RESULT_FILE
from weft.backends.attempt.safe_paths import StagingProblem, open_directory, staging_errors
from weft.backends.attempt.staging import write_all
from weft.backends.attempt.task_files import TaskFiles
from weft.backends.local.records import encode_record
from weft.engine.messages import Assign, Start

__all__ = ["ActiveAttempt", "AttemptRecords"]


@dataclass(slots=True, eq=False)
class ActiveAttempt:
    """One attempt."""

    number: int
    run: int
    task: int
    machine: int
    nodes: int
    count: int
    workdir_path: str
    records_path: str
    iteration: int = 1
    start: Start | None = None
    """The command to start it; None: it has not come."""
    parts: set[int] = field(default_factory=set)
    """The numbers of the StageIns that were begun."""
    cancelled: bool = False
    """Whether the engine wants it to end."""
    halted: bool = False
    """Whether it is ended because the engine stops; it will run again."""
    launched: bool = False
    """Whether its runner was told to start it."""
    over: bool = False
    """Whether its end was reported, or is about to be."""
    inherited: bool = False
    """Whether an engine that died had decided to start it."""
    began_at: float = 0.0
    """Wall time at which its program was given to the runner."""
    record: Mapping[str, Any] | None = None
    """What its runner says of its program's end; None: it has not ended, or there was none."""
    unrecorded: str = ""
    """Why its records cannot be written; "": they can."""
    stale: str = ""
    """Why what an earlier execution has made could not be taken over; "": there was nothing."""
    fingerprint: str = ""
    fingerprint_parts: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    """Digest of each input that was brought."""
    news: TaskFiles | None = None
    """What its program says through files; None: nothing is expected."""
    done: float | None = None
    """The share of the work its program last said it has done."""

    @property
    def workdir(self) -> Path:
        """Give the directory in which it works."""
        return Path(self.workdir_path)

    def reminder(self) -> str:
        """Write down what only this engine knows of it: the runner keeps it for the next one."""
        return encode_record({"made": self.fingerprint, "from": self.fingerprint_parts, "stale": self.stale})

    def recall(self, reminder: str) -> None:
        """Know again what was written down; "": nothing was."""
        if reminder:
            known = json.loads(reminder)
            self.fingerprint, self.fingerprint_parts = known["made"], known["from"]
            self.stale = known["stale"]

    @classmethod
    def of(cls, command: Assign, workdir: str, records: str) -> ActiveAttempt:
        """Begin what an assignment says."""
        return cls(
            command.attempt,
            command.run,
            command.task,
            command.machine,
            command.nodes,
            command.count,
            workdir,
            records,
        )


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WORKDIR_DEPTH, _RECORDS_DEPTH = 2, 3
"""How deep they lie below a directory that is not made here: the sandbox, the project's own."""

_Identity = tuple[int, int]
_Failed = Callable[[str], None]
_NOT_HELD = -1, (-1, -1)


class AttemptRecords:
    """Makes directories and records of attempts. Threads may share it."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, _Identity]] = {}
        """Directories that are open, by path, each with its device and inode."""
        self._waiting: deque[tuple[str, str, Callable[[], bytes], _Failed]] = deque()
        """Records that are still to be written: of which attempt, their names and contents, who is told."""

    def make_workdir(self, path: str) -> None:
        """Make the directory in which an attempt works; it may be there already."""
        try:
            os.mkdir(_name(path), dir_fd=self._above(path))
        except OSError:
            workdir = Path(path)
            sandbox = workdir.parents[_WORKDIR_DEPTH - 1]
            if not sandbox.exists():
                with staging_errors("cannot be made", str(sandbox)):
                    sandbox.mkdir(parents=True, exist_ok=True)
            with _opened(workdir, _WORKDIR_DEPTH):
                self._hold(workdir.parent)

    def has_no_result(self, workdir: str) -> bool:
        """Say whether an attempt has surely left no result; False: one has to look for it with care."""
        try:
            above, name = self._held_above(workdir), _name(workdir)
            if not stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
                return False
            os.stat(f"{name}/{RESULT_FILE}", dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def begin(self, path: str) -> None:
        """Make the directory of an attempt's records, with none in it; raises StagingProblem."""
        try:
            os.mkdir(_name(path), dir_fd=self._above(path))
        except OSError:
            records = Path(path)
            _clear(records, ("command.sh", "out", "err"))
            self._hold(records.parent)

    def add(self, path: str, name: str, content: bytes) -> None:
        """Add a record to those of an attempt, in place of what has its name; raises StagingProblem."""
        try:
            _write_new(self._held_above(path), _name(path), name, content)
        except OSError:
            _write_anew(Path(path), name, content)

    def add_later(self, path: str, name: str, content: Callable[[], bytes], failed: _Failed) -> None:
        """Add a record for readers, which has time: whoever waits for its attempt goes first."""
        self._waiting.append((path, name, content, failed))

    def add_what_waits(self) -> None:
        """Write the records that had time; where one cannot be written, who added it is told."""
        while self._waiting:
            path, name, content, failed = self._waiting.popleft()
            try:
                self.add(path, name, content())
            except StagingProblem as problem:
                failed(str(problem))

    def close(self) -> None:
        """Let go of the directories."""
        while self._held:
            os.close(self._held.popitem()[1][0])

    def _above(self, path: str) -> int:
        """Give the open directory in which a path lies; raises OSError if none is held that still is it."""
        directory = path[: path.rfind("/")]
        held = self._held.get(directory, _NOT_HELD)
        found = os.stat(directory)  # noqa: PTH116 -- for every attempt
        if (found.st_dev, found.st_ino) != held[1]:
            raise BlockingIOError(f"{directory} is not held")
        return held[0]

    def _held_above(self, path: str) -> int:
        """Give the open directory in which a path lay when its attempt began; raises OSError if none is."""
        directory = path[: path.rfind("/")]
        fd, _ = self._held.get(directory, _NOT_HELD)
        if fd < 0:
            raise BlockingIOError(f"{directory} is not held")
        return fd

    def _hold(self, directory: Path) -> None:
        """Hold a directory, entered with care; one that was held under this path before stays held."""
        if str(directory) in self._held:
            return
        with open_directory(directory.parent, (directory.name,)) as entered:
            found = os.fstat(entered)
            kept = os.open(f"/proc/self/fd/{entered}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        mine = kept, (found.st_dev, found.st_ino)
        if self._held.setdefault(str(directory), mine) is not mine:
            os.close(kept)


def _name(path: str) -> str:
    return path[path.rfind("/") + 1 :]


def _write_new(above: int, attempt: str, name: str, content: bytes) -> None:
    """Write a record that must not be there yet, into a directory that must be one; raises OSError."""
    directory = os.open(attempt, _ENTER, dir_fd=above)
    try:
        file = os.open(name, _NEW, 0o666, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        if os.write(file, content) < len(content):
            raise OSError(errno.ENOSPC, name)
    finally:
        os.close(file)


def _clear(records: Path, names: Sequence[str]) -> None:
    """Make the directory of records that may be there already, without these."""
    with _opened(records, _RECORDS_DEPTH) as directory, staging_errors("cannot be cleared", str(records)):
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


def _write_anew(records: Path, name: str, content: bytes) -> None:
    """Write a record in place of whatever has its name."""
    with (
        _opened(records, _RECORDS_DEPTH) as directory,
        staging_errors("cannot be written", str(records / name)),
    ):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)
        file = os.open(name, _NEW, 0o666, dir_fd=directory)
        try:
            write_all(content, file)
        finally:
            os.close(file)


@contextmanager
def _opened(path: Path, depth: int) -> Iterator[int]:
    """Open a directory that lies so deep below one that is there, made where absent."""
    try:
        opened = open_directory(path.parents[depth - 1], path.parts[-depth:], make=True)
        directory = opened.__enter__()
    except StagingProblem as problem:
        raise StagingProblem("cannot be made", str(path), problem.why, number=problem.number) from problem
    try:
        yield directory
    finally:
        opened.__exit__()
