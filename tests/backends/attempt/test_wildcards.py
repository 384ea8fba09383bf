"""Wildcards match as in a shell; Python's glob is the reference."""

from __future__ import annotations

import os
from glob import glob
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.api.run import run
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.trees import match_names

NAMES = [
    "a",
    "b.dat",
    "c.dat",
    ".hidden.dat",
    "x/a.dat",
    "x/y/b.dat",
    "x/y/z/c.dat",
    "[1]",
    "x/.h/d.dat",
    "l*t",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wild")
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


PIECES = st.sampled_from(["*", "?", "*.dat", "x", "y", "a", "[ab]*", "b.dat", "[!a].dat", "l*", "??*", ".*"])


@given(pieces=st.lists(PIECES, min_size=1, max_size=4), anywhere=st.integers(-1, 3))
def test_matches_equal_those_of_glob(folder: Path, pieces: list[str], anywhere: int) -> None:
    pieces = [piece for piece in pieces if piece != ".*"]
    if 0 <= anywhere < len(pieces):
        pieces.insert(anywhere, "**")
    pattern = "/".join(pieces)
    if not pieces or not ("*" in pattern or "?" in pattern):
        return
    found = glob(pattern, root_dir=folder, recursive=True)  # noqa: PTH207 - Path.glob has other rules
    expected = {os.path.normpath(name) for name in found}
    assert match_names(folder, pattern) == sorted(expected)


def test_names_without_wildcards_are_literal(folder: Path) -> None:
    assert match_names(folder, "[1]") == ["[1]"]
    assert match_names(folder, "[a]") == []
    assert match_names(folder, ".hidden.dat") == [".hidden.dat"]
    assert match_names(folder, "./x//y/") == ["x/y"]
    assert match_names(folder, "a/b") == []


def test_wildcard_matches_a_directory_instead_of_the_files_in_it(folder: Path) -> None:
    assert match_names(folder, "x/**") == ["x"]
    assert match_names(folder, "**") == ["[1]", "a", "b.dat", "c.dat", "l*t", "x"]


def test_external_links_are_refused_and_not_walked(grounds) -> None:
    (grounds.work / "out").symlink_to(grounds.outside)
    for pattern in ("*", "*/canary", "out/*", "out/**/second", "**"):
        with pytest.raises(StagingProblem, match="leads out"):
            match_names(grounds.work, pattern)
    assert match_names(grounds.work, "**/canary") == []


_MADE = ("*.dat", "[ab].dat", "a.dat", "b.dat")
_FLOW = """\
weft: 1
name: flow
tasks:
  make: {command: "mkdir d; cp s/* d/", inputs: ["s/*.dat"], outputs: ["d/*.dat"]}
  more: {command: "mkdir d; echo c > d/c.dat", outputs: [d/c.dat]}
  all: {command: "ls d > all", inputs: ["d/*.dat"], outputs: [all]}
  some: {command: "ls d > some", inputs: ["d/[ab].dat"], outputs: [some]}
  folder: {command: "ls s > folder", inputs: ["s/*"], outputs: [folder]}
  kept: {command: "cp s/* .", inputs: ["s/?.dat"], outputs: ["*.dat"]}
"""


def test_file_named_like_a_wildcard_pattern_does_not_hide_the_files_that_match_it(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    for name in _MADE:
        (tmp_path / "s" / name).write_text(name)
    (tmp_path / "elsewhere").write_text("linked")
    (tmp_path / "s" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "w.yaml").write_text(_FLOW)
    assert run(tmp_path / "w.yaml", project=tmp_path).completed
    assert (tmp_path / "all").read_text().split() == sorted((*_MADE, "c.dat"))
    assert (tmp_path / "some").read_text().split() == ["[ab].dat", "a.dat", "b.dat"]
    assert (tmp_path / "folder").read_text().split() == [*_MADE, "linked"]
    assert sorted(path.name for path in tmp_path.glob("*.dat")) == ["*.dat", "a.dat", "b.dat"]


def test_error_about_a_wildcard_that_matches_no_file_names_the_wildcard(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("weft: 1\ntasks: {a: {command: ls, inputs: ['s/*.dat']}}\n")
    done = run(tmp_path / "w.yaml", project=tmp_path)
    assert not done.completed
    assert "'s/*.dat' cannot be fetched: no file in" in str(done.report.executed.failures)
