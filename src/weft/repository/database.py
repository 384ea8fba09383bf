"""The SQLite database of a project: schema, transactions, and error messages for users.

Changes of an engine are queued and written by ``commit`` in one transaction, so after a crash all or none of
them are in the file. In WAL mode, readers in other processes and the engine do not block each other.
Committed transactions survive the death of the process at once. They survive a power failure when the thread
of ``GroupCommit`` has synced them (``Database.durable``). After a power failure the last transactions may be
missing, but the file is consistent and holds no transaction without all earlier ones.

An engine claims the database. Each of its transactions first checks that no other engine has claimed the
database since, because locks do not work on every file system. While another process has locked the database,
an engine waits and logs a warning.

A copied project has the identity of the original, and would use the same directories in sandboxes outside of
the projects. An engine therefore records where the project is, to detect copies. In a copy it draws a new
identity for new executions; copied executions keep the old identity, and the copy does not remove their
directories.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from weft.backends.attempt.file_sync import is_sync_enabled
from weft.engine.stored_fields import DAMAGE, decode_record, describe_error
from weft.errors import InvalidInput, Locked, SourceLocation, WeftError
from weft.private_files import UnsafeFile, check_file, close_to_others, make_folder, prepare_file
from weft.records import dataclass
from weft.repository.group_commit import GroupCommit

_Record = TypeVar("_Record")
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)

APPLICATION_ID = 0x77656674
"""SQLite's ``application_id``: the letters "weft"."""

SCHEMA_VERSION = 3
"""SQLite's ``user_version``; incremented when the tables change."""

_FIRST_VERSION = 1
"""The oldest schema version that can be read; an engine converts it when it opens the database."""

_WITH_IDENTITIES = 2
"""The first schema version with the tables ``attempt`` and ``project``."""

_NEW_TABLES = (
    # The nonce identifies an attempt, because after a lost tail of the journal its number is used again.
    """CREATE TABLE attempt (
        execution INTEGER NOT NULL,
        number INTEGER NOT NULL,
        nonce TEXT NOT NULL,
        PRIMARY KEY (execution, number)
    ) WITHOUT ROWID""",
    """CREATE TABLE project (
        key TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) WITHOUT ROWID""",
)
"""Tables that schema version 1 did not have."""

_NEW_COLUMNS: tuple[tuple[int, str, str], ...] = (
    (2, "product", "boot TEXT NOT NULL DEFAULT ''"),
    (2, "made_file", "inode INTEGER NOT NULL DEFAULT 0"),
    (2, "made_file", "changed_ns INTEGER NOT NULL DEFAULT 0"),
    (3, "product", "counters TEXT NOT NULL DEFAULT '[]'"),
)
"""Columns that the first schema version did not have: version that added the column, table, declaration."""

