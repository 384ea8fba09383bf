"""Commits are synced to the disk in groups by a thread; after a failed sync nothing more is written."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading

import pytest

from patience import PATIENCE_S
from sync_shim import shim_environment
from weft.errors import InvalidInput
from weft.repository.database import StorageProblem, open_database
from weft.repository.group_commit import GroupCommit

KEEP = "INSERT INTO kept VALUES (?, 'k', 'v')"


@pytest.fixture
def database(tmp_path):
    with open_database(tmp_path / ".weft" / "weft.db", create=True) as opened:
        yield opened


def add(database, number):
    database.queue_insert(KEEP, (number,))
    database.commit()


def test_commits_become_durable_although_nobody_requests_a_sync(database):
    database.start_group_commit(lambda: None)
    add(database, 1)
    assert database.durable <= database.position
    group = database._group
    with group._changed:
        assert group._changed.wait_for(lambda: group.durable == database.position, timeout=PATIENCE_S)


def test_engine_is_woken_when_a_requested_position_is_durable(database):
    woken = threading.Event()
    database.start_group_commit(woken.set)
    add(database, 1)
    database.request_sync(database.position)
    assert woken.wait(PATIENCE_S)
    assert database.durable == database.position


def test_transactions_and_commits_both_advance_the_position_by_one(database):
    database.start_group_commit(lambda: None)
    with database.transaction():
        database.execute_now(KEEP, (1,))
    add(database, 2)
    database.wait_until_durable()
    assert (database.position, database.durable, database.commits) == (2, 2, 1)


def test_transactions_before_the_thread_started_become_durable_too(database):
    add(database, 1)
    database.start_group_commit(lambda: None)
    database.wait_until_durable()
    assert database.durable == 1


def test_all_commits_count_as_durable_without_a_sync_thread_or_with_syncs_off(database, monkeypatch):
    add(database, 1)
    assert database.durable == database.position == 1
    monkeypatch.setenv("WEFT_SYNC", "off")
    database.start_group_commit(lambda: None)
    add(database, 2)
    database.wait_until_durable()
    assert database.durable == database.position == 2
    assert not [each for each in threading.enumerate() if each.name == "group-commit"]


def test_closing_a_database_ends_its_thread_and_loses_no_commit(tmp_path):
    path = tmp_path / "weft.db"
    with open_database(path, create=True) as database:
        database.start_group_commit(lambda: None)
        add(database, 1)
    assert not [each for each in threading.enumerate() if each.name == "group-commit"]
    with open_database(path) as database:
        assert database.rows("SELECT count(*) FROM kept") == [(1,)]


def test_missing_write_ahead_log_is_reported_as_a_failure(tmp_path):
    woken = threading.Event()
    group = GroupCommit(tmp_path / "weft.db-wal", woken.set)
    assert woken.wait(PATIENCE_S)
    assert isinstance(group.problem, FileNotFoundError)
    group.wait(1)
    group.close()


SCRIPT = """if True:
    import os, sys
    from pathlib import Path
    from weft.repository.database import StorageProblem, open_database
    with open_database(Path(sys.argv[1]), create=True) as database:
        database.start_group_commit(lambda: None)
        try:
            for number in range(int(sys.argv[2])):
                database.queue_insert("INSERT INTO kept VALUES (?, 'k', 'v')", (number,))
                database.commit()
                if "wait" in sys.argv:
                    database.wait_until_durable()
                    print(number, flush=True)
            if "die" in sys.argv:
                os._exit(0)  # closing the database would sync it
        except StorageProblem as error:
            print(error)
            database.queue_insert("INSERT INTO kept VALUES (?, 'k', 'v')", (-1,))
            try:
                database.commit()
            except StorageProblem as again:
                print("again", again)
"""


def write(path, count, *more, **settings):
    """Commit rows in a process with the preloaded library; return the lines it printed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(count), *more],
        env=shim_environment(**settings), capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_one_sync_covers_many_commits(tmp_path):
    log = tmp_path / "syncs"
    write(tmp_path / ".weft" / "weft.db", 300, SYNC_LOG=log, SYNC_MS=20)
    synced = [line for line in log.read_text().splitlines() if line.endswith("-wal")]
    assert 1 <= len(synced) < 150, "300 commits take far fewer syncs"


def test_directories_of_a_new_database_are_synced(tmp_path):
    log = tmp_path / "syncs"
    write(tmp_path / "project" / ".weft" / "weft.db", 1, SYNC_LOG=log)
    synced = set(log.read_text().splitlines())
    assert {str(tmp_path / "project"), str(tmp_path / "project" / ".weft")} <= synced


def test_durable_commits_are_not_lost_in_a_power_failure(tmp_path):
    """The copies hold what was synced before the last moment; everything reported must be in them."""
    for count in (1, 7, 40):
        path, copies = tmp_path / str(count) / "weft.db", tmp_path / f"copies-{count}"
        copies.mkdir()
        lines = write(path, count, "wait", "die", SYNC_COPIES=copies)
        assert lines == [str(number) for number in range(count)]
        with open_database(copies / "weft.db") as database:
            assert database.rows("SELECT count(*) FROM kept") == [(count,)]


@pytest.mark.parametrize("number", [2, 3, 6])
def test_failed_sync_stops_all_writes(tmp_path, number):
    """Only one sync fails: a second try would succeed and prove nothing. The first one is SQLite's own."""
    path = tmp_path / ".weft" / "weft.db"
    *done, problem, again = write(path, 100, "wait", SYNC_FAILS=f"weft.db-wal:{number}")
    assert "weft.db-wal: the last changes may not be on the disk: Input/output error" in problem
    assert "`weft resume`" in problem
    assert again == f"again {problem}"
    with open_database(path, create=True) as database:
        ((rows,),) = database.rows("SELECT count(*) FROM kept")
        assert len(done) <= rows <= len(done) + 1
        database.start_group_commit(lambda: None)
        add(database, 1000)
        database.wait_until_durable()


def test_next_engine_empties_the_write_ahead_log_and_keeps_its_commits(tmp_path):
    """After a failed sync the log may show content that is not on the disk."""
    path, copy = tmp_path / "weft.db", tmp_path / "copy"
    with open_database(path, create=True) as database:
        add(database, 1)
        shutil.copytree(tmp_path, copy)
    log = copy / "weft.db-wal"
    assert log.stat().st_size > 0
    with open_database(copy / "weft.db", create=True) as database:
        assert log.stat().st_size == 0
        assert database.rows("SELECT count(*) FROM kept") == [(1,)]


def test_reader_can_sync_a_database_whether_or_not_its_writer_has_closed_it(tmp_path, database):
    add(database, 1)
    with open_database(database.path) as reader:
        reader.sync_now()
    database.close()
    with open_database(database.path) as reader:
        reader.sync_now()  # the log is gone; its content is synced


def test_commit_after_a_failed_sync_is_refused(database, monkeypatch):
    database.start_group_commit(lambda: None)
    database.wait_until_durable()
    database._group._report(0, OSError(5, "Input/output error"))
    with pytest.raises(StorageProblem, match="Input/output error"):
        add(database, 1)
    with pytest.raises(StorageProblem):
        assert database.durable


def test_without_syncs_a_power_failure_loses_commits(tmp_path):
    """The copies are a fair judge: they notice that syncs are missing."""
    copies = tmp_path / "copies"
    copies.mkdir()
    write(tmp_path / "weft.db", 5, "wait", "die", SYNC_COPIES=copies, WEFT_SYNC="off")
    with pytest.raises(InvalidInput, match="database is empty"):
        open_database(copies / "weft.db")
