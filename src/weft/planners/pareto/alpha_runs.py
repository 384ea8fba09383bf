"""The published search for a front: many genetic searches under five weights, the best of which stay.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (spec s2 section 9, S2.8):
20 independent runs per alpha of 0.95, 0.8, 0.5, 0.2 and 0.05 with the recommended settings; all results are
collected and sorted by fitness, and the best 5 % are drawn by alpha. Time against cost is searched with the
on-demand fitness, time against idle nodes with the static one as printed.

Deviations: fitness under one alpha says nothing about another, so results are sorted per alpha: of 20 runs
the best one stays. A result is the best individual of a run. The front are those of them that no other
covers; all runs are drawn beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from weft.instance.instance import Instance
from weft.planners.aims import worth_of
from weft.planners.pareto.fronts import Archive, entry_of
from weft.planners.pareto.ladder import Climb, FrontProgress, Trial
from weft.planners.pareto.trades import Trade
from weft.planners.planner import Budget, Plan, Unsupported
from weft.planners.searches.moldable_genetic import MoldableGenetic
from weft.planners.stretch import Stretch
from weft.schedule.objective import Objective, objective_named
from weft.search.pool import Pool

__all__ = ["ALPHAS", "RUNS", "run_alphas", "supports_alphas"]

ALPHAS = (0.95, 0.8, 0.5, 0.2, 0.05)
RUNS = 20
_KEPT_SHARE = 0.05
_PLANNER = MoldableGenetic(preset="s2-recommended")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Run:
    objective: Objective
    budget: Budget
    rng: np.random.Generator


def supports_alphas(instance: Instance, trade: Trade, goal: Objective) -> Unsupported | None:
    """Say why an instance cannot be served; None: it can."""
    if (goal.deadline_s, goal.max_cost) != (None, None):
        return Unsupported(reason="the published search knows no limits")
    return _PLANNER.supports(instance, _objective(trade, ALPHAS[0]))


def run_alphas(
    instance: Instance,
    trade: Trade,
    *,
    budget: Budget,
    rng: np.random.Generator,
    pool: Pool,
    tell: Callable[[FrontProgress], None] | None = None,
) -> Climb:
    """Run the search as often as was published, alpha by alpha in turn, and keep the best."""
    runs = [
        _Run(objective=_objective(trade, alpha), budget=_part(budget, place, pool.workers), rng=own)
        for place, (alpha, own) in enumerate(zip(ALPHAS * RUNS, rng.spawn(len(ALPHAS) * RUNS), strict=True))
    ]
    plans: list[Plan] = []
    interrupted = False
    try:
        for plan, stopped in pool.map(partial(_planned, instance), runs):
            plans.append(plan)
            if tell is not None:
                tell(FrontProgress(done=len(plans), of=len(runs), points=len(plans), filled=0.0))
            if interrupted := stopped:
                break
    except KeyboardInterrupt:
        if not plans:
            raise
        interrupted = True
    notes = (f"the search was interrupted after {len(plans)} of {len(runs)} runs",) if interrupted else ()
    return _collected(instance, trade, plans, cut=interrupted or _is_over(budget), notes=notes)


def _is_over(budget: Budget) -> bool:
    return budget.left is not None and budget.left() <= 0


def _objective(trade: Trade, alpha: float) -> Objective:
    return objective_named("on-demand" if trade.against == "cost" else "static-literal", alpha)


def _part(budget: Budget, place: int, workers: int) -> Budget:
    """Give one run its part of the budget."""
    number = len(ALPHAS) * RUNS
    steps = None if budget.steps is None else max(1, budget.steps // number)
    if budget.left is None:
        return Budget(steps=steps)
    turns, turn = -(-number // workers), place // workers + 1
    stretch = Stretch(left=budget.left, until_s=max(0.0, budget.left()) * (1.0 - turn / turns))
    return Budget(steps=steps, left=stretch.remaining_s)


def _planned(instance: Instance, run: _Run) -> tuple[Plan, bool]:
    """Run the search once; say whether somebody ended it: neither clock nor steps did."""
    plan = _PLANNER.plan(instance, objective=run.objective, budget=run.budget, rng=run.rng)
    return plan, plan.cut and run.budget.allows(plan.steps)


def _collected(
    instance: Instance, trade: Trade, plans: list[Plan], *, cut: bool, notes: tuple[str, ...]
) -> Climb:
    """Keep the best of every alpha."""
    archive, kept = Archive(), []
    trials: list[Trial] = []
    for place, alpha in enumerate(ALPHAS):
        own = plans[place :: len(ALPHAS)]
        for plan in own:
            made = plan.schedule
            trials.append(Trial(makespan_s=made.makespan_s, amount=trade.amount(made), alpha=alpha))
        goal = _objective(trade, alpha)
        # Stable, so that of equals the first run stays.
        best = sorted(own, key=lambda plan: worth_of(instance, goal, plan.schedule))
        for plan in best[: math.ceil(_KEPT_SHARE * len(own))]:
            entry = entry_of(
                instance, plan.schedule, trade.amount, alpha=alpha, by=_PLANNER.name, decoder="queue"
            )
            kept.append(entry)
            archive.offer(entry)
    return Climb(
        entries=archive.entries,
        trials=tuple(trials),
        nearest=kept[0].schedule,
        steps=sum(plan.steps for plan in plans),
        bound_s=0.0,
        cut=cut,
        notes=notes,
    )
