"""Pareto fronts: the functions behind ``weft pareto`` and ``weft plan --choose``.

The last front of a workflow is stored in ``.weft/fronts``. The file holds the genome of each plan (order,
machines, modes), and the schedules are decoded from the genomes again. The file name is a digest of workflow,
parameters and platform.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from weft.api.plan import PlannedWorkflow, measure_plan, open_pool
from weft.api.request import PredictionFiles, Request, load_request, stated_options
from weft.engine.stored_fields import DAMAGE
from weft.errors import InvalidInput, WeftError
from weft.instance.instance import Instance
from weft.planners.decoding import Genome
from weft.planners.evaluation import compute_bounds
from weft.planners.pareto_front import (
    Against,
    FrontEntry,
    Tradeoff,
    Unit,
    covers,
    decode_genome,
    follow_ranks,
    hypervolume_share,
    make_tradeoff,
    thin_front,
)
from weft.planners.pareto_search import (
    FrontProgress,
    FrontResult,
    FrontSearch,
    FrontTrial,
    check_alpha_support,
    run_alphas,
)
from weft.planners.planner import Plan, PlanRequest
from weft.planners.rank_binding import bind_by_rank
from weft.platform.file_format import platform_document
from weft.platform.platform import Platform
from weft.predictors.predictor import Predictor
from weft.private_files import make_folder, write_file
from weft.randomness import generator
from weft.reports.pareto import FrontPoint, FrontView, NodeRange, TriedPlan
from weft.runtime.budget import exclude_compilation, make_budget
from weft.schedule.costs import schedule_cost
from weft.schedule.metrics import measure_schedule
from weft.schedule.objective import Objective, make_objective, refuse_impossible_limits, refuse_missed_limits
from weft.schedule.schedule import Schedule
from weft.schedule.verification import refuse_invalid
from weft.search.pool import Pool
from weft.units import format_count
from weft.workflow.file_format import workflow_document
from weft.workflow.settings import SettingsLayers
from weft.workflow.task_graph import COMPUTE
from weft.workflow.workflow import Workflow

_ALPHA_OBJECTIVES = {"cost": "on-demand", "idle": "static-literal"}
"""Maps the measure traded against time to the objective of the points that have an alpha."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Front:
    """Verified plans by increasing makespan; no plan is better than another one in both measures.

    With a preset, every alpha has a front of its own, so that only plans with the same alpha are compared.
    """

    instance: Instance
    against: Against
    unit: Unit
    """Unit of the measure traded against time: price, node-seconds, or share of idle node-time."""
    limits: Objective
    """Deadline and maximal cost that every plan meets."""
    entries: tuple[FrontEntry, ...]
    trials: tuple[FrontTrial, ...]
    preset: str | None
    seed: int
    steps: int
    bound_s: float
    """Best lower bound of the makespan that the search proved; 0 if none."""
    cut: bool
    """Whether the clock or the user stopped the search, so that another search may return other points."""
    planning_s: float
    plan_time_s: float | None
    plan_steps: int | None
    workers: int
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def points(self) -> tuple[FrontPoint, ...]:
        """Return makespan, cost, idle share and node counts of each plan."""
        moldable = _moldable_tasks(self.instance)
        return tuple(
            self._point(number, entry, moldable) for number, entry in enumerate(self.entries, start=1)
        )

    def _is_covered(self, entry: FrontEntry) -> bool:
        """Return whether another entry is at least as good in both measures.

        Of equal entries, the first one is not covered by the others.
        """
        place = self.entries.index(entry)
        return any(
            covers(other, entry) and (not covers(entry, other) or number < place)
            for number, other in enumerate(self.entries)
            if other is not entry
        )

    def _point(self, number: int, entry: FrontEntry, moldable: set[int]) -> FrontPoint:
        metrics = measure_schedule(entry.schedule, self.instance)
        return FrontPoint(
            number=number,
            makespan_s=entry.makespan_s,
            cost=metrics.cost,
            node_seconds=metrics.node_seconds,
            idle_share=metrics.idle_share,
            alpha=entry.alpha,
            by=entry.by,
            nodes=_node_ranges(entry.schedule, self.instance, moldable),
            machines=_tasks_by_machine(entry.schedule, self.instance),
            amount=entry.amount if self.unit == "formula" else None,
            covered=self.preset is not None and self._is_covered(entry),
        )

    def choose(self, number: int) -> PlannedWorkflow:
        """Return the plan of a point by its number; point 1 is the fastest."""
        if not 1 <= number <= len(self.entries):
            what = f"point {number} of the front"
            count = len(self.entries)
            rule = f"it has {format_count(count, 'point')}: from 1, the fastest, to {count}"
            raise InvalidInput(what, rule=rule, advice="`weft pareto` shows the points")
        entry = self.entries[number - 1]
        note = f"point {number} of {len(self.entries)} of the front of time against {self.view.noun}"
        plan = Plan(
            schedule=entry.schedule,
            steps=self.steps,
            bound_s=self.bound_s,
            cut=self.cut,
            by=entry.by,
            notes=(note,),
            ranked=tuple(bind_by_rank(self.instance, entry.schedule)[1]),
        )
        return measure_plan(
            self.instance,
            self._objective(entry),
            plan,
            planner="pareto",
            planning_s=self.planning_s,
            seed=self.seed,
            plan_time_s=self.plan_time_s,
            plan_steps=self.plan_steps,
            workers=self.workers,
        )

    def _objective(self, entry: FrontEntry) -> Objective:
        """Return the objective for which a plan was found, with the limits of the front."""
        if entry.alpha is None or entry.alpha == 1.0:
            return self.limits
        found = make_objective(_ALPHA_OBJECTIVES[self.against], entry.alpha)
        return replace(found, deadline_s=self.limits.deadline_s, max_cost=self.limits.max_cost)

    @property
    def lower_bound_s(self) -> float:
        """Return the best lower bound of the makespan."""
        return max(self.bound_s, compute_bounds(self.instance).best_s)

    @property
    def notes(self) -> list[str]:
        """Return remarks about the front for the user."""
        found = []
        if self.unit == "node-seconds":
            found.append("no machine has a price: cost is counted in node-seconds")
        if self.limits.max_cost is not None and not self.instance.price_per_node_s.any():
            found.append("no machine has a price: the maximal cost has no effect")
        if self.instance.graph.loops:
            found.append("plans, deadline and maximal cost refer to one iteration")
        return [*found, *self.remarks]

    @property
    def view(self) -> FrontView:
        """Return the data of the front that reports need."""
        return FrontView(
            workflow=self.instance.graph.workflow.name,
            platform=self.instance.platform.name,
            against=self.against,
            unit=self.unit,
            priced=bool(self.instance.price_per_node_s.any()),
            tasks=len(self.instance),
            points=self.points,
            tried=tuple(TriedPlan(**asdict(trial)) for trial in self.trials),
            lower_bound_s=self.lower_bound_s,
            by_alpha=self.preset is not None,
        )

    def verify(self) -> None:
        """Verify every schedule; raise WeftError if one is invalid, which is a bug of a planner."""
        for number, entry in enumerate(self.entries, start=1):
            what = f"point {number} of the front, found by {entry.by}, is an invalid schedule"
            refuse_invalid(entry.schedule, self.instance.graph, self.instance.platform, what)

    def as_record(self) -> dict[str, Any]:
        """Return the object printed by ``weft pareto --json``."""
        return {
            "workflow": self.instance.graph.workflow.name,
            "platform": self.instance.platform.name,
            "against": self.against,
            "unit": self.unit,
            "preset": self.preset,
            "seed": self.seed,
            "deadline_s": self.limits.deadline_s,
            "max_cost": self.limits.max_cost,
            "tasks": len(self.instance),
            "edges": self.instance.graph.edge_count,
            "lower_bound_s": self.lower_bound_s,
            "filled": hypervolume_share([entry for entry in self.entries if not self._is_covered(entry)]),
            "planning_s": self.planning_s,
            "steps": self.steps,
            "cut": self.cut,
            "plan_time_s": self.plan_time_s,
            "plan_steps": self.plan_steps,
            "workers": self.workers,
            "notes": self.notes,
            "points": [
                point.as_record() | {"schedule": [asdict(line) for line in entry.schedule]}
                for point, entry in zip(self.points, self.entries, strict=True)
            ],
            "tried": [asdict(trial) for trial in self.trials],
        }

    def _repr_html_(self) -> str:
        """Return the chart as HTML for notebooks."""
        import html

        from weft.reports.pareto import front_html

        return f'<iframe srcdoc="{html.escape(front_html(self.view))}" width="100%" height="640"></iframe>'


