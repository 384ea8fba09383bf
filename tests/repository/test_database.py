"""The database file is created once, refused if it is not weft's, and loses nothing when it cannot be
written.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from architecture.package import environment
from patience import PATIENCE_S
from weft.errors import InvalidInput
from weft.repository.database import SCHEMA_VERSION, StorageProblem, open_database

KEEP = "INSERT INTO kept VALUES (?, ?, ?)"


@pytest.fixture
def database(tmp_path):
    with open_database(tmp_path / ".weft" / "weft.db", create=True) as opened:
        yield opened


def kept(database):
    return database.rows("SELECT execution, key, value FROM kept ORDER BY execution, key")


def test_database_is_created_once_and_read_again(tmp_path):
    path = tmp_path / "a" / "b" / "weft.db"
    for number in range(2):
        with open_database(path, create=True) as database:
            database.queue_change(KEEP, (number, "k", "v"))
            database.commit()
    with open_database(path) as database:
        assert kept(database) == [(0, "k", "v"), (1, "k", "v")]
    assert [file.name for file in path.parent.iterdir()] == ["weft.db"], "nothing stays beside it"


def test_concurrent_creation_gives_one_database(tmp_path):
    path, faults = tmp_path / "weft.db", []

    def make():
        try:
            open_database(path, create=True).close()
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    with open_database(path) as database:
        assert kept(database) == []


def test_queued_changes_are_invisible_before_the_commit(tmp_path, database):
    database.queue_change(KEEP, (1, "k", "v"))
    database.queue_insert(KEEP, (2, "k", "v"))
    with open_database(database.path) as other:
        assert kept(other) == []
        database.commit()
        assert kept(other) == [(1, "k", "v"), (2, "k", "v")]
    assert database.commits == 1
    database.commit()
    assert database.commits == 1, "nothing to write is no commit"


def test_commit_applies_queued_changes_in_order_after_queued_inserts(database):
    database.queue_change("UPDATE kept SET value = 'first' WHERE execution = 1", ())
    database.queue_insert(KEEP, (1, "k", "v"))
    database.queue_change("UPDATE kept SET value = value || ' second' WHERE execution = 1", ())
    database.commit()
    assert kept(database) == [(1, "k", "first second")]


def test_queued_changes_are_not_lost_when_the_disk_is_full(database):
    """SQLite's page limit gives the same error as a full disk."""
    ((pages,),) = database.rows("PRAGMA page_count")
    database.rows(f"PRAGMA max_page_count={pages}")
    for number in range(50):
        database.queue_insert(KEEP, (number, "k", "v" * 1000))
    database.queue_change("UPDATE kept SET value = 'short' WHERE execution = 7", ())
    for _ in range(2):
        with pytest.raises(StorageProblem, match="disk is full: free some space"):
            database.commit()
        assert kept(database) == []
    database.rows("PRAGMA max_page_count=100000")
    database.commit()
    assert len(kept(database)) == 50
    assert (7, "k", "short") in kept(database)


def test_queued_changes_are_not_lost_when_the_file_size_limit_is_reached(tmp_path):
    """A file size limit looks like a full disk to most writers."""
    script = """if True:
        import resource, sys
        from pathlib import Path
        from weft.repository.database import open_database
        from weft.repository.database import StorageProblem
        with open_database(Path(sys.argv[1]), create=True) as database:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
            for number in range(500):
                database.queue_insert("INSERT INTO kept VALUES (?, 'k', ?)", (number, "v" * 1000))
            try:
                database.commit()
            except StorageProblem as error:
                print(error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            database.commit()
            print(len(database.rows("SELECT * FROM kept")))
    """
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "weft.db")],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    problem, count = done.stdout.splitlines()
    assert "weft.db: " in problem
    assert "full" in problem
    assert count == "500"


def damaged(path, offset, data):
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)


def test_database_whose_schema_contains_damaged_names_is_reported(tmp_path):
    """SQLite quotes them in its message, which is then not valid UTF-8."""
    path = tmp_path / "weft.db"
    with open_database(path, create=True):
        pass
    whole = path.read_bytes()
    places = [match.start() for match in re.finditer(rb"CREATE (TABLE|INDEX)", whole)]
    messages = []
    for place in (start + offset for start in places for offset in range(0, 60, 7)):
        path.write_bytes(whole)
        damaged(path, place, bytes([whole[place] ^ 0x80]))
        for create in (False, True):
            try:
                with open_database(path, create=create) as database:
                    database.rows("SELECT count(*) FROM request")
            except InvalidInput as error:
                messages.append(str(error))
    assert any("malformed database schema" in message and "\\x" in message for message in messages)


