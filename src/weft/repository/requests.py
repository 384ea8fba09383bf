"""Requests that users send to a running engine from another shell, and the replies.

The user's process inserts a request, and the engine finds it when it polls. The reply is written by the same
commit as the journal entry to which it belongs. So after a crash a request is either processed and answered,
or neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.records import dataclass
from weft.repository.database import Database

_INSERT = """INSERT INTO request (what, execution, run, task, machine, owner, asked_at_s)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
_COLUMNS = ("number", "what", "execution", "run", "task", "machine", "owner", "asked_at_s")
_OPEN = f"SELECT {', '.join(_COLUMNS)} FROM request WHERE answer IS NULL ORDER BY number"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """A request of a user to the engine."""

    number: int
    what: str
    """Kind of the request: a ``RequestKind`` or, for machines, ``drain``, ``open``, ``remove``, ``join``."""
    execution: int
    run: int | None
    """Position of the run within the execution; None: the request is for all runs."""
    task: str | None
    """Name of a task; None: the request is for the whole run."""
    machine: str | None
    """Name of a machine; for ``join``, the platform as JSON; None: no machine is stated."""
    owner: str
    asked_at_s: float
    """Wall-clock time of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReply:
    """Answer to a request: whether it was granted, and a text for the user."""

    granted: bool
    text: str
    replied: bool = True
    """Whether an engine gave the answer; False: no engine has replied."""


class RequestTable:
    """The requests in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = -1
        self._open: list[UserRequest] = []
        self._answered: set[int] = set()
        """Numbers of the requests answered by this object, whose replies may not be committed yet."""

    def insert(
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
        """Write a request to the database immediately; return its number."""
        return self._database.execute_now(_INSERT, (what, execution, run, task, machine, owner, at_s))

    def pending(self) -> Sequence[UserRequest]:
        """Return the unanswered requests in order of their numbers.

        The call is cheap while no other process changes the database. Raises Locked if another engine has
        claimed the database, StateMoved if the database is no longer at its path.
        """
        self._database.check_place()
        # Read the version before the rows, so that the next call finds commits made in between.
        changes = self._database.data_version
        if changes != self._seen:
            self._database.check_claim()  # an idle engine writes nothing, and would not notice another one
            rows = self._database.rows(_OPEN)
            self._open = [UserRequest(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]
            self._seen = changes
        if self._answered:
            self._open = [request for request in self._open if request.number not in self._answered]
        return self._open

    def done(self, number: int, answer: str, *, granted: bool = True) -> None:
        """Answer a request; the reply is written by the next commit."""
        self._answered.add(number)
        self._database.queue_change(
            "UPDATE request SET answer = ?, granted = ? WHERE number = ?", (answer, granted, number)
        )

    def reply(self, number: int) -> RequestReply | None:
        """Return the committed reply to a request; None if there is none yet."""
        found = self._database.row(
            "SELECT granted, answer FROM request WHERE number = ? AND answer IS NOT NULL", (number,)
        )
        return None if found is None else RequestReply(granted=bool(found[0]), text=found[1])

    def withdraw(self, number: int) -> bool:
        """Remove a request that has not been answered; return whether it had no answer."""
        self._database.execute_now("DELETE FROM request WHERE number = ? AND answer IS NULL", (number,))
        return self.reply(number) is None
