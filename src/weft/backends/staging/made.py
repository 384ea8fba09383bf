"""What a task has made: its declared outputs are looked for, measured, and then kept from being changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weft.backends.products import MadeFile
from weft.backends.staging.digests import DIGESTS, Digests
from weft.backends.staging.placing import place
from weft.backends.staging.problem import StagingProblem, quoted, refusal
from weft.backends.staging.safe_paths import (
    Parts,
    Reached,
    directory_at,
    kind_of,
    names_in,
    parts_of,
    reached,
)
from weft.backends.staging.trees import Leaf, leaves_of, taken_hold_of, walked
from weft.backends.staging.wildcards import is_wildcard, matching
from weft.errors import nearest

__all__ = ["collect", "extent", "intact", "measured", "protect"]

_WRITING = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def collect(workdir: Path, patterns: Sequence[str], *, missing_ok: bool = False) -> tuple[MadeFile, ...]:
    """Find and measure the declared outputs, in the order declared; a directory is one thing.

    An output that is missing, unless that is ``missing_ok``, a link that leads out of the directory, and
    what is neither file nor directory are problems.
    """
    made: dict[str, MadeFile] = {}
    for pattern in patterns:
        names = matching(workdir, pattern)
        if not names and not missing_ok:
            raise _missing(workdir, pattern)
        for name in names:
            if name not in made:
                made[name] = measured(workdir, name, directory=pattern.endswith("/"))
    return tuple(made.values())


def _missing(workdir: Path, pattern: str) -> StagingProblem:
    if is_wildcard(pattern):
        return StagingProblem("was not made", pattern, "no file of the task's directory fits it")
    *above, last = parts_of(pattern)
    meant = None
    with suppress(StagingProblem), directory_at(workdir, above) as directory:
        meant = nearest(last, names_in(directory))
    advice = f"there is {quoted('/'.join((*above, meant)))}" if meant else ""
    return StagingProblem("was not made", pattern, "the task has ended without it", advice=advice)


def measured(workdir: Path, name: str, *, directory: bool = False) -> MadeFile:
    """Measure a file or a directory; with ``directory`` it must be one."""
    with reached(workdir, parts_of(name)) as found:
        if found.is_directory:
            digest, leaves = DIGESTS.of_tree(workdir, found.parts)
            size_bytes, modified_ns = _extent(found, leaves)
        elif directory:
            raise StagingProblem("was not made", f"{name}/", "there is a file of that name, and no directory")
        else:
            digest = DIGESTS.of_reached(found, name)
            size_bytes, modified_ns = found.status.st_size, found.status.st_mtime_ns
    return MadeFile(name=name, size_bytes=size_bytes, digest=digest, modified_ns=modified_ns)


def _extent(found: Reached, leaves: Sequence[Leaf]) -> tuple[int, int]:
    """Give the bytes of a directory and when anything in it was last changed, added or taken away."""
    size_bytes = sum(leaf.status.st_size for leaf in leaves if leaf.is_file)
    times = [leaf.status.st_mtime_ns for leaf in leaves if not leaf.link]
    return size_bytes, max([found.status.st_mtime_ns, *times])


def extent(directory: Path, name: str) -> tuple[int, int]:
    """Give the bytes of a file or directory and when it was last changed."""
    with reached(directory, parts_of(name)) as found:
        if found.is_directory:
            return _extent(found, list(leaves_of(directory, found.parts)))
        if found.is_file:
            return found.status.st_size, found.status.st_mtime_ns
        raise StagingProblem("cannot be used", name, f"it is {kind_of(found.status)}, no file or directory")


def intact(directory: Path, file: MadeFile, *, thorough: bool = False) -> bool:
    """Say whether what was made is still there as it was, by size and time; ``thorough``: by content too."""
    try:
        if extent(directory, file.name) != (file.size_bytes, file.modified_ns):
            return False
        # With a memory of its own: what was read before is read again.
        return not thorough or Digests().of_path(directory, file.name) == file.digest
    except StagingProblem:
        return False


def protect(workdir: Path, files: Sequence[MadeFile]) -> None:
    """Make what was made read-only: the files, not the directories they lie in."""
    for file in files:
        with reached(workdir, parts_of(file.name)) as found:
            parts, is_directory = found.parts, found.is_directory
        if is_directory:
            for directory, leaf in walked(workdir, parts):
                if leaf.is_file and leaf.status.st_mode & _WRITING:
                    _protect_leaf(workdir, directory, leaf)
        else:
            _protect(workdir, parts)


def _protect_leaf(workdir: Path, directory: int, leaf: Leaf) -> None:
    found = taken_hold_of(workdir, directory, leaf)
    try:
        done = _is_protected(found)
    finally:
        os.close(found.fd)
    if not done:
        _protect(workdir, leaf.lies)


def _protect(workdir: Path, parts: Parts) -> None:
    """Make a file read-only; one that has other names, maybe outside, becomes a file of its own first."""
    with reached(workdir, parts) as found:
        if _is_protected(found):
            return
    name = "/".join(parts)
    with directory_at(workdir, parts[:-1]) as parent:
        before = os.fstat(parent)
        place(workdir, name, workdir, name, how="copy")
        # A directory that was made is known by its time, and nothing has come or gone in it.
        os.utime(parent, ns=(before.st_atime_ns, before.st_mtime_ns))
    with reached(workdir, parts) as found:
        _is_protected(found)


def _is_protected(found: Reached) -> bool:
    mode = stat.S_IMODE(found.status.st_mode)
    if not mode & _WRITING:
        return True
    if not found.is_file or found.status.st_nlink > 1:
        return False
    try:
        # Through the handle: it is this file, whatever has its name by now.
        os.chmod(f"/proc/self/fd/{found.fd}", mode & ~_WRITING)  # noqa: PTH101
    except OSError as error:
        raise refusal("cannot be made read-only", "/".join(found.parts), error) from error
    return True
