"""The SQLite database of a project: schema, transactions, and error messages for users.

Changes of an engine are queued and written by ``commit`` in one transaction, so after a crash all or none of
them are in the file. In WAL mode, readers in other processes and the engine do not block each other. With
``synchronous=NORMAL``, committed transactions survive the death of the process; after a power failure the
last ones may be lost, but the file stays consistent.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from weft.backends.layout import make_state_folder
from weft.engine.stored_fields import DAMAGE, decode_record, describe_error
from weft.errors import InvalidInput, SourceLocation, WeftError

_Record = TypeVar("_Record")

APPLICATION_ID = 0x77656674
"""SQLite's ``application_id``: the letters "weft"."""

SCHEMA_VERSION = 1
"""SQLite's ``user_version``; incremented when the tables change."""

TABLES = (
    """CREATE TABLE execution (
        number INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL,
        state TEXT NOT NULL,
        owner TEXT NOT NULL,
        command TEXT NOT NULL,
        version TEXT NOT NULL,
        started_at_s REAL NOT NULL,
        ended_at_s REAL,
        header TEXT NOT NULL
    )""",
    "CREATE INDEX execution_by_fingerprint ON execution (fingerprint)",
    """CREATE TABLE plan (
        execution INTEGER NOT NULL,
        key TEXT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (execution, key)
    )""",
    # WITHOUT ROWID: an entry is stored once, in the index of its primary key.
    """CREATE TABLE entry (
        execution INTEGER NOT NULL,
        number INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (execution, number)
    ) WITHOUT ROWID""",
    # Only the last snapshot of an execution is kept; it has the fewest entries after it.
    """CREATE TABLE snapshot (
        execution INTEGER PRIMARY KEY,
        entry INTEGER NOT NULL,
        state TEXT NOT NULL
    )""",
    """CREATE TABLE kept (
        execution INTEGER NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (execution, key)
    ) WITHOUT ROWID""",
    """CREATE TABLE run (
        number INTEGER PRIMARY KEY,
        execution INTEGER NOT NULL,
        position INTEGER NOT NULL,
        workflow TEXT NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        reason TEXT NOT NULL,
        tasks INTEGER NOT NULL,
        started_at_s REAL NOT NULL,
        ended_at_s REAL,
        predicted_p50_s REAL,
        predicted_p90_s REAL,
        UNIQUE (execution, position)
    )""",
    """CREATE TABLE product (
        number INTEGER PRIMARY KEY,
        execution INTEGER NOT NULL,
        run INTEGER NOT NULL,
        task INTEGER NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        workflow TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        iteration INTEGER NOT NULL,
        machine TEXT NOT NULL,
        directory TEXT NOT NULL,
        exit_code INTEGER NOT NULL,
        result TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        parts TEXT NOT NULL,
        seconds REAL NOT NULL
    )""",
    "CREATE INDEX product_by_task ON product (execution, run, task)",
    "CREATE INDEX product_by_name ON product (workflow, name)",
    "CREATE INDEX product_by_fingerprint ON product (fingerprint) WHERE fingerprint <> ''",
    """CREATE TABLE made_file (
        product INTEGER NOT NULL,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        digest TEXT NOT NULL,
        modified_ns INTEGER NOT NULL,
        PRIMARY KEY (product, position)
    ) WITHOUT ROWID""",
    # AUTOINCREMENT: the number of a removed request is never reused.
    """CREATE TABLE request (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        what TEXT NOT NULL,
        execution INTEGER NOT NULL,
        run INTEGER,
        task TEXT,
        machine TEXT,
        owner TEXT NOT NULL,
        asked_at_s REAL NOT NULL,
        answer TEXT,
        granted INTEGER
    )""",
    "CREATE INDEX request_open ON request (number) WHERE answer IS NULL",
)


_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space, then continue with `weft resume`",
    sqlite3.SQLITE_IOERR: "the disk is full or failing: check it, then continue with `weft resume`",
    sqlite3.SQLITE_READONLY: "it is read-only: check its permissions and those of its folder",
    sqlite3.SQLITE_PERM: "check its permissions and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "check that its folder exists and is writable",
    sqlite3.SQLITE_BUSY: "another process has locked it: `weft status` shows the running engine",
    sqlite3.SQLITE_LOCKED: "another process has locked it: `weft status` shows the running engine",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


