"""The contract of the shelf ``planners``: read it first.

A planner turns an instance into a schedule. It sees estimates, never durations; it reads no clock (the
budget does); its random numbers come from the generator passed in; ties are broken by index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from weft.instance.instance import Instance
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import ALONE, Pool

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Budget",
    "Improver",
    "Plan",
    "Planner",
    "Progress",
    "Unsupported",
    "makespan_only",
    "without_budgets",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
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
    ) -> Progress:
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
    tell: Callable[[Progress], None] | None = None
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
        pool: Pool = ALONE,
    ) -> Plan:
        """Make a schedule."""
        ...


def makespan_only(title: str, instance: Instance, objective: Objective) -> Unsupported | None:
    """Refuse what a planner that only makes plans short cannot serve: other objectives, binding budgets."""
    if not objective.is_makespan:
        return Unsupported(reason=f"{title} minimises the makespan, not the {objective.name}")
    return without_budgets(title, instance)


def without_budgets(title: str, instance: Instance) -> Unsupported | None:
    """Refuse budgets that have to be kept."""
    if budgets := instance.binding_budgets():
        return Unsupported(reason=f"{title} does not keep within budgets: {', '.join(budgets)}")
    return None
