"""Requests: what users ask of a running engine from another shell, and what it answered.

A request is written by the asker and found by the engine when it looks. Its answer is written by the same
commit as the entry it led to: after a crash a request is either answered and done, or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.repository.database import Database

__all__ = ["RequestReply", "RequestTable", "UserRequest"]

_ASK = """INSERT INTO request (what, execution, run, task, machine, owner, asked_at_s)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_COLUMNS = ("number", "what", "execution", "run", "task", "machine", "owner", "asked_at_s")
_OPEN = f"SELECT {', '.join(_COLUMNS)} FROM request WHERE answer IS NULL ORDER BY number"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """What somebody wants of the engine."""

    number: int
    what: str
    """``cancel``, ``hold``, ``release``, ``migrate``, ``resume``, ..."""
    execution: int
    run: int | None
    """Its number within the execution; None: all of them."""
    task: str | None
    """Its name; None: the whole run."""
    machine: str | None
    """Its name."""
    owner: str
    asked_at_s: float
    """Wall time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReply:
    """What the engine said."""

    granted: bool
    text: str


class RequestTable:
    """The requests of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = -1
        self._open: list[UserRequest] = []
        self._answered: set[int] = set()
        """Those whose answer is not committed yet, perhaps."""

    def ask(
        self,
        what: str,
        *,
        execution: int,
        run: int | None = None,
        task: str | None = None,
        machine: str | None = None,
        owner: str = "",
        at_s: float = 0.0,
    ) -> int:
        """Ask for something, written at once; give the request's number."""
        return self._database.now(_ASK, (what, execution, run, task, machine, owner, at_s))

    def pending(self) -> Sequence[UserRequest]:
        """List what was asked and not answered, in the order of asking; cheap while nobody asks."""
        # First the number, then the rows: what comes between is seen the next time.
        changes = self._database.data_version
        if changes != self._seen:
            self._open = [_request(row) for row in self._database.rows(_OPEN)]
            self._seen = changes
        if self._answered:
            self._open = [request for request in self._open if request.number not in self._answered]
        return self._open

    def done(self, number: int, answer: str, *, granted: bool = True) -> None:
        """Answer a request; the answer is written by the next commit."""
        self._answered.add(number)
        self._database.later(
            "UPDATE request SET answer = ?, granted = ? WHERE number = ?", (answer, granted, number)
        )

    def reply(self, number: int) -> RequestReply | None:
        """Give the answer to a request; None: there is none yet."""
        found = self._database.row(
            "SELECT granted, answer FROM request WHERE number = ? AND answer IS NOT NULL", (number,)
        )
        return None if found is None else RequestReply(granted=bool(found[0]), text=found[1])

    def withdraw(self, number: int) -> bool:
        """Take a request back that nobody has answered: there is no engine; say whether it was in time."""
        self._database.now("DELETE FROM request WHERE number = ? AND answer IS NULL", (number,))
        return self.reply(number) is None


def _request(row: tuple[Any, ...]) -> UserRequest:
    return UserRequest(**dict(zip(_COLUMNS, row, strict=True)))
