"""Rounds over the ready tasks of many workflows, in the order of priorities between workflows.

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (docs/papers/many-workflows.md, sections 2 and 3). At every event, ready tasks are collected, their
priorities are computed, and each is placed in turn until no task can be placed. A task goes to the free
machine where it finishes first or, if it has a rank expression, to the free machine with the highest rank. A
round by tasks collects all ready tasks, a round by workflows the first task of each workflow. Ties: earlier
arrival, lower run index, lower task index.

Deviations: the paper prints the arrival time as the priority of fcfs, which would serve the last workflow
first; here the first workflow is served first. In srpt a running task counts with its remaining time. In
foft, C is the forecast of ``forecast.py``, and the denominator is the makespan alone on the empty platform.
``aging-e`` is compared by its logarithm, which does not overflow. Of tasks with equal modes only the first is
considered: if it cannot be placed, no other can. A task that cannot be placed is not tried again in the same
event, because machines only fill up. If the first task of a workflow cannot be placed, its first task of
another kind is tried. On machines that can run all tasks none of this changes a placement. A decision costs
O(active workflows + kinds), never O(ready tasks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf, log
from typing import ClassVar, Literal, Protocol

from weft.policies.forecast import FinishForecast
from weft.policies.orders import ORDERS, Intra
from weft.policies.placement import ModePlacer, Sizing, send_transfers
from weft.policies.policy import Place, RunView, TaskOrder, View

Inter = Literal["g-heft", "aging", "aging-e", "fcfs", "srpt", "foft"]

Urgency = Callable[[RunView, int], float]
"""Function that returns the priority of a ready task of a run at one moment; higher first."""


def _g_heft(view: View) -> Urgency:  # noqa: ARG001
    return lambda run, task: run.priority * run.ranks[task]


def _aging(view: View) -> Urgency:
    return lambda run, task: run.priority * run.ranks[task] * (1.0 + _age(view, run))


def _aging_e(view: View) -> Urgency:
    def priority(run: RunView, task: int) -> float:
        rank = run.ranks[task]
        return log(run.priority * rank) + 1.0 + _age(view, run) if rank > 0.0 else -inf

    return priority


def _fcfs(view: View) -> Urgency:
    """Return priorities by waiting time; for runs of equal priority this is the order of arrival."""
    runs = view.runs
    if all(run.priority == runs[0].priority for run in runs):
        return lambda run, task: -run.arrival_s  # noqa: ARG005
    return lambda run, task: run.priority * (view.now - run.arrival_s)  # noqa: ARG005


def _srpt(view: View) -> Urgency:  # noqa: ARG001
    def priority(run: RunView, task: int) -> float:  # noqa: ARG001
        left = run.remaining_s
        return run.priority / left if left > 0.0 else inf

    return priority


def _foft(view: View) -> Urgency:
    ahead = FinishForecast(view)

    def priority(run: RunView, task: int) -> float:  # noqa: ARG001
        alone = run.alone_s
        flow = view.now + ahead.left_s(run) - run.arrival_s
        return run.priority * flow / alone if alone > 0.0 else inf

    return priority


def _age(view: View, run: RunView) -> float:
    """Return the time since a run arrived, divided by its makespan alone; 0 if the makespan is 0."""
    alone = run.alone_s
    return (view.now - run.arrival_s) / alone if alone > 0.0 else 0.0


PRIORITIES: dict[str, Callable[[View], Urgency]] = {
    "g-heft": _g_heft,
    "aging": _aging,
    "aging-e": _aging_e,
    "fcfs": _fcfs,
    "srpt": _srpt,
    "foft": _foft,
}
"""Priorities by name: functions that return the priorities of tasks at the time of a view.

Tasks with higher values are placed first. "rank" is the upward rank of the task, "age" the time since the
arrival of the workflow, and "mk" the makespan of the workflow alone on the empty platform:

- ``g-heft``: rank
- ``aging``: rank (1 + age / mk)
- ``aging-e``: rank e^(1 + age / mk)
- ``fcfs``, first come, first served: the age
- ``srpt``, shortest remaining processing time: 1 / mean seconds of all unfinished tasks
- ``foft``, fairness on finish times: the expected slowdown (C - arrival) / mk

