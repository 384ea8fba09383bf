"""Schedules, their independent verification, objectives, metrics and lower bounds."""

from __future__ import annotations

from weft.schedule.bounds import Bounds, lower_bounds
from weft.schedule.costs import cheapest_cost
from weft.schedule.metrics import Metrics, critical_path, measure_schedule
from weft.schedule.objective import OBJECTIVES, Objective, make_objective
from weft.schedule.schedule import Assignment, Schedule
from weft.schedule.verification import Violation, verify

__all__ = [
    "OBJECTIVES",
    "Assignment",
    "Bounds",
    "Metrics",
    "Objective",
    "Schedule",
    "Violation",
    "cheapest_cost",
    "critical_path",
    "lower_bounds",
    "make_objective",
    "measure_schedule",
    "verify",
]