def test_damaged_file_is_reported(tmp_path):
    path = tmp_path / "weft.db"
    with open_database(path, create=True) as database:
        for number in range(500):
            database.queue_insert(KEEP, (number, "k", "v" * 100))
        database.commit()
    damaged(path, 4096 * 20, b"\xff" * 4096 * 20)
    with open_database(path) as database, pytest.raises(InvalidInput, match="is damaged"):
        kept(database)
    damaged(path, 0, b"no database at all")
    for create in (False, True):
        with pytest.raises(InvalidInput, match=r"weft\.db: .*not a database"):
            open_database(path, create=create)


def test_databases_of_other_versions_and_files_of_other_programs_are_refused(tmp_path):
    path = tmp_path / "weft.db"
    open_database(path, create=True).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    connection.close()
    for create in (False, True):
        message = f"has version {SCHEMA_VERSION + 1}; this weft reads versions 1 to {SCHEMA_VERSION}"
        with pytest.raises(InvalidInput, match=message):
            open_database(path, create=create)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE people (name)")
    connection.close()
    for create in (False, True):
        with pytest.raises(InvalidInput, match="not created by weft"):
            open_database(other, create=create)
    (tmp_path / "empty.db").touch()
    with pytest.raises(InvalidInput, match=r"database is empty.*start with `weft run WORKFLOW`"):
        open_database(tmp_path / "empty.db")
    open_database(tmp_path / "empty.db", create=True).close()


def test_missing_file_is_reported(tmp_path):
    with pytest.raises(InvalidInput, match="no file"):
        open_database(tmp_path / "weft.db")
    (tmp_path / "file").touch()
    with pytest.raises(StorageProblem, match="cannot create the folder"):
        open_database(tmp_path / "file" / "weft.db", create=True)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageProblem, match="not a regular file; move it away"):
        open_database(tmp_path / "folder", create=True)


READING = """if True:
    import os, sys
    from pathlib import Path
    from weft.repository.database import open_database
    from weft.repository.database import StorageProblem
    if os.getuid() == 0:
        os.setuid(65534)
    with open_database(Path(sys.argv[1])) as database:
        print(database.rows("SELECT value FROM kept"))
        try:
            database.execute_now("INSERT INTO kept VALUES (2, 'k', 'v')")
        except StorageProblem as error:
            print(error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("at_work", [True, False])
def test_database_can_be_opened_read_only(at_work):
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        path = folder / "weft.db"
        database = open_database(path, create=True)
        database.queue_change(KEEP, (1, "k", "seen"))
        database.commit()
        if not at_work:
            database.close()
        for file in folder.iterdir():
            file.chmod(0o644)  # weft itself lets only the owner read its database
        done = subprocess.run(
            [sys.executable, "-c", READING, str(path)],
            env=environment(PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        database.close()
        if "Permission denied" in done.stderr:
            pytest.skip("others may not read the source tree")
        assert done.stdout.startswith("[('seen',)]\n"), done.stderr
        assert "it is read-only" in done.stdout
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("text", ["a", "ä", "\udc80\udcff", "x" * 10_000, "\x00", ""])
def test_any_text_is_read_back_unchanged(database, text):
    database.queue_change(KEEP, (1, text, text))
    database.commit()
    assert kept(database) == [(1, text, text)]
    assert database.row("SELECT execution FROM kept WHERE key = ?", (text,)) == (1,)


def test_data_version_changes_only_with_commits_of_other_connections(database):
    before = database.data_version
    database.execute_now(KEEP, (1, "k", "v"))
    assert database.data_version == before
    with open_database(database.path) as other:
        other.execute_now(KEEP, (2, "k", "v"))
    assert database.data_version != before


def test_threads_can_share_a_database(database):
    def add(first):
        for number in range(first, first + 200):
            database.queue_insert(KEEP, (number, "k", "v"))
            if number % 10 == 0:
                database.commit()
            database.rows("SELECT count(*) FROM kept")

    threads = [threading.Thread(target=add, args=(1000 * each,)) for each in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    database.commit()
    assert len(kept(database)) == 600
