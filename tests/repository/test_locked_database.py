"""A database locked by another process: an engine waits and says so, other commands give up with an error."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from architecture.package import environment
from patience import PATIENCE_S
from weft.repository import database as module
from weft.repository.database import StorageProblem, open_database

KEEP = "INSERT INTO kept VALUES (?, 'k', 'v')"
HOLDING = """if True:
    import sqlite3, sys, time
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
    connection.execute("COMMIT")
    print("released", flush=True)
"""


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Lock a database in another process for some seconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def path(tmp_path):
    made = tmp_path / ".weft" / "weft.db"
    open_database(made, create=True).close()
    return made


def waiting(caplog):
    return [each.getMessage() for each in caplog.records if each.getMessage().startswith("waiting: ")]


def test_engine_warns_once_waits_for_the_lock_and_commits(path, caplog, monkeypatch):
    monkeypatch.setattr(module, "_SAY_AFTER_S", 0.1)
    monkeypatch.setattr(module, "_ENGINE_BUSY_S", 0.05)
    with open_database(path, create=True) as database, locked(path, 1.0) as holder:
        database.queue_insert(KEEP, (1,))
        database.commit()
        assert holder.stdout.readline() == "released\n"
        assert database.rows("SELECT execution FROM kept") == [(1,)]
    assert waiting(caplog) == [
        f"waiting: {path} is locked by another process; the run continues when it is free"
    ], "one message, which is repeated rarely"
    assert caplog.records[0].levelno == logging.WARNING


def test_warning_about_a_long_lock_is_repeated(path, caplog, monkeypatch):
    monkeypatch.setattr(module, "_SAY_AFTER_S", 0.1)
    monkeypatch.setattr(module, "_SAY_EVERY_S", 0.2)
    monkeypatch.setattr(module, "_ENGINE_BUSY_S", 0.05)
    with open_database(path, create=True) as database, locked(path, 1.5):
        database.queue_insert(KEEP, (1,))
        database.commit()
    assert len(waiting(caplog)) >= 2


def test_short_lock_causes_no_warning(path, caplog):
    with open_database(path, create=True) as database, locked(path, 0.2):
        database.queue_insert(KEEP, (1,))
        database.commit()
    assert waiting(caplog) == []


def test_command_other_than_an_engine_fails_if_the_lock_lasts_longer_than_a_limit(path, monkeypatch):
    monkeypatch.setattr(module, "_BUSY_S", 0.2)
    with (
        open_database(path) as database,
        locked(path, PATIENCE_S),
        pytest.raises(StorageProblem, match="another process has locked it"),
    ):
        database.execute_now(KEEP, (1,))


def test_database_errors_other_than_a_lock_are_raised_at_once(path):
    with open_database(path, create=True) as database, pytest.raises(StorageProblem, match="no such table"):
        database.rows("SELECT * FROM missing")


def test_run_continues_after_a_long_lock(tmp_path):
    """The lock is held for longer than the limit of other commands."""
    go = tmp_path / "go"
    (tmp_path / "one.yaml").write_text(
        f"""weft: 1
name: one
tasks:
  a: {{command: "touch {tmp_path}/begun; while [ ! -e {go} ]; do sleep 0.05; done; echo 1 > x", outputs: [x]}}
  b: {{command: "cat x > y", inputs: [x], outputs: [y]}}
"""
    )
    with subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "one.yaml"],
        cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        until_s = time.monotonic() + PATIENCE_S
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < until_s
            time.sleep(0.02)
        with locked(tmp_path / ".weft" / "weft.db", module._BUSY_S + 1.0):
            go.touch()
            out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 0, err
    assert "weft.db is locked by another process" in err
    assert "completed" in out
