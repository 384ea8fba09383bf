"""Names of files and directories that are still being written, and removal of those left by dead processes.

The name identifies the process that writes the file. A process that is killed leaves its file behind. The
next process that writes into the same directory removes it, and so does ``weft clean`` in the whole project.
Files of processes on other computers are removed when they are a week old.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path

from weft.backends.attempt.digests import boot_id
from weft.backends.attempt.safe_paths import StagingProblem, list_names
from weft.backends.attempt.trees import remove_entry

PREFIX = ".weft-new-"
_NAME = re.compile(rf"{re.escape(PREFIX)}([0-9a-f]{{8}})-([0-9a-f]{{8}})-([0-9]+)-([0-9]+)-[0-9]+")
_ABANDONED_S = 7 * 24 * 3600
_MOST_CHECKED = 10_000
_NUMBERS = count()
_START_FIELD = 19
"""Index of the start time among the fields of ``/proc/PID/stat`` that follow the program's name."""

_checked: set[tuple[int, int]] = set()
"""Device and inode of each directory from which this process has removed stale files."""


def temporary_name() -> str:
    """Return a hidden name that no other process uses; wildcards do not match it."""
    return f"{PREFIX}{_owner(os.getpid())}-{next(_NUMBERS)}"


def remove_stale(directory: int) -> None:
    """Remove the files of dead processes from an open directory; done once per directory and process."""
    status = os.fstat(directory)
    key = status.st_dev, status.st_ino
    if key in _checked:
        return
    if len(_checked) >= _MOST_CHECKED:
        _checked.clear()
    _checked.add(key)
    for name in list_names(directory):
        if name.startswith(PREFIX) and _is_stale(directory, name):
            with suppress(OSError, StagingProblem):
                remove_entry(directory, name)


def remove_stale_below(root: Path) -> None:
    """Remove the files of dead processes from a directory and its subdirectories; links are not followed."""
    if not root.is_dir():
        return  # an earlier `weft clean` has removed it
    for _, folders, files, directory in os.fwalk(root):
        for name in [name for name in (*folders, *files) if name.startswith(PREFIX)]:
            if _is_stale(directory, name):
                with suppress(OSError, StagingProblem):
                    remove_entry(directory, name)
        folders[:] = [name for name in folders if not name.startswith(PREFIX)]


def _is_stale(directory: int, name: str) -> bool:
    """Return whether the process that wrote a temporary file has ended.

    If the file is from another host, or its name cannot be interpreted, return whether it is older than a
    week.
    """
    found = _NAME.fullmatch(name)
    if found is not None and found[1] == _host():
        return found[2] != _boot() or _start_time(int(found[3])) != int(found[4])
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return time.time() - status.st_mtime > _ABANDONED_S


@lru_cache(maxsize=None)
def _owner(process: int) -> str:
    return f"{_host()}-{_boot()}-{process}-{_start_time(process)}"


@lru_cache(maxsize=None)
def _host() -> str:
    """Return a digest that identifies this computer and its PID namespace.

    A container has a PID namespace of its own.
    """
    parts = [os.uname().nodename]
    with suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text())
    with suppress(OSError):
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))  # noqa: PTH116 -- not a path of a user
    return _digest("\0".join(parts))


def _boot() -> str:
    return _digest(boot_id())


def _start_time(process: int) -> int:
    """Return the start time of a process in clock ticks since boot; -1: there is no such process."""
    try:
        line = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return -1
    return int(line.rpartition(b")")[2].split()[_START_FIELD])


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
