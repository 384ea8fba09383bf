"""Whether machines with a sandbox on a file system of this host still work."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from weft.backends.backend import ProjectContext
from weft.backends.layout import describe_sandbox_error
from weft.private_files import make_folder
from weft.records import dataclass

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
"""First and longest pause between checks of a lost machine."""
_CHECKED_BYTES = 65536
"""Number of bytes that are written to check for free space on a disk."""


_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(slots=True)
class LostMachine:
    """State of a machine that cannot run programs now."""

    problem: str
    due_s: float
    """Time of the next check on the monotonic clock."""
    pause_s: float = _FIRST_PAUSE_S
    """Pause after the next check; the pause doubles with each check."""


class MachineHealth:
    """Checks whether machines of this host still work: whether their sandboxes exist and can be written.

    A machine is lost while its sandbox is unusable, also at the start of a run. If the sandbox is usable, but
    the runner cannot be started and the machine has never worked, the machine is not lost; its attempts fail,
    because its description may be wrong. A sandbox that disappeared with its disk is not created on another
    disk. A machine whose sandbox could never be created, because its path is wrong, is not expected to
    return.
    """

    def __init__(self, context: ProjectContext) -> None:
        self._context = context
        self._identity: dict[int, tuple[int, int]] = {}
        """By machine: the device and inode that its sandbox had at the last call of ``remember``."""
        self._wrong: set[int] = set()
        """Machines whose sandbox cannot be created until the user changes something, as of the last check."""
        self._full: set[int] = set()
        """Machines whose disk was full at the last check."""
        self.lost: dict[int, LostMachine] = {}

    def remember(self, machine: int) -> None:
        """Record device and inode of a machine's sandbox, to detect later that it was replaced."""
        if (found := self._stat(machine)) is not None:
            self._identity[machine] = found

    def find_missing(self, machine: int) -> str:
        """Return a text if the sandbox of a machine has disappeared or was replaced, else ""."""
        if (known := self._identity.get(machine)) is None:
            self.remember(machine)  # it is created when the first attempt is prepared
            return ""
        found = self._stat(machine)
        if found == known:
            return ""
        what = "has disappeared"
        if found is not None:
            kind = (
                "another directory" if self._sandbox(machine).is_dir() else "something that is no directory"
            )
            what = f"was replaced by {kind}"
        return f"its sandbox {self._sandbox(machine)} {what}"

    def find_problem(self, machine: int) -> str:
        """Return why programs cannot work in the sandbox of a machine; "": they can."""
        self._full.discard(machine)
        if machine in self._identity and (problem := self.find_missing(machine)):
            return problem
        return self._find_write_problem(machine)

    def restore(self, machine: int) -> str:
        """Create the sandbox of a lost machine again if necessary; return why it is still unusable, or ""."""
        known = self._identity.get(machine)
        if problem := self._find_write_problem(machine):
            return problem
        found = self._stat(machine)
        if known is not None and found is not None and found[0] != known[0]:
            return f"its sandbox {self._sandbox(machine)} is on another file system than before"
        self.remember(machine)
        return ""

    def has_worked(self, machine: int) -> bool:
        """Return whether ``remember`` has recorded the sandbox of a machine."""
        return machine in self._identity

    def is_lasting(self, machine: int) -> bool:
        """Return whether a machine has never worked, because its sandbox cannot be created."""
        return machine in self._wrong and not self.has_worked(machine)

    def is_full(self, machine: int) -> bool:
        """Return whether the last problem of a machine was that its disk is full."""
        return machine in self._full

    def lose(self, machine: int, problem: str) -> bool:
        """Mark a machine as lost; return whether it was not lost before."""
        if machine in self.lost:
            return False
        self.lost[machine] = LostMachine(problem, time.monotonic() + _FIRST_PAUSE_S)
        return True

    def due(self) -> list[int]:
        """Return the lost machines that are to be checked now."""
        now_s = time.monotonic()
        return [machine for machine, each in self.lost.items() if each.due_s <= now_s]

    def postpone(self, machine: int, problem: str) -> None:
        """Schedule the next check of a lost machine after a pause.

        ``problem`` is the result of the last check.
        """
        each = self.lost[machine]
        each.problem, each.due_s = problem, time.monotonic() + each.pause_s
        each.pause_s = min(2.0 * each.pause_s, _LONGEST_PAUSE_S)

    def _sandbox(self, machine: int) -> Path:
        return self._context.layout.sandbox(self._context.machines[machine])

    def _stat(self, machine: int) -> tuple[int, int] | None:
        try:
            found = self._sandbox(machine).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _find_write_problem(self, machine: int) -> str:
        sandbox = self._sandbox(machine)
        name = sandbox / f".weft-{os.getpid()}-{machine}"
        self._wrong.discard(machine)
        self._full.discard(machine)
        try:
            make_folder(sandbox)
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(file, bytes(_CHECKED_BYTES))
            finally:
                os.close(file)
                name.unlink()
        except OSError as error:
            problem, lasting = describe_sandbox_error(sandbox, error)
            if lasting:
                self._wrong.add(machine)
            if error.errno in _FULL:
                self._full.add(machine)
            return problem
        if written == _CHECKED_BYTES:
            return ""
        self._full.add(machine)
        return f"its sandbox {sandbox} cannot be written: no space left"