TABLES = (
    *_NEW_TABLES,
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
        seconds REAL NOT NULL,
        boot TEXT NOT NULL DEFAULT '',
        counters TEXT NOT NULL DEFAULT '[]'
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
        inode INTEGER NOT NULL DEFAULT 0,
        changed_ns INTEGER NOT NULL DEFAULT 0,
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


_FREE = "free some space (`weft clean` removes directories of failed attempts)"
_CONTINUE = "continue with `weft resume`, or with `weft run` if no run was recorded yet"
_ADVICE = {
    sqlite3.SQLITE_FULL: f"the disk is full: {_FREE}, then {_CONTINUE}",
    sqlite3.SQLITE_IOERR: f"the disk is full or failing, or `ulimit -f` too small: check, then {_CONTINUE}",
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


class DiskFull(StorageProblem):
    """The database cannot be written because its disk is full."""


class StateMoved(StorageProblem):
    """The database of an engine is no longer at its path; ``is_lost`` if it was removed, not moved."""

    def __init__(self, text: str, *, is_lost: bool) -> None:
        super().__init__(text)
        self.is_lost = is_lost


def _primary_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code (the low byte); None for errors of the sqlite3 module itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def explain_sqlite_error(error: sqlite3.Error, path: Path) -> WeftError:
    """Return an error for the user that names the file and, if possible, says what to do."""
    kind = _primary_code(error)
    if kind in _DAMAGED:
        what = f"the file is damaged or not a database: {error}"
        return InvalidInput(what, advice=_RESTORE, location=SourceLocation(file=str(path)))
    advice = _ADVICE.get(kind, "") if kind is not None else ""
    problem = DiskFull if kind == sqlite3.SQLITE_FULL or _is_disk_full(kind, path) else StorageProblem
    return problem(f"{path}: {error}" + (f"; {advice}" if advice else ""))


def _is_disk_full(kind: int | None, path: Path) -> bool:
    """Return whether an error of input or output occurred on a disk without free space."""
    try:
        return kind == sqlite3.SQLITE_IOERR and os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False


FAILPOINT_VARIABLE = "WEFT_FAILPOINT"


class Failpoint:
    """Hook for tests: kills the process (SIGKILL) at a chosen commit.

    ``WEFT_FAILPOINT=commit:3`` kills the process before its third commit, ``committed:3`` directly after it.
    Other values have no effect.
    """

    def __init__(self) -> None:
        place, _, number = os.environ.get(FAILPOINT_VARIABLE, "").partition(":")
        valid = place in ("commit", "committed") and number.isdecimal()
        self._place, self._left = (place, int(number)) if valid else ("", 0)

    def reach(self, place: str) -> None:
        """Count commits; kill the process if the chosen commit has reached ``place``.

        ``place`` is ``commit`` before a commit, and ``committed`` after it.
        """
        if self._place:
            self._left -= place == "commit"
            if self._place == place and self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_COUNT_TABLES = "SELECT count(*) FROM sqlite_master"
_VERSION = "PRAGMA user_version"
IDENTITY = "identity"
"""Key of the project's identity in table ``project``: 128 random bits, in hexadecimal."""
_PLACE, _INHERITED = "place", "inherited"
"""Keys in table ``project``: of the project's place, and of ``InheritedExecutions``."""
_WAL_PAGES = 4_000
"""Number of WAL pages (4 KiB) after which SQLite moves them into the database file."""

_BUSY_S = 10.0
"""Seconds for which a command waits while another process has locked the database."""

_ENGINE_BUSY_S = 0.5
"""Seconds that an engine waits in one try for a locked database.

An engine tries without limit, and handles signals between two tries.
"""

_SAY_AFTER_S, _SAY_EVERY_S = 3.0, 60.0
"""Seconds after which an engine first logs that it waits, and seconds between later messages."""

_OWNER = "SELECT value FROM project WHERE key = 'engine'"
_CLAIM = "INSERT OR REPLACE INTO project VALUES ('engine', ?)"
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NO_SPACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_EXCLUSIVE = "mode=rw exclusive"
"""Mode to open a database on a full disk: it excludes other processes and needs no shared memory."""
_Row = Sequence[Any]


def wait_until_unlocked(path: Path, action: Callable[[], _Result]) -> _Result:
    """Return the result of ``action``; repeat it while another process has locked the database.

    After a few seconds, and then once a minute, a warning says that the database is locked.
    """
    say_at_s = time.monotonic() + _SAY_AFTER_S
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if _primary_code(error) not in _LOCKED:
                raise
        if time.monotonic() >= say_at_s:
            _log.warning("waiting: %s is locked by another process; the run continues when it is free", path)
            say_at_s = time.monotonic() + _SAY_EVERY_S
        time.sleep(0.01)  # some conflicts are reported without the waiting time of the connection


def _log_path(path: Path) -> Path:
    """Return the path of the write-ahead log of a database."""
    return path.with_name(f"{path.name}-wal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlace:
    """Location of a project: its folder, the inode and device of its ``.weft`` directory, and the host."""

    folder: str
    inode: int
    device: int
    host: str

    @classmethod
    def of(cls, database: Path) -> Self:
        """Return the place of the project whose database (``.weft/weft.db``) has this path."""
        home = Path(os.path.realpath(database)).parent
        found = home.stat()
        return cls(folder=str(home.parent), inode=found.st_ino, device=found.st_dev, host=os.uname().nodename)

    def is_same(self, other: ProjectPlace) -> bool:
        """Return whether both places belong to one project.

        The project may have been restored, renamed or accessed from another host. The device of a network
        file system may differ between hosts, and after a reboot.
        """
        if self.folder == other.folder:
            return self.host == other.host or self.inode == other.inode
        return (self.inode, self.device) == (other.inode, other.device)


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedExecutions:
    """Executions that a copied project has from its original."""

    identity: str
    """Identity of the original project, which is part of the paths of the executions' directories."""
    folder: str
    """Folder of the original project."""
    last_execution: int


def _holds_project(folder: Path, database: Path, identity: str) -> bool:
    """Return whether a folder contains the project with an identity; True if this cannot be determined."""
    path = folder / database.parent.name / database.name
    try:
        path.stat()
        if _log_path(path).exists():
            return True  # an engine may be running; reading the log would create files
        connection = _connect(path, "immutable=1", create=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, sqlite3.Error, WeftError):
        return True
    try:
        return bool(connection.execute("SELECT 1 FROM project WHERE instr(value, ?)", (identity,)).fetchall())
    except sqlite3.Error:
        return True
    finally:
        connection.close()


class Database:
    """An open database. Threads may share it; a forked process may not."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, engine: bool = False) -> None:
        """Create the object for a connection (see ``open_database``).

        If ``engine`` is True, statements wait without limit while another process has locked the database.
        """
        self.path = path
        self.commits = 0
        """Number of commits made through this object."""
        self.position = 0
        """Number of transactions written through this object, commits included."""
        self._connection = connection
        self.lock = threading.RLock()
        """Lock to hold while queueing rows that must be written by the same commit."""
        self._bulk: dict[str, list[_Row]] = {}
        self._ordered: list[tuple[str, _Row]] = []
        self._failpoint = Failpoint()
        self._engine = engine
        self._claim = ""
        """Nonce under which an engine has claimed the database; "": it was not claimed."""
        self._group: GroupCommit | None = None
        self._place: _OpenPlace | None = None
        """The claimed file; None: no engine has claimed it through this object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self) -> None:
        """Make this engine the only one that may write.

        An engine that claimed the database earlier stops when it next checks its claim.
        """
        nonce = os.urandom(16).hex()
        with self.transaction():
            self.execute_now(_CLAIM, (nonce,))
        self._claim = nonce
        self._place = _OpenPlace(self.path)

    def check_place(self) -> None:
        """Raise StateMoved if the claimed database was moved, removed or replaced. The call is cheap."""
        if self._place is not None:
            self._place.check()

    def check_claim(self) -> None:
        """Raise Locked if another engine has claimed the database after this one; see ``check_place``."""
        self.check_place()
        if self._claim and (found := self.row(_OWNER)) != (self._claim,):
            other = str(found[0])[:8] if found else "unknown"
            raise Locked(
                f"{self.path}: another engine ({other}) has taken over this project; this engine "
                f"({self._claim[:8]}) stops and changes nothing more. The locks of this file system do not "
                "work: start weft on one host only, or move the project to another file system"
            )

    def start_group_commit(self, wake: Callable[[], None]) -> None:
        """Start a thread that syncs all transactions to the disk; see ``GroupCommit``.

        Some file systems do not support a write-ahead log. Without such a log SQLite itself syncs every
        transaction, and no thread is started.
        """
        if is_sync_enabled() and _log_path(self.path).exists():
            self._group = GroupCommit(_log_path(self.path), wake)
            self._group.add(self.position)

    def stop_group_commit(self) -> None:
        """Sync the transactions written so far and end the thread; ``wake`` is not called any more."""
        if self._group is not None:
            self._group.close()

    @property
    def durable(self) -> int:
        """Return the position up to which transactions are on disk; raise StorageProblem if a sync failed."""
        self._check_sync()
        return self.position if self._group is None else self._group.durable

    def request_sync(self, position: int) -> None:
        """Make the transactions up to a position durable without delay."""
        if self._group is not None:
            self._group.request(position)

    def wait_until_durable(self) -> None:
        """Wait until everything that was written is on disk; raise StorageProblem if a sync failed."""
        if self._group is not None:
            self._group.wait(self.position)
        self._check_sync()

    def _check_sync(self) -> None:
        if self._group is not None and (problem := self._group.problem) is not None:
            raise StorageProblem(
                f"{_log_path(self.path)}: the last changes may not be on the disk: {problem.strerror}; check "
                "the disk, then continue with `weft resume`"
            )

    def sync_now(self) -> None:
        """Make all committed transactions durable, also those of other processes; raises StorageProblem."""
        if not is_sync_enabled():
            return
        try:
            log = os.open(_log_path(self.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # SQLite has synced it when it moved its content into the database
        try:
            os.fdatasync(log)
        except OSError as error:
            raise StorageProblem(f"{_log_path(self.path)}: {error.strerror}; check the disk") from None
        finally:
            os.close(log)

    def queue_insert(self, statement: str, row: _Row) -> None:
        """Queue an INSERT for the next commit, which writes all rows of the same statement together.

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
        """Context manager that combines the ``execute_now`` calls of its block into one transaction."""
        connection = self._connection
        with self.lock:
            self._check_sync()
            try:
                self._repeat(lambda: connection.execute("BEGIN IMMEDIATE"))
                self.check_claim()
                yield
                self._repeat(lambda: connection.execute("COMMIT"))
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise explain_sqlite_error(error, self.path) from error
                raise
            self.position += 1
            if self._group is not None:
                self._group.add(self.position)

    def _repeat(self, action: Callable[[], _Result]) -> _Result:
        """Return the result of ``action``.

        If an engine opened the database, ``action`` is repeated while the database is locked.
        """
        return wait_until_unlocked(self.path, action) if self._engine else action()

    def execute_now(self, statement: str, row: _Row = ()) -> int:
        """Execute a change immediately; return the number of the row that an INSERT added."""
        return self._execute(statement, row)[1]

    def decode(
        self, what: str, kind: type[_Record], columns: Sequence[str], row: Sequence[Any], *as_json: str
    ) -> _Record:
        """Create an object of the dataclass ``kind`` from a row; ``as_json`` are the columns that hold JSON.

        Raises InvalidInput, with ``what`` in the message, if a value has a wrong type.
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
                stored = [storable(value) for value in values]
                done = self._repeat(lambda: self._connection.execute(statement, stored))
                return done.fetchall(), done.lastrowid or 0
            except sqlite3.Error as error:
                raise explain_sqlite_error(error, self.path) from error

    def row(self, question: str, values: _Row = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query; None if it has no rows."""
        found = self.rows(question, values)
        return found[0] if found else None

    @property
    def identity(self) -> str:
        """Return the identity of the project; "" for a database of an older version."""
        return self._read_text(IDENTITY)

    def identity_of(self, execution: int) -> str:
        """Return the identity that the project had when an execution was started."""
        for inherited in self._inherited():
            if execution <= inherited.last_execution:
                return inherited.identity
        return self.identity

    def find_original(self) -> str:
        """Return the folder of the original if this project is a copy that no engine has used; otherwise "".

        A project that was renamed, or restored from a backup at its old place, is no copy. A project that was
        moved to another file system cannot be distinguished from a copy.
        """
        places = self._read_records(_PLACE, ProjectPlace)
        here = ProjectPlace.of(self.path)
        return "" if not places or places[0].is_same(here) else places[0].folder

    def find_existing_original(self, execution: int) -> str:
        """Return the folder of the project from which an execution was copied.

        Return "" if the execution was not copied, or if the folder no longer contains that project.
        """
        identity = self.identity_of(execution)
        folder = self.list_originals().get(identity, "")
        return folder if folder and _holds_project(Path(folder), self.path, identity) else ""

    def list_originals(self) -> dict[str, str]:
        """Return the folders of the projects from which this one has copied executions, by identity."""
        found = {inherited.identity: inherited.folder for inherited in self._inherited()}
        original = self.find_original()
        return {**found, self.identity: original} if original else found

    def record_place(self) -> None:
        """Record the place of the project; if it is a copy, also draw a new identity. Called by engines."""
        here = ProjectPlace.of(self.path)
        place = json.dumps([asdict(here)])
        original = self.find_original()
        if not original and self._read_text(_PLACE) == place:
            return
        with self.transaction():
            if original:
                ((last,),) = self.rows("SELECT coalesce(max(number), 0) FROM execution")
                copied = InheritedExecutions(
                    identity=self.identity, folder=original, last_execution=int(last)
                )
                inherited = [asdict(each) for each in (*self._inherited(), copied)]
                self._store(_INHERITED, json.dumps(inherited))
                self._store(IDENTITY, os.urandom(16).hex())
            self._store(_PLACE, place)

    def _store(self, key: str, value: str) -> None:
        self.execute_now("INSERT OR REPLACE INTO project VALUES (?, ?)", (key, value))

    def _inherited(self) -> list[InheritedExecutions]:
        """Return the executions that a copied project has from its originals, the oldest first."""
        return self._read_records(_INHERITED, InheritedExecutions)

    def _read_records(self, key: str, kind: type[_Record]) -> list[_Record]:
        """Return the records stored under a key of the table ``project``."""
        try:
            found = json.loads(self._read_text(key) or "[]")
            return [decode_record(kind, each) for each in found]
        except DAMAGE as error:
            what = f"database damaged at {key!r} of table project: {describe_error(error)}"
            raise InvalidInput(what, advice=_RESTORE, location=SourceLocation(file=str(self.path))) from None

    def _read_text(self, key: str) -> str:
        found = self.row("SELECT value FROM project WHERE key = ?", (key,))
        return "" if found is None else str(found[0])

    @property
    def data_version(self) -> int:
        """Return a number that changes with every commit of another process.

        The query is cheap.
        """
        ((version,),) = self.rows("PRAGMA data_version")
        return int(version)

    def close(self) -> None:
        """Close the file; queued changes are discarded."""
        self.stop_group_commit()
        with self.lock:
            self._connection.close()
            if self._place is not None:
                self._place.close()
                self._place = None


class _OpenPlace:
    """The file of a database that was found at a path: whether it is still there, and where it is now.

    The descriptor gives no access to the content: closing another one would release the locks of SQLite.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._status = os.fstat(self._descriptor)

    def check(self) -> None:
        """Raise StateMoved unless the file is at its path."""
        try:
            if os.path.samestat(self._path.stat(follow_symlinks=False), self._status):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return  # the disk may answer again
        raise self._describe()

    def _describe(self) -> StateMoved:
        home, now = self._path.parent, Path(f"/proc/self/fd/{self._descriptor}").readlink()
        is_lost = not os.fstat(self._descriptor).st_nlink or now.name != self._path.name
        if not is_lost:
            what, aside = f"'{home}' was moved to '{now.parent}'", ""
            if os.path.lexists(home):
                aside = f"remove the new '{home}', "
            advice = f"{aside}move it back, then `weft resume` continues"
        elif os.path.lexists(self._path):
            what, advice = f"'{self._path}' was replaced", "`weft status` shows what the new file contains"
        else:
            what = f"'{home if not home.is_dir() else self._path}' was removed"
            advice = "put a copy there and run `weft resume`, or start again with `weft run`"
        text = f"{what} during the run, whose programs were ended; nothing more was recorded; {advice}"
        return StateMoved(text, is_lost=is_lost)

    def close(self) -> None:
        os.close(self._descriptor)


def storable(value: Any) -> Any:
    """Return a value in a form that SQLite can store: a string that is not valid UTF-8 becomes bytes."""
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
    """Open a database.

    An engine passes ``create``: then the file and its folder are created if they are missing. Raises
    InvalidInput if the file is missing, damaged, or was written by another program or version. Raises
    StorageProblem if a valid file cannot be used.
    """
    if create:
        _prepare_files(path)
    elif not os.path.lexists(path):
        advice = "`weft run` creates the file; check that this is the project folder"
        raise InvalidInput(f"no file '{path}'", advice=advice)
    _refuse_links(path)
    failure: sqlite3.Error | None = None
    for how in ("mode=rwc",) if create else _read_modes(path):
        # The shared memory of the write-ahead log needs space; an exclusive lock makes it unnecessary.
        if how == _EXCLUSIVE and (failure is None or _primary_code(failure) not in _NO_SPACE):
            continue
        try:
            return Database(path, _connect(path, how, create=create), engine=create)
        except sqlite3.OperationalError as error:
            # A file without write permission is opened read-only; the first error is the one to report.
            failure = failure or error
        except sqlite3.Error as error:
            raise explain_sqlite_error(error, path) from error
    assert failure is not None
    raise explain_sqlite_error(failure, path) from failure


def _beside(path: Path) -> list[Path]:
    """Return the paths of the files that SQLite creates beside a database."""
    return [path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal")]


def _refuse_links(path: Path) -> None:
    """Raise StorageProblem if a file of the database is a link; SQLite would write through the link."""
    try:
        for file in (path, *_beside(path)):
            check_file(file)
    except UnsafeFile as error:
        raise _unsafe_problem(error) from None
    except OSError:
        return  # SQLite reports it


def _unsafe_problem(error: UnsafeFile) -> StorageProblem:
    advice = "replace it by a copy of itself" if error.errno == errno.EMLINK else "move it away"
    return StorageProblem(f"{error.filename}: {error.strerror}; {advice}")


def _prepare_files(path: Path) -> None:
    """Create the folder and the file if they are missing; remove the permissions of other users.

    The permissions are also removed from the other files that SQLite creates.
    """
    try:
        make_folder(path.parent)
    except OSError as error:
        raise StorageProblem(f"cannot create the folder '{path.parent}': {error.strerror}") from None
    try:
        prepare_file(path)
        for file in _beside(path):
            with suppress(FileNotFoundError):
                close_to_others(file)
    except UnsafeFile as error:
        raise _unsafe_problem(error) from None
    except OSError as error:
        raise StorageProblem(f"cannot create the file '{path}': {error.strerror}") from None


def _read_modes(path: Path) -> list[str]:
    """Return the modes in which to open a file, best first.

    The mode ``immutable`` is included only if there is no WAL file.
    """
    return ["mode=rw", "mode=ro", *([] if _log_path(path).exists() else ["immutable=1"]), _EXCLUSIVE]


class _Connection(sqlite3.Connection):
    """A connection that raises SQLite's errors even if their texts cannot be decoded."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError as error:
            raise _unreadable_error(error) from None

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().executemany(*arguments)
        except UnicodeDecodeError as error:
            raise _unreadable_error(error) from None


def _unreadable_error(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """Return the SQLite error whose text Python could not decode.

    SQLite quotes the damaged schema in this text.
    """
    made = sqlite3.DatabaseError(error.object.decode(errors="backslashreplace"))
    made.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return made


def _connect(path: Path, how: str, *, create: bool) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?{how.partition(' ')[0]}"
    # ``Database.lock`` ensures that only one thread at a time uses the connection.
    connection = sqlite3.connect(
        address,
        uri=True,
        timeout=_ENGINE_BUSY_S if create else _BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        factory=_Connection,
    )
    try:
        if how == _EXCLUSIVE:
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        if create:
            wait_until_unlocked(path, lambda: _prepare(connection))
        _check_version(path, connection)
        if _query_number(connection, _VERSION) < SCHEMA_VERSION:
            _make_views(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Set the modes of an engine's connection, and create or convert the tables."""
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    connection.execute(f"PRAGMA synchronous={'NORMAL' if mode == 'wal' else 'FULL'}")
    connection.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES}")
    # Copies the log of an engine that died into the database, where it is written and synced anew: after a
    # failed sync, the log may show content that is not on the disk.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    _make_tables(connection)


def _make_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new database, or add tables and columns that an older version lacks.

    Existing rows stay unchanged.
    """
    is_new = not (
        _query_number(connection, "PRAGMA application_id") or _query_number(connection, _COUNT_TABLES)
    )
    if not is_new and not _is_older(connection):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it first.
        if is_new and not _query_number(connection, _COUNT_TABLES):
            _create(connection)
        elif not is_new and _is_older(connection):
            _convert(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _create(connection: sqlite3.Connection) -> None:
    for statement in TABLES:
        connection.execute(statement)
    _draw_identity(connection)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _convert(connection: sqlite3.Connection) -> None:
    before = _query_number(connection, _VERSION)
    for statement in _NEW_TABLES if before < _WITH_IDENTITIES else ():
        connection.execute(statement)
    for version, table, column in _NEW_COLUMNS:
        if before < version:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
    if before < _WITH_IDENTITIES:
        _draw_identity(connection)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _draw_identity(connection: sqlite3.Connection) -> None:
    """Draw and store a new identity of the project, which no other project has."""
    connection.execute("INSERT INTO project VALUES (?, ?)", (IDENTITY, os.urandom(16).hex()))


def _is_older(connection: sqlite3.Connection) -> bool:
    own = _query_number(connection, "PRAGMA application_id") == APPLICATION_ID
    return own and _FIRST_VERSION <= _query_number(connection, _VERSION) < SCHEMA_VERSION


def _make_views(connection: sqlite3.Connection) -> None:
    """Make a database of an older version readable without changing it, by views of this connection.

    SQLite prefers a temporary view to the table of the same name.
    """
    connection.execute("PRAGMA temp_store=MEMORY")
    before = _query_number(connection, _VERSION)
    if before < _WITH_IDENTITIES:
        none = "SELECT 0 AS execution, 0 AS number, '' AS nonce WHERE 0"
        connection.execute(f"CREATE TEMP VIEW attempt AS {none}")
        connection.execute("CREATE TEMP VIEW project AS SELECT '' AS key, '' AS value WHERE 0")
    missing: dict[str, list[str]] = {}
    for version, table, column in _NEW_COLUMNS:
        if before < version:
            missing.setdefault(table, []).append(column)
    for table, columns in missing.items():
        added = [f"{column.rpartition(' ')[2]} AS {column.partition(' ')[0]}" for column in columns]
        # Only names of tables and columns are formatted into the statement.
        connection.execute(f"CREATE TEMP VIEW {table} AS SELECT *, {', '.join(added)} FROM main.{table}")  # noqa: S608


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    location = SourceLocation(file=str(path))
    if _query_number(connection, "PRAGMA application_id") != APPLICATION_ID:
        empty = not _query_number(connection, _COUNT_TABLES)
        # Such a file exists if the disk was full at the first run.
        what, advice = "the database is empty: nothing was run here yet", "start with `weft run WORKFLOW`"
        if not empty:
            what, advice = "the database was not created by weft", "name another file, or move this one away"
        raise InvalidInput(what, advice=advice, location=location)
    if not _FIRST_VERSION <= (version := _query_number(connection, _VERSION)) <= SCHEMA_VERSION:
        raise InvalidInput(
            f"the database has version {version}",
            rule=f"this weft reads versions {_FIRST_VERSION} to {SCHEMA_VERSION}",
            advice="use the weft version that wrote it, or move `.weft` away to start with a new database",
            location=location,
        )


def _query_number(connection: sqlite3.Connection, question: str) -> int:
    (found,) = connection.execute(question).fetchone()
    return int(found)
