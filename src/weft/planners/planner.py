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

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Budget", "Plan", "Planner", "Unsupported", "makespan_only", "without_budgets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much a planner may spend; it asks between steps."""

    steps: int | None = None
    """Evaluations; None: as many as the clock allows."""
    left: Callable[[], float] | None = None
    """Reads a clock outside: seconds left; None: no limit."""

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


class Planner(Protocol):
    """Makes a schedule before (or again during) a run."""

    name: str
    title: str
    """One line for lists, with the paper."""

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Say why this instance or objective cannot be served; None: it can."""
        ...

    def plan(
        self, instance: Instance, *, objective: Objective, budget: Budget, rng: np.random.Generator
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
