"""Planning budgets with a deadline. Planners do not read clocks; they call ``Budget.left``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.errors import InvalidInput
from weft.kernels.compilation import report_compilation
from weft.planners.planner import Budget, Planner, PlanProgress
from weft.records import dataclass

DEFAULT_PLAN_TIME_S = 2.0
"""Default time in seconds for a plan before a run starts, for planners that search."""

_REPLAN_STEPS = 200
"""Default number of steps of a plan during a run, for planners that search; tasks wait for this plan."""


@dataclass(slots=True, kw_only=True)
class Deadline:
    """A point in wall time; it can be sent to other processes, and to hosts with synchronised clocks."""

    end_s: float
    """Time of the deadline, in seconds of ``time.time``."""

    @classmethod
    def of(cls, seconds: float) -> Deadline:
        """Return a deadline this many seconds from now."""
        return cls(end_s=time.time() + seconds)

    def left(self) -> float:
        """Return the seconds until the deadline; negative after it."""
        return self.end_s - time.time()

    def end(self) -> None:
        """End the budget now by moving the deadline to the past."""
        self.end_s = 0.0

    def stop(self, kernel: str) -> Callable[[], None]:  # noqa: ARG002
        """Stop the clock of the deadline; return a function that continues it.

        The deadline is extended by the time between the two calls.
        """
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
    """Return a budget of ``plan_time_s`` seconds from now, or of ``plan_steps`` steps.

    The budget is unlimited if both are None; only one of them may be given.
    """
    if plan_time_s is not None and plan_steps is not None:
        what = f"a planning time of {plan_time_s:g} s and {plan_steps} planning steps are both given"
        raise InvalidInput(what, rule="only one of them may be given")
    if plan_time_s is not None and not 0.0 < plan_time_s < float("inf"):
        what = f"a planning time of {plan_time_s:g} s is not allowed"
        raise InvalidInput(what, rule="must be a number of seconds above 0")
    if plan_steps is not None and plan_steps < 1:
        raise InvalidInput(f"{plan_steps} planning steps are not allowed", rule="must be at least 1")
    left = None if plan_time_s is None else Deadline.of(plan_time_s).left
    return Budget(steps=plan_steps, left=left, on_progress=progress)


def find_deadline(budget: Budget) -> Deadline | None:
    """Return the deadline of a budget from ``make_budget``; None: the budget has no deadline."""
    clock = getattr(budget.left, "__self__", None)
    return clock if isinstance(clock, Deadline) else None


@contextmanager
def exclude_compilation(budget: Budget) -> Iterator[None]:
    """Context manager that extends the deadline of a budget by the time spent on compiling kernels.

    Compilation takes seconds, but happens only once per computer. Without the extension, no time would be
    left to search for the first plan.
    """
    if (clock := find_deadline(budget)) is None:
        yield
        return
    with report_compilation(clock.stop):
        yield


def is_search(planner: Planner) -> bool:
    """Return whether a planner improves its plan until its budget is spent."""
    return bool(getattr(planner, "anytime", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningBudget:
    """Time or steps for each plan of a run; if neither is given, defaults apply to planners that search."""

    time_s: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        self._budget()  # raises InvalidInput for invalid values

    def budget(self, planner: Planner, *, first: bool) -> Budget:
        """Return the budget of a plan; its time starts now.

        ``first`` says whether this is the plan before the run starts.
        """
        given = self.time_s is not None or self.steps is not None
        if given or not is_search(planner):
            return self._budget()
        if first:
            return make_budget(plan_time_s=DEFAULT_PLAN_TIME_S, plan_steps=None)
        return make_budget(plan_time_s=None, plan_steps=_REPLAN_STEPS)

    def _budget(self) -> Budget:
        return make_budget(plan_time_s=self.time_s, plan_steps=self.steps)
