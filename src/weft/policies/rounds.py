"""Rounds: hand out machines to the ready tasks of many workflows, most urgent first.

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
from typing import Literal, Protocol

from weft.policies.inter import Worth
from weft.policies.placement import Placing
from weft.policies.policy import Place, RunView, View

__all__ = ["ROUNDS", "Places", "Rounds", "first_placed"]

Rounds = Literal["tasks", "workflows"]

_Priorities = Callable[[View], Worth]


class Places(Protocol):
    """Who finds the place of one task after another."""

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Choose machine and count of a ready task; None: nothing can take it now."""
        ...


def first_placed(
    view: View, run: RunView, refused: set[int], placing: Places, *, free: bool = True
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


def _by_tasks(view: View, priorities: _Priorities, placing: Placing) -> Iterator[Place]:
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


def _by_workflows(view: View, priorities: _Priorities, placing: Placing) -> Iterator[Place]:
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
            place = first_placed(view, run, refused[run.index], placing)
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
            place = first_placed(view, run, refused[run.index], placing)
            if place is None:
                return
            yield place


def _rate(
    view: View,
    asking: list[RunView],
    refused: dict[int, set[int]],
    worth: Worth,
    urgency: dict[int, float],
) -> None:
    for run in asking:
        if run.index not in urgency:
            task = next((task for task in run.ready.heads(view.free) if task not in refused[run.index]), None)
            urgency[run.index] = -float("inf") if task is None else worth(run, task)


ROUNDS: dict[str, Callable[[View, _Priorities, Placing], Iterator[Place]]] = {
    "tasks": _by_tasks,
    "workflows": _by_workflows,
}
"""By name: who is collected in a round."""
