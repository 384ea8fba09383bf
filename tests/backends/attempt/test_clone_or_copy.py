"""Staging by clone or verified copy, without visible intermediate states."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from weft.backends.attempt.checkpoints import keep_checkpoint
from weft.backends.attempt.content import require_space
from weft.backends.attempt.digests import DIGESTS
from weft.backends.attempt.external_files import publish
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import clone_or_copy, collect_outputs, is_intact

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def elsewhere(grounds) -> Iterator[Path]:
    """A directory on another file system."""
    if not SHARED_MEMORY.is_dir() or SHARED_MEMORY.stat().st_dev == grounds.work.stat().st_dev:
        pytest.skip("no second file system")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield Path(folder)


@pytest.mark.parametrize("name", ["f", "d"])
def test_change_of_a_staged_file_does_not_change_its_source(grounds, name: str) -> None:
    (grounds.work / "d").mkdir()
    for path in (grounds.work / "f", grounds.work / "d" / "f"):
        path.write_text("text")
    for _ in range(2):
        assert clone_or_copy(grounds.work, name, grounds.other, f"in/{name}") in (0, 4), "0: a clone"
        staged = grounds.other / "in" / name / ("f" if name == "d" else "")
        with staged.open("a") as file:
            file.write("more")
        staged.chmod(0o600)
    for path in (grounds.work / "f", grounds.work / "d" / "f"):
        assert path.read_text() == "text"
        assert (path.stat().st_nlink, path.stat().st_mode & 0o777) == (1, 0o644)


def reflink_folder() -> Path | None:
    """Return a folder on a file system that can clone files."""
    candidates = [Path(line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()]
    for folder in (Path(tempfile.gettempdir()), *candidates):
        with suppress(OSError), tempfile.TemporaryDirectory(dir=folder) as made:
            (Path(made) / "a").write_bytes(b"x" * 8192)
            with (Path(made) / "a").open("rb") as one, (Path(made) / "b").open("wb") as two:
                fcntl.ioctl(two.fileno(), 0x40049409, one.fileno())
            return folder
    return None


def test_large_file_is_cloned_if_the_file_system_supports_clones() -> None:
    if (folder := reflink_folder()) is None:
        pytest.skip("no file system here can clone files")
    with tempfile.TemporaryDirectory(dir=folder) as made:
        root = Path(os.path.realpath(made))
        (root / "f").write_bytes(os.urandom(20 << 20))
        (file,) = collect_outputs(root, ["f"])
        assert clone_or_copy(root, "f", root, "g", digest=file.digest) == 0
        assert (root / "g").read_bytes() == (root / "f").read_bytes()
        (root / "g").write_text("changed")
        assert is_intact(root, file, thorough=True)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("how", ["stage", "publish", "checkpoint"])
def test_sparse_file_stays_sparse(grounds, how: str, known: bool) -> None:
    """Holes at the start, in the middle and at the end; a copy in the kernel needs a known digest."""
    size = 300 << 20
    with (grounds.work / "f").open("wb") as file:
        for at in (1 << 20, 200 << 20):
            file.seek(at)
            file.write(b"data" * 2000)
        file.truncate(size)
    assert (grounds.work / "f").stat().st_blocks * 512 < 1 << 20, "this file system has no sparse files"
    (made,) = collect_outputs(grounds.work, ["f"])
    if not known:
        os.utime(grounds.work / "f")
    if how == "stage":
        clone_or_copy(grounds.work, "f", grounds.other, "f", digest=made.digest)
    elif how == "publish":
        publish(grounds.work, made, "f", folder=grounds.other)
    else:
        keep_checkpoint(grounds.work, ["f"], grounds.other)
    (copy,) = grounds.other.rglob("f")
    assert copy.stat().st_size == size
    assert copy.stat().st_blocks * 512 < 1 << 20
    assert DIGESTS.of_path(copy.parent, "f") == made.digest
    with copy.open("rb") as file:
        file.seek(200 << 20)
        assert file.read(4) == b"data"


def test_copy_that_would_fill_the_disk_is_refused(grounds) -> None:
    disk = os.statvfs(grounds.other)
    with (grounds.other / "g").open("wb") as target, pytest.raises(StagingProblem) as full:
        require_space(target.fileno(), disk.f_bavail * disk.f_frsize, "f")
    assert full.value.number == errno.ENOSPC
    assert "'f' cannot be written: it needs" in str(full.value)
    (grounds.other / "g").unlink()


def test_file_is_copied_to_another_file_system(grounds, elsewhere: Path) -> None:
    source = grounds.work / "f"
    source.write_text("text")
    source.chmod(0o555)
    os.utime(source, ns=(5, 1_234_567_890_123_456_789))
    (file,) = collect_outputs(grounds.work, ["f"])
    for _ in range(2):  # the second time replaces the first copy
        assert clone_or_copy(grounds.work, "f", elsewhere, "d/f", digest=file.digest) == 4
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
        clone_or_copy(grounds.work, name, grounds.other, name, digest=file.digest)
    assert list(grounds.other.iterdir()) == []


def test_copied_trees_keep_their_times(grounds) -> None:
    for name in ("d/a", "d/e/b", "d/e/.hidden"):
        (grounds.work / name).parent.mkdir(parents=True, exist_ok=True)
        (grounds.work / name).write_text(name)
    (grounds.work / "d" / "empty").mkdir()
    for name in ("d/e", "d/empty", "d"):
        os.utime(grounds.work / name, ns=(1, 1))
    (made,) = collect_outputs(grounds.work, ["d"])
    assert clone_or_copy(grounds.work, "d", grounds.other, "d", digest=made.digest) in (0, 3 + 5 + 11)
    assert is_intact(grounds.other, made, thorough=True)


def test_copied_directory_is_merged_into_an_existing_one(grounds) -> None:
    for root, name, text in ((grounds.work, "d/a", "new"), (grounds.work, "d/e/b", "new"), (grounds.other, "d/a", "old"),
                             (grounds.other, "d/mine", "kept"), (grounds.other, "d/e/mine", "kept")):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    clone_or_copy(grounds.work, "d", grounds.other, "d")
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
    with pytest.raises(StagingProblem, match="Is a directory"):
        clone_or_copy(grounds.work, "f", grounds.other, "d")
    with pytest.raises(StagingProblem, match="Not a directory"):
        clone_or_copy(grounds.work, "d", grounds.other, "f")
    assert (grounds.other / "f").read_text() == "mine"


def test_nothing_is_written_through_a_link(grounds) -> None:
    (grounds.work / "f").write_text("text")
    (grounds.other / "out").symlink_to(grounds.outside)
    (grounds.other / "canary").symlink_to(grounds.canary)
    with pytest.raises(StagingProblem, match="'out' cannot be opened"):
        clone_or_copy(grounds.work, "f", grounds.other, "out/canary")
    clone_or_copy(grounds.work, "f", grounds.other, "canary")
    assert (grounds.other / "canary").read_text() == "text"


def test_external_links_in_a_source_are_refused(grounds) -> None:
    work = grounds.work
    os.mkfifo(work / "fifo")
    (work / "out").symlink_to(grounds.canary)
    (work / "d").mkdir()
    (work / "d" / "out").symlink_to(grounds.outside)
    (work / "e").mkdir()
    os.mkfifo(work / "e" / "fifo")
    for name in ("fifo", "out", "d", "e", "d/out/canary", "../outside/canary", str(grounds.canary)):
        with pytest.raises(StagingProblem):
            clone_or_copy(work, name, grounds.other, "x")
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
            clone_or_copy(grounds.work, "f", grounds.other, "f")
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
        clone_or_copy(grounds.work, f"f{turn % 2}", grounds.other, "f")
    stop.set()
    looker.join()
    assert seen
    assert seen <= {(0, sizes[0]), (1, sizes[1])}
