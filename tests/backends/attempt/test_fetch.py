"""Inputs are fetched from paths and URLs, plain or compressed, completely or not at all."""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import subprocess
import sys

import pytest

from architecture.package import environment
from backends.attempt.web_server import Site
from weft.backends.attempt import content, external_files
from weft.backends.attempt.external_files import InputCache, InputSource, decompressed_name, fetch
from weft.backends.attempt.safe_paths import StagingProblem


def test_relative_path_is_copied_from_the_workflow_folder(grounds) -> None:
    (grounds.other / "data").mkdir()
    (grounds.other / "data" / "in.txt").write_text("text")
    for text in (
        "data/in.txt",
        str(grounds.other / "data" / "in.txt"),
        (grounds.other / "data" / "in.txt").as_uri(),
    ):
        brought = fetch(InputSource(text, grounds.other), grounds.work, "here/in.txt")
        assert (brought.file.name, brought.file.size_bytes) == ("here/in.txt", 4)
        assert brought.copied_bytes in (0, 4), "0: a clone"
        (grounds.work / "here" / "in.txt").write_text("changed")
        assert (grounds.other / "data" / "in.txt").read_text() == "text"


def test_input_path_named_by_the_user_may_be_anywhere_and_contain_links(grounds) -> None:
    (grounds.other / "link").symlink_to(grounds.outside)
    for text in ("../outside/canary", "link/canary"):
        brought = fetch(InputSource(text, grounds.other), grounds.work, "canary")
        assert (grounds.work / brought.file.name).read_text() == "sing"
    assert fetch(InputSource("link", grounds.other), grounds.work, "all").file.size_bytes == 12


def test_links_out_of_a_named_directory_are_refused(grounds) -> None:
    (grounds.other / "d").mkdir()
    (grounds.other / "d" / "secret").symlink_to(grounds.canary)
    for bring in staging_functions(InputSource("d", grounds.other), grounds, "d"):
        with pytest.raises(StagingProblem, match="'d/secret' cannot be used: a link leads out") as problem:
            bring()
        assert problem.value.lasting
        assert not (grounds.work / "d").exists()


def test_links_of_a_named_directory_to_its_parent_directory_are_followed(grounds) -> None:
    (grounds.other / "d").mkdir()
    (grounds.other / "beside").write_text("text")
    (grounds.other / "d" / "link").symlink_to("../beside")
    fetch(InputSource("d", grounds.other), grounds.work, "d")
    assert (grounds.work / "d" / "link").read_text() == "text"


@pytest.mark.parametrize(
    "text", ["", " ", "nothing", "a\0b", "file://elsewhere/x", "fifo", "file:///no/such/file"]
)
def test_error_of_a_failed_fetch_names_the_source(grounds, text: str) -> None:
    os.mkfifo(grounds.other / "fifo")
    with pytest.raises(StagingProblem) as problem:
        fetch(InputSource(text, grounds.other), grounds.work, "x")
    assert repr(text) in str(problem.value)
    assert list(grounds.work.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "/x", "", "a/../../x"])
def test_target_name_must_stay_in_the_directory(grounds, name: str) -> None:
    (grounds.other / "in").write_text("text")
    with pytest.raises(StagingProblem):
        fetch(InputSource("in", grounds.other), grounds.work, name)


def test_input_is_fetched_over_http(grounds, site: Site) -> None:
    site.files["/data.bin"] = bytes(range(256)) * 20_000
    brought = fetch(InputSource(f"{site.url}/data.bin", grounds.other), grounds.work, "d/data.bin")
    assert (grounds.work / "d" / "data.bin").read_bytes() == site.files["/data.bin"]
    assert brought.copied_bytes == brought.file.size_bytes == 256 * 20_000


def test_missing_or_truncated_download_is_not_visible(grounds, site: Site) -> None:
    with pytest.raises(StagingProblem, match=r"http://127.* cannot be fetched: there is no such file"):
        fetch(InputSource(f"{site.url}/nothing", grounds.other), grounds.work, "x")
    site.files["/half"] = b"x" * 100_000
    site.cut.add("/half")
    with pytest.raises(StagingProblem, match=r"cannot be fetched: .*(Content-Length|payload)"):
        fetch(InputSource(f"{site.url}/half", grounds.other), grounds.work, "x")
    with pytest.raises(StagingProblem, match="cannot be fetched"):
        fetch(InputSource("http://user:secret@127.0.0.1:9/x", grounds.other), grounds.work, "x")
    assert list(grounds.work.iterdir()) == []


