"""The database: one SQLite file, in which everything is remembered that must outlive a process.

What an engine remembers is gathered and written in one transaction by ``commit``: after a crash all of it is
there or none. Journal mode WAL: readers in other shells never wait for the engine, nor it for them. With
``synchronous=NORMAL`` what was committed outlives the death of the process; after a power failure the last
transactions may be gone, and the file is still whole.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from weft.errors import InvalidInput, Place, Problem
from weft.repository.failpoint import Failpoint
from weft.repository.schema import APPLICATION, TABLES, VERSION
from weft.repository.storage_problem import StorageProblem, problem_of

__all__ = ["Database", "open_database", "storable"]

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

    def insert_later(self, statement: str, row: _Row) -> None:
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
                raise problem_of(error, self.path) from error
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
                raise problem_of(error, self.path) from error
            except BaseException:
                self._roll_back()
                raise

    def now(self, statement: str, row: _Row = ()) -> int:
        """Make one change now, and not with the next commit; give the number of the row it made."""
        with self.together:
            try:
                done = self._connection.execute(statement, [storable(value) for value in row])
            except sqlite3.Error as error:
                raise problem_of(error, self.path) from error
            return done.lastrowid or 0

    def rows(self, question: str, values: _Row = ()) -> list[tuple[Any, ...]]:
        """Ask for rows; what was kept for the next commit is not among them."""
        with self.together:
            try:
                found = self._connection.execute(question, [storable(value) for value in values]).fetchall()
            except sqlite3.Error as error:
                raise problem_of(error, self.path) from error
        return [tuple(map(_restored, row)) for row in found]

    def row(self, question: str, values: _Row = ()) -> tuple[Any, ...] | None:
        """Ask for the first row, or None."""
        found = self.rows(question, values)
        return found[0] if found else None

    @property
    def foreign_changes(self) -> int:
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


def _restored(value: Any) -> Any:
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
    for how in ("mode=rwc",) if create else _ways_to_read(path):
        try:
            return Database(path, _opened(path, how, create=create))
        except sqlite3.OperationalError as error:
            # Where one may read but not write the file is opened so; the first failure says why not more.
            failure = failure or error
        except sqlite3.Error as error:
            raise problem_of(error, path) from error
    assert failure is not None
    raise problem_of(failure, path) from failure


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageProblem(f"cannot make the folder '{path.parent}': {error.strerror}") from None


def _ways_to_read(path: Path) -> list[str]:
    """List the ways to open a file, best first. As immutable only if no changes lie beside it."""
    changes = path.with_name(path.name + "-wal")
    return ["mode=rw", "mode=ro", *([] if changes.exists() else ["immutable=1"])]


def _opened(path: Path, how: str, *, create: bool) -> sqlite3.Connection:
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
    if _number(connection, "PRAGMA application_id") or _number(connection, _COUNT_TABLES):
        return
    connection.execute("BEGIN IMMEDIATE")
    if not _number(connection, _COUNT_TABLES):  # another process may have been faster
        for statement in TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("COMMIT")


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    place = Place(file=str(path))
    if _number(connection, "PRAGMA application_id") != APPLICATION:
        empty = not _number(connection, _COUNT_TABLES)
        # As a disk leaves it that was full when the first run began.
        what, advice = "an empty database: nothing was run here yet", "`weft run WORKFLOW` begins"
        if not empty:
            what, advice = "a database that is not weft's", "name another file, or move it away"
        raise InvalidInput(Problem(what=what, advice=advice, place=place))
    version = _number(connection, "PRAGMA user_version")
    if version != VERSION:
        raise InvalidInput(
            Problem(
                what=f"a database of version {version}",
                rule=f"this weft reads version {VERSION}",
                advice="use the weft that wrote it, or move `.weft` away to begin anew",
                place=place,
            )
        )


def _number(connection: sqlite3.Connection, question: str) -> int:
    (found,) = connection.execute(question).fetchone()
    return int(found)
