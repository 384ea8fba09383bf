"""The tables of the database, and the version of their form.

What can go wrong with the database file, told so that one knows what to do.

A hook for tests: the process dies at a chosen write, as if it had been killed there.

``WEFT_FAILPOINT=commit:3`` kills it (SIGKILL) before its third commit, ``WEFT_FAILPOINT=committed:3`` after
it, before anything that follows from it can happen. Other values, and no value, do nothing.

The database: one SQLite file, in which everything is remembered that must outlive a process.

What an engine remembers is gathered and written in one transaction by ``commit``: after a crash all of it is
there or none. Journal mode WAL: readers in other shells never wait for the engine, nor it for them. With
``synchronous=NORMAL`` what was committed outlives the death of the process; after a power failure the last
transactions may be gone, and the file is still whole.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from weft.errors import InvalidInput, Problem, SourceLocation, WeftError

__all__ = [
    "APPLICATION_ID",
    "FAILPOINT_VARIABLE",
    "SCHEMA_VERSION",
    "TABLES",
    "Database",
    "Failpoint",
    "StorageProblem",
    "explain_sqlite_error",
    "open_database",
    "storable",
]


APPLICATION_ID = 0x77656674
"""SQLite's ``application_id``: the letters "weft"."""

SCHEMA_VERSION = 1
"""SQLite's ``user_version``: it changes with the tables."""

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
    # A table of its own key, so that an entry is written to one place only.
    """CREATE TABLE entry (
        execution INTEGER NOT NULL,
        number INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY (execution, number)
    ) WITHOUT ROWID""",
    # Only the last of an execution is kept: from any other the way to the end is longer.
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
    # AUTOINCREMENT: a number is never given to another request, even after the first was removed.
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
    sqlite3.SQLITE_FULL: "the disk is full: make room, then `weft resume` goes on where it stopped",
    sqlite3.SQLITE_IOERR: "the disk is full, or it is failing: look at it, then `weft resume`",
    sqlite3.SQLITE_READONLY: "it may not be written to: check its permissions and those of its folder",
    sqlite3.SQLITE_PERM: "check its permissions and those of its folder",
    sqlite3.SQLITE_CANTOPEN: "check that its folder exists and that you may write there",
    sqlite3.SQLITE_BUSY: "another process holds it for long: `weft status` names the engine at work",
    sqlite3.SQLITE_LOCKED: "another process holds it for long: `weft status` names the engine at work",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class StorageProblem(WeftError):
    """The database cannot be read or written now, through no fault of what stands in it."""


def explain_sqlite_error(error: sqlite3.Error, path: Path) -> WeftError:
    """Say what an error of SQLite means for a user."""
    # The lower byte is the kind, the others say more than is needed. None: a complaint of Python's own.
    code = getattr(error, "sqlite_errorcode", None)
    kind = None if code is None else code & 0xFF
    if kind in _DAMAGED:
        advice = "restore it from a copy, or move it away to begin anew"
        what = f"the database is damaged, or is none: {error}"
        return InvalidInput(Problem(what=what, advice=advice, place=SourceLocation(file=str(path))))
    advice = _ADVICE.get(kind, "") if kind is not None else ""
    return StorageProblem(f"{path}: {error}" + (f"; {advice}" if advice else ""))


FAILPOINT_VARIABLE = "WEFT_FAILPOINT"


@dataclass(slots=True)
class Failpoint:
    """Counts commits, and ends the process at the stated one."""

    place: str = ""
    """``commit``, ``committed``; "": nowhere."""
    left: int = 0
    """Commits until then."""

    @classmethod
    def stated(cls) -> Failpoint:
        """Read the environment variable."""
        place, _, number = os.environ.get(FAILPOINT_VARIABLE, "").partition(":")
        if place not in ("commit", "committed") or not number.isdecimal():
            return cls()
        return cls(place=place, left=int(number))

    def before_commit(self) -> None:
        """Hear that a commit is about to be made."""
        if self.place:
            self.left -= 1
            self._die_at("commit")

    def after_commit(self) -> None:
        """Hear that a commit was made."""
        if self.place:
            self._die_at("committed")

    def _die_at(self, place: str) -> None:
        if self.place == place and self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


_COUNT_TABLES = "SELECT count(*) FROM sqlite_master"
_PAGES_BESIDE = 4_000
"""Pages (4 KiB) of changes that may lie beside the file: it is synchronised when they are moved into it."""

_BUSY_S = 10.0
"""How long one waits while another process writes."""

_Row = Sequence[Any]