def _moldable_tasks(instance: Instance) -> set[int]:
    """Return the indices of the tasks that can run on several node counts of one machine."""
    found: set[int] = set()
    for group in instance.groups:
        if len(np.unique(group.machine)) < len(group.machine):
            found.update(group.tasks.tolist())
    return found


def _node_ranges(schedule: Schedule, instance: Instance, moldable: set[int]) -> tuple[NodeRange, ...]:
    """Return the smallest and largest node count of each kind of compute task, in workflow order."""
    graph = instance.graph
    by_kind: dict[str, list[int]] = {}
    for task in np.flatnonzero(graph.kind == COMPUTE).tolist():
        by_kind.setdefault(graph.description(task).program, []).append(task)
    return tuple(
        NodeRange(
            kind=kind,
            tasks=len(tasks),
            least=int(schedule.nodes[tasks].min()),
            most=int(schedule.nodes[tasks].max()),
            chosen=not moldable.isdisjoint(tasks),
        )
        for kind, tasks in by_kind.items()
    )


def _tasks_by_machine(schedule: Schedule, instance: Instance) -> tuple[tuple[str, int], ...]:
    compute = instance.graph.kind == COMPUTE
    number = np.bincount(schedule.machine[compute], minlength=len(schedule.machines)).tolist()
    return tuple((name, tasks) for name, tasks in zip(schedule.machines, number, strict=True) if tasks)


