"""The clock a planner gets: planners read none themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.errors import InvalidInput, Problem
from weft.kernels.compilation import report_compilation
from weft.planners.planner import Budget, PlanProgress
from weft.records import dataclass

if TYPE_CHECKING:
    from weft.planners.planner import Planner

__all__ = [
    "DEFAULT_PLAN_TIME_S",
    "Deadline",
    "PlanningBudget",
    "exclude_compilation",
    "find_deadline",
    "is_search",
    "make_budget",
]


DEFAULT_PLAN_TIME_S = 2.0
"""What a planner that searches gets if nothing is said."""

_REPLAN_STEPS = 200
"""What it gets if nothing is said while a run goes on: tasks wait for such a plan."""


@dataclass(slots=True, kw_only=True)
class Deadline:
    """Counts down to an end. It can travel to other processes and hosts, whose clocks must agree."""

    end_s: float
    """As ``time.time`` counts."""

    @classmethod
    def of(cls, seconds: float) -> Deadline:
        """Start a clock that ends in so many seconds."""
        return cls(end_s=time.time() + seconds)

    def left(self) -> float:
        """Give the seconds that are left; below 0: it is over."""
        return self.end_s - time.time()

    def end(self) -> None:
        """End now."""
        self.end_s = 0.0

    def stop(self, kernel: str) -> Callable[[], None]:  # noqa: ARG002
        """Stand still while a kernel is compiled; give what makes the clock go on."""
        stopped_s = time.time()

        def go_on() -> None:
            self.end_s += time.time() - stopped_s

        return go_on


def make_budget(
    *,
    plan_time_s: float | None,
    plan_steps: int | None,
    progress: Callable[[PlanProgress], None] | None = None,
) -> Budget:
    """Start the clock, or count steps; with neither a planner may take as long as it likes."""
    if plan_time_s is not None and plan_steps is not None:
        what = f"a planning time of {plan_time_s:g} s and {plan_steps} planning steps"
        raise InvalidInput(Problem(what=what, rule="only one of them can end the planning"))
    if plan_time_s is not None and not 0.0 < plan_time_s < float("inf"):
        what = f"a planning time of {plan_time_s:g} s"
        raise InvalidInput(Problem(what=what, rule="must be a number of seconds above 0"))
    if plan_steps is not None and plan_steps < 1:
        raise InvalidInput(Problem(what=f"{plan_steps} planning steps", rule="must be at least 1"))
    left = None if plan_time_s is None else Deadline.of(plan_time_s).left
    return Budget(steps=plan_steps, left=left, on_progress=progress)


def find_deadline(budget: Budget) -> Deadline | None:
    """Give the clock of a budget; None: it has none."""
    clock = getattr(budget.left, "__self__", None)
    return clock if isinstance(clock, Deadline) else None


@contextmanager
def exclude_compilation(budget: Budget) -> Iterator[None]:
    """Let the clock of a budget stand still whenever kernels are compiled.

    That takes seconds, but only the first time: with them a first plan would get no time to search.
    """
    clock = find_deadline(budget)
    if clock is None:
        yield
        return
    with report_compilation(clock.stop):
        yield


def is_search(planner: Planner) -> bool:
    """Return whether a planner searches until its budget is spent."""
    return bool(getattr(planner, "anytime", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningBudget:
    """What a planner that searches may spend each time it is asked in a run; nothing said: as usual."""

    time_s: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        self._budget()  # refuses what cannot be

    def budget(self, planner: Planner, *, first: bool) -> Budget:
        """Start the clock, or count steps; ``first``: the plan before a run, not one while it goes on."""
        said = self.time_s is not None or self.steps is not None
        if said or not is_search(planner):
            return self._budget()
        if first:
            return make_budget(plan_time_s=DEFAULT_PLAN_TIME_S, plan_steps=None)
        return make_budget(plan_time_s=None, plan_steps=_REPLAN_STEPS)

    def _budget(self) -> Budget:
        return make_budget(plan_time_s=self.time_s, plan_steps=self.steps)