_RESTORE = "restore it from a backup, or move it away to create a new one"


class StorageProblem(WeftError):
    """The database cannot be read or written, although its content is valid."""


def explain_sqlite_error(error: sqlite3.Error, path: Path) -> WeftError:
    """Return an error for the user that names the file, and advice where known."""
    # The low byte is the primary result code. Errors raised by the sqlite3 module itself have no code.
    code = getattr(error, "sqlite_errorcode", None)
    kind = None if code is None else code & 0xFF
    if kind in _DAMAGED:
        what = f"the file is damaged or not a database: {error}"
        return InvalidInput(what, advice=_RESTORE, location=SourceLocation(file=str(path)))
    advice = _ADVICE.get(kind, "") if kind is not None else ""
    return StorageProblem(f"{path}: {error}" + (f"; {advice}" if advice else ""))


FAILPOINT_VARIABLE = "WEFT_FAILPOINT"


class Failpoint:
    """Test hook: kills the process (SIGKILL) at a chosen commit.

    ``WEFT_FAILPOINT=commit:3`` kills it before its third commit, ``committed:3`` directly after. Other values
    have no effect.
    """

    def __init__(self) -> None:
        place, _, number = os.environ.get(FAILPOINT_VARIABLE, "").partition(":")
        valid = place in ("commit", "committed") and number.isdecimal()
        self._place, self._left = (place, int(number)) if valid else ("", 0)

    def reach(self, place: str) -> None:
        """Count ``commit`` before and ``committed`` after a commit; kill the process at the chosen one."""
        if self._place:
            self._left -= place == "commit"
            if self._place == place and self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_COUNT_TABLES = "SELECT count(*) FROM sqlite_master"
_WAL_PAGES = 4_000
"""Number of WAL pages (4 KiB) after which SQLite moves them into the database file."""

_BUSY_S = 10.0
"""Seconds to wait while another process writes."""

_Row = Sequence[Any]