DEFAULT_FRONT_TIME_S = 10.0
"""Default search time for a front, in seconds."""
DEFAULT_POINTS = 10

Preset = Literal["s2"]
"""Name of a published procedure that computes a front."""


def pareto(
    workflow: Workflow | str | Path | Request,
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
    predictions: PredictionFiles = (),
    plan_time_s: float | None = None,
    plan_steps: int | None = None,
    workers: int = 1,
    cluster: str | None = None,
    pool: Pool | str | None = None,
    progress: Callable[[FrontProgress], None] | None = None,
) -> Front:
    """Search plans that trade time against another measure, and return the non-dominated ones.

    ``against`` is the measure: ``cost`` (node-seconds if no machine has a price), ``idle`` (the idle share of
    node-time), or a formula over quantities of the schedule; the measure is minimised. About ``points``
    objectives are searched within ``plan_time_s`` (default 10) or ``plan_steps``; with steps the result is
    deterministic. The preset ``s2`` is a published procedure that needs no budget. It ignores ``points`` and
    returns one front for every alpha. Plans that exceed ``deadline_s`` or ``max_cost`` are left out.

    ``front.choose(k)`` returns the plan of point ``k`` in the same form as ``weft.plan``.
    """
    _check(points, preset, seed)
    if plan_time_s is None and plan_steps is None and preset is None:
        plan_time_s = DEFAULT_FRONT_TIME_S
    goal = make_objective("makespan", deadline_s=deadline_s, max_cost=max_cost)
    loaded = load_request(workflow, on=on, params=params, predictor=predictor, predictions=predictions)
    instance = loaded.instance
    refuse_impossible_limits(goal, instance, compute_bounds(instance).best_s)
    tradeoff = make_tradeoff(against, instance, max_cost=max_cost)
    _check_preset(instance, tradeoff, goal, preset)
    # Start the clock with the search, as for a plan.
    budget = make_budget(plan_time_s=plan_time_s, plan_steps=plan_steps)
    started = time.perf_counter()
    with open_pool(workers=workers, cluster=cluster, pool=pool) as opened, exclude_compilation(budget):
        rng = generator(seed, "pareto", against, preset or "ladder")
        request = PlanRequest(instance=instance, objective=goal, budget=budget, rng=rng, pool=opened)
        if preset is None:
            result = FrontSearch(request, tradeoff, points=points, on_progress=progress).run()
        else:
            result = run_alphas(request, tradeoff, on_progress=progress)
        side_by_side = opened.workers
    entries = follow_ranks(instance, tradeoff, result.entries)
    planning_s = time.perf_counter() - started
    _require_a_point(result, goal, instance)
    front = Front(
        instance=instance,
        against=tradeoff.against,
        unit=tradeoff.unit,
        limits=goal,
        entries=entries if preset is not None else thin_front(entries, points),
        trials=result.trials,
        preset=preset,
        seed=seed,
        steps=result.steps,
        bound_s=result.bound_s,
        cut=result.cut,
        planning_s=planning_s,
        plan_time_s=plan_time_s,
        plan_steps=plan_steps,
        workers=side_by_side,
        remarks=result.notes,
    )
    front.verify()
    return front


