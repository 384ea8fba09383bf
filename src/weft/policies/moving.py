"""Moving: explicit transfers take no nodes, so they go as soon as they are ready.

A transfer whose destination is bound goes there. Otherwise it decides where the tasks at its destination will
run (S1 section 13 calls this a static schedule dependency): it goes where the first of them would end first,
the transfer, what runs and waits there and the task's own seconds considered. What is bound to a machine and
was not sent there yet, be it ready or behind a transfer under way, counts like what waits there.

Deviations: S1 looks at the transfer alone; that is the policy ``lazy``. O(modes) per transfer.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.policies.policy import Mode, Place, RunView, View
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["moves"]


def moves(view: View) -> Iterator[Place]:
    """Send every transfer that is ready."""
    for run in list(view.runs):
        if run.transfers and run.ready:
            yield from _moves_of(view, run)


def _moves_of(view: View, run: RunView) -> Iterator[Place]:
    refused: set[int] = set()
    while heads := [task for task in run.ready.transfers() if task not in refused]:
        for task in heads:
            follower = _follower(run, task) if run.bound(task) is None else None
            place = None if follower is None else _ahead(view, run, task, follower)
            place = _shortest(view, run, task) if place is None else place
            if place is None:
                refused.add(task)
            else:
                yield place


def _shortest(view: View, run: RunView, task: int) -> Place | None:
    """Send a transfer where it arrives first; None: nowhere."""
    arrivals = view.modes(run, task, free=False)
    return _sent(run, task, min(arrivals, key=_by_arrival), "shortest transfer") if arrivals else None


def _ahead(view: View, run: RunView, task: int, follower: int) -> Place | None:
    """Send a transfer where the task behind it ends first; None: there is no such place."""
    ways: dict[int, Mode] = {}
    for mode in view.modes(run, follower, free=False):
        known = ways.get(mode.machine)
        if known is None or mode.finish_s < known.finish_s:
            ways[mode.machine] = mode
    best: tuple[tuple[float, int], Mode] | None = None
    for machine, way in ways.items():
        arrival = view.mode(run, task, machine, 0)
        if arrival is not None:
            free_s = way.finish_s - way.seconds + view.machines[machine].promised_s
            end = (max(arrival.ready_s, free_s) + way.seconds, machine)
            best = (end, arrival) if best is None or end < best[0] else best
    return None if best is None else _sent(run, task, best[1], "where the task behind it ends first")


def _by_arrival(mode: Mode) -> tuple[float, int]:
    return mode.ready_s, mode.machine


def _sent(run: RunView, task: int, mode: Mode, reason: str) -> Place:
    return Place(run=run.index, task=task, machine=mode.machine, count=mode.count, reason=reason)


def _follower(run: RunView, task: int) -> int | None:
    """Find the first task behind a transfer that runs at its destination and has no attempt; None: none."""
    graph = run.instance.graph
    for other in graph.successors(task).tolist():
        same = graph.kind[other] == COMPUTE and graph.variable[other] == graph.variable[task]
        if same and run.state(other) == "WAITING":
            return int(other)
    return None
