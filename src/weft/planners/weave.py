"""Weave: simulated annealing over task orders, machines and node counts, from plans of list planners."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from weft.errors import InvalidInput
from weft.instance.instance import Instance
from weft.planners.evaluation import compute_bounds, evaluate_loss, linearise_objective
from weft.planners.plan_search import plan_seeds
from weft.planners.planner import (
    BasePlanner,
    Budget,
    ClockSlice,
    Plan,
    PlanProgress,
    PlanRequest,
    Unsupported,
)
from weft.planners.weave_search import (
    has_equal_machines,
    search_equal_machines,
    search_shared,
    search_single,
    serves_one_at_a_time,
)
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule

_ROUNDS = 3
"""Number of rounds of a search with several islands."""
_DEFAULT_STEPS = 1_000_000
"""Number of steps if the budget limits neither steps nor time."""
_MAX_BOUND_MODES = 5_000_000
"""Largest number of modes (sum over all tasks) for which a lower bound is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weave(BasePlanner):
    """Searches task orders, machines and node counts by simulated annealing.

    Of ``weave_search``, ``search_single`` searches if tasks choose only a machine and machines run one task
    at a time; ``search_shared`` searches all other instances (node counts, resources, transfers, busy
    machines).

    Several islands search in parallel, each with its own random numbers. After every round all islands
    continue from the best plan of all. The plan depends only on seed, islands and steps, not on the pool.

    Complexity: on machines that run one task at a time a step evaluates the neighbours of one task, O(d) for
    d predecessors and successors; otherwise a step decodes a plan. The search ends when the budget is spent.
    """

    name = "weave"
    title = "annealing of orders, machines and node counts, seeded by list planners"
    label = "weave"
    anytime = True

    islands: int = 0
    """Number of parallel searches that exchange their best plans; 0: the number of workers."""

    def __post_init__(self) -> None:
        self.require_at_least(0, "islands", note=" (as many as there are workers)")

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Refuse objectives that are not linear in makespan, node-seconds and price."""
        if linearise_objective(instance, objective) is None:
            reason = f"weave supports objectives that are sums of time and cost, not {objective.name!r}"
            return Unsupported(reason=reason)
        return None

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best plan found from the incumbent, or from the best plan of the list planners."""
        instance, objective, budget = request.instance, request.objective, request.budget
        if budget.steps is None and budget.left is None:
            budget = replace(budget, steps=_DEFAULT_STEPS)
            request = replace(request, budget=budget)
        if request.incumbent is not None or instance.binding_budgets():
            # No list planner keeps within budgets: without an incumbent the search builds its own start.
            return _search(request)
        seeds = plan_seeds(request)
        known = Plan(schedule=seeds.schedules[0], steps=seeds.steps)
        goal_s = _goal_s(instance, objective)
        if known.schedule.makespan_s <= goal_s or not budget.allows(known.steps):
            return known
        islands = self.islands or request.pool.workers
        if islands > 1:
            return _search_islands(request, known, islands, goal_s)
        clock = ClockSlice(left=budget.left, goal_s=goal_s, listener=budget.on_progress)
        steps = None if budget.steps is None else budget.steps - known.steps
        found = _search(_slice_request(request, known.schedule, steps, clock))
        return replace(found, steps=found.steps + known.steps, cut=found.cut and not clock.reached)


def _slice_request(
    request: PlanRequest, incumbent: Schedule, steps: int | None, clock: ClockSlice
) -> PlanRequest:
    """Return the request for one search from an incumbent, with a part of the budget."""
    budget = Budget(steps=steps, left=clock.remaining_s, on_progress=clock.report)
    return replace(request, incumbent=incumbent, budget=budget)


def _search(request: PlanRequest) -> Plan:
    """Return the plan of the annealing search that supports the instance."""
    instance, start = request.instance, request.incumbent
    if (objective := linearise_objective(instance, request.objective)) is None:
        what = f"weave does not support the objective {request.objective.name!r}"
        raise InvalidInput(what, rule="must be a sum of makespan, node-seconds and price")
    if start is None or not serves_one_at_a_time(instance):
        return search_shared(instance, objective, start, request.budget, request.rng)
    search = search_equal_machines if has_equal_machines(instance) else search_single
    return search(instance, objective, start, request.budget, request.rng)


def _goal_s(instance: Instance, objective: Objective) -> float:
    """Return the lower bound on the makespan, at which the search may end.

    Return 0 if cost counts or the instance is too large to compute a bound.
    """
    modes = sum(len(group.tasks) * len(group) for group in instance.groups)
    if not objective.is_makespan or objective.max_cost is not None or modes > _MAX_BOUND_MODES:
        return 0.0
    return compute_bounds(instance).best_s * (1.0 + 1e-12)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _IslandTask:
    """The search of one island in one round."""

    start: Schedule
    steps: int | None
    clock: ClockSlice
    rng: np.random.Generator


def _search_islands(request: PlanRequest, known: Plan, islands: int, goal_s: float) -> Plan:
    instance, objective, budget = request.instance, request.objective, request.budget
    best, steps, ended = known.schedule, known.steps, False
    try:
        for tasks in _rounds(request, known, islands, goal_s):
            started = [replace(task, start=best) for task in tasks]
            for found in request.pool.map(partial(_search_island, instance, objective), started):
                steps += found.steps
                ended = ended or found.cut
                if evaluate_loss(instance, objective, found.schedule) < evaluate_loss(
                    instance, objective, best
                ):
                    best = found.schedule
                    if budget.on_progress is not None:
                        budget.on_progress(
                            PlanProgress.of(best, instance, objective, by=Weave.name, steps=steps)
                        )
            if best.makespan_s <= goal_s:
                return Plan(schedule=best, steps=steps)
    except KeyboardInterrupt:
        ended = True
    return Plan(schedule=best, steps=steps, cut=ended)


def _rounds(request: PlanRequest, known: Plan, islands: int, goal_s: float) -> Iterator[list[_IslandTask]]:
    """Yield the searches of each round, one per island; rounds and islands get equal shares of the budget."""
    budget = request.budget
    left = None if budget.steps is None else budget.steps - known.steps
    for turn in range(_ROUNDS):
        shares: list[int | None] = [None] * islands
        if left is not None:
            now = left // (_ROUNDS - turn)
            shares = [now // islands + (island < now % islands) for island in range(islands)]
            left -= now
        until_s = 0.0
        if budget.left is not None:
            remaining = budget.left()
            until_s = remaining * (1.0 - 1.0 / (_ROUNDS - turn)) if remaining < math.inf else 0.0
            if remaining <= 0:
                return
        yield [
            _IslandTask(
                start=known.schedule,
                steps=share,
                clock=ClockSlice(left=budget.left, until_s=until_s, goal_s=goal_s),
                rng=own,
            )
            for share, own in zip(shares, request.rng.spawn(islands), strict=True)
            if share is None or share > 0
        ]


def _search_island(instance: Instance, objective: Objective, task: _IslandTask) -> Plan:
    request = PlanRequest(instance=instance, objective=objective, rng=task.rng)
    return _search(_slice_request(request, task.start, task.steps, task.clock))
