"""Compare planners and policies on workflows: the function behind ``weft compare``."""

from __future__ import annotations

import time
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
from weft.planners.planner import Budget, Planner, Unsupported, check_no_budgets, make_planner
from weft.planners.problem import compile_problem
from weft.platform.platform import Platform
from weft.policies import POLICIES
from weft.policies.policy import make_policy
from weft.registry import Registry, split_names
from weft.reports.comparison import POLICY_MARK, PlannerComparison, PlannerResult, WorkflowResults
from weft.runtime.budget import DEFAULT_PLAN_TIME_S, exclude_compilation, is_search, make_budget
from weft.runtime.simulation import simulate_policy
from weft.schedule.bounds import lower_bounds
from weft.schedule.objective import Formula, Objective, make_objective
from weft.schedule.schedule import Schedule
from weft.schedule.verification import refuse_invalid
from weft.search.pool import INLINE_POOL
from weft.workflow.workflow import Workflow, set_params

ALL = "all"
"""Name that selects every registered planner or policy."""
BASELINE = "shuffle"
"""Planner that is the default baseline if it is compared (docs/papers/parameter-sweeps.md, section 6)."""
PLANNED_BY = "heft"
"""Planner of the plans that policies follow."""

Progress = Callable[[str], AbstractContextManager[object]]
"""Factory of context managers; each displays a description while its block runs."""

_Source = Workflow | str | Path
_BudgetFactory = Callable[[Planner], Budget]
_Contestant = Planner | str
"""A planner, or the name of a policy."""


def compare(
    workflows: _Source | Iterable[_Source],
    *,
    on: Platform | str | Path = "local",
    planners: str | Iterable[str] = (),
    policies: str | Iterable[str] = (),
    baseline: str | None = None,
    objective: str | Formula | Objective = "makespan",
    alpha: float | None = None,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    format_name: str | None = None,
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
    progress: Progress = nullcontext,
) -> PlannerComparison:
    """Plan every workflow with every planner, simulate it under every policy, and return all makespans.

    ``planners`` is a list or comma-separated string of planner names with options, or ``"all"``. If
    ``planners`` and ``policies`` are both empty, all registered planners that can plan at least one workflow
    are used. A planner that cannot plan a workflow is listed with the reason. Search planners get
    ``plan_time_s`` (default 2) or ``plan_steps`` per workflow. Every schedule is verified.

    ``policies`` lists policies in the same form; in the comparison their names begin with ``policy:``. They
    make their decisions in a simulated run on the same platform, in which durations equal the estimates and
    loops run once; policies that follow a plan follow a plan of HEFT.

    ``baseline`` names the planner, or with the prefix ``policy:`` the policy, whose value counts as 100 % in
    the measure ASE. The default is ``shuffle``, if it is compared and made a plan. ``objective`` and
    ``alpha`` are those of ``weft.plan``: planners optimise the objective, and simulated runs are measured by
    it.
    """
    goal = make_objective(objective, alpha)
    spending = partial(_budget, plan_time_s, plan_steps)
    make_budget(plan_time_s=plan_time_s, plan_steps=plan_steps)  # validate the budget before any work
    if seed < 0:
        raise InvalidInput(f"seed {seed}", rule="must be at least 0")
    chosen = _load_contestants(planners, policies, baseline)
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
            _compare_on(label, workflow, platform, chosen, goal, seed, spending, progress)
            for label, workflow in zip(_labels(listed, found), found, strict=True)
        ),
        objective=goal.name,
    )
    _require_a_plan(made)
    made = made if planners or policies else _drop_unable(made)
    return _set_baseline(made, baseline)


def _load_contestants(
    planners: str | Iterable[str], policies: str | Iterable[str], baseline: str | None
) -> dict[str, _Contestant]:
    """Return the compared planners and policies by name, including the baseline.

    The name of a policy begins with ``policy:``. Raises InvalidInput that lists all unknown names.
    """
    names = _split(planners)
    policy_names = _split(policies)
    names = names if names or policy_names else [ALL]
    if ALL in names:
        names = [each for name in names for each in (_registered(PLANNERS) if name == ALL else [name])]
    if ALL in policy_names:
        policy_names = [
            each for name in policy_names for each in (_registered(POLICIES) if name == ALL else [name])
        ]
    wanted = [
        *names,
        *(POLICY_MARK + name for name in policy_names),
        *([] if baseline is None else [baseline]),
    ]
    found: dict[str, _Contestant] = {}
    problems: list[Problem] = []
    for name in dict.fromkeys(wanted):
        try:
            found[name] = _load_contestant(name)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return found


def _split(names: str | Iterable[str]) -> list[str]:
    return split_names(names) if isinstance(names, str) else [name.strip() for name in names]


