"""What the database of a project claims, read with nothing but SQLite and JSON.

No code of weft is used: an error in its reader must not hide an error in its writer.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class ClaimedEnd:
    """An event ``Ended`` of the journal."""

    entry: int
    exit_code: int | None
    cause: str
    taken_over: int | None
    story: str


@dataclass(slots=True)
class ClaimedAttempt:
    """An attempt of the journal."""

    execution: int
    number: int
    run: int
    task: int
    nonce: str = ""
    started: int | None = None
    """Entry with the command that starts it; None: it was only assigned."""
    cancelled: bool = False
    machine: int = -1
    lost: bool = False
    """Whether its machine was reported as lost after its start: then no end may be reported."""
    removed: bool = False
    """Whether the journal has the command that removes its files."""
    published: bool = False
    """Whether its outputs were copied into the project."""
    ends: list[ClaimedEnd] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Return a text for messages."""
        return f"execution {self.execution}, attempt {self.number}"

    @property
    def completed(self) -> ClaimedEnd | None:
        """Return the end of an attempt whose program exited by itself; None: there is none."""
        return next((end for end in self.ends if not end.cause and end.exit_code is not None), None)


@dataclass(slots=True)
class ClaimedProduct:
    """A row of the products, with its files."""

    number: int
    execution: int
    run: int
    task: int
    name: str
    workflow: str
    attempt: int
    iteration: int
    directory: str
    exit_code: int
    files: dict[str, str]
    """Digests by name."""


@dataclass(slots=True)
class ClaimedRun:
    """A row of the runs."""

    execution: int
    position: int
    workflow: str
    state: str


@dataclass(slots=True)
class Claims:
    """Everything that a database claims."""

    attempts: dict[tuple[int, int], ClaimedAttempt] = field(default_factory=dict)
    """By execution and number."""
    products: list[ClaimedProduct] = field(default_factory=list)
    runs: list[ClaimedRun] = field(default_factory=list)
    executions: dict[int, str] = field(default_factory=dict)
    """States by number."""
    settled: dict[tuple[int, int, int], str] = field(default_factory=dict)
    """Last stated state by execution, run and task."""
    descriptions: dict[tuple[int, str], Mapping[str, Any]] = field(default_factory=dict)
    """Tasks as the user described them, by execution and name."""
    identity: str = ""
    """Identity of the project; "": the database has none."""

    @property
    def last(self) -> int:
        """Return the number of the last execution; 0: there is none."""
        return max(self.executions, default=0)

    def description(self, execution: int, task: str) -> Mapping[str, Any]:
        """Return the description of a task, given its name with or without the values of a sweep."""
        return self.descriptions.get((execution, task.partition("[")[0]), {})


def read_claims(database: Path, *, own: bool = False) -> Claims:
    """Return the claims of a database file; none if it is missing or has no tables.

    ``own``: the file belongs to the caller, and may be changed.
    """
    if not database.is_file():
        return Claims()
    if own:
        return _open(database)
    # A copy: closing the last connection to the original would write its WAL back.
    with tempfile.TemporaryDirectory(prefix="weft-claims-", dir=_memory()) as folder:
        for suffix in ("", "-wal"):
            if (part := database.with_name(database.name + suffix)).exists():
                shutil.copyfile(part, Path(folder) / f"copy{suffix}")
        return _open(Path(folder) / "copy")


def _open(database: Path) -> Claims:
    connection = sqlite3.connect(database)
    try:
        return _read(connection)
    finally:
        connection.close()


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _read(connection: sqlite3.Connection) -> Claims:
    claims = Claims()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "entry" not in tables:
        return claims
    for number, state, header in connection.execute("SELECT number, state, header FROM execution"):
        claims.executions[number] = state
        for workflow in json.loads(header)["workflows"].values():
            for name, description in workflow["tasks"].items():
                claims.descriptions[number, name] = description
    for execution, number, record in connection.execute("SELECT * FROM entry ORDER BY execution, number"):
        _apply(claims, execution, number, json.loads(record))
    if "attempt" in tables:
        for execution, number, nonce in connection.execute("SELECT execution, number, nonce FROM attempt"):
            if (attempt := claims.attempts.get((execution, number))) is not None:
                attempt.nonce = nonce
    if "project" in tables:
        stated = connection.execute("SELECT value FROM project WHERE key = 'identity'").fetchone()
        claims.identity = stated[0] if stated else ""
    runs = connection.execute("SELECT execution, position, workflow, state FROM run ORDER BY number")
    claims.runs = [ClaimedRun(*row) for row in runs]
    columns = "number, execution, run, task, name, workflow, attempt, iteration, directory, exit_code"
    files: dict[int, dict[str, str]] = {}
    for product, name, content in connection.execute("SELECT product, name, digest FROM made_file"):
        files.setdefault(product, {})[name] = content
    for row in connection.execute(f"SELECT {columns} FROM product ORDER BY number"):
        claims.products.append(ClaimedProduct(*row, files=files.get(row[0], {})))
    return claims


def _apply(claims: Claims, execution: int, entry: int, record: Mapping[str, Any]) -> None:
    kind, event = record["event"]
    if kind == "Ended":
        end = ClaimedEnd(
            entry=entry,
            exit_code=event.get("exit_code", 0),
            cause=event.get("cause", ""),
            taken_over=event.get("taken_over"),
            story=event.get("story", ""),
        )
        claims.attempts[execution, event["attempt"]].ends.append(end)
    elif kind == "MachineChanged" and event.get("up") is False:
        for attempt in claims.attempts.values():
            if (attempt.execution, attempt.machine) == (execution, event["machine"]):
                attempt.lost |= attempt.started is not None and not attempt.ends
    elif kind == "StagedOut" and not event.get("problem"):
        claims.attempts[execution, event["attempt"]].published = True
    for kind, command in record["commands"]:
        if kind == "Assign":
            number = command["attempt"]
            claims.attempts[execution, number] = ClaimedAttempt(
                execution, number, command["run"], command["task"], machine=command["machine"]
            )
        elif kind == "Settle":
            claims.settled[execution, command["run"], command["task"]] = command["state"]
        elif kind in ("Start", "Cancel", "CleanUp"):
            attempt = claims.attempts[execution, command["attempt"]]
            if kind == "Start" and attempt.started is None:
                attempt.started = entry
            attempt.cancelled |= kind == "Cancel"
            attempt.removed |= kind == "CleanUp"
