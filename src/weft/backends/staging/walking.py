"""Walking: everything below a directory, found without following a link, each directory opened once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.backends.staging.problem import StagingProblem, telling
from weft.backends.staging.safe_paths import DEEPEST, Parts, directory_at, names_in

__all__ = ["Entry", "directories_inside", "walk_inside"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that lies below a root, as a walk finds it."""

    parts: Parts
    """From the root."""
    status: os.stat_result
    """Of itself: a link is a link."""


def walk_inside(root: Path, parts: Sequence[str] = ()) -> Iterator[Entry]:
    """Walk over everything below a directory, in the order of names, directories before what is in them."""
    for _, entries in directories_inside(root, parts):
        yield from entries


def directories_inside(root: Path, parts: Sequence[str] = ()) -> Iterator[tuple[int, list[Entry]]]:
    """Walk over a directory and those below it: each open, until the next is asked for, and what is in it."""
    todo = [tuple(parts)]
    while todo:
        here = todo.pop()
        if len(here) >= DEEPEST:
            raise StagingProblem("cannot be walked", "/".join(here), f"over {DEEPEST} directories deep")
        with directory_at(root, here) as listing:
            found = list(_listed(listing, here))
            yield listing, found
        todo.extend(entry.parts for entry in reversed(found) if stat.S_ISDIR(entry.status.st_mode))


def _listed(directory: int, parts: Parts) -> Iterator[Entry]:
    with telling("cannot be listed", "/".join(parts)):
        names = names_in(directory)
    for name in names:
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            continue  # Somebody has removed it since.
        yield Entry((*parts, name), status)