class Database:
    """An open database. Threads may share it; a forked process may not."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Wrap a connection; use ``open_database`` to open a file."""
        self.path = path
        self.commits = 0
        """Number of commits made through this object."""
        self._connection = connection
        self.lock = threading.RLock()
        """Lock to hold while queueing rows that must be written by the same commit."""
        self._bulk: dict[str, list[_Row]] = {}
        self._ordered: list[tuple[str, _Row]] = []
        self._failpoint = Failpoint()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queue_insert(self, statement: str, row: _Row) -> None:
        """Queue an INSERT for the next commit, which writes the rows of each statement together.

        Strings must be encodable as UTF-8 (see ``storable``).
        """
        with self.lock:
            self._bulk.setdefault(statement, []).append(row)

    def queue_change(self, statement: str, row: _Row) -> None:
        """Queue a change for the next commit; changes are applied in order, after all queued inserts."""
        with self.lock:
            self._ordered.append((statement, [storable(value) for value in row]))

    def commit(self) -> None:
        """Write all queued changes in one transaction; after a failure they stay queued for a retry."""
        with self.lock:
            if not self._bulk and not self._ordered:
                return
            self._failpoint.reach("commit")
            with self.transaction():
                for statement, rows in self._bulk.items():
                    self._connection.executemany(statement, rows)
                for statement, row in self._ordered:
                    self._connection.execute(statement, row)
            self._bulk.clear()
            self._ordered.clear()
            self.commits += 1
            self._failpoint.reach("committed")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Context manager that makes the ``execute_now`` calls of its block one transaction."""
        connection = self._connection
        with self.lock:
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise explain_sqlite_error(error, self.path) from error
                raise

    def execute_now(self, statement: str, row: _Row = ()) -> int:
        """Execute a change immediately; return the number of the row that an INSERT added."""
        return self._execute(statement, row)[1]

    def decode(
        self, what: str, kind: type[_Record], columns: Sequence[str], row: Sequence[Any], *as_json: str
    ) -> _Record:
        """Create an object of a dataclass from a row; ``as_json`` are the columns that hold JSON.

        Raises InvalidInput with ``what`` if a value has a wrong type.
        """
        try:
            found = dict(zip(columns, row, strict=True))
            found |= {name: json.loads(found[name]) for name in as_json if found[name] is not None}
            return decode_record(kind, found)
        except DAMAGE as error:
            what = f"database damaged at {what}: {describe_error(error)}"
            location = SourceLocation(file=str(self.path))
            raise InvalidInput(what, advice=_RESTORE, location=location) from None

    def rows(self, question: str, values: _Row = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; queued changes are not included."""
        return [tuple(map(_restore_text, row)) for row in self._execute(question, values)[0]]

    def _execute(self, statement: str, values: _Row) -> tuple[list[tuple[Any, ...]], int]:
        """Execute a statement immediately; return its rows, and the number of the row an INSERT added."""
        with self.lock:
            try:
                done = self._connection.execute(statement, [storable(value) for value in values])
                return done.fetchall(), done.lastrowid or 0
            except sqlite3.Error as error:
                raise explain_sqlite_error(error, self.path) from error

    def row(self, question: str, values: _Row = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query; None if it has no rows."""
        found = self.rows(question, values)
        return found[0] if found else None

    @property
    def data_version(self) -> int:
        """Return a number that changes with every commit of another process; a cheap query."""
        ((version,),) = self.rows("PRAGMA data_version")
        return int(version)

    def close(self) -> None:
        """Close the file; queued changes are discarded."""
        with self.lock:
            self._connection.close()


def storable(value: Any) -> Any:
    """Return a value that SQLite can store; a string that is not valid UTF-8 is returned as bytes."""
    if type(value) is not str or value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogatepass")
    return value


def _restore_text(value: Any) -> Any:
    if type(value) is not bytes:
        return value
    try:
        return value.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return value.decode(errors="backslashreplace")  # damaged


def open_database(path: Path, *, create: bool = False) -> Database:
    """Open a database; with ``create``, make the file and its folder if missing.

    Raises InvalidInput for a file that is missing, damaged, of another program or version; StorageProblem if
    a valid file cannot be used.
    """
    if create:
        _make_folder(path)
    elif not path.is_file():
        advice = "`weft run` creates the file; check that this is the project folder"
        raise InvalidInput(f"no file '{path}'", advice=advice)
    failure: sqlite3.Error | None = None
    for how in ("mode=rwc",) if create else _read_modes(path):
        try:
            return Database(path, _connect(path, how, create=create))
        except sqlite3.OperationalError as error:
            # A file without write permission is opened read-only; the first error is the one to report.
            failure = failure or error
        except sqlite3.Error as error:
            raise explain_sqlite_error(error, path) from error
    assert failure is not None
    raise explain_sqlite_error(failure, path) from failure


def _make_folder(path: Path) -> None:
    try:
        make_state_folder(path.parent)
    except OSError as error:
        raise StorageProblem(f"cannot create the folder '{path.parent}': {error.strerror}") from None


def _read_modes(path: Path) -> list[str]:
    """Return the modes in which to try to open a file, best first; ``immutable`` only without a WAL file."""
    changes = path.with_name(path.name + "-wal")
    return ["mode=rw", "mode=ro", *([] if changes.exists() else ["immutable=1"])]


def _connect(path: Path, how: str, *, create: bool) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{how}"
    # ``Database.lock`` ensures that only one thread at a time uses the connection.
    connection = sqlite3.connect(
        address, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        if create:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES}")
            _make_tables(connection)
        _check_version(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    if _query_number(connection, "PRAGMA application_id") or _query_number(connection, _COUNT_TABLES):
        return
    connection.execute("BEGIN IMMEDIATE")
    if not _query_number(connection, _COUNT_TABLES):  # Another process may have created them first.
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    location = SourceLocation(file=str(path))
    if _query_number(connection, "PRAGMA application_id") != APPLICATION_ID:
        empty = not _query_number(connection, _COUNT_TABLES)
        # Such a file exists if the disk was full at the first run.
        what, advice = "the database is empty: nothing was run here yet", "start with `weft run WORKFLOW`"
        if not empty:
            what, advice = "the database was not created by weft", "name another file, or move this one away"
        raise InvalidInput(what, advice=advice, location=location)
    if (version := _query_number(connection, "PRAGMA user_version")) != SCHEMA_VERSION:
        raise InvalidInput(
            f"the database has version {version}",
            rule=f"this weft reads version {SCHEMA_VERSION}",
            advice="use the weft version that wrote it, or move `.weft` away to create a new one",
            location=location,
        )


def _query_number(connection: sqlite3.Connection, question: str) -> int:
    (found,) = connection.execute(question).fetchone()
    return int(found)
