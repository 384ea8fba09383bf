"""What a policy may know of the plan a run follows, and how it goes through the tasks that may go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

__all__ = ["LineView", "PlanView", "Turn"]


class LineView(Protocol):
    """Where and when a task is planned."""

    @property
    def machine(self) -> int:
        """Give the machine."""
        ...

    @property
    def count(self) -> int:
        """Give the node count, as the user knows it."""
        ...

    @property
    def start_s(self) -> float:
        """Give the planned start."""
        ...

    @property
    def finish_s(self) -> float:
        """Give the planned end."""
        ...


class PlanView(Protocol):
    """The plan a run follows."""

    @property
    def line(self) -> Mapping[int, LineView]:
        """Give the lines by task; a task that is not planned has none."""
        ...


class Turn(Protocol):
    """Tasks of one run that may go, once each; those that are not planned come last, unless it is by rank.

    Tasks of one class have the same kind and are planned on the same machine with the same count; those of
    one kind can run in the same modes, wherever they are planned.
    """

    alike: bool
    """Whether tasks of one class would also end at the same time, wherever they were sent."""
    even: bool
    """Whether tasks of one kind need the same to be free; else they may differ in the amounts they take."""

    @property
    def waiting(self) -> int:
        """Count the classes of which some task rather waits."""
        ...

    @property
    def hurried(self) -> bool:
        """Say whether those that are planned on busy machines are not looked at."""
        ...

    def head(self) -> int | None:
        """Give the first task that was not passed, be it left out or not; None: there is none."""
        ...

    def next(self) -> int | None:
        """Give the first task that was neither passed nor left out; None: there is none."""
        ...

    def pass_by(self, task: int) -> None:
        """Go on behind a task."""
        ...

    def let_wait(self, task: int) -> None:
        """Go on behind a task that rather waits; when some of its class do, leave out the others."""
        ...

    def leave_out(self, task: int) -> None:
        """Go on behind a task that rather waits, as all others of its class do: leave them out."""
        ...

    def leave_out_kind(self, task: int) -> None:
        """Go on behind a task that nothing can take, and leave out all others of its kind."""
        ...

    def hurry(self, is_free: Callable[[int], bool]) -> None:
        """From now on look at a task that is planned on a machine only while that is free.

        Those that have no such machine, or cannot use it, are looked at as before.
        """
        ...
