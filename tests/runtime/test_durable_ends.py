"""Products of a task are used and claimed only when its end would survive a power failure."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from architecture.package import environment
from patience import PATIENCE_S
from sync_shim import shim_environment

READ_JOURNAL = """if True:
    import json, os, shutil, sqlite3, sys
    copies, own = sys.argv[1:]
    for name in ("weft.db", "weft.db-wal"):
        shutil.copy(os.path.join(copies, name), name)
    entries = sqlite3.connect("weft.db").execute("SELECT record FROM entry ORDER BY number")
    with open(own, "w") as file:
        json.dump([record for (record,) in entries], file)
"""
"""Writes the journal entries that a power failure at this moment would leave."""


def weft(folder: Path, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=folder, env=shim_environment(**settings), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def prepare(folder: Path) -> Path:
    """Write a chain of three tasks that read the synced journal; return the folder of the synced copies."""
    copies = folder / "copies"
    copies.mkdir()
    (folder / "read.py").write_text(READ_JOURNAL)
    read = f"{sys.executable} {folder}/read.py {copies}"
    (folder / "chain.yaml").write_text(
        f"""weft: 1
name: chain
tasks:
  a: {{command: "echo 1 > x", outputs: [x]}}
  b: {{command: "{read} y", inputs: [x], outputs: [y]}}
  c: {{command: "{read} z", inputs: [y], outputs: [z]}}
"""
    )
    return copies


def count_ends(folder: Path, name: str) -> int:
    """Return the number of ends in the journal that a task has seen."""
    found = next(folder.glob(f".weft/sandbox/**/{name}"))
    return sum('"Ended"' in record for record in json.loads(found.read_text()))


def test_ends_of_all_predecessors_are_on_disk_when_a_task_starts(tmp_path):
    copies = prepare(tmp_path)
    done = weft(tmp_path, "run", "chain.yaml", "-q", SYNC_COPIES=copies, SYNC_MS=100)
    assert done.returncode == 0, done.stderr
    assert count_ends(tmp_path, "y") == 1
    assert count_ends(tmp_path, "z") == 2


def test_ends_of_predecessors_are_not_on_disk_if_syncs_are_off(tmp_path):
    """The copies notice that syncs are missing: the end is not in them when the next task starts."""
    copies = prepare(tmp_path)
    done = weft(tmp_path, "run", "chain.yaml", "-q", SYNC_COPIES=copies, WEFT_SYNC="off")
    assert done.returncode != 0 or count_ends(tmp_path, "z") < 2


def test_failed_sync_stops_the_run_and_no_task_is_reported_as_completed(tmp_path):
    """The first sync after the first task fails, once: the engine stops, and the next one completes the run."""
    over = tmp_path / "over"
    (tmp_path / "two.yaml").write_text(
        f"""weft: 1
name: two
tasks:
  a: {{command: "echo 1 > x; touch {over}", outputs: [x]}}
  b: {{command: "echo b >> {over}; cat x > y", inputs: [x], outputs: [y]}}
"""
    )
    failed = weft(tmp_path, "run", "two.yaml", SYNC_FAILS="weft.db-wal:1", SYNC_FAILS_AFTER=over)
    assert over.read_text() == "", "the next task has not started"
    assert failed.returncode == 1, failed.stderr
    assert "Input/output error" in failed.stderr
    assert "completed" not in failed.stdout
    again = weft(tmp_path, "resume")
    assert again.returncode == 0, again.stderr
    assert "completed" in again.stdout


def test_answered_request_is_on_disk(tmp_path):
    """The command that prints the answer syncs the journal itself."""
    begun, log = tmp_path / "begun", tmp_path / "syncs"
    (tmp_path / "two.yaml").write_text(
        f"""weft: 1
name: two
tasks:
  a: {{command: "touch {begun}; sleep 60"}}
  b: {{command: "true", after: [a]}}
"""
    )
    engine = subprocess.Popen(
        [sys.executable, "-m", "weft", "run", "two.yaml", "-q"], cwd=tmp_path, env=environment()
    )
    try:
        until_s = time.monotonic() + PATIENCE_S
        while not begun.exists():
            assert time.monotonic() < until_s
            time.sleep(0.02)
        done = weft(tmp_path, "hold", "b", SYNC_LOG=log)
        assert done.returncode == 0, done.stderr
        synced = [line for line in log.read_text().splitlines() if line.endswith("weft.db-wal")]
        assert len(synced) == 2, "once when the request is written, once when the answer is read"
    finally:
        weft(tmp_path, "cancel")
        engine.kill()
        engine.wait()
