"""The input cache of a machine fetches a source once, and again after a change."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backends.attempt.web_server import Site
from weft.backends.attempt.content import Interrupted, interruptible
from weft.backends.attempt.external_files import InputCache, InputSource
from weft.backends.attempt.safe_paths import StagingProblem


def content(cache: Path) -> list[Path]:
    return sorted((cache / "content").iterdir())


def test_concurrent_requests_fetch_a_source_once(grounds, site: Site) -> None:
    site.files["/pdb.gz"] = gzip.compress(b"atoms" * 1000)
    site.etags["/pdb.gz"] = '"1"'
    site.delay_s = 0.2
    cache = InputCache(grounds.other / "cache")
    source = InputSource(f"{site.url}/pdb.gz", grounds.other, compressed=True)

    def bring(number: int) -> int:
        brought = cache.stage(source, grounds.work, f"{number}/pdb.gz")
        assert brought.file.name == f"{number}/pdb"
        return brought.copied_bytes

    with ThreadPoolExecutor(8) as pool:
        moved = list(pool.map(bring, range(8)))
    assert site.requested == ["/pdb.gz"]
    copied = min(moved)
    assert copied in (0, 5000), "0: a clone"
    assert sorted(moved) == [copied] * 7 + [copied + len(site.files["/pdb.gz"])]
    (kept,) = content(grounds.other / "cache")
    assert kept.read_bytes() == b"atoms" * 1000
    assert all((grounds.work / str(number) / "pdb").read_bytes() == b"atoms" * 1000 for number in range(8))
    assert kept.stat().st_nlink == 1
    assert kept.stat().st_mode & 0o222 == 0


def test_cancelled_fetch_does_not_interrupt_other_fetches_of_the_same_source(grounds, site: Site) -> None:
    site.files["/f"], site.etags["/f"] = b"content", '"1"'
    site.delay_s = 0.5
    cache = InputCache(grounds.other / "cache")
    source = InputSource(f"{site.url}/f", grounds.other)

    def bring_cancelled() -> None:
        with pytest.raises(Interrupted), interruptible(lambda: bool(site.requested)):
            cache.stage(source, grounds.work, "cancelled")

    with ThreadPoolExecutor(2) as pool:
        cancelled = pool.submit(bring_cancelled)
        while not cache._pending and not cancelled.done():
            time.sleep(0.001)
        other = pool.submit(cache.stage, source, grounds.work, "f")
        cancelled.result()
        other.result()
    assert (grounds.work / "f").read_bytes() == b"content"


def test_other_process_uses_the_cache_and_detects_changes(grounds, site: Site) -> None:
    site.files["/f"], site.etags["/f"] = b"one", '"1"'
    source = InputSource(f"{site.url}/f", grounds.other)
    for _ in range(2):
        InputCache(grounds.other / "cache").stage(source, grounds.work, "f")
    assert site.requested == ["/f"]
    site.files["/f"], site.etags["/f"] = b"two", '"2"'
    InputCache(grounds.other / "cache").stage(source, grounds.work, "f")
    assert (grounds.work / "f").read_bytes() == b"two"
    assert site.requested == ["/f", "/f"]


def test_source_without_validator_is_cached_per_process(grounds, site: Site) -> None:
    site.files["/f"] = b"one"
    source = InputSource(f"{site.url}/f", grounds.other)
    cache = InputCache(grounds.other / "cache")
    cache.stage(source, grounds.work, "a")
    cache.stage(source, grounds.work, "b")
    assert site.requested == ["/f"]
    site.files["/f"] = b"two"
    InputCache(grounds.other / "cache").stage(source, grounds.work, "c")
    assert (grounds.work / "c").read_bytes() == b"two"


def test_local_files_are_copied_once_and_stored_by_content(grounds) -> None:
    cache = InputCache(grounds.other / "cache")
    for name, time_ns in (("one", 1_000), ("two", 2_000)):
        (grounds.other / name).write_text("same")
        os.utime(grounds.other / name, ns=(time_ns, time_ns))
    moved = [
        cache.stage(InputSource(name, grounds.other), grounds.work, f"{turn}/{name}").copied_bytes
        for turn in range(3)
        for name in ("one", "two")
    ]
    copied = min(moved)
    assert copied in (0, 4), "0: a clone"
    assert moved == [2 * copied, 2 * copied, *[copied] * 4]
    assert len(content(grounds.other / "cache")) == 1
    (grounds.other / "one").write_text("else")
    cache.stage(InputSource("one", grounds.other), grounds.work, "new")
    assert (grounds.work / "new").read_text() == "else"
    assert (grounds.work / "0" / "one").read_text() == "same"


def test_directories_are_cached(grounds) -> None:
    (grounds.other / "d" / "e").mkdir(parents=True)
    (grounds.other / "d" / "e" / "f").write_text("text")
    time.sleep(0.03)  # the times are out of doubt
    for turn in range(2):
        InputCache(grounds.other / "cache").stage(InputSource("d", grounds.other), grounds.work, f"{turn}/d")
    assert [(grounds.work / f"{turn}/d/e/f").read_text() for turn in range(2)] == ["text", "text"]
    assert len(content(grounds.other / "cache")) == len(list((grounds.other / "cache/keys").iterdir())) == 1


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["f", "d"])
def test_source_with_the_old_size_and_time_but_other_content_is_fetched_again(
    grounds, name: str, fresh: bool
) -> None:
    (grounds.other / "d").mkdir()
    paths = [grounds.other / "f", grounds.other / "d" / "f"]
    for text in ("good", "evil"):
        for path in paths:
            path.write_text(text)
            os.utime(path, ns=(1_000, 1_000))
        os.utime(grounds.other / "d", ns=(1_000, 1_000))
        time.sleep(0.03)  # the times are out of doubt
        cache = InputCache(grounds.other / "cache", fresh=fresh)
        cache.stage(InputSource(name, grounds.other), grounds.work, f"{text}/{name}")
    assert [path.read_text() for path in (grounds.work / "evil").rglob("f")] == ["evil"]


def test_cache_with_the_option_fresh_reads_every_source_again(grounds, site: Site) -> None:
    site.files["/f"], site.etags["/f"] = b"one", '"1"'
    source = InputSource(f"{site.url}/f", grounds.other)
    InputCache(grounds.other / "cache").stage(source, grounds.work, "f")
    site.files["/f"] = b"two"  # the server does not change its validator
    fresh = InputCache(grounds.other / "cache", fresh=True)
    for name in ("g", "h"):
        fresh.stage(source, grounds.work, name)
    assert [(grounds.work / name).read_bytes() for name in "fgh"] == [b"one", b"two", b"two"]
    assert site.requested == ["/f", "/f"]


@pytest.mark.parametrize("fresh", [False, True])
def test_modified_cache_content_is_fetched_again(grounds, fresh: bool) -> None:
    (grounds.other / "f").write_text("good")
    cache = InputCache(grounds.other / "cache")
    source = InputSource("f", grounds.other)
    cache.stage(source, grounds.work, "a")
    (kept,) = content(grounds.other / "cache")
    time_ns = kept.stat().st_mtime_ns
    kept.chmod(0o644)
    kept.write_text("evil")
    if fresh:  # only another process, which reads the content, detects this
        os.utime(kept, ns=(time_ns, time_ns))
        cache = InputCache(grounds.other / "cache")
    cache.stage(source, grounds.work, "b")
    assert (grounds.work / "b").read_text() == "good"


def test_forged_keys_and_links_in_the_cache_are_ignored(grounds) -> None:
    root = grounds.other / "cache"
    (grounds.other / "f").write_text("good")
    time.sleep(0.03)  # the times are out of doubt
    source = InputSource("f", grounds.other)
    InputCache(root).stage(source, grounds.work, "a")
    (key,) = (root / "keys").iterdir()
    noted = json.loads(key.read_text())
    for forged in ("../../outside/canary", str(grounds.canary), "content/../../../outside/canary", "keys/x"):
        key.write_text(json.dumps(noted | {"name": forged}))
        InputCache(root).stage(source, grounds.work, "b")
        assert (grounds.work / "b").read_text() == "good"
    for nonsense in ("", "[]", "{", '{"name": 3}', "\0"):
        key.write_text(nonsense)
        InputCache(root).stage(source, grounds.work, "b")
    (kept,) = content(root)
    kept.unlink()
    kept.symlink_to(grounds.canary)
    InputCache(root).stage(source, grounds.work, "c")
    assert (grounds.work / "c").read_text() == "good"
    for folder in ("content", "keys", "coming"):
        if folder == "coming":
            key.unlink()  # forces another fetch
        (root / folder).rename(grounds.other / f"old-{folder}")
        (root / folder).symlink_to(grounds.outside)
        with pytest.raises(StagingProblem):
            InputCache(root).stage(source, grounds.work, "d")
        (root / folder).unlink()
        (grounds.other / f"old-{folder}").rename(root / folder)


def test_failed_fetch_is_shared_by_waiting_threads_but_not_cached(grounds, site: Site) -> None:
    cache = InputCache(grounds.other / "cache")
    source = InputSource(f"{site.url}/f", grounds.other)
    site.files["/f"], site.etags["/f"] = b"x" * 10_000, '"1"'
    site.cut.add("/f")
    site.delay_s = 0.3
    start = threading.Barrier(3)

    def bring(number: int) -> str:
        start.wait()
        try:
            cache.stage(source, grounds.work, str(number))
        except StagingProblem:
            return "failed"
        return "came"

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(bring, range(3))) == ["failed"] * 3
    site.cut.clear()
    cache.stage(source, grounds.work, "now")
    assert (grounds.work / "now").stat().st_size == 10_000
    assert list((grounds.other / "cache" / "coming").iterdir()) == []


def test_unshared_input_bypasses_the_cache(grounds) -> None:
    (grounds.other / "f").write_text("text")
    InputCache(grounds.other / "cache").stage(
        InputSource("f", grounds.other), grounds.work, "f", shared=False
    )
    assert (grounds.work / "f").read_text() == "text"
    assert not (grounds.work / "f").samefile(grounds.other / "f")
    assert not (grounds.other / "cache").exists()
