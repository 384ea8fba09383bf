"""Fetching: an input comes from where the user keeps it, a path or a URL, into a directory.

A path is read from the folder of the workflow. It was named by the user, so it may lie anywhere and lead
over links; what lies in a directory that was named may not lead out of that directory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from weft.backends.products import MadeFile
from weft.backends.sources.compression import decompress, plain_name_of
from weft.backends.sources.remote_files import download, is_url, path_of_url
from weft.backends.staging.made import measured
from weft.backends.staging.new_files import hidden_file, new_file
from weft.backends.staging.placing import How, place
from weft.backends.staging.problem import StagingProblem, refusal, telling
from weft.backends.staging.safe_paths import open_inside, parent_of, parts_of

__all__ = ["Brought", "Source", "fetch"]

_LASTING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES)
"""What only the user can change about a path."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the user keeps an input."""

    text: str
    """A path, or a URL."""
    folder: Path
    """Of the workflow: paths are read from there."""

    def path(self) -> Path | None:
        """Give its path on this computer, links resolved; None: it is a URL of elsewhere."""
        stated = path_of_url(self.text) if is_url(self.text) else self.text
        if stated is None:
            return None
        if not stated.strip() or "\0" in stated:
            raise StagingProblem("cannot be fetched", self.text, "it is no name of a file", lasting=True)
        try:
            return Path(os.path.realpath(self.folder / stated, strict=True))
        except OSError as error:
            raise refusal("cannot be fetched", self.text, error, lasting=error.errno in _LASTING) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """An input that has come."""

    file: MadeFile
    """As it lies in the directory now: one that was compressed has lost its ``.gz``."""
    copied_bytes: int
    """What was read and written for it; 0: a link did."""


def fetch(source: Source, root: Path, name: str, *, how: How = "link", compressed: bool = False) -> Brought:
    """Bring an input under a name below a root; nobody sees it there before it is whole."""
    path = source.path()
    if compressed:
        return _fetch_compressed(source, path, root, plain_name_of(name))
    if path is None:
        with _new(source, root, name) as (_, target):
            download(source.text, target)
        file = measured(root, name)
        return Brought(file=file, copied_bytes=file.size_bytes)
    there = measured(path.parent, path.name)
    copied_bytes = place(path.parent, path.name, root, name, how=how, digest=there.digest)
    # A link is the same file, and a copy was checked: neither has to be read again.
    return Brought(file=replace(there, name="/".join(parts_of(name))), copied_bytes=copied_bytes)


def _fetch_compressed(source: Source, path: Path | None, root: Path, name: str) -> Brought:
    with _new(source, root, name) as (parent, target), _raw(source, path, parent) as raw:
        decompress(raw, target, source.text)
        raw_bytes = os.fstat(raw).st_size
    return Brought(file=measured(root, name), copied_bytes=raw_bytes)


@contextmanager
def _new(source: Source, root: Path, name: str) -> Iterator[tuple[int, int]]:
    """Open the directory and the new file to write."""
    parts = parts_of(name)
    with (
        telling("cannot be fetched", source.text),
        parent_of(root, parts) as parent,
        new_file(parent, parts[-1]) as target,
    ):
        yield parent, target


@contextmanager
def _raw(source: Source, path: Path | None, scratch: int) -> Iterator[int]:
    """Open what is still compressed; from elsewhere it is first brought into a file without a name."""
    if path is None:
        with hidden_file(scratch) as raw:
            download(source.text, raw)
            yield raw
        return
    raw = open_inside(path.parent, path.name)
    try:
        yield raw
    finally:
        os.close(raw)
