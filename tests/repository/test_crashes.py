"""After a crash of the writer at any point, committed entries are complete and in order, and no others
exist.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import journal_writer
from architecture.package import environment
from journal_writer import COMMIT_EVERY, journal, product, write
from patience import PATIENCE_S
from state_digest import digest_state
from weft.engine.messages import PlanReady
from weft.engine.replay import rebuild
from weft.errors import InvalidInput
from weft.repository import journal_store
from weft.repository.database import open_database
from weft.repository.journal_store import JournalStore
from weft.repository.products import ProductTable

_FRAME_BYTES, _WAL_HEADER_BYTES = 24 + 4096, 32
"""Size of a frame of SQLite's write-ahead log, and of the header before the first frame."""


@cache
def state_after(count: int) -> dict:
    """Return the state after applying a number of entries."""
    expected = journal()
    return digest_state(rebuild(expected.engine(), expected.entries[:count], expected.plans).state)


def began(folder: Path) -> bool:
    """Return whether the tables exist; otherwise the file is missing or empty."""
    try:
        open_database(folder / ".weft" / "weft.db").close()
    except InvalidInput as error:
        if re.search("no file|database is empty", str(error)):
            return False
        raise
    return True


def whole(folder: Path, *, rebuilds: bool = True) -> int:
    """Assert that all data of the writer are consistent; return the number of entries."""
    with open_database(folder / ".weft" / "weft.db") as database:
        assert database.rows("PRAGMA integrity_check") == [("ok",)]
        store, products, expected = JournalStore(database), ProductTable(database), journal()
        if not database.rows("SELECT number FROM execution"):
            return 0
        entries = tuple(store.all_after(1))
        count = len(entries)
        assert entries == expected.entries[:count]
        assert count % COMMIT_EVERY == 0 or count == len(expected.entries)
        named = {entry.event.plan for entry in entries if isinstance(entry.event, PlanReady)}
        assert {key for (key,) in database.rows("SELECT key FROM plan")} == named
        assert [products.of(1, 0, number) for number in range(count)] == [
            product(number) for number in range(count)
        ]
        assert products.of(1, 0, count) is None
        assert database.rows("SELECT count(*) FROM made_file") == [(2 * count,)]
        if rebuilds:
            rebuilt = store.rebuilt(1)
            assert rebuilt.entries == count
            assert digest_state(rebuilt.engine.state) == state_after(count)
        return count


def dies(folder: Path, trials: list[str]) -> list[int]:
    """Write and crash once per trial; return the number of entries left by each."""
    script = journal_writer.__file__
    subprocess.run(
        [sys.executable, script, str(folder), *trials], env=environment(), check=True, timeout=PATIENCE_S
    )
    return [whole(folder / trial.replace(":", "-")) for trial in trials]


def test_writer_killed_at_any_commit_leaves_only_complete_commits(tmp_path):
    """A kill before a commit loses its entries, a kill after it keeps them."""
    total = len(journal().entries)
    numbers = range(1, -(-total // COMMIT_EVERY) + 1)
    before = dies(tmp_path, [f"commit:{number}" for number in numbers])
    assert before == [COMMIT_EVERY * (number - 1) for number in numbers]
    after = dies(tmp_path, [f"committed:{number}" for number in numbers])
    assert after == [min(COMMIT_EVERY * number, total) for number in numbers]


def test_writer_killed_at_random_times_leaves_only_complete_commits(tmp_path):
    drawn = random.Random(6)
    trials = [f"kill:{drawn.uniform(0.0, 0.15):.4f}" for _ in range(12)]
    script = journal_writer.__file__
    subprocess.run(
        [sys.executable, script, str(tmp_path), *trials], env=environment(), check=True, timeout=PATIENCE_S
    )
    seen = []
    for trial in trials:
        folder = tmp_path / trial.replace(":", "-")
        if began(folder):
            seen.append(whole(folder))
        else:
            write(folder)
            assert whole(folder) == len(journal().entries)
    assert seen, "every one died before it began"


def test_wal_file_truncated_at_any_write_contains_only_complete_commits(tmp_path, monkeypatch):
    """A kill between two writes truncates the log: at every frame, and within some frames."""
    monkeypatch.setattr(journal_store, "SNAPSHOT_EVERY", 10)
    copy = tmp_path / "copy"
    total = len(journal().entries)

    def keep(store):
        shutil.copytree(tmp_path / "whole" / ".weft", copy / ".weft", dirs_exist_ok=True)

    write(tmp_path / "whole", watch=keep)
    log = (copy / ".weft" / "weft.db-wal").read_bytes()
    frames = (len(log) - _WAL_HEADER_BYTES) // _FRAME_BYTES
    counts = []
    for frame in range(frames + 1):
        for cut in (0, 1000) if frame % 8 == 0 else (0,):
            folder = tmp_path / "cut"
            shutil.copytree(copy, folder)
            (folder / ".weft" / "weft.db-shm").unlink(missing_ok=True)
            end = _WAL_HEADER_BYTES + frame * _FRAME_BYTES + cut
            (folder / ".weft" / "weft.db-wal").write_bytes(log[:end])
            counts.append(whole(folder, rebuilds=frame % 8 == 0) if began(folder) else -1)
            shutil.rmtree(folder)
    assert counts == sorted(counts), "a longer log holds no less"
    assert (counts[0], counts[-1]) == (-1, total)
    assert len(set(counts)) > total // COMMIT_EVERY, "every commit was the last of some log"


@pytest.mark.parametrize("value", ["", "commit", "commit:x", "elsewhere:1", "commit:-1"])
def test_invalid_failpoints_are_ignored(tmp_path, monkeypatch, value):
    monkeypatch.setenv("WEFT_FAILPOINT", value)
    write(tmp_path)
    assert whole(tmp_path) == len(journal().entries)
