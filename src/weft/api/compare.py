"""Compare planners on workflows: the function behind ``weft compare``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from weft.api.plan import run_planner
from weft.api.request import compile_request
from weft.errors import Infeasible, InvalidInput, Problem
from weft.formats.files import load_platform, read_workflow_file
from weft.instance.instance import Instance
from weft.planners import PLANNERS
from weft.planners.planner import Budget, Planner, make_planner
from weft.planners.problem import compile_problem
from weft.platform.platform import Platform
from weft.reports.comparison import PlannerComparison, PlannerResult, WorkflowResults
from weft.runtime.budget import DEFAULT_PLAN_TIME_S, exclude_compilation, is_search, make_budget
from weft.schedule.bounds import lower_bounds
from weft.schedule.objective import make_objective
from weft.schedule.verification import refuse_invalid
from weft.search.pool import INLINE_POOL
from weft.workflow.workflow import Workflow, set_params

ALL = "all"
"""Planner name that selects every registered planner."""

Progress = Callable[[str], AbstractContextManager[object]]
"""Context manager factory that displays a description while a step runs."""

_Source = Workflow | str | Path
_BudgetFactory = Callable[[Planner], Budget]


def compare(
    workflows: _Source | Iterable[_Source],
    *,
    on: Platform | str | Path = "local",
    planners: str | Iterable[str] = (),
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    format_name: str | None = None,
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
    progress: Progress = nullcontext,
) -> PlannerComparison:
    """Plan every workflow with every planner, verify each schedule, and return all makespans.

    ``planners`` is a list or comma-separated string of planner names with options, or ``"all"``. If empty,
    all registered planners that can plan at least one workflow are used. A planner that cannot plan a
    workflow is listed with the reason. Search planners get ``plan_time_s`` (default 2) or ``plan_steps`` per
    workflow.
    """
    spending = partial(_budget, plan_time_s, plan_steps)
    make_budget(plan_time_s=plan_time_s, plan_steps=plan_steps)  # validate the budget before any work
    if seed < 0:
        raise InvalidInput(f"seed {seed}", rule="must be at least 0")
    chosen = _load_planners(planners)
    platform = on if isinstance(on, Platform) else load_platform(on)
    listed = [workflows] if isinstance(workflows, _Source) else list(workflows)
    if not listed:
        raise InvalidInput("no workflow to compare planners on", advice="name at least one workflow")
    found = [_load(source, format_name, params or {}, progress) for source in listed]
    made = PlannerComparison(
        platform=platform.name,
        seed=seed,
        planners=tuple(chosen),
        workflows=tuple(
            _compare_on(label, workflow, platform, chosen, seed, spending, progress)
            for label, workflow in zip(_labels(listed, found), found, strict=True)
        ),
    )
    _require_a_plan(made)
    return made if planners else _drop_unable(made)


def _load_planners(planners: str | Iterable[str]) -> dict[str, Planner]:
    """Return the planners by name; InvalidInput lists all unknown names."""
    texts = planners.split(",") if isinstance(planners, str) else list(planners)
    names = [text.strip() for text in texts] or [ALL]
    found: dict[str, Planner] = {}
    problems: list[Problem] = []
    for name in names:
        for single in sorted(dict(PLANNERS.load_each())) if name == ALL else [name]:
            try:
                found.setdefault(single, make_planner(single))
            except InvalidInput as error:
                problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return found


def _load(
    source: _Source, format_name: str | None, params: Mapping[str, Any], progress: Progress
) -> Workflow:
    if not isinstance(source, Workflow):
        with progress(f"reading {source}"):
            source = read_workflow_file(source, format_name=format_name)
    return set_params(source, params)


def _labels(sources: list[_Source], found: list[Workflow]) -> list[str]:
    """Return unique labels of the workflows: names, else file names, else numbered file names."""
    by_name = [workflow.name for workflow in found]
    by_file = [
        name if isinstance(source, Workflow) else str(source)
        for source, name in zip(sources, by_name, strict=True)
    ]
    numbered = [f"{name} ({place})" for place, name in enumerate(by_file, start=1)]
    return next(labels for labels in (by_name, by_file, numbered) if len(set(labels)) == len(labels))


def _compare_on(
    label: str,
    workflow: Workflow,
    platform: Platform,
    planners: Mapping[str, Planner],
    seed: int,
    spending: _BudgetFactory,
    progress: Progress,
) -> WorkflowResults:
    """Compile a workflow once, run every planner on it, and return the results."""
    with progress(f"compiling {label}"):
        instance = compile_request({label: workflow}, platform).instance
        compile_problem(instance)  # done here, so that no planner's time includes it
        bound_s = lower_bounds(instance).best_s
    trials = []
    for name, planner in planners.items():
        with progress(f"planning {label} with {name}"):
            trials.append(_try_planner(name, planner, instance, label, seed, spending))
    return WorkflowResults(
        workflow=label,
        tasks=len(instance.graph),
        edges=instance.graph.edge_count,
        lower_bound_s=max([bound_s, *(proven_s for _, proven_s in trials)]),
        results=tuple(result for result, _ in trials),
    )


def _budget(plan_time_s: float | None, plan_steps: int | None, planner: Planner) -> Budget:
    """Return the budget of a planner; its time starts now."""
    if plan_time_s is None and plan_steps is None and is_search(planner):
        plan_time_s = DEFAULT_PLAN_TIME_S
    return make_budget(plan_time_s=plan_time_s, plan_steps=plan_steps)


def _try_planner(
    name: str, planner: Planner, instance: Instance, label: str, seed: int, spending: _BudgetFactory
) -> tuple[PlannerResult, float]:
    """Run one planner; return its result and the lower bound of the makespan that it proved (0: none)."""
    objective = make_objective("makespan")
    if (refusal := planner.supports(instance, objective)) is not None:
        return PlannerResult(planner=name, makespan_s=None, reason=refusal.reason), 0.0
    budget = spending(planner)
    try:
        with exclude_compilation(budget):
            made, planning_s = run_planner(instance, planner, objective, seed, budget, INLINE_POOL)
    except Infeasible as error:
        return PlannerResult(planner=name, makespan_s=None, reason=str(error)), 0.0
    what = f"{name} on {label} gives an invalid schedule"
    refuse_invalid(made.schedule, instance.graph, instance.platform, what)
    result = PlannerResult(planner=name, makespan_s=made.schedule.makespan_s, planning_s=planning_s)
    return result, made.bound_s


def _require_a_plan(made: PlannerComparison) -> None:
    if all(standing.planned == 0 for standing in made.standings):
        reasons = dict.fromkeys(
            f"planner {planner!r} cannot plan this: {why}" for planner, _, why in made.refusals
        )
        raise InvalidInput([Problem(what=reason) for reason in reasons])


def _drop_unable(made: PlannerComparison) -> PlannerComparison:
    """Return a comparison without the planners that made no plan for any workflow."""
    idle = {standing.planner for standing in made.standings if standing.planned == 0}
    return replace(
        made,
        planners=tuple(name for name in made.planners if name not in idle),
        workflows=tuple(
            replace(row, results=tuple(result for result in row.results if result.planner not in idle))
            for row in made.workflows
        ),
    )
