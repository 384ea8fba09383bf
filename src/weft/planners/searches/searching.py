"""Searching: an optimiser of ``weft.search`` at work on the plans of an instance.

An encoding says which points there are and which schedule each stands for. What is found is never worse than
the schedules that were known before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from weft.instance.instance import Instance
from weft.planners.aims import worth_of
from weft.planners.planner import Budget, Plan, Progress
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.optimiser import Standing
from weft.search.pool import ALONE, Pool

if TYPE_CHECKING:
    from weft.search.optimiser import Optimiser
    from weft.search.space import Floats, Points, Space

__all__ = ["Encoding", "Hunt"]


class Encoding(Protocol):
    """Plans as points of a space."""

    @property
    def space(self) -> Space:
        """Give all points."""
        ...

    @property
    def batch(self) -> int:
        """Say how many points may be evaluated between two looks at the budget."""
        ...

    def values(self, points: Points) -> Floats:
        """Give the value of every point, which is to be large; minus infinity: no plan."""
        ...

    def schedule(self, point: Points) -> Schedule:
        """Give the schedule of one point."""
        ...

    def point(self, schedule: Schedule) -> Points:
        """Give the point that chooses as a schedule did."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """What others have left of a budget."""

    budget: Budget
    taken: int

    def allows(self, steps_taken: int) -> bool:
        return self.budget.allows(self.taken + steps_taken)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hunt:
    """A search for a better plan, and who asked for it."""

    by: str
    """The name of the planner."""
    instance: Instance
    objective: Objective
    budget: Budget
    rng: np.random.Generator
    pool: Pool = ALONE

    def search(
        self, encoding: Encoding, optimiser: Optimiser, known: Sequence[Schedule] = (), steps: int = 0
    ) -> Plan:
        """Search from what is known, for which some steps were taken, and give the best of everything."""
        found = optimiser.optimise(
            encoding.space,
            encoding.values,
            rng=self.rng,
            limit=_Rest(budget=self.budget, taken=steps),
            starts=[encoding.point(schedule) for schedule in known],
            tell=None if self.budget.tell is None else self._teller(encoding, steps),
            pool=self.pool,
            batch=encoding.batch,
        )
        schedules = list(known)
        if np.isfinite(found.value) or not known:
            schedules.append(encoding.schedule(found.best))
        steps += found.visited
        used_up = self.budget.steps is not None and steps >= self.budget.steps
        return Plan(
            # Among equals the one that was known first.
            schedule=min(schedules, key=lambda one: worth_of(self.instance, self.objective, one)),
            steps=steps,
            cut=found.cut and not used_up,
        )

    def _teller(self, encoding: Encoding, steps: int) -> _Teller:
        return _Teller(self, encoding, steps)


class _Teller:
    """Passes on what is better than before."""

    def __init__(self, hunt: Hunt, encoding: Encoding, steps: int) -> None:
        self._hunt = hunt
        self._encoding = encoding
        self._steps = steps
        self._value = -np.inf

    def __call__(self, standing: Standing) -> None:
        hunt = self._hunt
        if hunt.budget.tell is None or not standing.value > self._value:
            return
        self._value = standing.value
        schedule = self._encoding.schedule(standing.best)
        steps = self._steps + standing.visited
        hunt.budget.tell(Progress.of(schedule, hunt.instance, hunt.objective, by=hunt.by, steps=steps))
