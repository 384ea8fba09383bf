"""Plan a workflow on a platform and present the plan: the functions behind ``weft plan``."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from weft.api.request import (
    DEFAULT_PLANNER,
    PlanningChoice,
    PredictionFiles,
    Request,
    find_unknown_in_workflow,
    load_request,
    refuse_unknown_names,
    stated_options,
)
from weft.engine.replan.promise import Promise, compute_promise
from weft.engine.state.plan import StoredPlan, store_schedule
from weft.errors import Infeasible, InvalidInput, shorten
from weft.formats.files import open_source
from weft.instance.instance import Instance
from weft.planners.evaluation import compute_bounds
from weft.planners.forecast import PlanForecast, forecast_schedule
from weft.planners.planner import (
    Budget,
    Plan,
    Planner,
    PlanProgress,
    PlanRequest,
    RankChoice,
    make_planner,
)
from weft.planners.rank_binding import make_plan
from weft.platform.platform import Platform
from weft.predictions import note_unused
from weft.predictors.predictor import Predictor
from weft.randomness import generator
from weft.records import dataclass
from weft.reports import REPORTS
from weft.reports.report import GanttView
from weft.reports.text import growth_text, time_text, untimed_text
from weft.runtime.budget import DEFAULT_PLAN_TIME_S, exclude_compilation, is_search, make_budget
from weft.schedule.bounds import Bounds
from weft.schedule.metrics import Metrics, critical_path, measure_schedule
from weft.schedule.objective import (
    OBJECTIVES,
    Formula,
    Objective,
    make_objective,
    refuse_impossible_limits,
    refuse_missed_limits,
)
from weft.schedule.schedule import Schedule, expected_total_seconds
from weft.schedule.verification import Violation, check_foreign, verify
from weft.search.pool import INLINE_POOL, Pool
from weft.units import format_count, format_seconds
from weft.workflow.settings import RunSettings, SettingsLayers, merge_layers
from weft.workflow.task_graph import COMPUTE, TaskGraph
from weft.workflow.workflow import Workflow


@contextmanager
def open_pool(
    *, workers: int = 1, cluster: str | None = None, pool: Pool | str | None = None
) -> Iterator[Pool]:
    """Context manager that yields a pool for planning: a named pool, a Dask cluster or local processes.

    A pool object is used as it is and stays open; other pools are closed at the end.
    """
    if workers < 1:
        raise InvalidInput(f"{workers} workers", rule="must be at least 1")
    given = {"workers": workers > 1, "cluster": cluster is not None, "pool": pool is not None}
    if sum(given.values()) > 1:
        both = " and ".join(name for name, is_given in given.items() if is_given)
        raise InvalidInput(f"{both} were given", rule="only one of them may be given")
    if pool is not None and not isinstance(pool, str):
        yield pool
        return
    name = pool or (f"dask:{cluster}" if cluster is not None else f"processes:{workers}")
    if name == "processes:1":
        yield INLINE_POOL
        return
    from weft.pools.pool import make_pool

    with make_pool(name) as opened:
        yield opened


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedWorkflow:
    """A plan with its predicted time and cost, lower bounds and optimality gap."""

    planner: str
    """Name and options of the planner, as the caller wrote them."""
    objective: Objective
    instance: Instance
    plan: Plan
    metrics: Metrics
    bounds: Bounds
    outlook: PlanForecast
    promise: Promise
    """The prediction that a run would record; unknown quantities are None."""
    planning_s: float
    """Wall-clock seconds of compilation and planning."""
    seed: int
    plan_time_s: float | None = None
    """Time budget of a search planner; None: no time budget."""
    plan_steps: int | None = None
    workers: int = 1
    islands: int = 1
    """Number of independent parallel searches; with a step budget, the plan depends on this number."""

    @property
    def workflow(self) -> Workflow:
        """Return the planned workflow."""
        return self.graph.workflow

    @property
    def graph(self) -> TaskGraph:
        """Return the planned task graph."""
        return self.instance.graph

    @property
    def schedule(self) -> Schedule:
        """Return the planned schedule."""
        return self.plan.schedule

    @property
    def makespan_s(self) -> float:
        """Return the predicted makespan; for a workflow with loops, that of one iteration."""
        return self.metrics.makespan_s

    @property
    def lower_bound_s(self) -> float:
        """Return the best lower bound of the makespan.

        A bound that differs from the makespan only by rounding errors is returned as the makespan.
        """
        bound = max(self.bounds.best_s, self.plan.bound_s)
        return self.makespan_s if math.isclose(bound, self.makespan_s, rel_tol=1e-12) else bound

    @property
    def lower_bound_by(self) -> str:
        """Return the method that proved the best lower bound, as text."""
        proven = self.plan.bound_s > self.bounds.best_s
        return f"proof of {self.plan.bound_by or self.planner}" if proven else self.bounds.argument

    @property
    def gap(self) -> float | None:
        """Return makespan / lower bound - 1, at least 0.

        If both are 0 the gap is 0; if only the lower bound is 0, the gap is None.
        """
        bound = self.lower_bound_s
        if bound <= 0:
            return 0.0 if self.makespan_s <= 0 else None
        return max(0.0, self.makespan_s / bound - 1.0)

    @property
    def objective_value(self) -> float:
        """Return the value of the objective for the schedule."""
        return self.objective.value(self.schedule, self.instance)

    @property
    def deadline_slack_s(self) -> float | None:
        """Return the seconds from the planned end to the deadline, at least 0; None without a deadline."""
        deadline = self.objective.deadline_s
        return None if deadline is None else max(0.0, deadline - self.makespan_s)

    @property
    def cost_slack(self) -> float | None:
        """Return the maximal cost minus the planned cost, at least 0; None without a maximal cost."""
        most = self.objective.max_cost
        return None if most is None else max(0.0, most - self.metrics.cost)

    @property
    def total_s(self) -> float | None:
        """Return the planned seconds including all expected loop iterations; None if a number is unknown."""
        return expected_total_seconds(self.schedule, self.graph)

    @property
    def estimate_sources(self) -> dict[str, int]:
        """Return the number of compute tasks by source of their estimates."""
        seconds = self.instance.seconds
        computing = seconds.source[self.graph.kind == COMPUTE]
        counts = Counter(seconds.sources[index] for index in computing.tolist())
        return dict(sorted(counts.items()))

    @property
    def critical_path(self) -> list[str]:
        """Return the names of the tasks that determine the makespan, in order."""
        return [self.graph.names[task] for task in critical_path(self.schedule, self.instance)]

    @property
    def notes(self) -> list[str]:
        """Return notes for the user: the assumptions behind the numbers of the plan."""
        return self.list_notes()

    def list_notes(self, *, verbose: bool = False) -> list[str]:
        """Return the notes for the user; ``verbose``: lists of tasks and kinds in them are complete."""
        found = []
        if self.promise.untimed:
            untimed = untimed_text(self.promise, verbose=verbose)
            found.append(f"{untimed}: the plan uses a placeholder of 1 s on speed 1")
        if self.promise.growing:
            grown = growth_text(self.promise, verbose=verbose)
            found.append(f"the plan has one subtask of each growing sweep; the {grown} is unknown")
        if self.graph.unsized_files:
            found.append(
                f"{format_count(self.graph.unsized_files, 'file transfer')} of unknown size: "
                "0 bytes are assumed"
            )
        unknown = [body.loop.name for body in self.graph.loops if body.expect is None]
        if unknown:
            found.append(
                f"the plan covers one iteration; the number of iterations of {', '.join(unknown)} is unknown"
            )
        goal = self.objective
        if self.graph.loops and (goal.deadline_s, goal.max_cost) != (None, None):
            found.append("deadline and maximal cost refer to one iteration")
        if goal.max_cost is not None and not self.instance.price_per_node_s.any():
            found.append("no machine has a price: the maximal cost has no effect")
        outlook = self.outlook
        if outlook.exact:
            tasks = format_count(outlook.tasks, "task")
            found.append(f"the spread of {outlook.exact} of {tasks} is unknown: their times count as exact")
        found += _note_predictions(self.instance)
        if self.plan.ranked:
            found.append(_rank_text(self.plan.ranked, None if verbose else _SHOWN_RANKS))
        return [*found, *self.plan.notes]

    def verify(self) -> list[Violation]:
        """Return the rules that the schedule violates; an empty list means that it is valid."""
        return verify(self.schedule, self.graph, self.instance.platform)

    def as_record(self) -> dict[str, Any]:
        """Return the object printed by ``weft plan --json``."""
        metrics = {key: _finite_or_none(value) for key, value in asdict(self.metrics).items()}
        return {
            "workflow": self.workflow.name,
            "platform": self.instance.platform.name,
            "planner": self.planner,
            "objective": self.objective.name,
            "alpha": self.objective.alpha if self.objective.has_alpha else None,
            "objective_value": _finite_or_none(self.objective_value),
            "deadline_s": self.objective.deadline_s,
            "deadline_slack_s": self.deadline_slack_s,
            "max_cost": self.objective.max_cost,
            "cost_slack": self.cost_slack,
            "seed": self.seed,
            "tasks": len(self.graph),
            "edges": self.graph.edge_count,
            "makespan_s": self.makespan_s,
            "makespan_p50_s": self.outlook.makespan_p50_s,
            "makespan_p90_s": self.outlook.makespan_p90_s,
            "promise": self.promise.as_record(),
            "total_s": self.total_s,
            "cost": self.metrics.cost,
            "cost_p50": self.outlook.cost_p50,
            "cost_p90": self.outlook.cost_p90,
            "lower_bound_s": self.lower_bound_s,
            "lower_bound_by": self.lower_bound_by,
            "gap": self.gap,
            "machines_used": self.metrics.machines_used,
            "machine_nodes": _count_nodes(self.instance),
            "planning_s": self.planning_s,
            "steps": self.plan.steps,
            "cut": self.plan.cut,
            "found_by": self.plan.by or self.planner,
            "plan_time_s": self.plan_time_s,
            "plan_steps": self.plan_steps,
            "workers": self.workers,
            "islands": self.islands,
            "estimate_sources": self.estimate_sources,
            "notes": self.notes,
            "metrics": metrics,
            "critical_path": self.critical_path,
            "ranked": [asdict(choice) for choice in self.plan.ranked],
            "schedule": [asdict(line) for line in self.schedule],
        }

    def _repr_html_(self) -> str:
        """Return the chart as HTML for notebooks."""
        import html

        return f'<iframe srcdoc="{html.escape(render_plan(self))}" width="100%" height="480"></iframe>'


def _note_predictions(instance: Instance) -> list[str]:
    """Return notes about predictions of unknown tasks or machines, which have no effect."""
    machines = [name for each in instance.machines for name in (each.name, each.host_name)]
    workflow = instance.graph.workflow
    notes = note_unused(workflow.predictions, [task.name for task in workflow.tasks], machines)
    return notes + note_unused(instance.platform.predictions, None, machines)


def _count_nodes(instance: Instance) -> dict[str, int]:
    """Return the node counts of the machines by machine name."""
    return {machine.name: machine.nodes for machine in instance.machines}


_SHOWN_RANKS = 3


def _rank_text(ranked: Sequence[RankChoice], most: int | None) -> str:
    """Return a note on the tasks for which a rank expression chooses the machine during the run.

    The note lists the first ``most`` of them; None: all.
    """
    shown = [
        f"{each.task} on {each.machine}{'' if each.value is None else f' ({each.rank} = {each.value:.6g})'}"
        for each in ranked[:most]
    ]
    rest = f" and {len(ranked) - len(shown)} more" if len(ranked) > len(shown) else ""
    tasks = format_count(len(ranked), "task")
    return (
        f"ranks decide where {tasks} will run, between the machines that are free then; "
        f"the plan expects {', '.join(shown)}{rest}"
    )


def _finite_or_none(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plan(
    workflow: Workflow | str | Path | Request,
    *,
    on: Platform | str | Path = "local",
    planner: str | None = None,
    objective: str | Formula | Objective | None = None,
    alpha: float | None = None,
    deadline_s: float | None = None,
    max_cost: float | None = None,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    pinned: Mapping[str, str] | None = None,
    predictor: Predictor | None = None,
    predictions: PredictionFiles = (),
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
    workers: int = 1,
    cluster: str | None = None,
    pool: Pool | str | None = None,
    progress: Callable[[PlanProgress], None] | None = None,
) -> PlannedWorkflow:
    """Plan a workflow (object, file of any format, or request) on a platform (object, file or short form).

    Planner, objective, alpha, limits and budget that are None are taken from the workflow's ``settings``, as
    in a run. If the settings do not state them either, the planner is ``auto`` and the objective is the
    makespan. ``planner`` may have options (``"heft:averaging=self-loops"``). ``objective`` is a name, a
    formula over quantities of the schedule (``"makespan + 0.1*cost"``), or a function of a schedule and its
    instance that is minimised. ``predictor`` and the files ``predictions`` have precedence over the estimates
    in the workflow. Raises Infeasible if no plan exists, or if the plan exceeds the deadline or the maximal
    cost.

    Search planners stop after ``plan_time_s`` (default 2) or after ``plan_steps``; with steps the plan is
    deterministic. They use ``workers`` local processes, a Dask ``cluster`` (``"tcp://host:8786"``) or any
    other ``pool``; ``progress`` is called with every improved plan.
    """
    stated = stated_options(
        planner=planner, objective=objective, alpha=alpha, deadline_s=deadline_s, max_cost=max_cost,
        plan_time_s=plan_time_s, plan_steps=plan_steps,
    )  # fmt: skip
    refuse_unknown_names(stated)  # before a large file is read
    if seed < 0:
        raise InvalidInput(f"seed {seed}", rule="must be at least 0")
    request = load_request(
        workflow, on=on, params=params, pinned=pinned, predictor=predictor, predictions=predictions
    )
    flow = request.instance.graph.workflow
    settings = SettingsLayers(overrides=stated).of_workflow(flow)
    if problems := list(find_unknown_in_workflow(flow, settings)):
        raise InvalidInput(problems)
    return _plan_instance(
        request, settings, seed=seed, workers=workers, cluster=cluster, pool=pool, progress=progress
    )


def _plan_instance(
    request: Request,
    settings: RunSettings,
    *,
    seed: int,
    workers: int = 1,
    cluster: str | None = None,
    pool: Pool | str | None = None,
    progress: Callable[[PlanProgress], None] | None = None,
) -> PlannedWorkflow:
    """Return the plan for a request that has one workflow, under the given settings (see ``plan``)."""
    planner = settings.planner or DEFAULT_PLANNER
    plan_time_s, plan_steps = settings.plan_time_s, settings.plan_steps
    chosen = make_planner(planner)
    if plan_time_s is None and plan_steps is None and is_search(chosen):
        plan_time_s = DEFAULT_PLAN_TIME_S
    budget = make_budget(plan_time_s=plan_time_s, plan_steps=plan_steps, progress=progress)
    goal = make_objective(
        settings.objective, settings.alpha, deadline_s=settings.deadline_s, max_cost=settings.max_cost
    )
    instance = request.instance
    with open_pool(workers=workers, cluster=cluster, pool=pool) as opened, exclude_compilation(budget):
        if (refusal := chosen.supports(instance, goal)) is not None:
            what = f"planner {planner!r} cannot plan this: {refusal.reason}"
            raise InvalidInput(what, advice="`weft planners` lists the others")
        made, planning_s = run_planner(instance, chosen, goal, seed, budget, opened)
        side_by_side = opened.workers
    check_foreign(chosen, made.schedule, instance.graph, instance.platform, predictor=request.predictor)
    return measure_plan(
        instance,
        goal,
        made,
        planner=planner,
        planning_s=request.compile_s + planning_s,
        seed=seed,
        plan_time_s=plan_time_s,
        plan_steps=plan_steps,
        workers=side_by_side,
        islands=int(getattr(chosen, "islands", 1)) or side_by_side,
    )


def run_planner(
    instance: Instance, chosen: Planner, objective: Objective, seed: int, budget: Budget, pool: Pool
) -> tuple[Plan, float]:
    """Run a planner on a compiled instance; return the plan and the wall-clock seconds that it took."""
    started = time.perf_counter()
    rng = generator(seed, "planner", chosen.name)
    request = PlanRequest(instance=instance, objective=objective, budget=budget, rng=rng, pool=pool)
    made = make_plan(chosen, request)
    planning_s = time.perf_counter() - started
    if not np.isfinite(made.schedule.finish_s).all():
        raise Infeasible("the times of this plan exceed the range of floating-point numbers")
    return made, planning_s


def measure_plan(
    instance: Instance, objective: Objective, made: Plan, *, planner: str, seed: int, **spent: Any
) -> PlannedWorkflow:
    """Return a plan with its metrics, bounds and prediction; raise Infeasible if it exceeds the limits.

    ``spent``: values of further fields of PlannedWorkflow, such as ``planning_s``.
    """
    metrics, bounds = measure_schedule(made.schedule, instance), compute_bounds(instance)
    bound_s = max(bounds.best_s, made.bound_s)
    refuse_impossible_limits(objective, instance, bound_s)
    refuse_missed_limits(
        objective, planner, makespan_s=metrics.makespan_s, cost=metrics.cost, bound_s=bound_s
    )
    outlook = forecast_schedule(made.schedule, instance, seed=seed)
    return PlannedWorkflow(
        planner=planner,
        objective=objective,
        instance=instance,
        plan=made,
        metrics=metrics,
        bounds=bounds,
        outlook=outlook,
        promise=compute_promise(made.schedule, instance, outlook),
        seed=seed,
        **spent,
    )


def prepare_plans(
    request: Request,
    layers: SettingsLayers,
    chosen: PlanningChoice,
    *,
    plan_file: str | Path | None,
    choose: int | None,
    seed: int,
) -> tuple[dict[str, StoredPlan], SettingsLayers]:
    """Return the plans that are needed before a run, by workflow, and the settings layers for the run.

    If the user names a plan (a file, or a point of a front), that plan is returned, and its objective and
    limits are added to the layers unless the user overrides them. Otherwise every workflow with a deadline or
    a maximal cost is planned. Raises Infeasible if a plan exceeds a limit. Raises InvalidInput if a named
    plan does not fit the request, or if there is a plan and the policy follows no plan.
    """
    found = _plan_required(request, layers, chosen, plan_file=plan_file, choose=choose, seed=seed)
    if plan_file is not None or choose is not None:
        (planned,) = found.values()
        goal = planned.objective
        stated = {
            "objective": goal.name, "alpha": goal.alpha if goal.has_alpha else None,
            "deadline_s": goal.deadline_s, "max_cost": goal.max_cost,
        }  # fmt: skip
        layers = replace(layers, overrides=merge_layers(stated, layers.overrides))
    return {key: _store_plan(request, key, planned) for key, planned in found.items()}, layers


def plan_first(
    request: Request,
    layers: SettingsLayers,
    chosen: PlanningChoice,
    *,
    plan_file: str | Path | None,
    choose: int | None,
    seed: int,
) -> list[PlannedWorkflow]:
    """Return the plan with which a run of each workflow alone would start.

    If the policy follows no plan, a note in each plan says so. Raises the errors of ``prepare_plans``.
    """
    found = _plan_required(request, layers, chosen, plan_file=plan_file, choose=choose, seed=seed)
    for key, instance in request.instances.items():
        if key not in found:
            alone = replace(request, instances={key: instance})
            found[key] = _plan_with_settings(alone, layers, chosen, seed)
    found = {key: found[key] for key in request.instances}
    if chosen.plans:
        return list(found.values())
    note = f"policy {chosen.policy!r} follows no plan: it may place tasks on other machines"
    noted = (replace(each.plan, notes=(*each.plan.notes, note)) for each in found.values())
    return [replace(each, plan=plan) for each, plan in zip(found.values(), noted, strict=True)]


def _plan_required(
    request: Request,
    layers: SettingsLayers,
    chosen: PlanningChoice,
    *,
    plan_file: str | Path | None,
    choose: int | None,
    seed: int,
) -> dict[str, PlannedWorkflow]:
    """Return, by workflow, the plan that the user names, or the plans of all workflows with limits."""
    if plan_file is not None or choose is not None:
        found = {next(iter(request.instances)): _load_named_plan(request, layers, plan_file, choose)}
    else:
        found = dict(_plan_limited(request, layers, chosen, seed))
    if found and not chosen.plans:
        what = f"policy {chosen.policy!r} follows no plan"
        rule = "--plan, --choose, a deadline and a maximal cost need a policy that follows plans"
        raise InvalidInput(what, rule=rule, advice="use --policy plan, or omit them")
    return found


def _load_named_plan(
    request: Request, layers: SettingsLayers, plan_file: str | Path | None, choose: int | None
) -> PlannedWorkflow:
    """Return the plan in a file or at a point of a front; raise Infeasible if it exceeds a stated limit."""
    if plan_file is not None and choose is not None:
        raise InvalidInput(
            "a plan file and a point of a front are both given", advice="omit --plan or --choose"
        )
    if len(request.instances) > 1:
        what = f"one plan is given for {len(request.instances)} workflows"
        raise InvalidInput(what, rule="a plan can be given only if exactly one workflow is planned")
    settings = layers.of_workflow(request.instance.graph.workflow)
    deadline_s, max_cost = settings.deadline_s, settings.max_cost
    if plan_file is not None:
        return load_plan(plan_file, request, deadline_s=deadline_s, max_cost=max_cost)
    from weft.api.pareto import choose_point

    assert choose is not None
    return choose_point(request, choose, deadline_s=deadline_s, max_cost=max_cost)


def _plan_limited(
    request: Request, layers: SettingsLayers, chosen: PlanningChoice, seed: int
) -> Iterator[tuple[str, PlannedWorkflow]]:
    """Yield (key, plan) for every workflow with a deadline or a maximal cost.

    Each workflow is planned as if it ran alone on empty machines.
    """
    for key, instance in request.instances.items():
        settings = layers.of_workflow(instance.graph.workflow)
        if settings.deadline_s is not None or settings.max_cost is not None:
            alone = replace(request, instances={key: instance})
            yield key, _plan_with_settings(alone, layers, chosen, seed)


def _plan_with_settings(
    request: Request, layers: SettingsLayers, chosen: PlanningChoice, seed: int
) -> PlannedWorkflow:
    settings = layers.of_workflow(request.instance.graph.workflow)
    budget = chosen.budget
    used = replace(
        settings,
        planner=settings.planner or chosen.planner,
        plan_time_s=budget.time_s,
        plan_steps=budget.steps,
    )
    return _plan_instance(request, used, seed=seed)


def _store_plan(request: Request, key: str, planned: PlannedWorkflow) -> StoredPlan:
    return store_schedule(
        planned.schedule, request.library[key], planner=planned.planner, steps=planned.plan.steps
    )


def load_plan(
    file: str | Path, request: Request, *, deadline_s: float | None = None, max_cost: float | None = None
) -> PlannedWorkflow:
    """Return the plan in a file that ``weft plan --out FILE.json`` wrote.

    ``deadline_s`` and ``max_cost`` replace the limits in the file. Raises InvalidInput if the plan is for
    other tasks or machines or is no longer valid, and Infeasible if it exceeds a limit.
    """
    record = _read_plan_record(file)
    instance = request.instance
    schedule = _read_schedule(file, record["schedule"], instance)
    _check_nodes(file, record, instance)
    goal = make_objective(
        record["objective"],
        record["alpha"],
        deadline_s=record["deadline_s"] if deadline_s is None else deadline_s,
        max_cost=record["max_cost"] if max_cost is None else max_cost,
    )
    if violations := verify(schedule, instance.graph, instance.platform):
        what = f"the plan in {str(file)!r} is not valid: {violations[0]}"
        rule = "times, sizes or machines have changed since it was made"
        raise InvalidInput(what, rule=rule, advice="plan again: weft plan --out FILE.json")
    made = Plan(schedule=schedule, steps=record["steps"], by=record["found_by"])
    return measure_plan(
        instance, goal, made, planner=record["planner"], seed=record["seed"], planning_s=record["planning_s"]
    )


_PLAN_FIELDS: Mapping[str, tuple[type, ...]] = {
    "schedule": (list,),
    "planner": (str,),
    "objective": (str,),
    "alpha": (float, int, type(None)),
    "deadline_s": (float, int, type(None)),
    "max_cost": (float, int, type(None)),
    "seed": (int,),
    "steps": (int,),
    "found_by": (str,),
    "planning_s": (float, int),
}
"""The fields of a plan file that are read, with their types."""


def _read_plan_record(file: str | Path) -> dict[str, Any]:
    source = open_source(file)
    advice = "write one: weft plan WORKFLOW --out FILE.json"
    try:
        record: Any = json.loads(source.text())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{str(file)!r} is not JSON: {error}", advice=advice) from None
    wrong = [
        name
        for name, kinds in _PLAN_FIELDS.items()
        if not isinstance(record, dict) or not isinstance(record.get(name, ...), kinds)
    ]
    if wrong:
        what = f"{str(file)!r} is not a plan: {wrong[0]!r} is missing or has a wrong type"
        raise InvalidInput(what, advice=advice)
    return dict(record)


def _read_schedule(file: str | Path, rows: Sequence[Any], instance: Instance) -> Schedule:
    names, machines = instance.graph.names, {each.name: i for i, each in enumerate(instance.machines)}
    try:
        lines = {str(row["task"]): row for row in rows}
        times = {name: (float(row["start_s"]), float(row["finish_s"])) for name, row in lines.items()}
        nodes = {name: int(row["nodes"]) for name, row in lines.items()}
        places = {name: str(row["machine"]) for name, row in lines.items()}
    except (TypeError, KeyError, ValueError, OverflowError):
        what = f"the schedule in {str(file)!r} is damaged"
        rule = "every row has task, machine, nodes, start_s and finish_s"
        raise InvalidInput(what, rule=rule) from None
    for kind, missing, unknown in (
        ("task", set(names) - lines.keys(), lines.keys() - set(names)),
        ("machine", set[str](), set(places.values()) - machines.keys()),
    ):
        if missing or unknown:
            _refuse_other(file, kind, missing, unknown, instance)
    return Schedule(
        tasks=tuple(names),
        machines=tuple(machines),
        machine=np.array([machines[places[name]] for name in names], dtype=np.uint32),
        nodes=np.array([max(0, nodes[name]) for name in names], dtype=np.uint32),
        start_s=np.array([times[name][0] for name in names]),
        finish_s=np.array([times[name][1] for name in names]),
    )


def _check_nodes(file: str | Path, record: Mapping[str, Any], instance: Instance) -> None:
    """Raise InvalidInput if the machines or their node counts differ from those in a plan file.

    ``verify`` would accept a plan for fewer nodes. Files of earlier versions state no node counts and are
    accepted.
    """
    here, made = _count_nodes(instance), record.get("machine_nodes")
    if made is None or made == here:
        return
    if not isinstance(made, dict):
        raise InvalidInput(f"{str(file)!r} is not a plan: 'machine_nodes' has a wrong type")
    name = next(name for name in {**made, **here} if made.get(name) != here.get(name))
    then, now = (counts.get(name, "no") for counts in (made, here))
    change = f"{then} nodes of machine {shorten(name)!r}, now {now}"
    what = f"the plan in {str(file)!r} is for another platform: {change}"
    rule = "machines have changed since it was made"
    raise InvalidInput(what, rule=rule, advice="plan again: weft plan --out FILE.json")


def _refuse_other(
    file: str | Path, kind: str, missing: set[str], unknown: set[str], instance: Instance
) -> NoReturn:
    """Raise InvalidInput that names a missing or an unknown task or machine (``kind``) of a plan file."""
    here = instance.graph.workflow.name if kind == "task" else instance.platform.name
    found = [f"it has no {kind} {min(missing)!r}"] if missing else []
    found += [f"{here!r} has no {kind} {min(unknown)!r}"] if unknown else []
    what = f"the plan in {str(file)!r} is for another {'workflow' if kind == 'task' else 'platform'}"
    raise InvalidInput(f"{what}: {'; '.join(found)}", advice="plan again: weft plan --out FILE.json")


_ROUNDING = 1e-9
"""Largest relative gap that counts as a rounding error."""


def plan_facts(planned: PlannedWorkflow) -> list[tuple[str, str]]:
    """Return (label, text) pairs that summarise a plan."""
    metrics = planned.metrics
    return [
        ("makespan", _makespan_text(planned)),
        *_loop_facts(planned),
        ("lower bound", f"{format_seconds(planned.lower_bound_s)} ({planned.lower_bound_by})"),
        ("gap", _gap_text(planned)),
        ("cost", _cost_text(planned)),
        *_goal_facts(planned),
        ("machines", f"{metrics.machines_used} of {len(planned.instance.machines)} used"),
        ("nodes busy", f"{metrics.used_share:.0%}"),
    ]


def _makespan_text(planned: PlannedWorkflow) -> str:
    if planned.promise.untimed:
        # With loops the prediction covers all iterations; it is printed in the line "all iterations".
        known = "unknown" if planned.graph.loops else time_text(planned.promise)
        return f"{known}; {format_seconds(planned.makespan_s)} with placeholders"
    if planned.promise.growing:
        return time_text(planned.promise)
    late = planned.outlook.makespan_p90_s
    spread = f" (P90 {format_seconds(late)})" if late != planned.makespan_s else ""
    return format_seconds(planned.makespan_s) + spread


def _loop_facts(planned: PlannedWorkflow) -> list[tuple[str, str]]:
    total = planned.total_s
    text = "unknown" if total is None else format_seconds(total)
    if planned.promise.untimed and total is not None:
        text = f"{time_text(planned.promise)}; {text} with placeholders"
    elif planned.promise.growing and total is not None:
        text = time_text(planned.promise)
    return [("all iterations", text)] if planned.graph.loops else []


def _cost_text(planned: PlannedWorkflow) -> str:
    cost, dear = planned.metrics.cost, planned.outlook.cost_p90
    if not planned.instance.price_per_node_s.any():
        return "0 (no prices)"
    if planned.promise.untimed:
        return f"unknown; {cost:.4g} with placeholders"
    if planned.promise.growing:
        return f"at least {cost:.4g}"
    return f"{cost:.4g} (P90 {dear:.4g})" if dear != cost else f"{cost:.4g}"


def _goal_facts(planned: PlannedWorkflow) -> list[tuple[str, str]]:
    """Return (label, text) pairs for an objective other than time and cost, and for the limits."""
    goal, facts = planned.objective, []
    if goal.name not in ("makespan", "cost"):
        alpha = f", alpha {goal.alpha:g}" if goal.has_alpha else ""
        better = "lower" if goal.sense == "minimise" else "higher"
        label, formula = (goal.name, "") if goal.name in OBJECTIVES else ("objective", f"{goal.name}; ")
        facts.append((label, f"{planned.objective_value:.4g} ({formula}{better} is better{alpha})"))
    if goal.deadline_s is not None and planned.deadline_slack_s is not None:
        left = format_seconds(planned.deadline_slack_s)
        facts.append(("deadline", f"{format_seconds(goal.deadline_s)}, {left} to spare"))
    if goal.max_cost is not None and planned.cost_slack is not None:
        facts.append(("maximal cost", f"{goal.max_cost:.4g}, {planned.cost_slack:.4g} to spare"))
    return facts


def _gap_text(planned: PlannedWorkflow) -> str:
    gap = planned.gap
    # For other objectives the gap still refers to the shortest makespan, and the text says so.
    best = "the optimum" if planned.objective.is_makespan else "the shortest makespan"
    if gap is None:
        return "unknown"
    if gap <= _ROUNDING:
        return "0 (optimal)" if planned.objective.is_makespan else "0 (no plan is shorter)"
    return f"less than 0.1% above {best}" if gap < 0.001 else f"at most {gap:.1%} above {best}"


def plan_view(planned: PlannedWorkflow) -> GanttView:
    """Return the data of a plan's Gantt chart."""
    graph = planned.graph
    return GanttView(
        title=f"{planned.workflow.name} on {planned.instance.platform.name}, {planned.planner}",
        schedule=planned.schedule,
        kinds=tuple(graph.description(task).program for task in range(len(graph))),
        machine_nodes=tuple(machine.nodes for machine in planned.instance.machines),
        machine_sites=tuple(machine.site or "" for machine in planned.instance.machines),
        facts=tuple(plan_facts(planned)),
        critical=tuple(critical_path(planned.schedule, planned.instance)),
        lower_bound_s=planned.lower_bound_s,
    )


def render_plan(planned: PlannedWorkflow) -> str:
    """Return a plan as a self-contained HTML page."""
    page: str = REPORTS.load("gantt-html")().render(plan_view(planned))
    return page


def schedule_csv(schedule: Schedule) -> str:
    """Return the schedule as CSV with the columns task, machine, nodes, start_s, finish_s."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "machine", "nodes", "start_s", "finish_s"])
    for line in schedule:
        writer.writerow([line.task, line.machine, line.nodes, repr(line.start_s), repr(line.finish_s)])
    return text.getvalue()
