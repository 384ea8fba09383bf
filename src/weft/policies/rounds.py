"""Inter-workflow priorities: whose turn it is when several workflows want the same machines; higher first.

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (S5 section 3). With rank the upward rank of the task, age the time since the workflow arrived, mk
its makespan alone on the empty platform:

========= ====================================================================================
g-heft    rank
aging     rank (1 + age / mk)
aging-e   rank e^(1 + age / mk)
fcfs      first come, first served: minus the arrival
srpt      shortest remaining processing time: 1 / mean seconds of all that is unfinished
foft      fairness on finish times: the expected slowdown (C - arrival) / mk
========= ====================================================================================

Deviations: fcfs is printed as the arrival itself, which would serve the last first. In srpt a running task
counts with what is left of it. In foft C is the forward estimate (``foresight.py``) and the denominator the
makespan alone. ``aging-e`` is compared by its logarithm, which never overflows.

Rounds: hand out machines to the ready tasks of many workflows, most urgent first.

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (S5 section 2). At every event: collect ready tasks, compute their priorities now, and give each in
turn the free machine where it ends first, until nothing can be given. A round by tasks collects all of them,
a round by workflows only the first of each. Ties: earlier arrival, lower run, lower task.

Deviations: of tasks that can run in the same modes only the first is looked at, since if it cannot be placed
no other can; who could not be placed is not asked again in the same event, since machines only fill; and if
the first task of a workflow finds no machine, its first task of another kind is tried, so that a machine that
is down does not stop a workflow that has something else to do. Nothing of this changes who is placed where on
machines that can run everything. A decision costs O(active workflows + kinds), never O(ready tasks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf, log
from typing import Literal, Protocol

from weft.policies.forecast import FinishForecast
from weft.policies.placement import ModePlacer
from weft.policies.policy import Place, RunView, View

__all__ = [
    "PRIORITIES",
    "ROUNDS",
    "WORKFLOW_PRIORITIES",
    "Inter",
    "Rounds",
    "TaskPlacer",
    "Urgency",
    "place_first",
]


Inter = Literal["g-heft", "aging", "aging-e", "fcfs", "srpt", "foft"]

Urgency = Callable[[RunView, int], float]
"""Says how urgent a ready task of a run is, at one moment; higher first."""


def _g_heft(view: View) -> Urgency:  # noqa: ARG001
    return lambda run, task: run.ranks[task]


def _aging(view: View) -> Urgency:
    return lambda run, task: run.ranks[task] * (1.0 + _age(view, run))


def _aging_e(view: View) -> Urgency:
    def worth(run: RunView, task: int) -> float:
        rank = run.ranks[task]
        return log(rank) + 1.0 + _age(view, run) if rank > 0.0 else -inf

    return worth


def _fcfs(view: View) -> Urgency:  # noqa: ARG001
    return lambda run, task: -run.arrival_s  # noqa: ARG005


def _srpt(view: View) -> Urgency:  # noqa: ARG001
    def worth(run: RunView, task: int) -> float:  # noqa: ARG001
        left = run.remaining_s
        return 1.0 / left if left > 0.0 else inf

    return worth


def _foft(view: View) -> Urgency:
    ahead = FinishForecast(view)

    def worth(run: RunView, task: int) -> float:  # noqa: ARG001
        alone = run.alone_s
        flow = view.now + ahead.left_s(run) - run.arrival_s
        return flow / alone if alone > 0.0 else inf

    return worth


def _age(view: View, run: RunView) -> float:
    """Give a workflow's age in makespans; one that takes no time at all does not age."""
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
"""By name: what makes the priorities of one moment."""

WORKFLOW_PRIORITIES = frozenset({"fcfs", "srpt", "foft"})
"""Those under which all tasks of a workflow are equally urgent."""


Rounds = Literal["tasks", "workflows"]

_PriorityRule = Callable[[View], Urgency]


class TaskPlacer(Protocol):
    """Who finds the place of one task after another."""

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Choose machine and count of a ready task; None: nothing can take it now."""
        ...


def place_first(
    view: View, run: RunView, refused: set[int], placing: TaskPlacer, *, free: bool = True
) -> Place | None:
    """Place the first ready task that finds a machine; None: none does. Who finds none is refused.

    ``free``: it must find one that is free, so who is bound to a busy one needs not be asked.
    """
    for task in run.ready.heads(view.free if free else None):
        if task not in refused:
            place = placing.place(view, run, task)
            if place is not None:
                return place
            refused.add(task)
    return None


def _by_tasks(view: View, priorities: _PriorityRule, placing: ModePlacer) -> Iterator[Place]:
    """Merge the ready tasks of all runs: those of one run come in its own order, the most urgent first."""
    runs = [run for run in view.runs if run.ready]
    refused: list[set[int]] = [set() for _ in runs]
    worth = priorities(view)
    offers = [iter(run.ready.heads(view.free)) for run in runs]
    # Runs stand by arrival, so the position breaks ties.
    heap = [(-worth(run, head), at, head) for at, run in enumerate(runs) for head in islice(offers[at], 1)]
    heapify(heap)
    while heap and view.any_free:
        _, at, task = heappop(heap)
        run = runs[at]
        place = placing.place(view, run, task)
        if place is None:
            refused[at].add(task)
        else:
            yield place
            offers[at] = iter(run.ready.heads(view.free))  # others have come to the front
        following = next((task for task in offers[at] if task not in refused[at]), None)
        if following is not None:
            heappush(heap, (-worth(run, following), at, following))


def _by_workflows(view: View, priorities: _PriorityRule, placing: ModePlacer) -> Iterator[Place]:
    """Give every run one task per round."""
    asking = [run for run in view.runs if run.ready]
    if not asking:
        return
    refused: dict[int, set[int]] = {run.index: set() for run in asking}
    urgency: dict[int, float] = {}
    while len(asking) > 1:
        _rate(view, asking, refused, priorities(view), urgency)
        asking.sort(key=lambda run: -urgency[run.index])
        placed = []
        for run in asking:
            place = place_first(view, run, refused[run.index], placing)
            if place is not None:
                yield place
                if not view.any_free:
                    return
                urgency.pop(run.index, None)  # what it is worth has changed
                placed.append(run)
        asking = [run for run in placed if run.ready]
        asking.sort(key=lambda run: (run.arrival_s, run.index))
    for run in asking:  # the only one that is left: nobody to compare it with
        while view.any_free:
            place = place_first(view, run, refused[run.index], placing)
            if place is None:
                return
            yield place


def _rate(
    view: View,
    asking: list[RunView],
    refused: dict[int, set[int]],
    worth: Urgency,
    urgency: dict[int, float],
) -> None:
    for run in asking:
        if run.index not in urgency:
            task = next((task for task in run.ready.heads(view.free) if task not in refused[run.index]), None)
            urgency[run.index] = -float("inf") if task is None else worth(run, task)


ROUNDS: dict[str, Callable[[View, _PriorityRule, ModePlacer], Iterator[Place]]] = {
    "tasks": _by_tasks,
    "workflows": _by_workflows,
}
"""By name: who is collected in a round."""
