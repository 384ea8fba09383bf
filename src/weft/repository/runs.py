"""Executions and runs of a project, as shown by ``weft ls``.

An execution has one journal and one engine, and one run per workflow. Users refer to runs by a number that is
unique in the project. If an engine dies, its execution stays in state ``running``; readers check the lock to
see whether an engine is active.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from weft.engine.replan.promise import Promise
from weft.errors import InvalidInput, SourceLocation
from weft.records import dataclass
from weft.repository.database import Database

STATES = ("running", "completed", "failed", "stopped", "cancelled", "interrupted")
UNFINISHED = ("running", "interrupted", "stopped")
"""States in which an execution can be resumed."""

_EXECUTION = "number, fingerprint, state, owner, command, version, started_at_s, ended_at_s"
_EXECUTIONS = f"SELECT {_EXECUTION} FROM execution"  # noqa: S608 -- only names of columns, here and below
_RUN = (
    "number", "execution", "position", "workflow", "owner", "state", "reason", "tasks", "started_at_s",
    "ended_at_s", "predicted_p50_s", "predicted_p90_s",
)  # fmt: skip
_ADD = f"INSERT OR IGNORE INTO run ({', '.join(_RUN)}) VALUES (?{', ?' * (len(_RUN) - 1)})"  # noqa: S608
_PROMISE = """UPDATE run SET predicted_p50_s = ?, predicted_p90_s = ?
    WHERE execution = ? AND position = ?"""
_PROMISED = "promise of run "
"""Prefix of the key of a run's promise in table ``kept``; the position of the run follows it."""
_ALONE = "time alone of run "
"""Prefix of the key of ``RunRecord.alone_s`` in table ``kept``; the position of the run follows it."""
_OF_RUN = "FROM kept WHERE kept.execution = run.execution AND key ="
_KEPT = f"SELECT value {_OF_RUN} '{_PROMISED}' || position"
_KEPT_ALONE = f"SELECT CAST(value AS REAL) {_OF_RUN} '{_ALONE}' || position"
_RUNS = f"SELECT {', '.join(_RUN)}, ({_KEPT}), ({_KEPT_ALONE}) FROM run"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """A row of the table of executions; an execution has one journal, one engine and any number of runs."""

    number: int
    fingerprint: str
    state: str
    owner: str
    command: tuple[str, ...]
    version: str
    started_at_s: float
    """Wall-clock time of the start."""
    ended_at_s: float | None

    def as_record(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return asdict(self) | {"command": list(self.command)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A row of the table of runs; a run is one workflow within an execution."""

    number: int
    """Number of the run in the project, from 1."""
    execution: int
    position: int
    """Position of the run within the execution, from 0."""
    workflow: str
    owner: str
    state: str
    reason: str
    """Why the run is in its state; "": no reason is recorded."""
    tasks: int
    started_at_s: float
    """Wall-clock time of the start."""
    ended_at_s: float | None
    predicted_p50_s: float | None
    """P50 of the predicted duration of the run in seconds; None: unknown."""
    predicted_p90_s: float | None
    promise: Promise | None = None
    """The promise that was made before the run; None: there is no plan yet, or the policy needs no plan."""
    alone_s: float | None = None
    """Estimated makespan of the executed tasks on the empty platform; None: the run has not completed."""

    @property
    def slowdown(self) -> float | None:
        """Return the time from arrival to end divided by ``alone_s``; None: unknown, or ``alone_s`` is 0."""
        if not self.alone_s or self.ended_at_s is None or self.state != "completed":
            return None
        return (self.ended_at_s - self.started_at_s) / self.alone_s

    def as_record(self) -> dict[str, Any]:
        """Return the record as plain data."""
        promise = None if self.promise is None else self.promise.as_record()
        return asdict(self) | {"promise": promise, "slowdown": self.slowdown}


class RunTable:
    """The executions and runs in a database. Changes are written by the next commit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._next = 0

    def add(
        self,
        *,
        execution: int,
        position: int,
        workflow: str,
        owner: str,
        tasks: int,
        at_s: float,
        predicted_p50_s: float | None = None,
        predicted_p90_s: float | None = None,
    ) -> int:
        """Add a run and return its number; if the run exists, it is left unchanged."""
        if (known := self.at(execution, position)) is not None:
            return known.number
        # Only the engine of the project adds runs, so the number is known before the commit.
        (newest,) = self._database.row("SELECT max(number) FROM run") or (None,)
        self._next = max(self._next, newest or 0) + 1
        row = (
            self._next, execution, position, workflow, owner, "running", "", tasks, at_s, None,
            predicted_p50_s, predicted_p90_s,
        )  # fmt: skip
        self._database.queue_change(_ADD, row)
        return self._next

    def promise(self, execution: int, position: int, promise: Promise) -> None:
        """Store the promise that was made before a run started."""
        self._database.queue_change(_PROMISE, (promise.p50_s, promise.p90_s, execution, position))
        self.store_value(execution, f"{_PROMISED}{position}", json.dumps(promise.as_record()))

    def set_alone(self, execution: int, position: int, alone_s: float) -> None:
        """Store ``RunRecord.alone_s`` of a run that has completed."""
        self.store_value(execution, f"{_ALONE}{position}", repr(alone_s))

    def grow(self, execution: int, position: int, tasks: int) -> None:
        """Update the number of tasks of a run that has grown."""
        change = "UPDATE run SET tasks = ? WHERE execution = ? AND position = ?"
        self._database.queue_change(change, (tasks, execution, position))

    def set_state(
        self, execution: int, position: int, state: str, *, at_s: float | None = None, reason: str = ""
    ) -> None:
        """Update the state of a run; ``at_s`` is the wall time of its end, or None before the end."""
        change = "UPDATE run SET state = ?, reason = ?, ended_at_s = ? WHERE execution = ? AND position = ?"
        self._database.queue_change(change, (_check_state(state), reason, at_s, execution, position))

    def set_execution_state(self, execution: int, state: str, *, at_s: float | None = None) -> None:
        """Update the state of an execution; ``at_s`` is the wall time of its end, or None before the end."""
        change = "UPDATE execution SET state = ?, ended_at_s = ? WHERE number = ?"
        self._database.queue_change(change, (_check_state(state), at_s, execution))

    def store_value(self, execution: int, key: str, value: str) -> None:
        """Store a value of an execution that its journal does not contain, such as its token."""
        self._database.queue_change("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (execution, key, value))

    def stored_value(self, execution: int, key: str) -> str | None:
        """Return the committed value of an execution with this key; None if there is none."""
        question = "SELECT value FROM kept WHERE execution = ? AND key = ?"
        found = self._database.row(question, (execution, key))
        return None if found is None else str(found[0])

    def executions(self) -> list[ExecutionRecord]:
        """Return all executions in order of their numbers."""
        return self._executions("ORDER BY number")

    def execution(self, number: int) -> ExecutionRecord:
        """Return the execution with this number; raise InvalidInput if there is none."""
        found = self._executions("WHERE number = ?", number)
        return found[0] if found else self._refuse(f"no execution {number}")

    def unfinished(self, fingerprint: str | None = None) -> ExecutionRecord | None:
        """Return the last execution if it can be resumed, otherwise None.

        If ``fingerprint`` is given, only executions with this fingerprint are considered.
        """
        where, values = ("", ()) if fingerprint is None else ("WHERE fingerprint = ?", (fingerprint,))
        found = self._executions(f"{where} ORDER BY number DESC LIMIT 1", *values)
        return found[0] if found and found[0].state in UNFINISHED else None

    def all(self) -> list[RunRecord]:
        """Return all runs of the project in order of their numbers."""
        return self._runs("ORDER BY number")

    def of(self, execution: int) -> list[RunRecord]:
        """Return the runs of an execution in order of their position."""
        return self._runs("WHERE execution = ? ORDER BY position", execution)

    def at(self, execution: int, position: int) -> RunRecord | None:
        """Return the run at a position of an execution; None if there is none."""
        found = self._runs("WHERE execution = ? AND position = ?", execution, position)
        return found[0] if found else None

    def run(self, number: int | None = None) -> RunRecord:
        """Return the run with this number, or the last run if ``number`` is None.

        Raises InvalidInput if there is no such run.
        """
        if number is None:
            found = self._runs("ORDER BY number DESC LIMIT 1")
        else:
            found = self._runs("WHERE number = ?", number)
        return found[0] if found else self._refuse("no run yet" if number is None else f"no run {number}")

    def _executions(self, which: str, *values: int | str) -> list[ExecutionRecord]:
        columns, decode = _EXECUTION.split(", "), self._database.decode
        found = self._database.rows(f"{_EXECUTIONS} {which}", values)
        return [decode(f"execution {row[0]}", ExecutionRecord, columns, row, "command") for row in found]

    def _runs(self, which: str, *values: int) -> list[RunRecord]:
        columns, decode = (*_RUN, "promise", "alone_s"), self._database.decode
        found = self._database.rows(f"{_RUNS} {which}", values)
        return [decode(f"run {row[0]}", RunRecord, columns, row, "promise") for row in found]

    def _refuse(self, what: str) -> Any:
        location = SourceLocation(file=str(self._database.path))
        raise InvalidInput(what, advice="`weft ls` lists all runs", location=location)


def _check_state(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"state {state!r} is not one of {', '.join(STATES)}")
    return state
