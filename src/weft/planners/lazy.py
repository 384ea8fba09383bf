"""Lazy: binds a task when it becomes ready, to the machine with the shortest transfer or earliest finish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.kernels.just_in_time import PendingTasks, place_when_ready
from weft.kernels.placement import APPENDED
from weft.kernels.problem import make_arrays
from weft.planners.list_planner import index_order, make_rule, run_placement
from weft.planners.planner import BasePlanner, Plan, PlanRequest
from weft.planners.problem import compile_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyPlanner(BasePlanner):
    """Binds each task when it becomes ready, as in a run without a plan, with estimated times.

    The baseline of R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the
    Grid, SAC 2005 (docs/papers/dynamic-grid.md, section 13). In the paper a task goes to the machine with the
    shortest transfer of its data, so that all tasks stay on the machine of the first task. With ``by=finish``
    the machine is the one on which the task itself ends first, after all tasks that are queued on it.

    Deviations: a dependency with data counts like an explicit transfer. Among machines with equal transfer
    times a task takes the one with its shortest run time. A task is bound when its last predecessor has
    ended. Complexity O(v log v + e l + v k) for v tasks of k modes, e edges and l network locations.
    """

    name = "lazy"
    title = "no plan, tasks are bound when they become ready (baseline, Prodan and Fahringer 2005)"
    label = "lazy binding"

    by: Literal["transfer", "finish"] = "transfer"
    """Criterion for the machine: shortest transfer before the task (as in the paper), or earliest finish."""
    ties: Literal["first", "random"] = "first"
    """Which of several machines with equal transfer times is taken; the paper does not say."""

    def plan(self, request: PlanRequest) -> Plan:
        """Return the schedule in which every task is bound at the time when it becomes ready."""
        instance, number = request.instance, len(request.instance)
        draw = request.rng.random(number) if self.ties == "random" else np.zeros(number)
        pending = make_arrays(PendingTasks, number)
        rule, by_transfer = make_rule(place=APPENDED), int(self.by == "transfer")
        inputs = (compile_problem(instance), rule, by_transfer, draw, index_order(instance), pending)
        return Plan(schedule=run_placement(instance, place_when_ready, inputs), steps=1)
