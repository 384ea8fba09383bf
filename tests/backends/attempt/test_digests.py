"""Digests depend only on the content, and are cached only when that is safe."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from weft.backends.attempt.digests import DIGESTS, DigestCache, is_settled
from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import collect_outputs

OLD_NS = 1_500_000_000_000_000_000


def plain(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def of(digests: DigestCache, path: Path) -> str:
    return digests.of_path(path.parent, path.name)


@pytest.mark.parametrize("content", [b"", b"x", b"weft" * 700_000])
def test_digest_depends_only_on_the_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    assert DIGESTS.of_path(tmp_path, "f") == plain(content)
    with (tmp_path / "f").open("rb") as file:
        file.seek(1)
        assert DIGESTS.of(file.fileno(), "f") == plain(content)
        assert file.tell() == 1


def write_old(path: Path, text: str) -> None:
    """Write a file whose times are out of doubt; a program can set one of them to any value."""
    path.write_text(text)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    time.sleep(0.03)


def test_unmodified_old_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, digests = tmp_path / "f", DigestCache()
    write_old(path, "one")
    first = of(digests, path)
    monkeypatch.setattr(os, "pread", None)
    assert of(digests, path) == first


@pytest.mark.parametrize("how", ["write", "rename", "move the directory"])
def test_file_with_changed_content_but_the_same_size_and_time_is_read_again(tmp_path: Path, how: str) -> None:
    (tmp_path / "d").mkdir()
    path, digests = tmp_path / "d" / "f", DigestCache()
    write_old(path, "one")
    assert of(digests, path) == plain(b"one")
    if how == "write":
        write_old(path, "two")
    elif how == "rename":
        write_old(tmp_path / "g", "two")
        (tmp_path / "g").rename(path)
    else:
        (tmp_path / "d").rename(tmp_path / "old")
        (tmp_path / "d").mkdir()
        write_old(path, "two")
    assert of(digests, path) == plain(b"two")


def test_modification_time_in_whole_seconds_is_reliable_after_two_seconds(tmp_path: Path) -> None:
    """A file system that stores whole seconds shows no second change within one of them."""
    path = tmp_path / "f"
    path.write_text("one")
    found = path.stat()
    second_ns = found.st_ctime_ns // 1_000_000_000 * 1_000_000_000
    coarse = SimpleNamespace(st_mtime_ns=second_ns, st_ctime_ns=second_ns)
    assert not is_settled(coarse, second_ns + 1_900_000_000)
    assert is_settled(coarse, second_ns + 2_000_000_000)
    fine = SimpleNamespace(st_mtime_ns=second_ns, st_ctime_ns=second_ns + 1)
    assert not is_settled(fine, second_ns + 10_000_000)
    assert is_settled(fine, second_ns + 20_000_001)
    assert not is_settled(fine, second_ns - 1_000_000), "a time in the future"


def test_change_time_of_a_large_output_is_recorded_after_hashing(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(8 << 20)
    (found,) = collect_outputs(tmp_path, ["f"], read_only=True)
    assert found.changed_ns == (tmp_path / "f").stat().st_ctime_ns


def test_recently_modified_file_is_read_again(tmp_path: Path) -> None:
    path, digests = tmp_path / "f", DigestCache()
    now_ns = time.time_ns()
    for text in ("one", "two"):
        path.write_text(text)
        os.utime(path, ns=(now_ns, now_ns))
        assert of(digests, path) == plain(text.encode())


def test_digest_cache_has_a_size_limit(tmp_path: Path) -> None:
    digests = DigestCache(most=2)
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        write_old(path, path.name)
        of(digests, path)
    assert [digests.has(path.stat()) for path in paths] == [False, True, True]


def test_file_that_grows_during_the_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 30_000_000)
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"y")
                time.sleep(0.0005)

    grower = threading.Thread(target=grow)
    grower.start()
    try:
        with pytest.raises(StagingProblem, match="it changed while it was read"):
            DIGESTS.of_path(path.parent, path.name)
    finally:
        stop.set()
        grower.join()


def tree(root: Path, *entries: tuple[str, str | None]) -> str:
    root.mkdir()
    for name, content in entries:
        path = root / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_text(content)
    return DIGESTS.of_path(root, "t")


def test_tree_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    entries = [("a", "1"), ("b/c", "2"), ("b/d", None)]
    first = tree(tmp_path / "one", *entries)
    assert tree(tmp_path / "two", *reversed(entries)) == first
    others = [
        [("a", "2"), ("b/c", "1"), ("b/d", None)],
        [("a", "1"), ("b/c", "2"), ("b/d", "")],
        [("a", "1"), ("b/c", "2")],
        [("a", "1"), ("b/c", "2"), ("d", None)],
        [("a", "1"), ("b/c", "2"), ("b/d", None), ("e", "")],
    ]
    digests = {tree(tmp_path / str(number), *other) for number, other in enumerate(others)}
    assert len(digests | {first}) == len(others) + 1