def _check(points: int, preset: str | None, seed: int) -> None:
    if preset is not None and preset not in get_args(Preset):
        rule = f"must be one of {', '.join(get_args(Preset))}"
        raise InvalidInput(f"preset {preset!r}", rule=rule)
    if points < 2:
        raise InvalidInput(f"a front of {points} points", rule="must be at least 2")
    if seed < 0:
        raise InvalidInput(f"seed {seed}", rule="must be at least 0")


def _check_preset(instance: Instance, tradeoff: Tradeoff, goal: Objective, preset: str | None) -> None:
    """Raise InvalidInput if a preset is given that does not support the instance, measure or limits."""
    refusal = None if preset is None else check_alpha_support(instance, tradeoff, goal)
    if refusal is not None:
        what = f"preset {preset!r} cannot plan this: {refusal.reason}"
        raise InvalidInput(what, advice="leave the preset out")


def _require_a_point(result: FrontResult, goal: Objective, instance: Instance) -> None:
    """Raise Infeasible if no plan meets the limits; the message states the values of the nearest plan."""
    if not result.entries:
        bound_s = max(result.bound_s, compute_bounds(instance).best_s)
        refuse_missed_limits(
            goal,
            "the search for a front",
            makespan_s=result.nearest.makespan_s,
            cost=schedule_cost(result.nearest, instance),
            bound_s=bound_s,
        )


FRONTS = Path(".weft") / "fronts"
"""Folder of stored fronts, relative to the project directory."""
_VERSION = 1
_SPENT = (
    "preset", "seed", "steps", "bound_s", "cut", "planning_s", "plan_time_s", "plan_steps", "workers",
)  # fmt: skip
"""Attributes of a Front whose values are written to its file without conversion."""
_CLOSE = 1e-9
"""Relative tolerance between the makespan of a decoded schedule and the stored one."""


def front_path(workflow: Workflow, platform: Platform, folder: Path = FRONTS) -> Path:
    """Return the file in which the front of a workflow (with its parameters) and platform is stored."""
    documents = [workflow_document(workflow), platform_document(platform)]
    text = json.dumps(documents, sort_keys=True, default=str)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def save_front(front: Front, folder: Path = FRONTS) -> Path:
    """Store a front, replacing the last one of its workflow and platform, and return the file."""
    path = front_path(front.instance.graph.workflow, front.instance.platform, folder)
    make_folder(path.parent)
    write_file(path, json.dumps(_front_record(front)).encode())
    return path


def _front_record(front: Front) -> dict[str, Any]:
    return {
        "weft-front": _VERSION,
        "against": front.against,
        "deadline_s": front.limits.deadline_s,
        "max_cost": front.limits.max_cost,
        **{key: getattr(front, key) for key in _SPENT},
        "remarks": list(front.remarks),
        "trials": [[trial.makespan_s, trial.amount, trial.alpha] for trial in front.trials],
        "points": [
            {
                "makespan_s": entry.makespan_s,
                "amount": entry.amount,
                "alpha": entry.alpha,
                "by": entry.by,
                "decoder": entry.decoder,
                "order": entry.genome.order.tolist(),
                "machines": entry.genome.bound.tolist(),
                "modes": entry.genome.modes.tolist(),
            }
            for entry in front.entries
        ],
    }


