"""The contract of the registry ``planners``: read it first.

A planner turns an instance into a schedule. It sees estimates, never durations; it reads no clock (the
budget does); its random numbers come from the generator passed in; ties are broken by index.

A stretch: the part of a clock that one search gets, which ends early when nothing better can be found.

Planners by name, with options: ``heft``, ``heft:averaging=self-loops``, ``xdcp:pool=shared``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weft.instance.instance import Instance
from weft.registry import list_options, make_by_name
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "GAP_TOLERANCE",
    "Budget",
    "ClockSlice",
    "Improver",
    "Plan",
    "PlanProgress",
    "Planner",
    "Unsupported",
    "check_makespan_only",
    "check_no_budgets",
    "list_options",
    "make_planner",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress:
    """How far a search is."""

    by: str
    """Who found the news: the name of a planner."""
    value: float
    """The objective's number of the best schedule so far."""
    makespan_s: float
    bound_s: float
    """The best lower bound of the makespan so far; 0: none."""
    steps: int

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        instance: Instance,
        objective: Objective,
        *,
        by: str,
        steps: int,
        bound_s: float = 0.0,
    ) -> PlanProgress:
        """Say how far a search is that has found a schedule."""
        value = objective.value(schedule, instance)
        return cls(by=by, value=value, makespan_s=schedule.makespan_s, bound_s=bound_s, steps=steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a planner may spend; it asks between steps."""

    steps: int | None = None
    """Evaluations; None: as many as the clock allows."""
    left: Callable[[], float] | None = None
    """Reads a clock outside: seconds left; None: no limit."""
    tell: Callable[[PlanProgress], None] | None = None
    """Hears of every better schedule and bound while a planner searches; None: nobody listens."""

    def allows(self, steps_taken: int) -> bool:
        """Say whether another step may be taken."""
        if self.steps is not None and steps_taken >= self.steps:
            return False
        return self.left is None or self.left() > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """Why a planner cannot serve an instance or an objective."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """What a planner returns."""

    schedule: Schedule
    steps: int
    """Schedules built (list planners: 1)."""
    bound_s: float = 0.0
    """A lower bound of the makespan the planner proved itself; 0: none."""
    cut: bool = False
    """Whether the clock ended the search, so that another run may differ."""
    by: str = ""
    """Who found the schedule, where a planner asks others."""
    bound_by: str = ""
    """Who proved the bound, where a planner asks others."""
    notes: tuple[str, ...] = ()
    """What a reader should know about how the plan was made."""


class Improver(Protocol):
    """A planner that can go on from a schedule somebody else has found."""

    name: str

    def improve(
        self,
        instance: Instance,
        *,
        objective: Objective,
        start: Schedule,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Plan:
        """Give a schedule that is not worse than the one to start from, and a bound if one was proven."""
        ...


class Planner(Protocol):
    """Makes a schedule before (or again during) a run."""

    name: str
    title: str
    """One line for lists, with the paper."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Say why this instance or objective cannot be served; None: it can."""
        ...

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,
    ) -> Plan:
        """Make a schedule."""
        ...


def check_makespan_only(title: str, instance: Instance, objective: Objective) -> Unsupported | None:
    """Refuse what a planner that only makes plans short cannot serve: other objectives, binding budgets."""
    if not objective.is_makespan:
        return Unsupported(reason=f"{title} minimises the makespan, not the {objective.name}")
    return check_no_budgets(title, instance)


def check_no_budgets(title: str, instance: Instance) -> Unsupported | None:
    """Refuse budgets that have to be kept."""
    if budgets := instance.binding_budgets():
        return Unsupported(reason=f"{title} does not keep within budgets: {', '.join(budgets)}")
    return None


GAP_TOLERANCE = 1e-9
"""Share by which a plan and a bound that are equal may differ by rounding."""


@dataclass(slots=True, kw_only=True)
class ClockSlice:
    """A stretch of a clock, which ends early when a plan as short as the bound is found."""

    left: Callable[[], float] | None
    """The clock of the whole; None: there is none."""
    until_s: float = 0.0
    """What the whole shall have left at the end of the stretch."""
    goal_s: float = 0.0
    """No makespan is below it; 0: nothing is known, or something else counts."""
    listener: Callable[[PlanProgress], None] | None = None
    reached: bool = False

    def remaining_s(self) -> float:
        """Give the seconds that are left."""
        if self.reached:
            return 0.0
        return math.inf if self.left is None else self.left() - self.until_s

    def hear(self, news: PlanProgress) -> None:
        """Notice when the goal is reached, and pass the news on."""
        if self.goal_s > 0 and news.makespan_s <= max(self.goal_s, news.bound_s) * (1.0 + GAP_TOLERANCE):
            self.reached = True
        if self.listener is not None:
            self.listener(news)


def make_planner(text: str) -> Planner:
    """Make the planner that a name with options describes."""
    from weft.planners import PLANNERS

    planner: Planner = make_by_name(PLANNERS, text)
    return planner
