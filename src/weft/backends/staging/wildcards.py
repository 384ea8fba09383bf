"""Wildcards: which names below a root a declared name stands for, by the rules of a shell.

``*`` and ``?`` (and, beside one of them, ``[ab]``) match within one part of a name and never a hidden one;
``**`` is any number of directories. A name without ``*`` and ``?`` is itself, brackets and all, as the
workflow's own rules have it.
"""

from __future__ import annotations

import errno
import fnmatch
import os
from pathlib import Path

from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import Parts, open_root, parts_of, reached, reopened

__all__ = ["is_wildcard", "matching"]


def is_wildcard(name: str) -> bool:
    """Say whether a declared name may stand for several."""
    return "*" in name or "?" in name


def matching(root: Path, pattern: str) -> list[str]:
    """List the names below a root that a declared name stands for, in order; none: nothing is there."""
    parts = parts_of(pattern)
    if not is_wildcard(pattern):
        return ["/".join(parts)] if _is_there(root, parts) else []
    found: dict[Parts, None] = {}
    _expand(root, (), parts, found)
    return sorted("/".join(name) for name in found)


def _expand(root: Path, above: Parts, rest: Parts, found: dict[Parts, None]) -> None:
    if not rest:
        if _is_there(root, above):
            found[above] = None
    elif rest[0] == "**":
        if above or len(rest) > 1:
            _expand(root, above, rest[1:], found)  # At the end it stands for the directory as a whole.
        if len(rest) > 1 or not above:
            for name in _names(root, above, only_directories=len(rest) > 1):
                _expand(root, (*above, name), rest if len(rest) > 1 else (), found)
    elif any(letter in rest[0] for letter in "*?["):
        for name in _names(root, above):
            if fnmatch.fnmatchcase(name, rest[0]):
                _expand(root, (*above, name), rest[1:], found)
    else:
        _expand(root, (*above, rest[0]), rest[1:], found)


def _is_there(root: Path, parts: Parts) -> bool:
    """Say whether there is something; a link that leads out is refused, not passed over."""
    try:
        with reached(root, parts):
            return True
    except StagingProblem as problem:
        if problem.number in (errno.ENOENT, errno.ENOTDIR):
            return False
        raise


def _names(root: Path, parts: Parts, *, only_directories: bool = False) -> list[str]:
    """List what lies in a directory, but nothing hidden; ``only_directories`` leaves links to them out."""
    fd = _opened(root, parts)
    if fd is None:
        return []
    try:
        with os.scandir(fd) as entries:
            return sorted(
                entry.name
                for entry in entries
                if not entry.name.startswith(".")
                and not (only_directories and not entry.is_dir(follow_symlinks=False))
            )
    except NotADirectoryError:
        return []
    finally:
        os.close(fd)


def _opened(root: Path, parts: Parts) -> int | None:
    if not parts:
        return open_root(root, listing=True)
    try:
        with reached(root, parts) as found:
            return reopened(found, "/".join(parts)) if found.is_directory else None
    except StagingProblem as problem:
        if problem.number in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