def load_front(
    workflow: Workflow | str | Path | Request,
    *,
    on: Platform | str | Path = "local",
    params: Mapping[str, Any] | None = None,
    folder: Path = FRONTS,
) -> Front | None:
    """Return the stored front of a workflow on a platform; None if no file is stored or it is damaged."""
    instance = load_request(workflow, on=on, params=params).instance
    try:
        path = front_path(instance.graph.workflow, instance.platform, folder)
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    try:
        front = _read_front(known, instance)
    except (WeftError, *DAMAGE):
        return None  # damaged or from another version: search again
    front.verify()
    return front


def _read_front(known: dict[str, Any], instance: Instance) -> Front:
    if known["weft-front"] != _VERSION:
        raise ValueError("a front of another version")
    goal = make_objective("makespan", deadline_s=known["deadline_s"], max_cost=known["max_cost"])
    tradeoff = make_tradeoff(known["against"], instance, max_cost=goal.max_cost)
    return Front(
        instance=instance,
        against=tradeoff.against,
        unit=tradeoff.unit,
        limits=goal,
        entries=tuple(_read_entry(point, instance) for point in known["points"]),
        trials=tuple(
            FrontTrial(makespan_s=makespan_s, amount=amount, alpha=alpha)
            for makespan_s, amount, alpha in known["trials"]
        ),
        remarks=tuple(known["remarks"]),
        **{key: known[key] for key in _SPENT},
    )


def _read_entry(point: dict[str, Any], instance: Instance) -> FrontEntry:
    columns = (np.asarray(point[key], dtype=np.uint32) for key in ("order", "machines", "modes"))
    genome = Genome(*columns)
    schedule = decode_genome(instance, genome, point["decoder"])
    if not math.isclose(schedule.makespan_s, point["makespan_s"], rel_tol=_CLOSE):
        raise ValueError("the makespan of the decoded schedule differs from the stored one")
    return FrontEntry(
        makespan_s=schedule.makespan_s,
        amount=point["amount"],
        schedule=schedule,
        genome=genome,
        decoder=point["decoder"],
        alpha=point["alpha"],
        by=point["by"],
    )


def choose(
    workflow: Workflow | str | Path,
    number: int,
    *,
    on: Platform | str | Path = "local",
    params: Mapping[str, Any] | None = None,
    predictions: PredictionFiles = (),
    deadline_s: float | None = None,
    max_cost: float | None = None,
    folder: Path = FRONTS,
    **search: Any,
) -> PlannedWorkflow:
    """Return the plan of point ``number`` of the last front for this workflow, parameters and platform.

    If no front is stored, search for one with the options ``search`` of ``pareto`` and store it. Raises
    Infeasible if the plan exceeds the deadline or the maximal cost. A limit that is not given as an argument
    is taken from the workflow's ``settings``.
    """
    request = load_request(workflow, on=on, params=params, predictions=predictions)
    stated = stated_options(deadline_s=deadline_s, max_cost=max_cost)
    limits = SettingsLayers(overrides=stated).of_workflow(request.instance.graph.workflow)
    return choose_point(
        request, number, deadline_s=limits.deadline_s, max_cost=limits.max_cost, folder=folder, **search
    )


def choose_point(
    request: Request,
    number: int,
    *,
    deadline_s: float | None = None,
    max_cost: float | None = None,
    folder: Path = FRONTS,
    **search: Any,
) -> PlannedWorkflow:
    """Return the plan of a point of the last front of a request (see ``choose``)."""
    if (front := load_front(request, folder=folder)) is None:
        front = pareto(request, deadline_s=deadline_s, max_cost=max_cost, **search)
        # Storing is optional: without the file the next call searches again.
        with suppress(OSError):
            save_front(front, folder)
    elif (deadline_s, max_cost) != (None, None):
        goal = make_objective("makespan", deadline_s=deadline_s, max_cost=max_cost)
        front = replace(front, limits=goal)
    return front.choose(number)
