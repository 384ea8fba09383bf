"""Search over encoded schedules with the optimisers of ``weft.search``, started from list planners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners import PLANNERS
from weft.planners.evaluation import evaluate_loss
from weft.planners.planner import (
    Budget,
    Plan,
    Planner,
    PlanProgress,
    PlanRequest,
    Unsupported,
    supported_objective,
)
from weft.planners.problem import compile_problem
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.optimiser import Optimiser, SearchState
from weft.search.space import Floats, Points, Space

_FOR_ALL = ("heft", "cpop", "peft", "cheapest")
_FOR_MOLDABLE = ("heft-moldable", "cpa", "local-optimum")
_MAX_CELLS = 5_000_000
"""If tasks x machines is larger than this, only the first list planner runs."""


class Encoding(Protocol):
    """Maps points of a search space to schedules."""

    @property
    def space(self) -> Space:
        """Return the search space."""
        ...

    @property
    def batch(self) -> int:
        """Return the number of points to evaluate between two checks of the budget."""
        ...

    def values(self, points: Points) -> Floats:
        """Return the value of every point, to be maximised; minus infinity for a point without a schedule."""
        ...

    def schedule(self, point: Points) -> Schedule:
        """Return the schedule of a point."""
        ...

    def point(self, schedule: Schedule) -> Points:
        """Return the point that encodes the machines and node counts of a schedule."""
        ...


class Seeds(NamedTuple):
    """Schedules from which a search starts."""

    schedules: tuple[Schedule, ...]
    """At least one schedule; the best one by limits and objective comes first."""
    steps: int
    """Number of steps that building these schedules took."""


def plan_seeds(request: PlanRequest) -> Seeds:
    """Return the incumbent if there is one, else the schedules of list planners that are fast enough.

    A planner that does not support the objective minimises the makespan. Raises Infeasible if no list planner
    supports the instance.
    """
    instance, objective, budget = request.instance, request.objective, request.budget
    if request.incumbent is not None:
        return Seeds(schedules=(request.incumbent,), steps=0)
    moldable = bool(compile_problem(instance).modes.moldable.any())
    names = [*(_FOR_MOLDABLE if moldable else ()), *_FOR_ALL]
    if len(instance) * len(instance.machines) > _MAX_CELLS:
        names = names[:1]
    found: list[Schedule] = []
    steps = 0
    for name in names:
        if found and not budget.allows(steps):
            break
        planner: Planner = PLANNERS.load(name)()
        if (goal := supported_objective(planner, instance, objective)) is not None:
            left = Budget(steps=None if budget.steps is None else budget.steps - steps, left=budget.left)
            plan = planner.plan(PlanRequest(instance=instance, objective=goal, budget=left, rng=request.rng))
            found.append(plan.schedule)
            steps += plan.steps
    if not found:
        raise Infeasible("no list planner supports this instance, so a search has no plan to start from")
    return Seeds(tuple(sorted(found, key=lambda one: evaluate_loss(instance, objective, one))), steps)


class PreparedSearch(NamedTuple):
    """An optimiser over the encoding of an instance, and the schedules from which it starts."""

    encoding: Encoding
    optimiser: Optimiser
    seeds: Seeds | None = None
    """The schedules from which the search starts; None if it starts from random points."""

    @property
    def starts(self) -> list[Points]:
        """Return the points of the seeds; empty for a random start."""
        return [self.encoding.point(one) for one in (() if self.seeds is None else self.seeds.schedules)]


@runtime_checkable
class SearchPlanner(Protocol):
    """A planner that runs an optimiser over an encoding; ``weft tune`` can measure its search."""

    name: ClassVar[str]

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Return why this instance or objective cannot be planned; None if it can."""
        ...

    def prepare(self, request: PlanRequest) -> PreparedSearch:
        """Return the search that ``plan`` would run."""
        ...


def run_search(request: PlanRequest, prepared: PreparedSearch, *, by: str) -> Plan:
    """Return the best of the seeds and of the schedules found by a search from them or from random points.

    ``by`` is the name of the planner in progress reports.
    """
    encoding, optimiser, seeds = prepared
    known, steps = ((), 0) if seeds is None else seeds
    reporter = _ProgressReporter(request=request, encoding=encoding, by=by, steps=steps)
    found = optimiser.optimise(
        encoding.space,
        encoding.values,
        rng=request.rng,
        limit=_RemainingBudget(budget=request.budget, taken=steps),
        starts=prepared.starts,
        on_progress=None if request.budget.on_progress is None else reporter.report,
        pool=request.pool,
        batch=encoding.batch,
    )
    schedules = list(known)
    if np.isfinite(found.value) or not known:
        schedules.append(encoding.schedule(found.best))
    steps += found.visited
    used_up = request.budget.steps is not None and steps >= request.budget.steps
    # Of several equal schedules the first is kept.
    best = min(schedules, key=lambda one: evaluate_loss(request.instance, request.objective, one))
    return Plan(schedule=best, steps=steps, cut=found.cut and not used_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemainingBudget:
    """A budget of which ``taken`` steps are spent."""

    budget: Budget
    taken: int

    def allows(self, steps_taken: int) -> bool:
        return self.budget.allows(self.taken + steps_taken)


@dataclass(slots=True, kw_only=True, eq=False)
class _ProgressReporter:
    """Reports every state of an optimiser that is better than the last reported one."""

    request: PlanRequest
    encoding: Encoding
    by: str
    steps: int
    value: float = -np.inf

    def report(self, state: SearchState) -> None:
        request = self.request
        if request.budget.on_progress is None or not state.value > self.value:
            return
        self.value = state.value
        schedule = self.encoding.schedule(state.best)
        steps = self.steps + state.visited
        request.budget.on_progress(
            PlanProgress.of(schedule, request.instance, request.objective, by=self.by, steps=steps)
        )
