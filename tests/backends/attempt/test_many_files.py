"""Trees of many files need few system calls per file at any depth, and tolerate concurrent changes."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.backends.attempt.content import hash_content, read_pieces, transfer
from weft.backends.attempt.digests import DIGESTS, DigestCache
from weft.backends.attempt.external_files import publish
from weft.backends.attempt.safe_paths import DirectoryCursor, StagingProblem, open_child
from weft.backends.attempt.staging import clone_or_copy, collect_outputs, is_intact, make_read_only
from weft.backends.attempt.trees import open_tree_file, walk_tree

FILES = 200


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Return a function that counts the opened files since its last call."""
    count = 0
    opened = os.open

    def counting(*given: object, **more: object) -> int:
        nonlocal count
        count += 1
        return opened(*given, **more)  # type: ignore[arg-type]

    def since() -> int:
        nonlocal count
        found, count = count, 0
        return found

    monkeypatch.setattr(os, "open", counting)
    yield since
    monkeypatch.undo()


@pytest.mark.parametrize("depth", [1, 20])
def test_system_calls_per_file_do_not_depend_on_depth(
    grounds, depth: int, opens: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "/".join("d" * depth)
    (grounds.work / name).mkdir(parents=True)
    for number in range(FILES):
        (grounds.work / name / str(number)).write_text(f"file {number}")
    most = {}
    opens()
    make_read_only(grounds.work, name)
    most["protect"] = opens()
    time.sleep(0.03)  # the times of the files are out of doubt
    (file,) = collect_outputs(grounds.work, [f"{name}/"])
    most["collect"] = opens()
    assert is_intact(grounds.work, file)
    most["intact"] = opens()
    clone_or_copy(grounds.work, name, grounds.other, name, digest=file.digest)
    most["copy"] = opens()
    publish(grounds.work, file, "published", folder=grounds.other)
    most["publish"] = opens()
    monkeypatch.undo()
    # Calls per file: one open to look, one more to read, one more for a new file, two more to sync a published
    # one; directories are extra.
    per_file = {"collect": 2, "protect": 1, "intact": 0, "copy": 3, "publish": 5}
    for what, opened in most.items():
        assert opened <= per_file[what] * FILES + 12 * (depth + 2), what
    for root, of in ((grounds.other / name, "staged"), (grounds.other / "published", "published")):
        texts = {path.name: path.read_text() for path in root.iterdir()}
        assert texts == {str(number): f"file {number}" for number in range(FILES)}, of


@pytest.mark.parametrize("size", [0, 1, 5, 1 << 20, (1 << 20) - 1, (1 << 20) + 1, 3 << 20])
@pytest.mark.parametrize("surprise", [-3, -1, 0, 1, 1 << 20])
def test_whole_file_is_read_for_any_expected_size(tmp_path: Path, size: int, surprise: int) -> None:
    content = os.urandom(4096) * (size // 4096 + 1)
    (tmp_path / "f").write_bytes(content[:size])
    fd, target = os.open(tmp_path / "f", os.O_RDONLY), os.open(tmp_path / "g", os.O_RDWR | os.O_CREAT)
    # The status was read before the file changed.
    before = SimpleNamespace(st_size=max(0, size + surprise), st_blocks=1 << 20)
    assert b"".join(chunk for _, chunk, _ in read_pieces(fd, before)) == content[:size]
    digest = hashlib.blake2b(content[:size], digest_size=20).hexdigest()
    assert hash_content(fd, before) == digest
    assert transfer(fd, target, before, name="f", known=None)[1] == digest
    assert (tmp_path / "g").read_bytes() == content[:size]
    os.close(fd)
    os.close(target)


def test_growing_file_is_refused(grounds, monkeypatch: pytest.MonkeyPatch) -> None:
    (grounds.work / "d").mkdir()
    path = grounds.work / "d" / "f"
    path.write_text("one")
    read = os.pread

    def growing(*given: int) -> bytes:
        found = read(*given)
        with path.open("a") as file:
            file.write("more")
        return found

    monkeypatch.setattr(os, "pread", growing)
    with pytest.raises(StagingProblem, match="'d/f' cannot be read: it changed while it was read"):
        collect_outputs(grounds.work, ["d/"])


def test_file_with_a_cached_digest_is_not_opened_again(grounds, opens: Callable[[], int]) -> None:
    for name in ("d/a", "d/b"):
        (grounds.work / name).parent.mkdir(exist_ok=True)
        (grounds.work / name).write_text(name)
        os.utime(grounds.work / name, ns=(1_000, 1_000))
    time.sleep(0.03)  # the times are out of doubt
    digests = DigestCache()
    first, opened = digests.of_path(grounds.work, "d"), opens()
    assert digests.of_path(grounds.work, "d") == first
    assert opens() == opened - 2


def test_directory_cursor_refuses_external_links_and_leaves_no_directory_open(
    grounds, opens: Callable[[], int]
) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    opens()
    with DirectoryCursor(grounds.work, make=True) as held:
        for parts in (("a", "b"), ("a", "b"), ("a",), (), ("a", "b")):
            os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=held.at(parts)))
        (grounds.work / "out").symlink_to(grounds.outside)
        with pytest.raises(StagingProblem, match="'out' cannot be opened"):
            held.at(("out",))
        assert held.at(("a",)) >= 0
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert sorted(str(path.relative_to(grounds.work)) for path in grounds.work.rglob("x")) == [
        "a/b/x",
        "a/x",
        "x",
    ]


