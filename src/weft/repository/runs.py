"""Executions and runs: who asked for what, when, and what became of it; what ``weft ls`` shows.

An execution is one journal and one engine. It has a run per workflow; users speak of runs, by a number that
is theirs alone in the project. An engine that died could not say so: its execution is still called running,
and whoever reads it asks the lock whether an engine is at work.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from weft.engine.replan.promise import Promise
from weft.errors import InvalidInput, Problem, SourceLocation
from weft.repository.database import Database

__all__ = ["STATES", "UNFINISHED", "ExecutionRecord", "RunRecord", "RunTable"]

STATES = ("running", "completed", "failed", "stopped", "cancelled", "interrupted")
UNFINISHED = ("running", "interrupted", "stopped")
"""States from which an execution can be resumed."""

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
"""With a run's position: the key under which the rest of its promise is kept."""
_KEPT = f"SELECT value FROM kept WHERE kept.execution = run.execution AND key = '{_PROMISED}' || position"  # noqa: S608
_RUNS = f"SELECT {', '.join(_RUN)}, ({_KEPT}) FROM run"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRecord:
    """One journal, one engine, any number of runs."""

    number: int
    fingerprint: str
    state: str
    owner: str
    command: tuple[str, ...]
    version: str
    started_at_s: float
    """Wall time."""
    ended_at_s: float | None

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self) | {"command": list(self.command)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One execution of one workflow."""

    number: int
    """Counted from 1 in the project."""
    execution: int
    position: int
    """Its number within the execution, as the engine counts: from 0."""
    workflow: str
    owner: str
    state: str
    reason: str
    """Why it is in that state; "": nothing to say."""
    tasks: int
    started_at_s: float
    """Wall time."""
    ended_at_s: float | None
    predicted_p50_s: float | None
    """The promise: from its start to its end; None: unknown."""
    predicted_p90_s: float | None
    promise: Promise | None = None
    """All of it; None: no plan was made yet, or nobody follows one."""

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self) | {"promise": None if self.promise is None else self.promise.as_record()}


class RunTable:
    """The executions and runs of a database. Changes are written by the next commit."""

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
        """Remember that a run began; give its number. A run that is known already stays as it is."""
        known = self.at(execution, position)
        if known is not None:
            return known.number
        # Only the one engine of the project adds runs, so the number can be told before it is written.
        (newest,) = self._database.row("SELECT max(number) FROM run") or (None,)
        self._next = max(self._next, newest or 0) + 1
        row = (
            self._next, execution, position, workflow, owner, "running", "", tasks, at_s, None,
            predicted_p50_s, predicted_p90_s,
        )  # fmt: skip
        self._database.later(_ADD, row)
        return self._next

    def promise(self, execution: int, position: int, promise: Promise) -> None:
        """Remember what was said of a run before it began."""
        self._database.later(_PROMISE, (promise.p50_s, promise.p90_s, execution, position))
        self.remember(execution, f"{_PROMISED}{position}", json.dumps(promise.as_record()))

    def grow(self, execution: int, position: int, tasks: int) -> None:
        """Remember how many tasks a run has now."""
        change = "UPDATE run SET tasks = ? WHERE execution = ? AND position = ?"
        self._database.later(change, (tasks, execution, position))

    def set_state(
        self, execution: int, position: int, state: str, *, at_s: float | None = None, reason: str = ""
    ) -> None:
        """Remember what became of a run; ``at_s``: when it ended, None: it has not."""
        change = "UPDATE run SET state = ?, reason = ?, ended_at_s = ? WHERE execution = ? AND position = ?"
        self._database.later(change, (_check_state(state), reason, at_s, execution, position))

    def set_execution_state(self, execution: int, state: str, *, at_s: float | None = None) -> None:
        """Remember what became of an execution; ``at_s``: when it ended, None: it has not."""
        change = "UPDATE execution SET state = ?, ended_at_s = ? WHERE number = ?"
        self._database.later(change, (_check_state(state), at_s, execution))

    def remember(self, execution: int, key: str, value: str) -> None:
        """Remember a word of an execution that no entry holds, such as its secret."""
        self._database.later("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (execution, key, value))

    def remembered(self, execution: int, key: str) -> str | None:
        """Give what was remembered and committed under a key."""
        question = "SELECT value FROM kept WHERE execution = ? AND key = ?"
        found = self._database.row(question, (execution, key))
        return None if found is None else str(found[0])

    def executions(self) -> list[ExecutionRecord]:
        """List all executions, in order."""
        return [_execution(row) for row in self._executions("ORDER BY number", ())]

    def execution(self, number: int) -> ExecutionRecord:
        """Give an execution by its number."""
        found = self._executions("WHERE number = ?", (number,))
        return _execution(found[0]) if found else self._refuse(f"no execution {number}")

    def unfinished(self, fingerprint: str | None = None) -> ExecutionRecord | None:
        """Give the last execution that was asked for the same and can be resumed; None: of any fingerprint.

        Only the last of a fingerprint counts: what was begun later has taken the place of what was before.
        """
        if fingerprint is None:
            last = self._executions("ORDER BY number DESC LIMIT 1", ())
        else:
            last = self._executions("WHERE fingerprint = ? ORDER BY number DESC LIMIT 1", (fingerprint,))
        found = [_execution(row) for row in last]
        return found[0] if found and found[0].state in UNFINISHED else None

    def all(self) -> list[RunRecord]:
        """List all runs, in order."""
        return [_run(row) for row in self._database.rows(f"{_RUNS} ORDER BY number")]

    def of(self, execution: int) -> list[RunRecord]:
        """List the runs of an execution, in the order in which the engine counts them."""
        rows = self._database.rows(f"{_RUNS} WHERE execution = ? ORDER BY position", (execution,))
        return [_run(row) for row in rows]

    def at(self, execution: int, position: int) -> RunRecord | None:
        """Give a run of an execution, as the engine counts them."""
        found = self._database.row(f"{_RUNS} WHERE execution = ? AND position = ?", (execution, position))
        return None if found is None else _run(found)

    def run(self, number: int | None = None) -> RunRecord:
        """Give a run by its number; None: the last."""
        if number is None:
            found = self._database.row(f"{_RUNS} ORDER BY number DESC LIMIT 1")
            return _run(found) if found is not None else self._refuse("no run yet")
        found = self._database.row(f"{_RUNS} WHERE number = ?", (number,))
        return _run(found) if found is not None else self._refuse(f"no run {number}")

    def _executions(self, which: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self._database.rows(f"{_EXECUTIONS} {which}", values)

    def _refuse(self, what: str) -> Any:
        place = SourceLocation(file=str(self._database.path))
        raise InvalidInput(Problem(what=what, advice="`weft ls` lists those there are", place=place))


def _check_state(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"state {state!r} is none of {', '.join(STATES)}")
    return state


def _execution(row: tuple[Any, ...]) -> ExecutionRecord:
    stated = dict(zip(_EXECUTION.split(", "), row, strict=True))
    return ExecutionRecord(**stated | {"command": tuple(json.loads(stated["command"]))})


def _run(row: tuple[Any, ...]) -> RunRecord:
    *columns, promise = row
    said = None if promise is None else Promise.of_record(json.loads(promise))
    return RunRecord(**dict(zip(_RUN, columns, strict=True)), promise=said)
