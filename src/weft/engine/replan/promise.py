"""Promises: what is said of a run before it begins, all expected iterations of its loops included.

P50 is exceeded half of the time, P90 one time in ten; how they come about is in ``weft.planners.forecast``.
What nobody knows is not invented: tasks without a stated time are planned with a placeholder
(``weft.predictors.assumed``), and a loop may not say how often it runs. Then there is no P50, only the time
that the run takes at least: that of the plan if those tasks took no time, and those loops ran once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from weft.engine.state.plan import StoredPlan
from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners.decoding import APPEND, decode, encode_schedule
from weft.planners.forecast import PlanForecast
from weft.predictors.assumed import AssumedWork
from weft.predictors.predictor import Flags
from weft.schedule.schedule import Schedule, expected_executions, total_seconds
from weft.workflow.task_graph import COMPUTE, LoopBody, TaskGraph

__all__ = [
    "Promise",
    "compute_promise",
    "derive_promise",
    "is_untimed",
    "list_untimed_kinds",
    "map_loops",
    "mark_untimed_tasks",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What was said of a run before it began. Times count from its arrival."""

    planned_s: float
    """By the plan, placeholders among it: what the plan was made with, and no promise."""
    p50_s: float | None = None
    """None: unknown."""
    p90_s: float | None = None
    """None: unknown, or no estimate has a spread."""
    least_s: float | None = None
    """Where the time is unknown: it takes at least so long; None: nobody knows that either."""
    cost_p50: float | None = None
    """None: unknown, or no machine has a price; so are the next two."""
    cost_p90: float | None = None
    least_cost: float | None = None
    tasks: int
    """Tasks that are programs."""
    untimed: int = 0
    """Those of them whose time nobody has stated."""
    untimed_kinds: tuple[str, ...] = ()
    exact: int = 0
    """Those of them whose time has no P90 and counts as exact."""
    open_loops: tuple[str, ...] = ()
    """Loops that do not say how often they run."""

    @property
    def compiled(self) -> bool:
        """Say whether there is anything that can be kept."""
        return self.p50_s is not None

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        record = asdict(self)
        return record | {name: list(record[name]) for name in ("untimed_kinds", "open_loops")}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Promise:
        """Read what ``as_record`` gives."""
        lists = {name: tuple(record[name]) for name in ("untimed_kinds", "open_loops")}
        return cls(**{**record, **lists})


def compute_promise(
    schedule: Schedule,
    instance: Instance,
    outlook: PlanForecast,
    *,
    loops: Sequence[LoopBody] | None = None,
    waited_s: float = 0.0,
) -> Promise:
    """Say what a first plan promises; ``loops`` as for the outlook.

    ``waited_s`` is the time between the arrival of the run and the beginning of the plan.
    """
    bodies = instance.graph.loops if loops is None else loops
    untimed = mark_untimed_tasks(instance)
    said = Promise(
        planned_s=waited_s + float(total_seconds(schedule.start_s, schedule.finish_s, bodies)),
        tasks=int((instance.graph.kind == COMPUTE).sum()),
        untimed=int(untimed.sum()),
        untimed_kinds=_list_kinds(instance.graph, untimed),
        exact=outlook.exact,
        open_loops=_list_open_loops(bodies),
    )
    priced = bool(instance.price_per_node_s.any())
    if said.untimed or said.open_loops:
        return _bound_below(said, schedule, instance, bodies, untimed, waited_s=waited_s, priced=priced)
    spread = outlook.exact < outlook.tasks
    return replace(
        said,
        p50_s=waited_s + outlook.total_p50_s,
        p90_s=waited_s + outlook.total_p90_s if spread else None,
        cost_p50=outlook.total_cost_p50 if priced else None,
        cost_p90=outlook.total_cost_p90 if priced and spread else None,
    )


def _bound_below(
    said: Promise,
    schedule: Schedule,
    instance: Instance,
    loops: Sequence[LoopBody],
    untimed: Flags,
    *,
    waited_s: float,
    priced: bool,
) -> Promise:
    """Leave out what nobody knows: each machine still has its tasks in their order."""
    if said.untimed == said.tasks:
        return said
    seconds = np.where(instance.graph.kind == COMPUTE, schedule.finish_s - schedule.start_s, 0.0)
    seconds[untimed] = 0.0
    try:
        rest = decode(instance, *encode_schedule(instance, schedule), seconds=seconds, rule=APPEND)
    except Infeasible:  # beside what is busy: the plan is good, only what is left of it cannot be timed
        return said
    price = (
        schedule.nodes
        * instance.price_per_node_s[schedule.machine]
        * expected_executions(len(instance), loops)
    )
    return replace(
        said,
        least_s=waited_s + float(total_seconds(rest.start_s, rest.finish_s, loops)),
        least_cost=float(seconds @ price) if priced else None,
    )


def derive_promise(plan: StoredPlan, instance: Instance, arrival_s: float) -> Promise:
    """Take a stored plan at its word, where nothing else was kept: how sure it is nobody knows then."""
    graph, untimed = instance.graph, mark_untimed_tasks(instance)
    rows = {label.rpartition("#")[0] or label: line for label, line in plan.lines.items()}
    lines = [plan.lines.get(name, rows.get(name)) for name in graph.names]
    start_s = np.array([plan.finish_s if line is None else line.start_s for line in lines])
    finish_s = np.array([plan.finish_s if line is None else line.finish_s for line in lines])
    planned_s = float(total_seconds(start_s - arrival_s, finish_s - arrival_s, graph.loops))
    compute, loops = int((graph.kind == COMPUTE).sum()), _list_open_loops(graph.loops)
    return Promise(
        planned_s=planned_s,
        p50_s=None if untimed.any() or loops else planned_s,
        tasks=compute,
        untimed=int(untimed.sum()),
        untimed_kinds=_list_kinds(graph, untimed),
        exact=compute,
        open_loops=loops,
    )


def list_untimed_kinds(instance: Instance) -> tuple[str, ...]:
    """Name the kinds of tasks of which some have a placeholder for a time."""
    return _list_kinds(instance.graph, mark_untimed_tasks(instance))


def is_untimed(instance: Instance, task: int) -> bool:
    """Say whether the time of a task is a placeholder."""
    seconds = instance.seconds
    return seconds.sources[int(seconds.source[task])] == AssumedWork.source


def mark_untimed_tasks(instance: Instance) -> Flags:
    """Mark the compute tasks whose time is a placeholder."""
    seconds = instance.seconds
    if AssumedWork.source not in seconds.sources:
        return np.zeros(len(instance), dtype=np.bool_)
    guessed = seconds.source == seconds.sources.index(AssumedWork.source)
    return np.asarray(guessed & (instance.graph.kind == COMPUTE))


def map_loops(graph: TaskGraph, tasks: Sequence[int]) -> tuple[LoopBody, ...]:
    """Give the loops of a graph over other rows; ``tasks``: the task of each row, -1: it stands for none."""
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