@pytest.mark.parametrize("what", ["link", "fifo", "directory", "nothing"])
def test_file_replaced_after_the_listing_is_refused(grounds, what: str) -> None:
    (grounds.work / "d").mkdir()
    path = grounds.work / "d" / "f"
    path.write_text("mine")
    for directory, leaf in walk_tree(grounds.work, ("d",)):
        path.unlink()
        if what == "link":
            path.symlink_to(grounds.canary)
        elif what == "fifo":
            os.mkfifo(path)
        elif what == "directory":
            path.mkdir()
        with pytest.raises(StagingProblem) as refused:
            open_tree_file(grounds.work, directory, leaf)
        assert "'d/f'" in str(refused.value)
        assert refused.value.number == (errno.ENOENT if what == "nothing" else errno.EAGAIN)


def test_target_of_an_internal_link_is_opened(grounds) -> None:
    (grounds.work / "real").write_text("mine")
    (grounds.work / "d").mkdir()
    (grounds.work / "d" / "f").symlink_to("../real")
    ((directory, leaf),) = walk_tree(grounds.work, ("d",))
    assert directory == -1
    found = open_tree_file(grounds.work, directory, leaf)
    assert os.fstat(found.fd).st_ino == (grounds.work / "real").stat().st_ino
    os.close(found.fd)


def test_file_repeatedly_replaced_by_a_link_is_not_followed(grounds) -> None:
    """A file alternates between itself, a link to a canary and a FIFO while its directory is staged."""
    folder = grounds.work / "d" / "e"
    folder.mkdir(parents=True)
    for name in ("canary", "before", "zlast"):
        (folder / name).write_text("mine")
    path, stop = folder / "canary", threading.Event()

    def swap() -> None:
        while not stop.is_set():
            with suppress(OSError):
                path.rename(folder / ".aside")
                path.symlink_to(grounds.canary)
                path.unlink()
                os.mkfifo(path)
                path.unlink()
            with suppress(OSError):
                (folder / ".aside").rename(path)

    swapper = threading.Thread(target=swap)
    swapper.start()
    came = 0
    try:
        for turn in range(400):
            with suppress(StagingProblem):
                (file,) = collect_outputs(grounds.work, ["d/"])
                came += 1
                make_read_only(grounds.work, file.name)
            with suppress(StagingProblem):
                clone_or_copy(grounds.work, "d", grounds.other, str(turn))
                came += 1
    finally:
        stop.set()
        swapper.join()
    assert came > 0
    found = [path for path in grounds.other.rglob("*") if not path.is_dir()]
    assert not [path for path in found if path.is_symlink() or not path.is_file()]
    assert {path.read_text() for path in found} <= {"mine"}


def test_open_child_opens_the_link_itself(grounds) -> None:
    (grounds.work / "out").symlink_to(grounds.canary)
    with DirectoryCursor(grounds.work) as held:
        found = open_child(held.at(()), ("out",))
    assert not found.is_file
    os.close(found.fd)
    with pytest.raises(StagingProblem):
        DIGESTS.of_path(grounds.work, "out")