Each value is multiplied by the priority of the run, which the paper does not have: a run of priority 2 that
has waited for one minute counts like a run of priority 1 that has waited for two minutes.
"""

WORKFLOW_PRIORITIES = frozenset({"fcfs", "srpt", "foft"})
"""Priorities that are equal for all tasks of a workflow."""


Rounds = Literal["tasks", "workflows"]

_PriorityRule = Callable[[View], Urgency]


class _TaskPlacer(Protocol):
    """Chooses machine and node count of tasks."""

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Return the placement of a ready task; None if no machine can run it now."""


def place_first(
    view: View, run: RunView, refused: set[int], placing: _TaskPlacer, *, free: bool = True
) -> Place | None:
    """Return the placement of the first ready task of a run that can be placed; None: no task can.

    Tasks that cannot be placed are added to ``refused`` and are not tried again. If ``free`` is true, tasks
    bound to a busy machine are skipped, because only free machines are considered.
    """
    for task in run.ready.heads(view.free if free else None):
        if task not in refused:
            if (place := placing.place(view, run, task)) is not None:
                return place
            refused.add(task)
    return None


def _by_tasks(view: View, priorities: _PriorityRule, placing: ModePlacer) -> Iterator[Place]:
    """Yield placements of the ready tasks of all runs, merged by priority; each run keeps its own order."""
    runs = [run for run in view.runs if run.ready]
    refused: list[set[int]] = [set() for _ in runs]
    priority = priorities(view)
    offers = [iter(run.ready.heads(view.free)) for run in runs]
    # Runs are sorted by arrival, so the position breaks ties.
    heap = [(-priority(run, head), at, head) for at, run in enumerate(runs) for head in islice(offers[at], 1)]
    heapify(heap)
    while heap and view.any_free:
        _, at, task = heappop(heap)
        run = runs[at]
        if (place := placing.place(view, run, task)) is None:
            refused[at].add(task)
        else:
            yield place
            offers[at] = iter(run.ready.heads(view.free))  # the heads have changed
        following = next((task for task in offers[at] if task not in refused[at]), None)
        if following is not None:
            heappush(heap, (-priority(run, following), at, following))


def _by_workflows(view: View, priorities: _PriorityRule, placing: ModePlacer) -> Iterator[Place]:
    """Yield placements in rounds: one task of each run, the run with the highest priority first."""
    active = [run for run in view.runs if run.ready]
    if not active:
        return
    refused: dict[int, set[int]] = {run.index: set() for run in active}
    urgency: dict[int, float] = {}
    while len(active) > 1:
        _rate(view, active, refused, priorities(view), urgency)
        active.sort(key=lambda run: -urgency[run.index])
        placed = []
        for run in active:
            if (place := place_first(view, run, refused[run.index], placing)) is not None:
                yield place
                if not view.any_free:
                    return
                urgency.pop(run.index, None)  # its priority has changed
                placed.append(run)
        active = [run for run in placed if run.ready]
        active.sort(key=lambda run: (run.arrival_s, run.index))
    for run in active:  # a single run needs no priority
        while view.any_free:
            if (place := place_first(view, run, refused[run.index], placing)) is None:
                return
            yield place


def _rate(
    view: View,
    active: list[RunView],
    refused: dict[int, set[int]],
    priority: Urgency,
    urgency: dict[int, float],
) -> None:
    for run in active:
        if run.index not in urgency:
            task = next((task for task in run.ready.heads(view.free) if task not in refused[run.index]), None)
            urgency[run.index] = -float("inf") if task is None else priority(run, task)


ROUNDS: dict[str, Callable[[View, _PriorityRule, ModePlacer], Iterator[Place]]] = {
    "tasks": _by_tasks,
    "workflows": _by_workflows,
}
"""Functions that place tasks in rounds, by the name of the option ``rounds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPolicy:
    """Base of policies that place tasks in rounds, with their common options."""

    needs_plan: ClassVar[bool] = False

    intra: Intra = "rank"
    """The order within a workflow: highest upward rank, task index, or pM-S priority."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest free count, or the smallest one at most 5 % slower."""

    @property
    def order(self) -> TaskOrder:
        """Return the order of ready tasks within a workflow."""
        return ORDERS[self.intra]

    def place_in_rounds(self, view: View, inter: Inter, rounds: Rounds) -> Iterator[Place]:
        """Yield placements of ready transfers, then of tasks in rounds while a machine is free."""
        yield from send_transfers(view)
        if view.any_free:
            yield from ROUNDS[rounds](view, PRIORITIES[inter], ModePlacer(sizing=self.sizing))