def staging_functions(source: InputSource, grounds, name: str):
    """Return two functions that stage an input: directly, and through a cache."""
    cache = InputCache(grounds.other / "cache")
    return [lambda: fetch(source, grounds.work, name), lambda: cache.stage(source, grounds.work, name)]


@pytest.mark.parametrize(
    ("status", "lasting"),
    [(404, True), (403, True), (410, True), (408, False), (429, False), (500, False), (503, False)],
)
def test_permanent_server_errors_are_not_retried(grounds, site: Site, status, lasting) -> None:
    site.refused["/x"] = status
    for bring in staging_functions(InputSource(f"{site.url}/x", grounds.other), grounds, "x"):
        with pytest.raises(StagingProblem) as problem:
            bring()
        assert problem.value.lasting is lasting
        assert ("there is no such file" if status == 404 else str(status)) in str(problem.value)


@pytest.mark.parametrize(
    ("text", "name", "lasting"),
    [
        ("nothing", "x", True),
        ("in/below", "x", True),
        ("a\0b", "x", True),
        ("file:///no/such/file", "x", True),
        ("in", "../x", True),
        ("in", "/x", True),
        ("nosuch://x/y", "x", True),
        ("http://127.0.0.1:9/x", "x", False),
    ],
)
def test_errors_that_a_retry_cannot_resolve_are_permanent(
    grounds, text: str, name: str, lasting: bool
) -> None:
    (grounds.other / "in").write_text("text")
    for bring in staging_functions(InputSource(text, grounds.other), grounds, name):
        with pytest.raises(StagingProblem) as problem:
            bring()
        assert problem.value.lasting is lasting
    assert list(grounds.work.iterdir()) == []


def test_full_disk_is_a_transient_error(grounds, monkeypatch: pytest.MonkeyPatch) -> None:
    (grounds.other / "in").write_text("text")

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(os, "sendfile", full)
    monkeypatch.setattr(os, "copy_file_range", full)
    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StagingProblem) as problem:
        fetch(InputSource("in", grounds.other), grounds.work, "x")
    monkeypatch.undo()
    assert (problem.value.number, problem.value.lasting) == (errno.ENOSPC, False)


def test_error_message_does_not_contain_the_password(grounds) -> None:
    with pytest.raises(StagingProblem) as problem:
        fetch(InputSource("http://user:secret@127.0.0.1:9/x", grounds.other), grounds.work, "x")
    assert "127.0.0.1:9/x" in str(problem.value)
    assert "secret" not in str(problem.value)


@pytest.mark.parametrize(
    "text",
    [
        *("nosuch://x/y", "simplecache::http://127.0.0.1:9/x", "filecache::file:///etc/passwd"),
        *("dir:///etc/passwd", "zip://etc/passwd", "reference://x", "generic://x", "cached://x"),
    ],
)
def test_unknown_and_chained_urls_are_refused(grounds, text: str) -> None:
    with pytest.raises(StagingProblem):
        fetch(InputSource(text, grounds.other), grounds.work, "x")
    assert list(grounds.work.iterdir()) == []


def test_input_is_fetched_from_fsspec_memory(grounds) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/fetching/in", b"text")
    assert fetch(InputSource("memory://fetching/in", grounds.other), grounds.work, "in").file.size_bytes == 4
    memory.rm("/fetching", recursive=True)


@pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".bz2", bz2), (".xz", lzma)])
def test_compressed_input_is_decompressed(grounds, site: Site, suffix: str, module) -> None:
    content = b"atoms " * 100_000
    packed = module.compress(content)
    (grounds.other / f"pdb{suffix}").write_bytes(packed)
    site.files["/no-suffix"] = packed
    for text, name in ((f"pdb{suffix}", f"d/pdb{suffix}"), (f"{site.url}/no-suffix", "d/pdb")):
        brought = fetch(InputSource(text, grounds.other, compressed=True), grounds.work, name)
        assert (brought.file.name, brought.copied_bytes) == ("d/pdb", len(packed))
        assert (grounds.work / "d" / "pdb").read_bytes() == content
        (grounds.work / "d" / "pdb").unlink()
    assert list((grounds.work / "d").iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"plain text",
        gzip.compress(b"x" * 9999, mtime=0)[:-12],
        gzip.compress(b"x" * 9999, mtime=0) + b"more",
        b"\x1f\x8bnonsense",
        b"BZh9no",
    ],
    ids=["empty", "plain", "cut", "longer", "no gzip", "no bzip2"],
)
def test_uncompressed_or_damaged_input_is_refused(grounds, content: bytes) -> None:
    (grounds.other / "in.gz").write_bytes(content)
    with pytest.raises(StagingProblem, match=r"'in\.gz' cannot be decompressed") as caught:
        fetch(InputSource("in.gz", grounds.other, compressed=True), grounds.work, "in.gz")
    assert caught.value.lasting, "another attempt would find the same file"
    assert list(grounds.work.iterdir()) == []


@pytest.mark.parametrize("module", [gzip, bz2, lzma], ids=lambda module: module.__name__)
def test_decompression_is_bounded(grounds, monkeypatch: pytest.MonkeyPatch, module) -> None:
    """The limits are lowered here; the default ones are 1 GiB and 200 times the compressed size."""
    (grounds.other / "in.gz").write_bytes(module.compress(bytes(5_000_000)))
    monkeypatch.setattr(external_files, "_DEFAULT_MOST_BYTES", 4_000_000)
    monkeypatch.setattr(external_files, "_DEFAULT_MOST_RATIO", 2)
    rule = r"'in\.gz' cannot be decompressed: it has more than {} after decompression; .*`max_size`"
    with pytest.raises(StagingProblem, match=rule.format("4 MB")) as problem:
        fetch(InputSource("in.gz", grounds.other, compressed=True), grounds.work, "in.gz")
    assert problem.value.lasting
    with pytest.raises(StagingProblem, match=rule.format("1 MB")):
        fetch(InputSource("in.gz", grounds.other, compressed=True, max_bytes=1e6), grounds.work, "in.gz")
    assert list(grounds.work.iterdir()) == []
    fetch(InputSource("in.gz", grounds.other, compressed=True, max_bytes=5e6), grounds.work, "in.gz")
    assert (grounds.work / "in").stat().st_size == 5_000_000


def test_decompression_leaves_space_on_the_disk(grounds, monkeypatch: pytest.MonkeyPatch) -> None:
    (grounds.other / "in.gz").write_bytes(gzip.compress(bytes(5_000_000)))
    disk = os.statvfs(grounds.work)
    monkeypatch.setattr(content, "_MOST_RESERVED_BYTES", disk.f_blocks * disk.f_frsize)
    monkeypatch.setattr(content, "_RESERVED_SHARE", 1.0)
    with pytest.raises(StagingProblem, match=r"'in\.gz' cannot be written: it needs .* stay free") as problem:
        fetch(InputSource("in.gz", grounds.other, compressed=True), grounds.work, "in.gz")
    assert problem.value.number == errno.ENOSPC
    assert list(grounds.work.iterdir()) == []


def test_error_about_missing_zstandard_names_the_package(grounds) -> None:
    (grounds.other / "in.zst").write_bytes(b"\x28\xb5\x2f\xfd rest")
    with pytest.raises(StagingProblem, match="cannot be decompressed"):
        fetch(InputSource("in.zst", grounds.other, compressed=True), grounds.work, "in.zst")


def test_name_of_a_decompressed_file_has_no_compression_suffix() -> None:
    names = ["a.gz", "a/b.tar.bz2", "x.xz", "y.zst", "plain", ".gz", "d/.gz", "a.gz.gz"]
    assert [decompressed_name(name) for name in names] == [
        "a",
        "a/b.tar",
        "x",
        "y",
        "plain",
        ".gz",
        "d/.gz",
        "a.gz",
    ]


def test_fsspec_is_imported_only_for_urls() -> None:
    program = (
        "import sys, weft.backends.attempt.external_files, weft.backends.attempt.external_files\n"
        "sys.stdout.write(str({'fsspec', 'aiohttp'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "set()"
