"""Two engines in one project on a file system without locks: the first one stops and changes nothing more."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from patience import PATIENCE_S
from sync_shim import shim_environment
from weft.errors import Locked
from weft.repository.database import open_database
from weft.runtime.lock import Lock, find_holder

KEEP = "INSERT INTO kept VALUES (?, 'k', 'v')"


def test_engine_with_an_older_claim_cannot_write(tmp_path):
    path = tmp_path / "weft.db"
    with open_database(path, create=True) as first, open_database(path, create=True) as second:
        first.claim()
        first.queue_insert(KEEP, (1,))
        first.commit()
        second.claim()
        first.queue_insert(KEEP, (2,))
        for _ in range(2):
            with pytest.raises(Locked, match=r"weft\.db: another engine \(.*\) has taken over this project"):
                first.commit()
        second.queue_insert(KEEP, (3,))
        second.commit()
        assert second.rows("SELECT execution FROM kept") == [(1,), (3,)]


def test_process_without_a_claim_can_write_while_the_engine_has_claimed_the_database(tmp_path):
    """Requests and withdrawals of users are written beside the engine."""
    path = tmp_path / "weft.db"
    with open_database(path, create=True) as engine, open_database(path) as other:
        engine.claim()
        with other.transaction():
            other.execute_now(KEEP, (1,))
        engine.check_claim()


def test_release_does_not_empty_a_lock_file_that_names_another_engine(tmp_path):
    """On a file system without locks the file names the engine that came last."""
    path = tmp_path / ".weft" / "lock"
    lock = Lock(path, ["first"])
    other = lock.owner.as_text().replace("first", "second")
    path.write_text(other)
    lock.release()
    assert path.read_text() == other
    assert find_holder(path) is not None


def _seen(log: Path, text: str) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not (log.exists() and text in log.read_text()):
        assert time.monotonic() < until_s, "it did not happen"
        time.sleep(0.02)


@pytest.mark.parametrize("second", [["resume", "-q"], ["run", "other.yaml", "-q"]])
def test_first_engine_stops_when_a_second_engine_starts(tmp_path, second):
    log = tmp_path / "log"
    go = tmp_path / "go"
    (tmp_path / "chain.yaml").write_text(
        f"""weft: 1
name: chain
tasks:
  a: {{command: "echo a >> {log}; while [ ! -e {go} ]; do sleep 0.05; done; echo 1 > x", outputs: [x]}}
  b: {{command: "echo b >> {log}; cat x > y", inputs: [x], outputs: [y]}}
"""
    )
    (tmp_path / "other.yaml").write_text(
        f'weft: 1\nname: other\ntasks: {{c: {{command: "echo c >> {log}; touch {go}"}}}}\n'
    )
    how = {"cwd": tmp_path, "env": shim_environment(NO_LOCKS=1), "text": True, "stderr": subprocess.PIPE}
    weft = [sys.executable, "-m", "weft"]
    first = subprocess.Popen([*weft, "run", "chain.yaml", "-q"], **how)
    try:
        _seen(log, "a")
        other = subprocess.Popen([*weft, *second], **how)
        try:
            if second[0] == "resume":
                assert first.wait(PATIENCE_S) == 4
                go.touch()
            assert other.wait(PATIENCE_S) == 0, other.stderr.read()
            assert first.wait(PATIENCE_S) == 4
        finally:
            other.kill()
            other.communicate()
        said = first.stderr.read()
        assert "has taken over this project" in said
        assert "stops and changes nothing more" in said
    finally:
        go.touch()  # the program must end also if the test fails
        first.kill()
        first.communicate()
    if second[0] != "resume":
        done = subprocess.run([*weft, "resume", "1", "-q"], **how, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert sorted(lines) == (["a", "b"] if second[0] == "resume" else ["a", "b", "c"]), "each task ran once"
