"""Planners with faults for tests of comparisons: they refuse, fail, return invalid plans or wrong bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from weft.errors import Infeasible
from weft.planners.heft import Heft
from weft.planners.planner import Unsupported

__all__ = ["ODD", "Cheating", "Dawdling", "Endless", "Lost", "Picky", "Proving"]


@dataclass(frozen=True)
class Odd:
    """Plans as HEFT does."""

    name: ClassVar[str] = "odd"
    title: ClassVar[str] = "as HEFT, but for one thing"
    anytime: ClassVar[bool] = False

    def supports(self, instance, objective):
        return None

    def plan(self, request):
        return Heft().plan(request)


@dataclass(frozen=True)
class Picky(Odd):
    """Refuses workflows of more than three tasks."""

    def supports(self, instance, objective):
        return Unsupported(reason="more than 3 tasks") if len(instance) > 3 else None


@dataclass(frozen=True)
class Lost(Odd):
    """Finds no plan."""

    def plan(self, request):
        raise Infeasible("no way out")


@dataclass(frozen=True)
class Cheating(Odd):
    """Starts every task at time 0."""

    def plan(self, request):
        made = super().plan(request)
        schedule = made.schedule
        return replace(
            made,
            schedule=replace(
                schedule,
                start_s=np.zeros_like(schedule.start_s),
                finish_s=schedule.finish_s - schedule.start_s,
            ),
        )


@dataclass(frozen=True)
class Endless(Odd):
    """Returns infinite times."""

    def plan(self, request):
        made = super().plan(request)
        schedule = made.schedule
        return replace(made, schedule=replace(schedule, finish_s=np.full_like(schedule.finish_s, np.inf)))


@dataclass(frozen=True)
class Dawdling(Odd):
    """Starts late by a fixed or random number of seconds."""

    by: float = 0.0
    at_random: bool = False

    def plan(self, request):
        late = request.rng.random() if self.at_random else self.by
        made = super().plan(request)
        schedule = made.schedule
        return replace(
            made,
            schedule=replace(schedule, start_s=schedule.start_s + late, finish_s=schedule.finish_s + late),
        )


@dataclass(frozen=True)
class Proving(Odd):
    """Claims a lower bound that its plan does not support."""

    claim: float = 0.0

    def plan(self, request):
        made = super().plan(request)
        return replace(made, bound_s=self.claim)


ODD = {kind.__name__.lower(): f"api.odd_planners:{kind.__name__}"
       for kind in (Picky, Lost, Cheating, Endless, Dawdling, Proving)}  # fmt: skip
"""Registry entries of these planners."""
