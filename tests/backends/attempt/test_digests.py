"""Digests depend only on the content, and are cached only when that is safe."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import DIGESTS, DigestCache

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


def test_unmodified_old_file_is_not_read_again(tmp_path: Path) -> None:
    path, digests = tmp_path / "f", DigestCache()
    path.write_text("one")
    os.utime(path, ns=(OLD_NS, OLD_NS))
    first = of(digests, path)
    path.write_text("two")
    os.utime(path, ns=(OLD_NS, OLD_NS))
    assert of(digests, path) == first, "same inode, size and time: it is remembered"
    os.utime(path, ns=(OLD_NS, OLD_NS + 1))
    assert of(digests, path) == plain(b"two")


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
        path.write_text(path.name)
        os.utime(path, ns=(OLD_NS, OLD_NS))
        of(digests, path)
    for path in paths:
        path.write_text("z")
        os.utime(path, ns=(OLD_NS, OLD_NS))
    assert [of(digests, path) == plain(b"z") for path in reversed(paths)] == [False, False, True]


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
