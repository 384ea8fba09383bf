"""Names and links that leave the root are refused; those that stay inside are resolved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.attempt.path_checks import is_inside, list_entries
from weft.backends.attempt.safe_paths import (
    StagingProblem,
    make_directory,
    make_parents,
    open_inside,
    quote_name,
    split_name,
)

BAD = [
    "",
    " ",
    "\n",
    "\t\n",
    ".",
    "./",
    "/",
    "//",
    "/etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a/..",
    "a\0b",
    "\udcff",
]


@pytest.mark.parametrize("name", BAD)
def test_names_that_could_leave_the_root_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StagingProblem) as refused:
        split_name(name)
    assert quote_name(name) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not is_inside(tmp_path, name)


@pytest.mark.parametrize(
    "name", ["a", "a/b", "./a", "a//b/", "...", "a\nb", 'it\'s "$(x)"; `y`', "..a", "ä/ö"]
)
def test_unusual_names_are_accepted(tmp_path: Path, name: str) -> None:
    path = tmp_path.joinpath(*split_name(name))
    make_parents(tmp_path, name)
    path.write_text("here")
    fd = open_inside(tmp_path, name)
    assert os.read(fd, 9) == b"here"
    os.close(fd)


@given(st.text(alphabet="./a\\\0 ~-", max_size=12))
def test_accepted_name_stays_inside_the_root(name: str) -> None:
    root = Path("/root-of/this")
    try:
        path = root.joinpath(*split_name(name))
    except StagingProblem:
        return
    assert Path(os.path.normpath(path)).is_relative_to(root)
    assert os.path.normpath(path) != str(root)
    assert split_name("/".join(split_name(name))) == split_name(name)


def read(root: Path, name: str) -> bytes:
    fd = open_inside(root, name)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def test_internal_links_are_resolved(grounds) -> None:
    work = grounds.work
    (work / "d" / "e").mkdir(parents=True)
    (work / "d" / "e" / "f").write_text("found")
    (work / "up").symlink_to("d/e/../e/f")
    (work / "d" / "e" / "back").symlink_to("../../up")
    (work / "whole").symlink_to(work / "d" / "e" / "f")
    (work / "folder").symlink_to("d/./e")
    for name in ("d/e/f", "up", "d/e/back", "whole", "folder/f", "folder/back"):
        assert read(work, name) == b"found"
        assert is_inside(work, name)


@pytest.mark.parametrize(
    "target",
    ["../outside/canary", "d/../../outside/canary", "{outside}/canary", "{work}/../outside/canary", "{work}-not/x",
     "/proc/self/root{outside}/canary", "loop", "d", "", "."],
)  # fmt: skip
def test_external_and_dangling_links_are_refused(grounds, target: str) -> None:
    work = grounds.work
    (work / "d").mkdir()
    (work / "loop").symlink_to("loop2")
    (work / "loop2").symlink_to("loop")
    (work / "out").symlink_to(grounds.outside)
    text = target.format(outside=grounds.outside, work=work)
    names = ["out/canary", "out"]
    if text not in ("", "d"):
        (work / "link").symlink_to(text)
        names.append("link")
    for name in names:
        with pytest.raises(StagingProblem) as refused:
            os.close(open_inside(work, name))
        assert repr(name) in str(refused.value)
        assert not is_inside(work, name)


def test_message_names_the_target_of_a_link(grounds) -> None:
    (grounds.work / "result.dat").symlink_to(grounds.canary)
    with pytest.raises(StagingProblem, match=r"'result\.dat' cannot be used: a link leads out of .*canary"):
        open_inside(grounds.work, "result.dat")


def test_fifos_and_devices_are_not_opened(grounds) -> None:
    os.mkfifo(grounds.work / "fifo")
    (grounds.work / "linked").symlink_to("fifo")
    for name in ("fifo", "linked"):
        with pytest.raises(StagingProblem, match="a FIFO"):
            open_inside(grounds.work, name)


def test_root_with_a_link_in_its_path_is_refused(grounds, tmp_path: Path) -> None:
    (grounds.work / "f").write_text("x")
    (tmp_path / "alias").symlink_to(grounds.work)
    (tmp_path / "above").symlink_to(tmp_path)
    for root in (tmp_path / "alias", tmp_path / "above" / "work"):
        with pytest.raises(StagingProblem, match="cannot be opened"):
            open_inside(root, "f")
        with pytest.raises(StagingProblem, match="cannot be opened"):
            make_directory(root, "new")


def test_directories_are_not_created_through_links(grounds) -> None:
    (grounds.work / "out").symlink_to(grounds.outside)
    (grounds.work / "file").write_text("")
    for name in ("out/new", "out/new/newer", "file/new"):
        with pytest.raises(StagingProblem, match="cannot be opened"):
            make_directory(grounds.work, name)
    assert make_directory(grounds.work, "a/b/c") == grounds.work / "a" / "b" / "c"
    assert (make_directory(grounds.work, "a/b/c") / "..").is_dir()


def test_walk_yields_each_entry_once_without_following_links(grounds) -> None:
    for name in ("b/two", "b/one", "a", "c/d/e"):
        make_parents(grounds.work, name)
        (grounds.work / name).write_text(name)
    (grounds.work / "b" / "out").symlink_to(grounds.outside)
    found = ["/".join(entry.parts) for entry in list_entries(grounds.work)]
    assert sorted(found) == ["a", "b", "b/one", "b/out", "b/two", "c", "c/d", "c/d/e"]
    assert found.index("b") < found.index("b/one") < found.index("b/two")


def test_descriptors_are_closed(grounds) -> None:
    (grounds.work / "d").mkdir()
    (grounds.work / "d" / "f").write_text("x")
    (grounds.work / "out").symlink_to("../outside")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        assert read(grounds.work, "d/f") == b"x"
        for name in ("out/canary", "d/nothing", "d/f/g", "../x"):
            assert not is_inside(grounds.work, name)
        list_entries(grounds.work)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
