"""Planners with faults for tests of comparisons: they refuse, fail, return invalid plans or wrong bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from weft.errors import Infeasible
from weft.planners.heft import Heft
from weft.planners.planner import Unsupported

__all__ = ["FAULTY", "Infinite", "Invalid", "Late", "Refusing", "SmallInstances", "WrongBound"]


@dataclass(frozen=True)
class HeftCopy:
    """A planner that plans as HEFT does; base of the faulty planners."""

    name: ClassVar[str] = "heftcopy"
    title: ClassVar[str] = "HEFT with one fault"
    anytime: ClassVar[bool] = False

    def supports(self, instance, objective):
        return None

    def plan(self, request):
        return Heft().plan(request)


@dataclass(frozen=True)
class SmallInstances(HeftCopy):
    """A planner that refuses workflows of more than three tasks."""

    def supports(self, instance, objective):
        return Unsupported(reason="more than 3 tasks") if len(instance) > 3 else None


@dataclass(frozen=True)
class Refusing(HeftCopy):
    """A planner that raises an error instead of returning a plan."""

    def plan(self, request):
        raise Infeasible("the planner refuses")


@dataclass(frozen=True)
class Invalid(HeftCopy):
    """A planner that starts every task at time 0, ignoring dependencies."""

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
class Infinite(HeftCopy):
    """A planner that returns infinite finish times."""

    def plan(self, request):
        made = super().plan(request)
        schedule = made.schedule
        return replace(made, schedule=replace(schedule, finish_s=np.full_like(schedule.finish_s, np.inf)))


@dataclass(frozen=True)
class Late(HeftCopy):
    """A planner that starts every task late, by a fixed or random number of seconds."""

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
class WrongBound(HeftCopy):
    """A planner that returns a lower bound above the makespan of its plan."""

    claim: float = 0.0

    def plan(self, request):
        made = super().plan(request)
        return replace(made, bound_s=self.claim)


FAULTY = {kind.__name__.lower(): f"api.faulty_planners:{kind.__name__}"
       for kind in (SmallInstances, Refusing, Invalid, Infinite, Late, WrongBound)}  # fmt: skip
"""Registry entries of these planners."""
