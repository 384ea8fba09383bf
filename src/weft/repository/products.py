"""Products in the database: what completed tasks have made, found again by task, by fingerprint, by name.

Directories below the project are written as seen from there, so that a project may be moved; sandboxes that
lie elsewhere, and what older versions wrote, are absolute.

What was added lately is also kept in memory, a bounded number of them: most questions are about those, and
what is not committed yet can be found nowhere else.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import replace
from typing import Any

from weft.backends.backend import FileRecord, Product
from weft.repository.database import Database, storable
from weft.repository.journal import encode_json

__all__ = ["ProductTable"]

_COLUMNS = (
    "execution", "run", "task", "name", "kind", "workflow", "attempt", "iteration", "machine", "directory",
    "exit_code", "result", "fingerprint", "parts", "seconds",
)  # fmt: skip
# Names of columns are put into statements, and nothing else ever is.
_PRODUCT = f"INSERT INTO product VALUES (?{', ?' * len(_COLUMNS)})"  # noqa: S608
_FILE = "INSERT INTO made_file VALUES (?, ?, ?, ?, ?, ?)"
_NEWEST = f"SELECT number, {', '.join(_COLUMNS)} FROM product WHERE %s ORDER BY number DESC LIMIT 1"  # noqa: S608
_FILES = "SELECT name, size_bytes, digest, modified_ns FROM made_file WHERE product = ? ORDER BY position"
_BY_TASK = _NEWEST % "execution = ? AND run = ? AND task = ?"
_BY_FINGERPRINT = _NEWEST % "fingerprint = ? AND fingerprint <> ''"
_OF_OTHERS = _NEWEST % "fingerprint = ? AND fingerprint <> '' AND execution <> ?"
_BY_NAME = _NEWEST % "workflow = ? AND name = ?"
_DIRECTORIES = "SELECT DISTINCT directory FROM product WHERE execution = ? ORDER BY directory"

_KEPT = 10_000
"""How many products are kept in memory."""

_Key = tuple[Any, ...]


class ProductTable:
    """Implements ``backends.products.Products``. Threads may share it."""

    def __init__(self, database: Database, *, kept: int = _KEPT, only: int | None = None) -> None:
        """Begin. ``only``: know of what this execution has made, and of nothing before it."""
        self._database = database
        self._project = f"{database.path.absolute().parent.parent}/"
        """The folder in whose ``.weft`` the database lies."""
        self._only = only
        self._kept = kept
        self._lock = threading.Lock()
        self._recent: deque[tuple[Product, int]] = deque()
        """The products in memory, oldest first, with the number of commits after which each is on disk."""
        self._found: dict[_Key, Product] = {}
        """The newest of those, by each of their keys."""
        (newest,) = database.row("SELECT max(number) FROM product") or (None,)
        self._next = (newest or 0) + 1
        self._all_here = newest is None
        """Whether every product there is is in memory: one need not look elsewhere."""
        self._first = newest is None
        """Whether nothing was made before: only one engine at a time adds to a database."""

    def add(self, product: Product) -> None:
        """Remember a product; it is written by the same commit as the entries after it."""
        with self._lock:
            self._write(self._next, product)
            self._next += 1
            self._recent.append((product, self._database.commits))
            for key in _keys(product):
                self._found[key] = product
            self._forget_old()

    def of(self, execution: int, run: int, task: int) -> Product | None:
        """Give the last product of a task of a run."""
        return self._newest(_BY_TASK, (execution, run, task))

    def find_by_fingerprint(self, fingerprint: str, besides: int | None = None) -> Product | None:
        """Give the newest product of a fingerprint; ``besides``: that another execution has made."""
        if not fingerprint or (besides is not None and (self._first or besides == self._only)):
            return None
        if besides is None:
            return self._known(self._newest(_BY_FINGERPRINT, (fingerprint,)))
        return self._stored(_OF_OTHERS, (fingerprint, besides))

    def find_by_name(self, workflow: str, name: str) -> Product | None:
        """Give the newest product of a task by its name, whatever it was made from."""
        return self._known(self._newest(_BY_NAME, (workflow, name)))

    def directories(self, execution: int) -> list[str]:
        """List where the products of an execution lie that are on disk."""
        return [self._absolute(directory) for (directory,) in self._database.rows(_DIRECTORIES, (execution,))]

    def _absolute(self, directory: str) -> str:
        return directory if not directory or directory.startswith("/") else f"{self._project}{directory}"

    def _known(self, product: Product | None) -> Product | None:
        foreign = product is not None and self._only is not None and product.execution != self._only
        return None if foreign else product

    def _newest(self, question: str, key: _Key) -> Product | None:
        with self._lock:
            recent = self._found.get(key)
            all_here = self._all_here
        if recent is not None or all_here:
            return recent
        return self._stored(question, key)

    def _stored(self, question: str, key: _Key) -> Product | None:
        row = self._database.row(question, key)
        if row is None:
            return None
        found = _product(row, self._database.rows(_FILES, (row[0],)))
        return replace(found, directory=self._absolute(found.directory))

    def _write(self, number: int, product: Product) -> None:
        with self._database.together:
            directory = product.directory.removeprefix(self._project)
            self._database.queue_insert(_PRODUCT, _row(number, product, directory))
            for position, file in enumerate(product.files):
                row = (number, position, storable(file.name), file.size_bytes, file.digest, file.modified_ns)
                self._database.queue_insert(_FILE, row)

    def _forget_old(self) -> None:
        """Forget the oldest above the number that is kept, unless they are not on disk yet."""
        recent = self._recent
        while len(recent) > self._kept and recent[0][1] < self._database.commits:
            product, _ = recent.popleft()
            self._all_here = False
            for key in _keys(product):
                if self._found.get(key) is product:
                    del self._found[key]


def _keys(product: Product) -> list[_Key]:
    """List what a product is found by: keys of one, two and three parts."""
    keys: list[_Key] = [(product.execution, product.run, product.task), (product.workflow, product.name)]
    return [*keys, (product.fingerprint,)] if product.fingerprint else keys


def _row(number: int, product: Product, directory: str) -> list[Any]:
    return [
        number,
        product.execution,
        product.run,
        product.task,
        storable(product.name),
        storable(product.kind),
        storable(product.workflow),
        product.attempt,
        product.iteration,
        storable(product.machine),
        storable(directory),
        product.exit_code,
        encode_json(dict(product.result)) if product.result else "{}",
        product.fingerprint,
        encode_json(dict(product.parts)),
        product.seconds,
    ]


def _product(row: tuple[Any, ...], files: list[tuple[Any, ...]]) -> Product:
    stated = dict(zip(_COLUMNS, row[1:], strict=True))
    made = tuple(
        FileRecord(name=name, size_bytes=size, digest=digest, modified_ns=modified)
        for name, size, digest, modified in files
    )
    return Product(
        **stated | {"result": json.loads(stated["result"]), "parts": json.loads(stated["parts"])}, files=made
    )
