"""The clock and the workers a planner gets: planners read no clock themselves, and open no pools."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.errors import InvalidInput, Problem
from weft.kernels.forms import listening
from weft.planners.planner import Budget, Progress
from weft.search.pool import ALONE, Pool

if TYPE_CHECKING:
    from weft.planners.planner import Planner

__all__ = ["DEFAULT_PLAN_TIME_S", "Clock", "budget_of", "patiently", "pool_of", "searches"]

DEFAULT_PLAN_TIME_S = 2.0
"""What a planner that searches gets if nothing is said."""


@dataclass(slots=True, kw_only=True)
class Clock:
    """Counts down to an end. It can travel to other processes and hosts, whose clocks must agree."""

    end_s: float
    """As ``time.time`` counts."""

    @classmethod
    def of(cls, seconds: float) -> Clock:
        """Start a clock that ends in so many seconds."""
        return cls(end_s=time.time() + seconds)

    def left(self) -> float:
        """Give the seconds that are left; below 0: it is over."""
        return self.end_s - time.time()

    def stop(self, kernel: str) -> Callable[[], None]:  # noqa: ARG002
        """Stand still while a kernel is compiled; give what makes the clock go on."""
        stopped_s = time.time()

        def go_on() -> None:
            self.end_s += time.time() - stopped_s

        return go_on


def budget_of(
    *,
    plan_time_s: float | None,
    plan_steps: int | None,
    progress: Callable[[Progress], None] | None = None,
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
    left = None if plan_time_s is None else Clock.of(plan_time_s).left
    return Budget(steps=plan_steps, left=left, tell=progress)


@contextmanager
def patiently(budget: Budget) -> Iterator[None]:
    """Let the clock of a budget stand still whenever kernels are compiled.

    That takes seconds, but only the first time: with them a first plan would get no time to search.
    """
    clock = getattr(budget.left, "__self__", None)
    if not isinstance(clock, Clock):
        yield
        return
    with listening(clock.stop):
        yield


def searches(planner: Planner) -> bool:
    """Say whether a planner goes on until its time is over: it can improve a schedule that is known."""
    return hasattr(planner, "improve")


@contextmanager
def pool_of(
    *, workers: int = 1, cluster: str | None = None, pool: Pool | str | None = None
) -> Iterator[Pool]:
    """Open what was asked for, and close it: a pool by name, a Dask cluster, or processes of this host.

    A pool that is open already stays so.
    """
    if workers < 1:
        raise InvalidInput(Problem(what=f"{workers} workers", rule="must be at least 1"))
    given = {"workers": workers > 1, "cluster": cluster is not None, "pool": pool is not None}
    if sum(given.values()) > 1:
        both = " and ".join(name for name, said in given.items() if said)
        rule = "only one of them can say where planning is done"
        raise InvalidInput(Problem(what=f"{both} were given", rule=rule))
    if pool is not None and not isinstance(pool, str):
        yield pool
        return
    name = pool or (f"dask:{cluster}" if cluster is not None else f"processes:{workers}")
    if name == "processes:1":
        yield ALONE
        return
    from weft.pools.pool import pool_named

    with pool_named(name) as opened:
        yield opened
