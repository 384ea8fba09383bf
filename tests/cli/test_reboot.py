"""An end that only the runner has recorded is used after a crash of the engine, but not after a reboot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from architecture.package import environment
from chaos.shim import Control, compiler
from patience import PATIENCE_S
from weft.backends.runner.records import RecordLog, SealedRecords, encode_record
from weft.engine.messages import Checkpointed
from weft.errors import WeftError
from weft.repository.database import open_database
from weft.repository.journal_store import JournalStore
from weft.repository.runs import RunTable
from weft.runtime.execution import read_token

WORKFLOW = """weft: 1
name: one
tasks:
  a:
    command: "echo started >> {log}; while [ ! -e {go} ]; do sleep 0.02; done; echo 1 > x"
    outputs: [x]
"""


def _wait(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, "it did not happen"
        time.sleep(0.02)


def _runner(folder: Path) -> int:
    """Return the process number of the runner."""
    record = next(folder.glob(".weft/runners/1/*/pid")).read_text().partition(" ")[2]
    return int(json.loads(record)["pid"])


def _is_over(folder: Path) -> bool:
    return '"code":0' in next(folder.glob(".weft/runners/1/*/ends")).read_text()


@pytest.mark.parametrize("rebooted", [False, True], ids=["same boot", "reboot"])
def test_program_runs_again_only_after_a_reboot(tmp_path: Path, rebooted: bool) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    log, go = tmp_path / "log", tmp_path / "go"
    (tmp_path / "one.yaml").write_text(WORKFLOW.format(log=log, go=go))
    weft = [sys.executable, "-m", "weft"]
    engine = subprocess.Popen([*weft, "run", "one.yaml", "-q"], cwd=tmp_path, env=environment())
    _wait(log.exists)
    engine.kill()
    engine.wait()
    go.touch()
    _wait(lambda: _is_over(tmp_path))
    os.kill(_runner(tmp_path), signal.SIGKILL)
    control = Control(tmp_path / "control")
    control.set(boot="11111111-2222-3333-4444-555555555555" if rebooted else "")
    done = subprocess.run(
        [*weft, "resume", "-q"],
        cwd=tmp_path, env=environment() | control.environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    control.close()
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == ["started"] * (2 if rebooted else 1)


def _remove_boots(folder: Path) -> None:
    """Rewrite the records of the runner as versions of weft wrote them that did not record the boot."""
    with closing(open_database(folder / ".weft" / "weft.db")) as database:
        token = read_token(RunTable(database), 1)
    records = SealedRecords(str(next(folder.glob(".weft/runners/1/*/ends")).parent), token)
    for name in ("starts", "ends"):
        found = RecordLog.read(records, name).values()
        assert found or name == "ends"
        RecordLog(records, name).rewrite(
            [encode_record({key: value for key, value in each.items() if key != "boot"}) for each in found]
        )
    records.close()


@pytest.mark.parametrize("ended", [True, False], ids=["an end", "only a start"])
def test_record_without_a_boot_is_not_taken_for_a_reboot(tmp_path: Path, ended: bool) -> None:
    log, go = tmp_path / "log", tmp_path / "go"
    (tmp_path / "one.yaml").write_text(WORKFLOW.format(log=log, go=go))
    weft = [sys.executable, "-m", "weft"]
    engine = subprocess.Popen([*weft, "run", "one.yaml", "-q"], cwd=tmp_path, env=environment())
    _wait(log.exists)
    engine.kill()
    engine.wait()
    if ended:
        go.touch()
        _wait(lambda: _is_over(tmp_path))
    os.kill(_runner(tmp_path), signal.SIGKILL)
    _remove_boots(tmp_path)
    go.touch()
    for command in (["resume", "-q"], ["report", "--json"]):
        done = subprocess.run(
            [*weft, *command], cwd=tmp_path, env=environment(), capture_output=True, text=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines() == ["started"] * 2
    assert "the computer was restarted" not in done.stdout
    why = (
        "its end was recorded by an older version of weft"
        if ended
        else "its runner ended before it recorded the end of the program"
    )
    assert why in done.stdout


def _is_checkpointed(folder: Path) -> bool:
    """Return whether the journal contains a copy of restart files."""
    if not (file := folder / ".weft" / "weft.db").exists():
        return False
    try:
        with open_database(file) as database:
            entries = JournalStore(database).read(1).entries
    except WeftError:  # the run has not begun
        return False
    return any(isinstance(entry.event, Checkpointed) for entry in entries)


RESTARTING = """weft: 1
name: one
tasks:
  a:
    command: |
      echo started >> {log}
      if [ "$WEFT_RESTART" = 1 ]; then cp restart x; exit; fi
      echo kept > new; mv new restart
      while [ ! -e {go} ]; do sleep 0.02; done
      echo torn > new; mv new restart; touch {written}
      while [ ! -e {over} ]; do sleep 0.02; done
    outputs: [x]
    checkpoint: [restart]
"""


@pytest.mark.parametrize("rebooted", [False, True], ids=["same boot", "reboot"])
def test_after_a_reboot_only_restart_files_that_weft_has_synced_are_used(
    tmp_path: Path, rebooted: bool
) -> None:
    if compiler() is None:
        pytest.skip("no C compiler")
    files = {name: tmp_path / name for name in ("log", "go", "written", "over")}
    (tmp_path / "one.yaml").write_text(RESTARTING.format(**files))
    weft = [sys.executable, "-m", "weft"]
    engine = subprocess.Popen([*weft, "run", "one.yaml", "-q"], cwd=tmp_path, env=environment())
    control = Control(tmp_path / "control")
    try:
        _wait(lambda: _is_checkpointed(tmp_path))
        engine.kill()
        engine.wait()
        # Stands for a file that the program has not synced, and that a power failure has torn.
        files["go"].touch()
        _wait(files["written"].exists)
        os.kill(_runner(tmp_path), signal.SIGKILL)
        control.set(boot="11111111-2222-3333-4444-555555555555" if rebooted else "")
        done = subprocess.run(
            [*weft, "resume", "-q"],
            cwd=tmp_path, env=environment() | control.environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    finally:
        # In the second case nothing ends the program, since process numbers of another boot mean nothing.
        files["over"].touch()
        files["go"].touch()
        engine.kill()
        engine.wait()
        control.close()
    assert done.returncode == 0, done.stderr
    assert files["log"].read_text().splitlines() == ["started"] * 2
    assert (tmp_path / "x").read_text() == ("kept\n" if rebooted else "torn\n")
