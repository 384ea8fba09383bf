"""A working directory for staging tests, with canary files outside it that must not change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from backends.attempt.web_server import Site, serving


@dataclass(frozen=True)
class Grounds:
    """The working directory of a task, a second one, and a directory outside both."""

    work: Path
    other: Path
    outside: Path
    canary: Path


def tree_state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return the names, kinds, modes, times and contents of a tree, to compare two states of it."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ino, status.st_uid, content)
    return found


@pytest.fixture
def grounds(tmp_path: Path) -> Iterator[Grounds]:
    work, other, outside = (tmp_path / name for name in ("work", "other", "outside"))
    for folder in (work, other, outside, outside / "deep"):
        folder.mkdir()
    canary = outside / "canary"
    canary.write_text("sing")
    (outside / "deep" / "second").write_text("sing too")
    for path in (canary, outside / "deep" / "second", outside / "deep", outside):
        os.utime(path, ns=(1_000_000_000_000_000_000, 1_000_000_000_000_000_000))
    before = tree_state(outside)
    yield Grounds(work, other, outside, canary)
    assert tree_state(outside) == before
    assert list(tmp_path.rglob(".weft-*")) == [], "something was left behind"


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as found:
        yield found
