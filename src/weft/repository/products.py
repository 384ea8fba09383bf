"""Products of completed tasks in the database, found by task, by fingerprint or by name.

Directories below the project are stored relative to it, so that a project can be moved; others are stored as
absolute paths. Recently added products are also kept in memory, up to a limit, because most queries ask for
them and they may not be committed yet.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from typing import Any

from weft.backends.backend import Product
from weft.backends.file_record import FileRecord
from weft.repository.database import Database, storable
from weft.repository.journal import encode_json
from weft.urls import is_url

_COLUMNS = (
    "execution", "run", "task", "name", "kind", "workflow", "attempt", "iteration", "machine", "directory",
    "exit_code", "result", "fingerprint", "parts", "seconds", "boot", "counters",
)  # fmt: skip
# Only column names are formatted into statements.
_PRODUCT = f"INSERT INTO product VALUES (?{', ?' * len(_COLUMNS)})"  # noqa: S608
_FILE = "INSERT INTO made_file VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_NEWEST = f"SELECT number, {', '.join(_COLUMNS)} FROM product WHERE %s ORDER BY number DESC LIMIT 1"  # noqa: S608
_FILE_COLUMNS = ("name", "size_bytes", "digest", "modified_ns", "inode", "changed_ns")
_FILES = f"SELECT {', '.join(_FILE_COLUMNS)} FROM made_file WHERE product = ? ORDER BY position"  # noqa: S608
_BY_TASK = _NEWEST % "execution = ? AND run = ? AND task = ?"
_EARLIER = _NEWEST % "execution = ? AND run = ? AND task = ? AND (iteration <> ? OR counters <> ?)"
_BY_FINGERPRINT = _NEWEST % "fingerprint = ? AND fingerprint <> ''"
_OF_OTHERS = _NEWEST % "fingerprint = ? AND fingerprint <> '' AND execution <> ?"
_BY_NAME = _NEWEST % "workflow = ? AND name = ?"
_BY_ITERATION = _NEWEST % (
    "workflow = ? AND name = ? AND iteration = ? AND counters IN (?, ?) AND execution <> ?"
)
_DIRECTORIES = "SELECT DISTINCT directory FROM product WHERE execution = ? ORDER BY directory"

_SOURCE = """SELECT run.number FROM product AS own
    JOIN product AS earlier ON earlier.fingerprint = own.fingerprint AND earlier.number < own.number
    JOIN run ON run.execution = earlier.execution AND run.position = earlier.run
    WHERE own.execution = ? AND own.attempt = ? AND own.fingerprint <> '' AND earlier.execution = ?
    ORDER BY earlier.number DESC LIMIT 1"""

_KEPT = 10_000
"""If more than this number of products are in memory, the oldest committed ones are removed from memory."""

_Key = tuple[Any, ...]


class ProductTable:
    """Table of products; it implements ``ProductStore``. Threads may share it."""

    def __init__(self, database: Database, *, kept: int = _KEPT, only: int | None = None) -> None:
        """Open the table; ``kept`` is the number of products to keep in memory.

        If ``only`` is given, products of all other executions are ignored.
        """
        self._database = database
        self._project = f"{database.path.absolute().parent.parent}/"
        """Project folder, the parent of ``.weft``."""
        self._only = only
        self._kept = kept
        self._lock = threading.Lock()
        self._recent: deque[tuple[Product, int]] = deque()
        """Products in memory, oldest first, with the value of ``Database.commits`` when each was added."""
        self._found: dict[_Key, Product] = {}
        """The newest product in memory for each key (see ``_keys``)."""
        (newest,) = database.row("SELECT max(number) FROM product") or (None,)
        self._next = (newest or 0) + 1
        self._all_here = newest is None
        """Whether all products are in memory, so that the database need not be queried."""
        self._first = newest is None
        """Whether the database had no products at the start, so that none is from another execution."""

    def add(self, product: Product) -> None:
        """Add a product; the next commit writes it together with the queued journal entries."""
        with self._lock:
            self._write(self._next, product)
            self._next += 1
            self._recent.append((product, self._database.commits))
            for key in _keys(product):
                self._found[key] = product
            self._forget_old()

    def of(self, execution: int, run: int, task: int) -> Product | None:
        """Return the last product of a task of a run; None: it has no product."""
        return self._newest(_BY_TASK, (execution, run, task))

    def previous(self, product: Product) -> Product | None:
        """Return the last committed product of the same task and run that belongs to another iteration.

        The result is None if there is no such product.
        """
        here = (product.execution, product.run, product.task)
        return self._stored(_EARLIER, (*here, product.iteration, encode_json(list(product.counters))))

    def find_by_fingerprint(self, fingerprint: str, besides: int | None = None) -> Product | None:
        """Return the newest product with a fingerprint; None: there is none.

        ``besides`` is an execution whose products are ignored. If it is given, only committed products are
        found.
        """
        if not fingerprint or (besides is not None and (self._first or besides == self._only)):
            return None
        if besides is None:
            return self._drop_foreign(self._newest(_BY_FINGERPRINT, (fingerprint,)))
        return self._stored(_OF_OTHERS, (fingerprint, besides))

    def find_by_name(self, workflow: str, name: str) -> Product | None:
        """Return the newest product of the task with this name, with any fingerprint; None: there is none."""
        return self._drop_foreign(self._newest(_BY_NAME, (workflow, name)))

    def find_by_iteration(
        self, workflow: str, name: str, counters: tuple[int, ...], besides: int
    ) -> Product | None:
        """Return the newest committed product of an iteration of the task with this name, or None.

        ``counters`` are those of the loops around the task; ``(1,)`` also finds products of a task outside
        loops. Products of the execution ``besides`` are ignored.
        """
        if self._first or besides == self._only:
            return None
        written = encode_json(list(counters))
        outside = "[]" if len(counters) == 1 else written
        key = (workflow, name, counters[-1], written, outside, besides)
        return self._drop_foreign(self._stored(_BY_ITERATION, key))

    def directories(self, execution: int) -> list[str]:
        """Return the directories of an execution's committed products."""
        return [self._absolute(directory) for (directory,) in self._database.rows(_DIRECTORIES, (execution,))]

    def _absolute(self, directory: str) -> str:
        """Return a stored directory; one on the disk of another host starts with the name of that disk."""
        elsewhere = not directory or directory.startswith("/") or is_url(directory)
        return directory if elsewhere else f"{self._project}{directory}"

    def _drop_foreign(self, product: Product | None) -> Product | None:
        """Return ``product``, or None if its execution is ignored."""
        foreign = product is not None and self._only is not None and product.execution != self._only
        return None if foreign else product

    def _newest(self, question: str, key: _Key) -> Product | None:
        with self._lock:
            recent = self._found.get(key)
            all_here = self._all_here
        return recent if recent is not None or all_here else self._stored(question, key)

    def _stored(self, question: str, key: _Key) -> Product | None:
        if (row := self._database.row(question, key)) is None:
            return None
        what, decode = f"product {row[0]}", self._database.decode
        found = decode(what, Product, _COLUMNS, row[1:], "result", "parts", "counters")
        made = self._database.rows(_FILES, (row[0],))
        files = tuple([decode(f"a file of {what}", FileRecord, _FILE_COLUMNS, each) for each in made])
        return replace(found, directory=self._absolute(found.directory), files=files)

    def _write(self, number: int, product: Product) -> None:
        with self._database.lock:
            directory = product.directory.removeprefix(self._project)
            self._database.queue_insert(_PRODUCT, _row(number, product, directory))
            for position, file in enumerate(product.files):
                row = (
                    number, position, storable(file.name), file.size_bytes, file.digest, file.modified_ns,
                    file.inode, file.changed_ns,
                )  # fmt: skip
                self._database.queue_insert(_FILE, row)

    def _forget_old(self) -> None:
        """Remove the oldest committed products from memory until the limit is met."""
        recent = self._recent
        while len(recent) > self._kept and recent[0][1] < self._database.commits:
            product, _ = recent.popleft()
            self._all_here = False
            for key in _keys(product):
                if self._found.get(key) is product:
                    del self._found[key]


def find_source_run(database: Database, execution: int, attempt: int, earlier: int) -> int | None:
    """Return the number of the run whose outputs an attempt reuses; None: unknown.

    The run belongs to the execution ``earlier``. If several products have the same fingerprint, the newest
    one was reused.
    """
    found = database.row(_SOURCE, (execution, attempt, earlier))
    return None if found is None else int(found[0])


def _keys(product: Product) -> list[_Key]:
    """Return the keys by which a product is found: task, name and, if it has one, fingerprint."""
    keys: list[_Key] = [(product.execution, product.run, product.task), (product.workflow, product.name)]
    return [*keys, (product.fingerprint,)] if product.fingerprint else keys


def _row(number: int, product: Product, directory: str) -> list[Any]:
    result = encode_json(dict(product.result)) if product.result else "{}"
    stated = {
        "directory": directory,
        "result": result,
        "parts": encode_json(dict(product.parts)),
        "counters": encode_json(list(product.counters)) if product.counters else "[]",
    }
    return [number, *(storable(stated.get(name, getattr(product, name))) for name in _COLUMNS)]
