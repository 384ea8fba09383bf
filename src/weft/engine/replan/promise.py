"""Promises: the estimated end and cost of a run before it starts, with all expected loop iterations.

P50 is exceeded in half of the cases, P90 in one of ten (``weft.planners.forecast``). Tasks without a stated
time are planned with a placeholder (``AssumedWork``), some loops do not state their number of iterations, and
the number of subtasks of a growing sweep is not known before a file of the run exists. In these cases there
is no P50, only a lower bound: the end and cost of the plan with zero seconds for these tasks, one iteration
of these loops and one subtask of these sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from weft.engine.state.plan import StoredPlan
from weft.errors import Infeasible
from weft.instance.instance import Instance, mark_untimed_tasks
from weft.planners.decoding import APPEND, decode, encode_schedule
from weft.planners.forecast import PlanForecast
from weft.predictors.predictor import Flags
from weft.records import dataclass
from weft.schedule.schedule import Schedule, expected_executions, total_seconds
from weft.workflow.quantity import grows
from weft.workflow.task_graph import COMPUTE, LoopBody, TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Estimates for a run before it starts. Times count from its arrival."""

    planned_s: float
    """Planned end. It may include placeholders for unknown times, so this value is not promised."""
    p50_s: float | None = None
    """P50 of the run's time; None: unknown."""
    p90_s: float | None = None
    """P90 of the run's time; None: unknown, or no task has a P90."""
    least_s: float | None = None
    """Lower bound of the run's time if the P50 is unknown; None: no lower bound either."""
    cost_p50: float | None = None
    """P50 of the cost. This field and the next two are None if unknown or if no machine has a price."""
    cost_p90: float | None = None
    least_cost: float | None = None
    tasks: int
    """Number of compute tasks."""
    untimed: int = 0
    """Number of compute tasks without a stated time."""
    untimed_kinds: tuple[str, ...] = ()
    exact: int = 0
    """Number of compute tasks without a P90, whose times count as exact."""
    open_loops: tuple[str, ...] = ()
    """Loops without a stated number of iterations."""
    growing: tuple[str, ...] = ()
    """Tasks whose number of subtasks is not known yet."""

    @property
    def has_estimate(self) -> bool:
        """Return whether the P50 of the run's time is known."""
        return self.p50_s is not None

    def as_record(self) -> dict[str, Any]:
        """Return the promise as plain data."""
        record = asdict(self)
        return record | {name: list(record[name]) for name in ("untimed_kinds", "open_loops", "growing")}


def compute_promise(
    schedule: Schedule,
    instance: Instance,
    outlook: PlanForecast,
    *,
    loops: Sequence[LoopBody] | None = None,
    waited_s: float = 0.0,
) -> Promise:
    """Return the promise of a run from its first plan and the forecast of this plan.

    ``loops`` holds the loop bodies, in which tasks are given as rows of the schedule; if it is None, the
    bodies of the graph are used. ``waited_s`` is the time in seconds from the arrival of the run to the start
    of the plan.
    """
    bodies = instance.graph.loops if loops is None else loops
    untimed = mark_untimed_tasks(instance)
    promise = Promise(
        planned_s=waited_s + float(total_seconds(schedule.start_s, schedule.finish_s, bodies)),
        tasks=int((instance.graph.kind == COMPUTE).sum()),
        untimed=int(untimed.sum()),
        untimed_kinds=_list_kinds(instance.graph, untimed),
        exact=outlook.exact,
        open_loops=_list_open_loops(bodies),
        growing=_list_growing(instance.graph),
    )
    priced = bool(instance.price_per_node_s.any())
    if promise.untimed or promise.open_loops or promise.growing:
        return _bound_below(promise, schedule, instance, bodies, untimed, waited_s=waited_s, priced=priced)
    spread = outlook.exact < outlook.tasks
    return replace(
        promise,
        p50_s=waited_s + outlook.total_p50_s,
        p90_s=waited_s + outlook.total_p90_s if spread else None,
        cost_p50=outlook.total_cost_p50 if priced else None,
        cost_p90=outlook.total_cost_p90 if priced and spread else None,
    )


def _bound_below(
    promise: Promise,
    schedule: Schedule,
    instance: Instance,
    loops: Sequence[LoopBody],
    untimed: Flags,
    *,
    waited_s: float,
    priced: bool,
) -> Promise:
    """Return a promise with lower bounds: time and cost of the plan with zero seconds for ``untimed`` tasks.

    Without a lower bound the promise is returned unchanged.
    """
    if promise.untimed == promise.tasks:
        return promise
    seconds = np.where(instance.graph.kind == COMPUTE, schedule.finish_s - schedule.start_s, 0.0)
    seconds[untimed] = 0.0
    try:
        rest = decode(instance, *encode_schedule(instance, schedule), seconds=seconds, rule=APPEND)
    except Infeasible:  # on busy machines the shortened plan may not fit; then there is no lower bound
        return promise
    price = (
        schedule.nodes
        * instance.price_per_node_s[schedule.machine]
        * expected_executions(len(instance), loops)
    )
    return replace(
        promise,
        least_s=waited_s + float(total_seconds(rest.start_s, rest.finish_s, loops)),
        least_cost=float(seconds @ price) if priced else None,
    )


def derive_promise(plan: StoredPlan, instance: Instance, arrival_s: float) -> Promise:
    """Return the promise of a run from a stored plan alone; this promise has no P90 and no cost."""
    graph, untimed = instance.graph, mark_untimed_tasks(instance)
    rows = {label.rpartition("#")[0] or label: line for label, line in plan.lines.items()}
    lines = [plan.lines.get(name, rows.get(name)) for name in graph.names]
    start_s = np.array([plan.finish_s if line is None else line.start_s for line in lines])
    finish_s = np.array([plan.finish_s if line is None else line.finish_s for line in lines])
    planned_s = float(total_seconds(start_s - arrival_s, finish_s - arrival_s, graph.loops))
    compute = int((graph.kind == COMPUTE).sum())
    loops, growing = _list_open_loops(graph.loops), _list_growing(graph)
    return Promise(
        planned_s=planned_s,
        p50_s=None if untimed.any() or loops or growing else planned_s,
        tasks=compute,
        untimed=int(untimed.sum()),
        untimed_kinds=_list_kinds(graph, untimed),
        exact=compute,
        open_loops=loops,
        growing=growing,
    )


def list_untimed_kinds(instance: Instance) -> tuple[str, ...]:
    """Return the program names of the tasks whose time is a placeholder."""
    return _list_kinds(instance.graph, mark_untimed_tasks(instance))


def map_loops(graph: TaskGraph, tasks: Sequence[int]) -> tuple[LoopBody, ...]:
    """Return the loop bodies of a graph with rows of a plan in place of task indices.

    ``tasks`` holds the task index of each row; -1: the row is not a task.
    """
    rows = np.asarray(tasks)
    return tuple(
        replace(body, tasks=np.flatnonzero(np.isin(rows, body.tasks)).astype(np.uint32))
        for body in graph.loops
    )


def _list_kinds(graph: TaskGraph, chosen: Flags) -> tuple[str, ...]:
    templates = np.unique(np.asarray(graph.template)[chosen]).tolist()
    return tuple(dict.fromkeys(graph.workflow.tasks[template].program for template in templates))


def _list_open_loops(loops: Sequence[LoopBody]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(body.loop.name for body in loops if body.expect is None))


def _list_growing(graph: TaskGraph) -> tuple[str, ...]:
    return tuple(task.name for task in graph.workflow.tasks if grows(task.sweep))