class Database:
    """An open database. Threads may share it; a forked process may not."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Use ``open_database``."""
        self.path = path
        self.commits = 0
        """How often something was committed here."""
        self._connection = connection
        self.together = threading.RLock()
        """Held while rows are kept that must be written by one commit."""
        self._bulk: dict[str, list[_Row]] = {}
        self._ordered: list[tuple[str, _Row]] = []
        self._failpoint = Failpoint.stated()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def queue_insert(self, statement: str, row: _Row) -> None:
        """Keep a row for the next commit; rows of one statement go together, so order between tables is lost.

        Texts must be such that UTF-8 can hold them; ``storable`` makes them so.
        """
        with self.together:
            self._bulk.setdefault(statement, []).append(row)

    def later(self, statement: str, row: _Row) -> None:
        """Keep a change for the next commit; such changes are made in their order, behind all new rows."""
        with self.together:
            self._ordered.append((statement, [storable(value) for value in row]))

    def commit(self) -> None:
        """Write everything that was kept, in one transaction; if that fails it is kept, for another try."""
        with self.together:
            if not self._bulk and not self._ordered:
                return
            self._failpoint.before_commit()
            connection = self._connection
            try:
                connection.execute("BEGIN IMMEDIATE")
                for statement, rows in self._bulk.items():
                    connection.executemany(statement, rows)
                for statement, row in self._ordered:
                    connection.execute(statement, row)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise explain_sqlite_error(error, self.path) from error
            self._bulk.clear()
            self._ordered.clear()
            self.commits += 1
            self._failpoint.after_commit()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Make the changes that ``now`` makes in a block one transaction: all of them, or none."""
        with self.together:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise explain_sqlite_error(error, self.path) from error
            except BaseException:
                self._roll_back()
                raise

    def now(self, statement: str, row: _Row = ()) -> int:
        """Make one change now, and not with the next commit; give the number of the row it made."""
        with self.together:
            try:
                done = self._connection.execute(statement, [storable(value) for value in row])
            except sqlite3.Error as error:
                raise explain_sqlite_error(error, self.path) from error
            return done.lastrowid or 0

    def rows(self, question: str, values: _Row = ()) -> list[tuple[Any, ...]]:
        """Ask for rows; what was kept for the next commit is not among them."""
        with self.together:
            try:
                found = self._connection.execute(question, [storable(value) for value in values]).fetchall()
            except sqlite3.Error as error:
                raise explain_sqlite_error(error, self.path) from error
        return [tuple(map(_restore_text, row)) for row in found]

    def row(self, question: str, values: _Row = ()) -> tuple[Any, ...] | None:
        """Ask for the first row, or None."""
        found = self.rows(question, values)
        return found[0] if found else None

    @property
    def data_version(self) -> int:
        """Give a number that changes whenever another process has committed something; cheap."""
        ((version,),) = self.rows("PRAGMA data_version")
        return int(version)

    def close(self) -> None:
        """Let go of the file; what was kept and never committed is forgotten."""
        with self.together:
            self._connection.close()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def storable(value: Any) -> Any:
    """Give a value as SQLite can hold it: a text that is not UTF-8, as a file's name may be, as bytes."""
    if type(value) is not str or value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode(errors="surrogatepass")
    return value


def _restore_text(value: Any) -> Any:
    return value.decode(errors="surrogatepass") if type(value) is bytes else value


def open_database(path: Path, *, create: bool = False) -> Database:
    """Open a database; ``create``: make it, and its folder, if there is none.

    A file that is none of ours, is damaged or of another version is an InvalidInput; what else stands in the
    way is a StorageProblem.
    """
    if create:
        _make_folder(path)
    elif not path.is_file():
        advice = "`weft run` makes one; is this the project's folder?"
        raise InvalidInput(Problem(what=f"no file '{path}'", advice=advice))
    failure: sqlite3.Error | None = None
    for how in ("mode=rwc",) if create else _read_modes(path):
        try:
            return Database(path, _connect(path, how, create=create))
        except sqlite3.OperationalError as error:
            # Where one may read but not write the file is opened so; the first failure says why not more.
            failure = failure or error
        except sqlite3.Error as error:
            raise explain_sqlite_error(error, path) from error
    assert failure is not None
    raise explain_sqlite_error(failure, path) from failure


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageProblem(f"cannot make the folder '{path.parent}': {error.strerror}") from None


def _read_modes(path: Path) -> list[str]:
    """List the ways to open a file, best first. As immutable only if no changes lie beside it."""
    changes = path.with_name(path.name + "-wal")
    return ["mode=rw", "mode=ro", *([] if changes.exists() else ["immutable=1"])]


def _connect(path: Path, how: str, *, create: bool) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{how}"
    # One thread at a time uses it, which ``Database.together`` sees to.
    connection = sqlite3.connect(
        address, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        if create:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint={_PAGES_BESIDE}")
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
    if not _query_number(connection, _COUNT_TABLES):  # another process may have been faster
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    place = SourceLocation(file=str(path))
    if _query_number(connection, "PRAGMA application_id") != APPLICATION_ID:
        empty = not _query_number(connection, _COUNT_TABLES)
        # As a disk leaves it that was full when the first run began.
        what, advice = "an empty database: nothing was run here yet", "`weft run WORKFLOW` begins"
        if not empty:
            what, advice = "a database that is not weft's", "name another file, or move it away"
        raise InvalidInput(Problem(what=what, advice=advice, place=place))
    version = _query_number(connection, "PRAGMA user_version")
    if version != SCHEMA_VERSION:
        raise InvalidInput(
            Problem(
                what=f"a database of version {version}",
                rule=f"this weft reads version {SCHEMA_VERSION}",
                advice="use the weft that wrote it, or move `.weft` away to begin anew",
                place=place,
            )
        )


def _query_number(connection: sqlite3.Connection, question: str) -> int:
    (found,) = connection.execute(question).fetchone()
    return int(found)
