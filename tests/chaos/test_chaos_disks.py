"""A run on a full disk stops with a message, and resumes when space is free again."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.scene import Outcome, Scene
from cli.projects import Project, wait_for
from patience import PATIENCE_S
from weft.engine.messages import MachineChanged

Scenes = Callable[..., Scene]
_as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


@contextmanager
def small_disk(at: Path, size_kb: int) -> Iterator[Path]:
    """Mount a disk of a few kilobytes; skip if that is not permitted."""
    at.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_kb}k", "tmpfs", str(at)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        yield at
    finally:
        until_s = time.monotonic() + PATIENCE_S
        while (
            subprocess.run(["umount", str(at)], capture_output=True).returncode and time.monotonic() < until_s
        ):
            time.sleep(0.1)


def fill(disk: Path) -> Path:
    """Fill a disk completely."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return filler


@_as_root
def test_run_with_a_full_sandbox_continues_when_space_becomes_free(
    scenes: Scenes, expected_small: Outcome
) -> None:
    scene = scenes("small")
    scene.record_fault("full disk")
    with small_disk(scene.project / ".weft" / "sandbox", 256) as disk:
        filler = fill(disk)
        engine = scene.live()
        _wait_for_loss(scene)
        filler.unlink()
        assert engine.wait(90.0) == 0
        assert scene.audit(expected_small) == []


@_as_root
def test_run_without_space_for_attempt_records_can_be_resumed(
    scenes: Scenes, expected_small: Outcome
) -> None:
    scene = scenes("small")
    scene.record_fault("full disk")
    with small_disk(scene.project / ".weft" / "attempts", 64) as disk:
        filler = fill(disk)
        assert scene.live().wait(60.0) == 1
        assert "No space left on device" in _why(scene)
        filler.unlink()
        scene.again()
        assert scene.audit(expected_small) == []


@_as_root
def test_runner_that_cannot_write_its_logs_loses_no_end_record(
    scenes: Scenes, expected_small: Outcome
) -> None:
    """A runner that cannot write its logs keeps the ends in memory; no task runs twice."""
    scene = scenes("small")
    scene.record_fault("full disk")
    with small_disk(scene.project / ".weft" / "runners", 48) as disk:
        engine = scene.live()
        assert _seen(lambda: scene.living() or scene.is_over)
        filler = fill(disk)
        assert engine.wait(60.0) == 0, scene.last_words()
        filler.unlink()
        assert scene.audit(expected_small, once=True) == []


@_as_root
def test_run_without_space_for_the_database_can_be_resumed(scenes: Scenes, expected_small: Outcome) -> None:
    scene = scenes("small")
    scene.record_fault("full disk")
    with small_disk(scene.project / ".weft", 512) as disk:
        engine = scene.live()
        assert _seen(lambda: scene.living())
        filler = fill(disk)
        code = engine.wait(60.0)
        reported = scene.last_words()
        filler.unlink()
        if code != 0:
            assert "full" in reported
        scene.again()
        assert scene.audit(expected_small) == []


@_as_root
@pytest.mark.parametrize("retries", [0, 1])
def test_program_that_fills_the_sandbox_causes_no_failure_of_other_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], retries: int
) -> None:
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path, capsys)
    with small_disk(tmp_path / "disk", 4096) as disk:
        machine = f"{{nodes: 2, backend: {{kind: local, sandbox: {disk}/s}}}}"
        project.write("one.yaml", f"weft: 1\nmachines:\n  only: {machine}\n")
        project.write(
            "two.yaml",
            f"""\
weft: 1
name: two
tasks:
  p: {{command: "echo began; until test -e {tmp_path}/go; do sleep 0.05; done"}}
  q: {{command: "until test -e {tmp_path}/fill; do sleep 0.05; done; head -c 80000000 /dev/zero > big"}}
""",
        )
        process = project.start(
            "run",
            "two.yaml",
            "-k",
            "--on",
            "one.yaml",
            "--set",
            f"retries.error={retries}",
            "--set",
            "timeouts.machines=2s",
        )
        try:
            project.running(process, "began")
            project.write("fill", "")
            wait_for(
                lambda: (
                    any(each["failed"] for each in project.json("status")["kinds"])
                    or "is lost" in project.weft("machines", "ls").out
                )
            )
            project.write("go", "")
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            project.write("go", "")
            project.end(process)
        assert process.returncode == 1
        assert "is lost" not in out + err
        assert "1 completed" in out
        assert "is nearly full" in out
        assert "q failed permanently" in err + out


def test_run_beyond_the_database_size_limit_can_be_resumed(scenes: Scenes, expected_small: Outcome) -> None:
    """A file size limit for the engine and its children simulates a full disk without root permission."""
    scene = scenes("small")
    scene.record_fault("full disk")
    code = scene.live(file_bytes=120_000).wait(60.0)
    assert code != 0
    assert "the disk is full" in scene.last_words()
    scene.again()
    assert scene.audit(expected_small) == []


def _seen(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
    until_s = time.monotonic() + timeout_s
    while time.monotonic() < until_s:
        if condition():
            return True
        time.sleep(0.005)
    return False


def _wait_for_loss(scene: Scene) -> None:
    """Wait until a machine is lost because no space is left."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        if scene.begun and any(
            isinstance(entry.event, MachineChanged) and "no space left" in entry.event.reason.lower()
            for entry in scene.entries()
        ):
            return
        time.sleep(0.1)
    raise AssertionError(scene.last_words())


def _why(scene: Scene) -> str:
    """Return all reasons of failures in the journal and in the logs of programs, as one text."""
    events = [entry.event for entry in scene.entries()]
    printed = [getattr(event, "story", "") or getattr(event, "problem", "") for event in events]
    logs = [path.read_text(errors="replace") for path in scene.project.glob(".weft/attempts/*/*/err")]
    return "\n".join([*printed, *logs])
