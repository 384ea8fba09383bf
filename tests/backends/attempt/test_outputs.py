"""Outputs of a task are collected, measured, made read-only and recognised later."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from weft.backends.attempt.safe_paths import StagingProblem
from weft.backends.attempt.staging import clone_or_copy, collect_outputs, is_intact, make_read_only


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_outputs_are_collected_in_declared_order(grounds) -> None:
    for name in ("b", "v.2", "v.1", "d/x", "d/e/y", "unasked"):
        write(grounds.work / name, name)
    files = collect_outputs(grounds.work, ["v.?", "d/", "b", "v.1"])
    assert [file.name for file in files] == ["v.1", "v.2", "d", "b"]
    assert [file.size_bytes for file in files] == [3, 3, 8, 1]
    assert files[3].digest == hashlib.blake2b(b"b", digest_size=20).hexdigest()
    assert files[3].modified_ns == (grounds.work / "b").stat().st_mtime_ns


def test_error_about_a_missing_output_names_a_similar_file(grounds) -> None:
    write(grounds.work / "d" / "vector_1")
    with pytest.raises(StagingProblem) as missing:
        collect_outputs(grounds.work, ["d/vector.1"])
    assert str(missing.value) == (
        "'d/vector.1' was not written: the task ended without it; there is a file 'd/vector_1'"
    )
    with pytest.raises(StagingProblem, match=r"'\*\.csv' was not written"):
        collect_outputs(grounds.work, ["*.csv"])
    with pytest.raises(StagingProblem, match="it is a file, not a directory"):
        collect_outputs(grounds.work, ["d/vector_1/"])
    assert collect_outputs(grounds.work, ["d/vector.1", "d", "*.csv"], missing_ok=True)[0].name == "d"


def test_outputs_become_read_only_and_stay_intact(grounds) -> None:
    for name in ("f", "d/x", "d/e/y"):
        write(grounds.work / name)
    (grounds.work / "d" / "x").chmod(0o755)
    files = collect_outputs(grounds.work, ["f", "d"], read_only=True)
    assert [mode(grounds.work / name) for name in ("f", "d/x", "d/e/y")] == [0o444, 0o555, 0o444]
    assert all(is_intact(grounds.work, file, thorough=True) for file in files)
    make_read_only(grounds.work, "d")
    assert all(is_intact(grounds.work, file) for file in files)


@pytest.mark.parametrize("name", ["d/x", "d/e/y", "f"])
@pytest.mark.parametrize("how", ["change", "touch", "remove", "link", "fifo", "add"])
def test_modified_output_is_not_intact(grounds, name: str, how: str) -> None:
    for each in ("f", "d/x", "d/e/y"):
        write(grounds.work / each)
        os.utime(grounds.work / each, ns=(1_000, 1_000))
    for folder in ("d/e", "d"):
        os.utime(grounds.work / folder, ns=(1_000, 1_000))
    files = collect_outputs(grounds.work, ["f", "d"])
    path = grounds.work / name
    if how == "change":
        path.write_text("y")
    elif how == "touch":
        os.utime(path)
    elif how == "add":
        if name == "f":
            return
        (path.parent / "added").write_text("")
    else:
        path.unlink()
        if how == "link":
            path.symlink_to(grounds.canary)
        elif how == "fifo":
            os.mkfifo(path)
    assert [is_intact(grounds.work, file) for file in files] == [name != "f", name == "f"]


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("how", ["replace", "write", "add a link"])
def test_output_with_the_old_size_and_time_but_other_content_is_not_intact(
    grounds, how: str, settled: bool
) -> None:
    path = write(grounds.work / "d" / "f", "one")
    os.utime(path, ns=(1_000, 1_000))
    os.utime(grounds.work / "d", ns=(1_000, 1_000))
    if settled:
        time.sleep(0.03)  # the times are out of doubt
    files = collect_outputs(grounds.work, ["d/f", "d"])
    assert all(file.changed_ns for file in files) or not settled
    assert all(is_intact(grounds.work, file) for file in files)
    if how == "write":
        path.write_text("two")
    elif how == "replace":
        write(grounds.work / "g", "two").rename(path)
    else:
        path.unlink()
        os.link(write(grounds.work / "g", "two"), path)
    os.utime(path, ns=(1_000, 1_000))
    os.utime(grounds.work / "d", ns=(1_000, 1_000))
    assert not any(is_intact(grounds.work, file) for file in files)


def test_output_measured_before_a_restart_of_the_system_is_read_again(grounds) -> None:
    """Unsynced content can be lost in a power failure although size and times are the old ones."""
    write(grounds.work / "f", "one")
    time.sleep(0.03)  # the times are out of doubt
    (file,) = collect_outputs(grounds.work, ["f"])
    lost = replace(file, digest=file.digest[::-1])
    assert is_intact(grounds.work, lost), "the status is that of the measurement, so it is not read"
    assert not is_intact(grounds.work, lost, boot="another boot")
    assert is_intact(grounds.work, file, boot="another boot")


def test_link_to_a_file_inside_the_directory_is_collected_as_a_file(grounds) -> None:
    write(grounds.work / "deep" / "real", "text")
    (grounds.work / "f").symlink_to("deep/real")
    (grounds.work / "d").mkdir()
    (grounds.work / "d" / "g").symlink_to("../deep/real")
    write(grounds.work / "d" / "run1" / "log")
    (grounds.work / "d" / "latest").symlink_to(grounds.work / "d" / "run1")
    (grounds.work / "whole").symlink_to("d")
    file, folder, same = collect_outputs(grounds.work, ["f", "d", "whole"])
    assert (file.size_bytes, folder.size_bytes) == (4, 5)
    assert folder.digest == same.digest
    for output in (file, folder):
        make_read_only(grounds.work, output.name)
    assert mode(grounds.work / "deep" / "real") == 0o444
    clone_or_copy(grounds.work, "d", grounds.other, "d")
    assert (grounds.other / "d" / "g").read_text() == "text"
    assert not (grounds.other / "d" / "g").is_symlink()
    assert (grounds.other / "d" / "latest").readlink() == Path("run1")
    assert is_intact(grounds.other, folder, thorough=True)


def test_link_to_a_directory_outside_the_tree_is_refused(grounds) -> None:
    write(grounds.work / "deep" / "real")
    (grounds.work / "d").mkdir()
    (grounds.work / "d" / "sub").symlink_to("../deep")
    refused = (
        "'d/sub' cannot be staged: it is a link to a directory outside the staged directory; replace it by a "
        "copy of that directory, or name that directory as an input or output"
    )
    with pytest.raises(StagingProblem, match=refused):
        collect_outputs(grounds.work, ["d"])
    (grounds.work / "d" / "sub").unlink()
    collect_outputs(grounds.work, ["d", "deep"])


@pytest.mark.parametrize(
    ("target", "refused"),
    [
        ("missing", "it is a link to a file that does not exist; correct or remove the link"),
        ("../pipe", "it is a link to a FIFO; remove the link"),
    ],
)
def test_link_to_no_file_inside_a_directory_is_refused_with_advice(
    grounds, target: str, refused: str
) -> None:
    os.mkfifo(grounds.work / "pipe")
    (grounds.work / "d").mkdir()
    (grounds.work / "d" / "sub").symlink_to(target)
    with pytest.raises(StagingProblem, match=f"'d/sub' cannot be staged: {refused}"):
        collect_outputs(grounds.work, ["d"])


def test_hard_linked_file_is_copied_before_it_becomes_read_only(grounds) -> None:
    """An output may be a hard link to a file of the user, which must stay writable."""
    (grounds.work / "d").mkdir()
    os.link(grounds.canary, grounds.work / "d" / "f")
    os.link(grounds.canary, grounds.work / "g")
    files = collect_outputs(grounds.work, ["d", "g"], read_only=True)
    assert mode(grounds.work / "g") == mode(grounds.work / "d" / "f") == 0o444
    assert mode(grounds.canary) == 0o644
    assert (grounds.work / "g").read_text() == "sing"
    assert all(is_intact(grounds.work, file, thorough=True) for file in files)
