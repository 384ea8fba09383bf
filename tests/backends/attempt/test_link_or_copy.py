"""Staging by link or verified copy, without visible intermediate states."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import collect_outputs, is_intact, link_or_copy

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def elsewhere(grounds) -> Iterator[Path]:
    """A directory on another file system."""
    if not SHARED_MEMORY.is_dir() or SHARED_MEMORY.stat().st_dev == grounds.work.stat().st_dev:
        pytest.skip("no second file system")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield Path(folder)


def test_file_is_linked_within_a_file_system(grounds) -> None:
    (grounds.work / "f").write_text("text")
    assert link_or_copy(grounds.work, "f", grounds.other, "in/here") == 0
    assert (grounds.other / "in" / "here").samefile(grounds.work / "f")
    assert link_or_copy(grounds.work, "f", grounds.other, "in/here") == 0, "twice is once"
    (grounds.other / "taken").write_text("old")
    link_or_copy(grounds.work, "f", grounds.other, "taken")
    assert (grounds.other / "taken").samefile(grounds.work / "f")


def test_file_is_copied_to_another_file_system(grounds, elsewhere: Path) -> None:
    source = grounds.work / "f"
    source.write_text("text")
    source.chmod(0o555)
    os.utime(source, ns=(5, 1_234_567_890_123_456_789))
    (file,) = collect_outputs(grounds.work, ["f"])
    for _ in range(2):  # the second time replaces the first copy
        assert link_or_copy(grounds.work, "f", elsewhere, "d/f", digest=file.digest) == 4
    status = (elsewhere / "d" / "f").stat()
    assert stat.S_IMODE(status.st_mode) == 0o555
    assert status.st_mtime_ns == 1_234_567_890_123_456_789
    assert is_intact(elsewhere / "d", file, thorough=True)


@pytest.mark.parametrize("name", ["f", "d"])
def test_copy_with_a_wrong_checksum_is_not_visible(grounds, name: str) -> None:
    (grounds.work / "f").write_text("text")
    (grounds.work / "d").mkdir()
    (grounds.work / "d" / "g").write_text("text")
    (file,) = collect_outputs(grounds.work, [name])
    (grounds.work / "f").write_text("TEXT")
    (grounds.work / "d" / "g").write_text("TEXT")
    with pytest.raises(StagingProblem, match="checksum"):
        link_or_copy(grounds.work, name, grounds.other, name, how="copy", digest=file.digest)
    assert list(grounds.other.iterdir()) == []


def test_trees_are_linked_and_keep_their_times(grounds) -> None:
    for name in ("d/a", "d/e/b", "d/e/.hidden"):
        (grounds.work / name).parent.mkdir(parents=True, exist_ok=True)
        (grounds.work / name).write_text(name)
    (grounds.work / "d" / "empty").mkdir()
    for name in ("d/e", "d/empty", "d"):
        os.utime(grounds.work / name, ns=(1, 1))
    (made,) = collect_outputs(grounds.work, ["d"])
    assert link_or_copy(grounds.work, "d", grounds.other, "d", digest=made.digest) == 0
    assert (grounds.other / "d" / "e" / "b").samefile(grounds.work / "d" / "e" / "b")
    assert is_intact(grounds.other, made, thorough=True)
    assert (
        link_or_copy(grounds.work, "d", grounds.other, "copy", how="copy", digest=made.digest) == 3 + 5 + 11
    )
    assert not (grounds.other / "copy" / "a").samefile(grounds.work / "d" / "a")


def test_existing_directory_is_merged(grounds) -> None:
    for root, name, text in ((grounds.work, "d/a", "new"), (grounds.work, "d/e/b", "new"), (grounds.other, "d/a", "old"),
                             (grounds.other, "d/mine", "kept"), (grounds.other, "d/e/mine", "kept")):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    link_or_copy(grounds.work, "d", grounds.other, "d", how="copy")
    found = {
        str(path.relative_to(grounds.other)): path.read_text()
        for path in grounds.other.rglob("*")
        if path.is_file()
    }
    assert found == {"d/a": "new", "d/e/b": "new", "d/mine": "kept", "d/e/mine": "kept"}


def test_file_and_directory_do_not_replace_each_other(grounds) -> None:
    (grounds.work / "f").write_text("text")
    (grounds.work / "d").mkdir()
    (grounds.work / "d" / "f").write_text("text")
    (grounds.other / "d").mkdir()
    (grounds.other / "f").write_text("mine")
    for how in ("link", "copy"):
        with pytest.raises(StagingProblem, match="Is a directory"):
            link_or_copy(grounds.work, "f", grounds.other, "d", how=how)
        with pytest.raises(StagingProblem, match="Not a directory"):
            link_or_copy(grounds.work, "d", grounds.other, "f", how=how)
    assert (grounds.other / "f").read_text() == "mine"


def test_nothing_is_written_through_a_link(grounds) -> None:
    (grounds.work / "f").write_text("text")
    (grounds.other / "out").symlink_to(grounds.outside)
    (grounds.other / "canary").symlink_to(grounds.canary)
    for how in ("link", "copy"):
        with pytest.raises(StagingProblem, match="'out' cannot be opened"):
            link_or_copy(grounds.work, "f", grounds.other, "out/canary", how=how)
        link_or_copy(grounds.work, "f", grounds.other, "canary", how=how)
        assert (grounds.other / "canary").read_text() == "text"


@pytest.mark.parametrize("how", ["link", "copy"])
def test_external_links_in_a_source_are_refused(grounds, how: str) -> None:
    work = grounds.work
    os.mkfifo(work / "fifo")
    (work / "out").symlink_to(grounds.canary)
    (work / "d").mkdir()
    (work / "d" / "out").symlink_to(grounds.outside)
    (work / "e").mkdir()
    os.mkfifo(work / "e" / "fifo")
    for name in ("fifo", "out", "d", "e", "d/out/canary", "../outside/canary", str(grounds.canary)):
        with pytest.raises(StagingProblem):
            link_or_copy(work, name, grounds.other, "x", how=how)
    assert list(grounds.other.iterdir()) == []


def test_full_disk_is_reported_and_leaves_no_files(grounds) -> None:
    resource = pytest.importorskip("resource")
    (grounds.work / "f").write_bytes(b"x" * 100_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal = pytest.importorskip("signal")
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StagingProblem) as full:
            link_or_copy(grounds.work, "f", grounds.other, "f", how="copy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert full.value.number == errno.EFBIG
    assert "'f'" in str(full.value)
    assert list(grounds.other.iterdir()) == []


def test_readers_see_complete_files_only(grounds) -> None:
    sizes = (3_000_000, 2_000_000)
    for number, size in enumerate(sizes):
        (grounds.work / f"f{number}").write_bytes(bytes([number]) * size)
    stop = threading.Event()
    seen: set[tuple[int, int]] = set()

    def look() -> None:
        while not stop.is_set():
            if (grounds.other / "f").exists():
                content = (grounds.other / "f").read_bytes()
                seen.add((content[0], len(content)))

    looker = threading.Thread(target=look)
    looker.start()
    for turn in range(30):
        link_or_copy(grounds.work, f"f{turn % 2}", grounds.other, "f", how="copy")
    stop.set()
    looker.join()
    assert seen
    assert seen <= {(0, sizes[0]), (1, sizes[1])}
