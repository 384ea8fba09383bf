"""Checkpoints are kept only when complete, and restored unchanged."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from weft.backends.attempt import staging
from weft.backends.attempt.checkpoints import keep_checkpoint, list_checkpoint, restore_checkpoint
from weft.backends.attempt.content import transfer
from weft.backends.attempt.safe_paths import StagingProblem


def test_kept_files_are_restored(grounds, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "1-2"
    assert not keep_checkpoint(grounds.work, ["restart.*", "state/"], kept)
    assert list_checkpoint(kept) == ()
    assert not restore_checkpoint(kept, grounds.other)
    (grounds.work / "restart.1").write_text("step 1")
    (grounds.work / "state").mkdir()
    (grounds.work / "state" / "grid").write_text("grid 1")
    assert keep_checkpoint(grounds.work, ["restart.*", "state/"], kept)
    assert [(file.name, file.size_bytes) for file in list_checkpoint(kept)] == [
        ("restart.1", 6),
        ("state", 6),
    ]
    assert not keep_checkpoint(grounds.work, ["restart.*", "state/"], kept), "nothing has changed"
    (grounds.work / "restart.1").write_text("step 2")
    assert keep_checkpoint(grounds.work, ["restart.*", "state/"], kept)
    assert restore_checkpoint(kept, grounds.other)
    assert (grounds.other / "restart.1").read_text() == "step 2"
    assert (grounds.other / "state" / "grid").read_text() == "grid 1"
    assert not keep_checkpoint(grounds.other, ["restart.*", "state/"], kept), "what was restored is not new"
    assert len(list(kept.iterdir())) == 2, "the pointer and one copy"


def test_copies_are_private_whatever_the_umask(grounds, tmp_path: Path) -> None:
    kept = tmp_path / ".weft" / "kept"
    before = os.umask(0)
    try:
        (grounds.work / "state").mkdir()
        for name in ("restart", "tool", "state/grid"):
            (grounds.work / name).write_text(name)
        (grounds.work / "tool").chmod(0o777)
        assert keep_checkpoint(grounds.work, ["restart", "tool", "state/"], kept)
    finally:
        os.umask(before)
    modes = {str(path.relative_to(kept)): stat.S_IMODE(path.stat().st_mode) for path in kept.rglob("*")}
    assert modes == {
        "current": 0o600, "1": 0o700, "1/restart": 0o600, "1/tool": 0o700, "1/state": 0o700, "1/state/grid": 0o600,
    }  # fmt: skip
    assert not keep_checkpoint(grounds.work, ["restart", "tool", "state/"], kept), "nothing has changed"
    assert restore_checkpoint(kept, grounds.other)
    assert os.access(grounds.other / "tool", os.X_OK)


def test_writing_restored_files_does_not_change_the_checkpoint(grounds, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (grounds.work / "r").write_text("one")
    keep_checkpoint(grounds.work, ["r"], kept)
    restore_checkpoint(kept, grounds.other)
    (grounds.other / "r").write_text("two")
    (grounds.work / "r").write_text("three")
    restore_checkpoint(kept, grounds.other)
    assert (grounds.other / "r").read_text() == "one"


@pytest.mark.parametrize("moment", [0, 1])
@pytest.mark.parametrize("act", ["write", "grow", "replace", "remove", "add"])
def test_files_that_change_during_the_copy_are_not_kept(
    grounds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int, act: str
) -> None:
    kept = tmp_path / "kept"
    for name in ("a", "b"):
        (grounds.work / name).write_text("step 1")
    assert keep_checkpoint(grounds.work, ["a", "b", "c*"], kept)
    for name in ("a", "b"):
        (grounds.work / name).write_text("step 2")
    copies = 0

    def disturbed(*given: Any, **named: Any) -> tuple[int, str]:
        nonlocal copies
        done = transfer(*given, **named)
        if copies == moment:
            disturb(grounds.work, act)
        copies += 1
        return done

    monkeypatch.setattr(staging, "transfer", disturbed)
    assert not keep_checkpoint(grounds.work, ["a", "b", "c*"], kept)
    restore_checkpoint(kept, grounds.other)
    assert [(grounds.other / name).read_text() for name in ("a", "b")] == ["step 1", "step 1"]
    monkeypatch.undo()
    assert keep_checkpoint(grounds.work, ["a", "b", "c*"], kept), "once the program is quiet it is kept"


def disturb(work: Path, act: str) -> None:
    """Write restart files during the copy, as the program would."""
    if act == "write":
        (work / "a").write_text("step 3")
    elif act == "grow":
        with (work / "b").open("a") as file:
            file.write("+")
    elif act == "replace":
        (work / "new").write_text("step 3")
        (work / "new").rename(work / "a")
    elif act == "remove":
        (work / "b").unlink()
    else:
        (work / "c1").write_text("step 3")


def test_restart_file_with_the_old_size_and_time_but_other_content_is_kept(grounds, tmp_path: Path) -> None:
    path, kept = grounds.work / "r", tmp_path / "kept"
    path.write_text("step 1")
    os.utime(path, ns=(1_000, 1_000))
    assert keep_checkpoint(grounds.work, ["r"], kept)
    path.write_text("step 2")
    os.utime(path, ns=(1_000, 1_000))
    assert keep_checkpoint(grounds.work, ["r"], kept)
    restore_checkpoint(kept, grounds.other)
    assert (grounds.other / "r").read_text() == "step 2"


def test_damaged_checkpoint_is_refused(grounds, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (grounds.work / "r").write_text("one")
    keep_checkpoint(grounds.work, ["r"], kept)
    (kept / "1" / "r").write_text("two")
    with pytest.raises(StagingProblem, match="checksum"):
        restore_checkpoint(kept, grounds.other)
    (kept / "current").write_text("{")
    with pytest.raises(StagingProblem, match="not written by weft"):
        restore_checkpoint(kept, grounds.other)
    assert list(grounds.other.iterdir()) == []


def test_external_links_and_fifos_are_not_kept(grounds, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (grounds.work / "r").symlink_to(grounds.canary)
    os.mkfifo(grounds.work / "fifo")
    for name in ("r", "fifo", "../outside/canary"):
        with pytest.raises(StagingProblem):
            keep_checkpoint(grounds.work, [name], kept)
    assert list_checkpoint(kept) == ()


def test_incomplete_copy_left_by_a_crash_is_removed(grounds, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (grounds.work / "r").write_text("one")
    keep_checkpoint(grounds.work, ["r"], kept)
    (kept / "2").mkdir()
    (kept / "2" / "r").write_text("ha")
    assert [file.size_bytes for file in list_checkpoint(kept)] == [3]
    (grounds.work / "r").write_text("three")
    assert keep_checkpoint(grounds.work, ["r"], kept)
    assert sorted(path.name for path in kept.iterdir()) == ["3", "current"]
