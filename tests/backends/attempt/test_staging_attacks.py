"""Staging never changes a file outside the directory of a task, whatever the task leaves in it.

The canaries of ``grounds`` are checked after every test: content, time, mode, existence.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backends.attempt.path_checks import is_inside
from weft.backends.attempt.checkpoints import keep_checkpoint, restore_checkpoint
from weft.backends.attempt.digests import DIGESTS
from weft.backends.attempt.external_files import publish
from weft.backends.attempt.safe_paths import StagingProblem, make_directory
from weft.backends.attempt.staging import (
    clone_or_copy,
    collect_outputs,
    is_intact,
    make_read_only,
)
from weft.backends.attempt.trees import remove_tree
from weft.backends.file_record import FileRecord

NAME = "out"


def link_to_file(work: Path, outside: Path) -> None:
    (work / NAME).symlink_to(outside / "canary")


def link_to_directory(work: Path, outside: Path) -> None:
    (work / NAME).symlink_to(outside)


def relative_link(work: Path, outside: Path) -> None:
    (work / NAME).symlink_to(os.path.relpath(outside / "canary", work))


def chain_of_links(work: Path, outside: Path) -> None:
    (work / "one").symlink_to("two")
    (work / "two").symlink_to(outside)
    (work / NAME).symlink_to("one/canary")


def link_in_directory(work: Path, outside: Path) -> None:
    (work / NAME / "deep").mkdir(parents=True)
    (work / NAME / "deep" / "x").symlink_to(outside / "canary")


def link_to_directory_in_directory(work: Path, outside: Path) -> None:
    (work / NAME).mkdir()
    (work / NAME / "deep").symlink_to(outside / "deep")


def link_up(work: Path, _: Path) -> None:
    (work / NAME).mkdir()
    (work / NAME / "up").symlink_to("../..")


def link_to_proc(work: Path, _: Path) -> None:
    (work / NAME).symlink_to("/proc/self/cwd")


def link_to_itself(work: Path, _: Path) -> None:
    (work / NAME).symlink_to(NAME)


def fifo(work: Path, _: Path) -> None:
    os.mkfifo(work / NAME)


def fifo_in_directory(work: Path, _: Path) -> None:
    (work / NAME).mkdir()
    os.mkfifo(work / NAME / "fifo")


def listening_socket(work: Path, _: Path) -> None:
    here = os.open(work, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{here}/{NAME}")
    os.close(here)


def device(work: Path, _: Path) -> None:
    try:
        os.mknod(work / NAME, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        (work / NAME).symlink_to("/dev/zero")


def nest(work: Path, _: Path) -> None:
    fd = os.open(work, os.O_RDONLY)
    for name in [NAME, *["d"] * 120]:
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


EVIL: list[Callable[[Path, Path], None]] = [
    link_to_file, link_to_directory, relative_link, chain_of_links, link_in_directory, link_to_directory_in_directory,
    link_up, link_to_proc, link_to_itself, fifo, fifo_in_directory, listening_socket, device, nest,
]  # fmt: skip


@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: evil.__name__)
def test_invalid_entry_in_place_of_an_output_is_refused_and_removed(grounds, evil, tmp_path: Path) -> None:
    evil(grounds.work, grounds.outside)
    file = FileRecord(name=NAME, size_bytes=4, digest="0" * 40)
    attempts: list[Callable[[], object]] = [
        lambda: collect_outputs(grounds.work, [NAME]),
        lambda: collect_outputs(grounds.work, ["o*"]),
        lambda: make_read_only(grounds.work, file.name),
        lambda: DIGESTS.of_path(grounds.work, NAME),
        lambda: clone_or_copy(grounds.work, NAME, grounds.other, "x"),
        lambda: publish(grounds.work, file, "x", folder=grounds.other),
        lambda: publish(grounds.work, file, "memory://attack/x", folder=grounds.other),
        lambda: keep_checkpoint(grounds.work, [NAME], tmp_path / "kept"),
    ]
    for attempt in attempts:
        with pytest.raises(StagingProblem) as refused:
            attempt()
        assert NAME in str(refused.value)
        assert "\n" not in str(refused.value)
    assert not is_intact(grounds.work, file, thorough=True)
    assert list(grounds.other.iterdir()) == []
    remove_tree(grounds.work.parent, grounds.work.name)
    assert not grounds.work.exists()


@pytest.mark.parametrize("evil", EVIL, ids=lambda evil: evil.__name__)
def test_staging_does_not_write_through_a_link_or_other_entry_at_the_target(
    grounds, evil, tmp_path: Path
) -> None:
    (grounds.other / "f").write_text("mine")
    (grounds.other / "d" / "deep").mkdir(parents=True)
    (grounds.other / "d" / "deep" / "x").write_text("mine")
    (grounds.other / "d" / "canary").write_text("mine")
    keep_checkpoint(grounds.other, ["f"], tmp_path / "kept")
    goals = [
        (source, f"{NAME}{below}") for source in "fd" for below in ("", "/canary", "/deep", "/deep/x", "/a/b")
    ]
    for turn, (source, name) in enumerate(goals):
        # A new directory per case, since a staged file may replace a link.
        work = grounds.work / str(turn)
        work.mkdir()
        evil(work, grounds.outside)
        with suppress(StagingProblem):
            clone_or_copy(grounds.other, source, work, name)
        with suppress(StagingProblem):
            make_directory(work, name)
        with suppress(StagingProblem):
            restore_checkpoint(tmp_path / "kept", work)
        if evil is nest:
            break
        remove_tree(grounds.work, str(turn))


PIECES = [*"./ab*?[]\n'\"$`;\\ \0\udc80", "..", "/../", "outside", "canary"]
NAMES = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, root_first=st.booleans())
def test_names_that_refer_to_files_outside_the_root_are_refused_in_every_staging_step(
    grounds, name: str, root_first: bool
) -> None:
    if root_first:
        name = f"../outside/{name}"
    (grounds.work / "a").write_text("x")
    made = FileRecord(name=name, size_bytes=1, digest="0" * 40)
    attempts: list[Callable[[], object]] = [
        lambda: collect_outputs(grounds.work, [name]),
        lambda: make_read_only(grounds.work, made.name),
        lambda: clone_or_copy(grounds.work, "a", grounds.work, name),
        lambda: clone_or_copy(grounds.work, name, grounds.other, "x"),
        lambda: publish(grounds.work, made, "x", folder=grounds.other),
        lambda: remove_tree(grounds.work, name),
    ]
    for attempt in attempts:
        with suppress(StagingProblem):
            attempt()
    if root_first:
        assert not is_inside(grounds.work, name)


def test_source_repeatedly_replaced_by_a_link_is_not_followed(grounds) -> None:
    """A file and a directory are replaced by links to the canaries while they are measured and staged."""
    stop = threading.Event()
    work = grounds.work
    for name in ("f", "d/canary"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("mine")

    def swap() -> None:
        while not stop.is_set():
            with suppress(OSError):
                (work / "f").rename(work / "f-real")
                (work / "f").symlink_to(grounds.canary)
                (work / "d").rename(work / "d-real")
                (work / "d").symlink_to(grounds.outside)
            with suppress(OSError):
                (work / "f-real").rename(work / "f")
                (work / "d").unlink()
                (work / "d-real").rename(work / "d")

    swapper = threading.Thread(target=swap)
    swapper.start()
    came = 0
    try:
        for turn in range(600):
            name = ("f", "d", "d/canary")[turn % 3]
            with suppress(StagingProblem):
                clone_or_copy(work, name, grounds.other, str(turn))
                came += 1
            with suppress(StagingProblem):
                make_read_only(work, name)
    finally:
        stop.set()
        swapper.join()
    assert came > 0
    texts = {path.read_text() for path in grounds.other.rglob("*") if path.is_file()}
    assert texts == {"mine"}
    assert not [path for path in grounds.other.rglob("*") if path.is_symlink()]


def test_external_hard_links_are_not_changed(grounds) -> None:
    os.link(grounds.canary, grounds.work / "hard")
    (file,) = collect_outputs(grounds.work, ["hard"])
    make_read_only(grounds.work, file.name)
    publish(grounds.work, file, "hard", folder=grounds.other)
    (grounds.other / "hard").write_text("edited")
    remove_tree(grounds.work, "hard")
    assert grounds.canary.stat().st_nlink == 1


def test_output_with_ten_thousand_files_is_staged(grounds) -> None:
    folder = grounds.work / "many"
    folder.mkdir()
    (grounds.work / "one").write_text("x")
    (grounds.work / "one").chmod(0o444)
    for number in range(10_000):
        os.link(grounds.work / "one", folder / f"line\n{number}")
    (file,) = collect_outputs(grounds.work, ["many/"])
    make_read_only(grounds.work, file.name)
    assert file.size_bytes == 10_000
    assert clone_or_copy(grounds.work, "many", grounds.other, "many", digest=file.digest) in (0, 10_000)
    assert len(list((grounds.other / "many").iterdir())) == 10_000
    remove_tree(grounds.other, "many")
