"""Trees: a directory that is handed on as one thing, with its links resolved or kept so that they stay in it.

A link to a file of the task's directory stands for that file; a link to a directory inside the tree stays a
link inside the tree. One that leads anywhere else is refused, and so is what is no file or directory.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weft.backends.staging.problem import StagingProblem
from weft.backends.staging.safe_paths import Parts, Reached, kind_of, look_at, reached
from weft.backends.staging.walking import Entry, directories_inside

__all__ = ["DIGEST_SIZE", "Leaf", "leaves_of", "taken_hold_of", "tree_digest", "walked"]

DIGEST_SIZE = 20
"""Bytes of every digest."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One entry of a tree."""

    parts: Parts
    """From the top of the tree."""
    lies: Parts
    """From the root: where its content is."""
    status: os.stat_result
    link: str = ""
    """Of a link inside the tree: what it says."""

    @property
    def is_file(self) -> bool:
        """Say whether it has content."""
        return not self.link and stat.S_ISREG(self.status.st_mode)

    @property
    def is_directory(self) -> bool:
        """Say whether it is a directory, and no link to one."""
        return not self.link and stat.S_ISDIR(self.status.st_mode)


def leaves_of(root: Path, parts: Parts) -> Iterator[Leaf]:
    """List everything in a directory below a root, by name, directories before their content."""
    for _, leaf in walked(root, parts):
        yield leaf


def walked(root: Path, parts: Parts) -> Iterator[tuple[int, Leaf]]:
    """List as ``leaves_of``, each with the directory it lies in, which is open until the next is asked for.

    -1 stands for the directory of what is behind a link.
    """
    depth = len(parts)
    for directory, entries in directories_inside(root, parts):
        for entry in entries:
            mode = entry.status.st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                yield directory, Leaf(entry.parts[depth:], entry.parts, entry.status)
            elif stat.S_ISLNK(mode):
                yield -1, _linked(root, parts, entry)
            else:
                what = f"it is {kind_of(entry.status)}, no file or directory"
                raise StagingProblem("cannot be handed on", "/".join(entry.parts), what)


def taken_hold_of(root: Path, directory: int, leaf: Leaf) -> Reached:
    """Hold a file that a walk has found. The caller closes it."""
    if directory < 0:
        with reached(root, leaf.lies) as behind:
            found = Reached(os.dup(behind.fd), behind.status, behind.parts)
    else:
        found = look_at(directory, leaf.lies)
    if not found.is_file:
        os.close(found.fd)
        why = f"it became {kind_of(found.status)} while it was looked at"
        raise StagingProblem("cannot be handed on", "/".join(leaf.lies), why, number=errno.EAGAIN)
    return found


def _linked(root: Path, parts: Parts, entry: Entry) -> Leaf:
    below = entry.parts[len(parts) :]
    with reached(root, entry.parts) as found:
        if found.is_file:
            return Leaf(below, found.parts, found.status)
        if found.is_directory and found.parts[: len(parts)] == parts:
            to = "/".join(found.parts[len(parts) :]) or "."
            return Leaf(
                below, found.parts, entry.status, os.path.relpath(f"/{to}", "/" + "/".join(below[:-1]))
            )
        what = "it is a link to a directory outside the one that is handed on"
        if not found.is_directory:
            what = f"it is a link to {kind_of(found.status)}"
        raise StagingProblem("cannot be handed on", "/".join(entry.parts), what)


def tree_digest(leaves: Iterable[tuple[Leaf, str]]) -> str:
    """Give one digest for a tree from its entries, in any order, with the digests of its files."""
    whole = hashlib.blake2b(digest_size=DIGEST_SIZE)
    for leaf, digest in sorted(leaves, key=lambda pair: pair[0].parts):
        name = os.fsencode("/".join(leaf.parts))
        kind, content = ("f", digest) if leaf.is_file else ("l", leaf.link) if leaf.link else ("d", "")
        text = os.fsencode(content)
        # Lengths first: no name can look like the end of another entry.
        whole.update(f"{kind} {len(name)} {len(text)} ".encode() + name + text)
    return whole.hexdigest()
