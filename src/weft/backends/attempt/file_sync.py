"""Sync of files to the disk, so that they survive a power failure.

A new file survives only if its content is synced, and if all new directories above it are synced too, because
they contain the entries that lead to the file. These syncs run in parallel, because the file system combines
syncs of the same moment. On an ext4 disk, a file and two directories then take 1.3 ms instead of 6.7 ms, and
100 small files 27 ms instead of 193 ms.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.backends.attempt.safe_paths import (
    FileDescriptor,
    Parts,
    open_directory,
    open_entry,
    open_root,
    reopen_for_reading,
    split_name,
    staging_errors,
)
from weft.backends.attempt.trees import open_tree_file, walk_tree

if TYPE_CHECKING:
    from typing import Self

SYNC_VARIABLE = "WEFT_SYNC"
"""Environment variable; the value ``off`` disables all syncs, to measure their cost. Then a power failure
loses data.
"""

_THREADS = 8
_MOST_OPEN = 64
_PROBLEM = "cannot be synced to the disk"


def is_sync_enabled() -> bool:
    """Return whether files are synced; see ``SYNC_VARIABLE``."""
    return os.environ.get(SYNC_VARIABLE) != "off"


def sync_directory(path: str | Path) -> None:
    """Sync the entries of a directory; raises OSError."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with FileDescriptor(directory):
        os.fsync(directory)


def sync_files(root: Path, names: Iterable[str], *, above: Sequence[Path] = (), content: bool = True) -> None:
    """Sync files and directories below a root, and the directories that lead to them.

    ``above`` are directories above the root whose entries are synced too, if they may be read. If ``content``
    is True, a directory is synced with everything in it. Raises StagingProblem.
    """
    if not is_sync_enabled():
        return
    done: set[Parts] = set()
    with _Syncs() as syncs:
        for name in names:
            for parts, fd in _open_entries(root, split_name(name), done, content):
                syncs.add(fd, "/".join(parts) or str(root))
        for folder in above:
            if os.access(folder, os.R_OK):
                syncs.add(open_root(folder, listing=True), str(folder))


def _open_entries(root: Path, parts: Parts, done: set[Parts], content: bool) -> Iterator[tuple[Parts, int]]:
    """Yield the path components and a new descriptor of an entry, of its parents and of its content.

    Paths in ``done`` are skipped; all other paths are added to ``done``. ``content`` says whether the content
    of a directory is included.
    """
    with open_entry(root, parts) as found:
        top, is_directory = found.parts, found.is_directory
        leading = [top[:depth] for depth in range(len(top))]
        for each in (each for each in leading if each not in done):
            done.add(each)
            yield each, _enter(root, each)
        if top not in done:
            done.add(top)
            yield top, reopen_for_reading(found, "/".join(top))
    for directory, entry in walk_tree(root, top) if content and is_directory else ():
        if entry.link or entry.location in done:
            continue
        done.add(entry.location)
        if entry.is_directory:
            yield entry.location, _enter(root, entry.location)
        else:
            with open_tree_file(root, directory, entry) as file:
                yield entry.location, reopen_for_reading(file, "/".join(entry.location))


def _enter(root: Path, parts: Parts) -> int:
    with open_directory(root, parts) as directory:
        return os.dup(directory)


class _Syncs:
    """Context manager that syncs many open files at the same time and closes them; raises StagingProblem."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._sync()
        while self._open:
            os.close(self._open.pop()[0])

    def add(self, fd: int, name: str) -> None:
        """Add an open file, which is synced and closed at the latest when the context ends."""
        self._open.append((fd, name))
        if len(self._open) >= _MOST_OPEN:
            self._sync()

    def _sync(self) -> None:
        # Imported on first use: most commands sync no files.
        from concurrent.futures import ThreadPoolExecutor

        batch, self._open = self._open, []
        with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="sync") as pool:
            for done in [pool.submit(_sync_and_close, *each) for each in batch]:
                done.result()


def _sync_and_close(fd: int, name: str) -> None:
    with FileDescriptor(fd), staging_errors(_PROBLEM, name):
        os.fsync(fd)