def _registered(registry: Registry) -> list[str]:
    return sorted(dict(registry.load_each()))


def _load_contestant(name: str) -> _Contestant:
    """Return the planner with this name; for ``policy:NAME``, return ``NAME`` if the policy exists."""
    if not name.startswith(POLICY_MARK):
        return make_planner(name)
    policy = name.removeprefix(POLICY_MARK)
    make_policy(policy)
    return policy


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
    contestants: Mapping[str, _Contestant],
    goal: Objective,
    seed: int,
    spending: _BudgetFactory,
    progress: Progress,
) -> WorkflowResults:
    """Compile a workflow once, run every planner and policy on it, and return the results."""
    with progress(f"compiling {label}"):
        instance = compile_request({label: workflow}, platform).instance
        compile_problem(instance)  # cached, so that no planner's measured time includes it
        bound_s = lower_bounds(instance).best_s
    trials = []
    for name, contestant in contestants.items():
        if isinstance(contestant, str):
            with progress(f"simulating {label} under {contestant}"):
                trials.append((_try_policy(name, contestant, instance, goal, label, seed), 0.0))
        else:
            with progress(f"planning {label} with {name}"):
                trials.append(_try_planner(name, contestant, instance, goal, label, seed, spending))
    return WorkflowResults(
        workflow=label,
        tasks=len(instance.graph),
        edges=instance.graph.edge_count,
        lower_bound_s=max([bound_s, *(proven_s for _, proven_s in trials)]),
        results=tuple(result for result, _ in trials),
        objective=goal.name,
        maximised=goal.sense == "maximise",
    )


def _budget(plan_time_s: float | None, plan_steps: int | None, planner: Planner) -> Budget:
    """Return the budget of a planner. A time limit counts from this call."""
    if plan_time_s is None and plan_steps is None and is_search(planner):
        plan_time_s = DEFAULT_PLAN_TIME_S
    return make_budget(plan_time_s=plan_time_s, plan_steps=plan_steps)


def _try_planner(
    name: str,
    planner: Planner,
    instance: Instance,
    objective: Objective,
    label: str,
    seed: int,
    spending: _BudgetFactory,
) -> tuple[PlannerResult, float]:
    """Run one planner; return its result and the lower bound of the makespan that it proved (0 if none)."""
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
    return _measure(name, made.schedule, instance, objective, planning_s), made.bound_s


def _measure(
    name: str, schedule: Schedule, instance: Instance, objective: Objective, taken_s: float
) -> PlannerResult:
    value = None if objective.is_makespan else objective.value(schedule, instance)
    return PlannerResult(planner=name, makespan_s=schedule.makespan_s, value=value, planning_s=taken_s)


def _try_policy(
    name: str, policy: str, instance: Instance, objective: Objective, label: str, seed: int
) -> PlannerResult:
    """Simulate a workflow under a policy and return the result."""
    if (refusal := _policy_refusal(policy, instance)) is not None:
        return PlannerResult(planner=name, makespan_s=None, reason=refusal.reason)
    started = time.perf_counter()
    try:
        schedule = simulate_policy(instance, policy, planner=PLANNED_BY, seed=seed)
    except Infeasible as error:
        return PlannerResult(planner=name, makespan_s=None, reason=str(error))
    taken_s = time.perf_counter() - started
    what = f"the simulated run of {label} under {policy} gives an invalid schedule"
    refuse_invalid(schedule, instance.graph, instance.platform, what)
    return _measure(name, schedule, instance, objective, taken_s)


def _policy_refusal(policy: str, instance: Instance) -> Unsupported | None:
    """Return why a policy cannot keep the budgets of an instance, alone or with a plan of ``PLANNED_BY``."""
    if not make_policy(policy).needs_plan:
        return check_no_budgets(f"policy {policy!r}", instance)
    return make_planner(PLANNED_BY).supports(instance, make_objective("makespan"))


def _require_a_plan(made: PlannerComparison) -> None:
    if all(standing.planned == 0 for standing in made.standings):
        reasons = dict.fromkeys(
            why if planner.startswith(POLICY_MARK) else f"planner {planner!r} cannot plan this: {why}"
            for planner, _, why in made.refusals
        )
        raise InvalidInput([Problem(what=reason) for reason in reasons])


def _set_baseline(made: PlannerComparison, baseline: str | None) -> PlannerComparison:
    """Return a comparison with its baseline set.

    If ``baseline`` is None, the baseline is the planner ``BASELINE``, provided that it planned at least one
    workflow; otherwise there is no baseline.
    """
    if baseline is None:
        planned = {standing.planner for standing in made.standings if standing.planned}
        baseline = BASELINE if BASELINE in planned else None
    rows = tuple(replace(row, baseline=baseline) for row in made.workflows)
    return replace(made, workflows=rows, baseline=baseline)


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
