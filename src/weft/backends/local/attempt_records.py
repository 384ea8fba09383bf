"""Records of an attempt (``command.sh``, ``exitcode``) and its directory: made without following links.

A task can put links, also hard ones, where weft will write next: so every directory on the way is entered as
itself, and a record is always a new file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.backends.staging.new_files import written
from weft.backends.staging.problem import StagingProblem, telling
from weft.backends.staging.safe_paths import directory_at

__all__ = ["make_workdir", "remove_if_empty", "write_record"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_workdir(workdir: Path) -> None:
    """Make the directory in which an attempt works: its execution and its number below the sandbox."""
    sandbox = workdir.parents[1]
    if not sandbox.exists():
        with telling("cannot be made", str(sandbox)):
            sandbox.mkdir(parents=True, exist_ok=True)
    with _opened(workdir, 2):
        pass


def remove_if_empty(workdir: Path) -> None:
    """Remove an attempt's directory in which nothing was left."""
    # Else something is in it: it stays for whoever wants to look.
    with suppress(OSError, StagingProblem), directory_at(workdir.parents[1], workdir.parts[-2:-1]) as above:
        os.rmdir(workdir.name, dir_fd=above)


@contextmanager
def _opened(path: Path, depth: int) -> Iterator[int]:
    """Open a directory that lies so deep below one that is there, made where absent."""
    try:
        opened = directory_at(path.parents[depth - 1], path.parts[-depth:], make=True)
        directory = opened.__enter__()
    except StagingProblem as problem:
        raise StagingProblem("cannot be made", str(path), problem.why, number=problem.number) from problem
    try:
        yield directory
    finally:
        opened.__exit__()


def write_record(records: Path, name: str, content: bytes, *, instead_of: tuple[str, ...] = ()) -> None:
    """Write a record of an attempt anew; ``instead_of``: what else must not be there any more.

    Raises StagingProblem.
    """
    with (
        _opened(records, 3) as directory,
        telling("cannot be written", str(records / name)),
    ):
        for each in (name, *instead_of):
            with suppress(FileNotFoundError):
                os.unlink(each, dir_fd=directory)
        file = os.open(name, _NEW, 0o666, dir_fd=directory)
        try:
            written(content, file)
        finally:
            os.close(file)
