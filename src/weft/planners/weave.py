"""Weave: our own search, over the order of the tasks and all their choices together, seeded by list planners.

Where tasks only choose a machine, which serves them one at a time, ``single`` searches, or ``single_alike``
if all machines are alike; everywhere else (node counts, resources, transfers, something busy) it is
``shared``.

Several islands search side by side with random numbers of their own. After every round all go on from the
best plan of all; the plan depends on seed, islands and steps alone, not on who computes.

Complexity: a step on machines of one task at a time looks at the neighbours of one task, O(d) for d
predecessors and successors; elsewhere it decodes a plan. It goes on as long as the budget allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners.evaluation import LinearObjective, compute_bounds, evaluate_loss, linearise_objective
from weft.planners.plan_search import plan_seeds
from weft.planners.planner import Budget, ClockSlice, Plan, PlanProgress, Unsupported
from weft.planners.shared_annealing import search_shared
from weft.planners.single_annealing import (
    has_equal_machines,
    search_equal_machines,
    search_single,
    serves_one_at_a_time,
)
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["Weave"]


_ROUNDS = 3
"""How often islands start anew, each time from the best plan of all."""
_USUAL_STEPS = 1_000_000
"""Where neither steps nor a clock is given."""
_MOST_MODES = 5_000_000
"""Modes of all tasks up to which it is worth knowing a bound, at which the search ends."""


class _IslandTask(NamedTuple):
    """What one island does in one round."""

    start: Schedule
    steps: int | None
    stretch: ClockSlice
    rng: np.random.Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Weave:
    """Anneals orders, machines and node counts."""

    name: ClassVar[str] = "weave"
    title: ClassVar[str] = "annealing of orders, machines and node counts, seeded by list planners"

    islands: int = 0
    """Searches side by side, which exchange what they find; 0: as many as there are workers."""

    def __post_init__(self) -> None:
        if self.islands < 0:
            what = f"weave:islands={self.islands}"
            raise InvalidInput(Problem(what=what, rule="must be at least 0 (as many as there are workers)"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve objectives that are sums of makespan, node-seconds and price."""
        if linearise_objective(instance, objective) is None:
            return Unsupported(reason=f"weave weighs time and cost; the {objective.name} takes a whole plan")
        return None

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,
    ) -> Plan:
        """Let list planners plan, then search on from the best of their plans."""
        if budget.steps is None and budget.left is None:
            budget = replace(budget, steps=_USUAL_STEPS)
        if instance.binding_budgets():
            # No list planner keeps within budgets: the search makes its own start.
            return search_shared(instance, _aim(instance, objective), None, budget, rng)
        seeds = plan_seeds(instance, objective, budget, rng)
        known = Plan(schedule=seeds.schedules[0], steps=seeds.steps)
        goal_s = _goal_s(instance, objective)
        if known.schedule.makespan_s <= goal_s or not budget.allows(known.steps):
            return known
        islands = self.islands or pool.workers
        if islands > 1:
            return _searched(instance, objective, known, budget, rng, pool, islands, goal_s)
        steps = None if budget.steps is None else budget.steps - known.steps
        stretch = ClockSlice(left=budget.left, goal_s=goal_s, listener=budget.tell)
        found = self.improve(
            instance,
            objective=objective,
            start=known.schedule,
            budget=Budget(steps=steps, left=stretch.remaining_s, tell=stretch.hear),
            rng=rng,
        )
        return replace(found, steps=found.steps + known.steps, cut=found.cut and not stretch.reached)

    def improve(
        self,
        instance: Instance,
        *,
        objective: Objective,
        start: Schedule,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Plan:
        """Search on from a plan that is known."""
        if budget.steps is None and budget.left is None:
            budget = replace(budget, steps=_USUAL_STEPS)
        aim = _aim(instance, objective)
        if not serves_one_at_a_time(instance):
            return search_shared(instance, aim, start, budget, rng)
        search = search_equal_machines if has_equal_machines(instance) else search_single
        return search(instance, aim, start, budget, rng)


def _aim(instance: Instance, objective: Objective) -> LinearObjective:
    aim = linearise_objective(instance, objective)
    if aim is None:
        what = f"weave for the objective {objective.name!r}"
        raise InvalidInput(Problem(what=what, rule="must be a sum of makespan, node-seconds and price"))
    return aim


def _goal_s(instance: Instance, objective: Objective) -> float:
    """Give a makespan at which nothing better can be found; 0: none is known."""
    modes = sum(len(group.tasks) * len(group) for group in instance.groups)
    if not objective.is_makespan or objective.max_cost is not None or modes > _MOST_MODES:
        return 0.0
    return compute_bounds(instance).best_s * (1.0 + 1e-12)


def _searched(
    instance: Instance,
    objective: Objective,
    known: Plan,
    budget: Budget,
    rng: np.random.Generator,
    pool: Pool,
    islands: int,
    goal_s: float,
) -> Plan:
    """Search on islands, in rounds."""
    best, steps, ended = known.schedule, known.steps, False
    try:
        for pieces in _rounds(known, budget, rng, islands, goal_s):
            starts = [piece._replace(start=best) for piece in pieces]
            for found in pool.map(partial(_island, instance, objective), starts):
                steps += found.steps
                ended = ended or found.cut
                if evaluate_loss(instance, objective, found.schedule) < evaluate_loss(
                    instance, objective, best
                ):
                    best = found.schedule
                    if budget.tell is not None:
                        budget.tell(PlanProgress.of(best, instance, objective, by=Weave.name, steps=steps))
            if best.makespan_s <= goal_s:
                return Plan(schedule=best, steps=steps)
    except KeyboardInterrupt:
        ended = True
    return Plan(schedule=best, steps=steps, cut=ended)


def _rounds(
    known: Plan, budget: Budget, rng: np.random.Generator, islands: int, goal_s: float
) -> Iterator[list[_IslandTask]]:
    """Give the pieces of every round, as long as the budget lasts: equal shares of steps and of time."""
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
                known.schedule, share, ClockSlice(left=budget.left, until_s=until_s, goal_s=goal_s), own
            )
            for share, own in zip(shares, rng.spawn(islands), strict=True)
            if share is None or share > 0
        ]


def _island(instance: Instance, objective: Objective, piece: _IslandTask) -> Plan:
    """Search for one round."""
    stretch = piece.stretch
    return Weave().improve(
        instance,
        objective=objective,
        start=piece.start,
        budget=Budget(steps=piece.steps, left=stretch.remaining_s, tell=stretch.hear),
        rng=piece.rng,
    )
