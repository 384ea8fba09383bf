"""The front of time against cost, or against idle nodes: the call behind ``weft pareto``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from weft.api.fronts import Front
from weft.api.workers import pool_of
from weft.errors import InvalidInput, Problem
from weft.formats.files import load_platform, read_workflow_file
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.bounding import bounds_of
from weft.planners.pareto.alpha_runs import run_alphas, supports_alphas
from weft.planners.pareto.fronts import thinned
from weft.planners.pareto.ladder import Climb, FrontProgress, Ladder
from weft.planners.pareto.trades import Against, Trade, trade_named
from weft.planners.planner import Budget
from weft.platform.platform import Platform
from weft.predictors.chain import Chain, default_chain
from weft.predictors.predictor import Predictor
from weft.randomness import generator
from weft.runtime.plan_clock import budget_of, patiently
from weft.schedule.costs import cost_of
from weft.schedule.limits import refuse_impossible, refuse_missed
from weft.schedule.objective import Objective, objective_named
from weft.search.pool import Pool
from weft.workflow.checks import checked_graph
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.parameters import with_params

__all__ = ["DEFAULT_FRONT_TIME_S", "DEFAULT_POINTS", "Preset", "pareto"]

DEFAULT_FRONT_TIME_S = 10.0
"""What the search for a front gets if nothing is said: as much as some plans."""
DEFAULT_POINTS = 10

Preset = Literal["s2"]
"""Published procedures."""


def pareto(
    workflow: Workflow | str | Path,
    *,
    on: Platform | str | Path = "local",
    against: Against = "cost",
    points: int = DEFAULT_POINTS,
    preset: Preset | None = None,
    deadline_s: float | None = None,
    max_cost: float | None = None,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    predictor: Predictor | None = None,
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
    workers: int = 1,
    cluster: str | None = None,
    pool: Pool | str | None = None,
    progress: Callable[[FrontProgress], None] | None = None,
) -> Front:
    """Search for plans of which none is better than another both in time and in what is paid for it.

    What is paid is the ``cost`` (node-seconds where no machine has a price) or the share of node-time in
    which nodes are ``idle``. About as many objectives are searched as ``points`` are asked for, within
    ``plan_time_s`` (10 if nothing is said) or, always with the same front, ``plan_steps``. The preset ``s2``
    is the published procedure, which ends by itself. ``deadline_s`` and ``max_cost`` cut the front.

    ``front.choose(k)`` gives the plan of a point as ``weft.plan`` does.
    """
    _check(against, points, preset, seed)
    if plan_time_s is None and plan_steps is None and preset is None:
        plan_time_s = DEFAULT_FRONT_TIME_S
    loaded = workflow if isinstance(workflow, Workflow) else read_workflow_file(workflow)
    platform = on if isinstance(on, Platform) else load_platform(on)
    goal = objective_named("makespan", deadline_s=deadline_s, max_cost=max_cost)
    graph = checked_graph(with_params(loaded, params or {}))
    chain = None if predictor is None else Chain((predictor, *default_chain().predictors))
    instance = compile_instance(graph, platform, predictor=chain)
    refuse_impossible(goal, instance, bounds_of(instance).best_s)
    trade = trade_named(against, instance, max_cost=max_cost)
    search = _search(instance, trade, goal, preset, points)
    # The clock starts where the search does, as for a plan.
    budget = budget_of(plan_time_s=plan_time_s, plan_steps=plan_steps)
    started = time.perf_counter()
    with pool_of(workers=workers, cluster=cluster, pool=pool) as opened, patiently(budget):
        rng = generator(seed, "pareto", against, preset or "ladder")
        climb = search(budget=budget, rng=rng, pool=opened, tell=progress)
        side_by_side = opened.workers
    planning_s = time.perf_counter() - started
    _refuse_nothing(climb, goal, instance)
    front = Front(
        instance=instance,
        against=against,
        unit=trade.unit,
        limits=goal,
        entries=thinned(climb.entries, points),
        trials=climb.trials,
        preset=preset,
        seed=seed,
        steps=climb.steps,
        bound_s=climb.bound_s,
        cut=climb.cut,
        planning_s=planning_s,
        plan_time_s=plan_time_s,
        plan_steps=plan_steps,
        workers=side_by_side,
        remarks=climb.notes,
    )
    front.verify()
    return front


def _check(against: str, points: int, preset: str | None, seed: int) -> None:
    if against not in get_args(Against):
        rule = f"must be one of {', '.join(get_args(Against))}"
        raise InvalidInput(Problem(what=f"time against {against!r}", rule=rule))
    if preset is not None and preset not in get_args(Preset):
        rule = f"must be one of {', '.join(get_args(Preset))}"
        raise InvalidInput(Problem(what=f"preset {preset!r}", rule=rule))
    if points < 2:
        raise InvalidInput(Problem(what=f"a front of {points} points", rule="must be at least 2"))
    if seed < 0:
        raise InvalidInput(Problem(what=f"seed {seed}", rule="must be at least 0"))


def _search(
    instance: Instance, trade: Trade, goal: Objective, preset: str | None, points: int
) -> Callable[..., Climb]:
    """Choose how the front is searched for."""
    if preset is None:
        return partial(_climb, instance, trade, goal, points)
    refusal = supports_alphas(instance, trade, goal)
    if refusal is not None:
        what = f"preset {preset!r} cannot plan this: {refusal.reason}"
        raise InvalidInput(Problem(what=what, advice="leave the preset out"))
    return partial(run_alphas, instance, trade)


def _climb(
    instance: Instance, trade: Trade, goal: Objective, points: int, *, budget: Budget, **more: Any
) -> Climb:
    return Ladder(instance, trade, goal, rungs=points, budget=budget, **more).climb()


def _refuse_nothing(climb: Climb, goal: Objective, instance: Instance) -> None:
    """Raise Infeasible where no schedule keeps the limits, and say by how much the nearest misses them."""
    if not climb.entries:
        bound_s = max(climb.bound_s, bounds_of(instance).best_s)
        refuse_missed(
            goal,
            "the search for a front",
            makespan_s=climb.nearest.makespan_s,
            cost=cost_of(climb.nearest, instance),
            bound_s=bound_s,
        )
