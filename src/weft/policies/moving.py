"""Moving: explicit transfers take no nodes, so they go as soon as they are ready.

A transfer whose destination is bound goes there. Otherwise it decides where the tasks at its destination will
run (S1 section 13 calls this a static schedule dependency): it goes where the first of them would end first,
the transfer, what runs and waits there and the task's own seconds considered. What earlier transfers have
already promised to a machine counts like what waits there.

Deviations: S1 looks at the transfer alone; that is the policy ``lazy``. O(transfers under way) per event at
which one with an open destination is ready, O(modes) per transfer; what the ready tasks are promised is kept
from event to event, without what restart files would spare them.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.policies.policy import Mode, Place, RunView, View
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER

__all__ = ["moves"]

_Promised = dict[int, float]
"""Per machine: the seconds of what is bound to it and not sent there yet, spread over its nodes."""


def moves(view: View) -> Iterator[Place]:
    """Send every transfer that is ready."""
    for run in list(view.runs):
        if run.transfers and run.ready:
            yield from _moves_of(view, run)


def _moves_of(view: View, run: RunView) -> Iterator[Place]:
    refused: set[int] = set()
    promised: _Promised | None = None
    kind = run.instance.graph.kind
    while heads := [task for task in run.ready.heads() if kind[task] == TRANSFER and task not in refused]:
        for task in heads:
            arrivals = view.modes(run, task, free=False)
            follower = _follower(run, task) if run.bound(task) is None else None
            if not arrivals:
                refused.add(task)
            elif follower is None:
                yield _sent(run, task, min(arrivals, key=_by_arrival), "shortest transfer")
            else:
                promised = _promised(view, run) if promised is None else promised
                best = _best(view, run, follower, arrivals, promised)
                yield _sent(run, task, best, "where the task behind it ends first")


def _best(view: View, run: RunView, follower: int, arrivals: list[Mode], promised: _Promised) -> Mode:
    """Choose the destination by the end of the task behind a transfer, and promise that task to it."""
    ways: dict[int, Mode] = {}
    for mode in view.modes(run, follower, free=False):
        known = ways.get(mode.machine)
        if known is None or mode.finish_s < known.finish_s:
            ways[mode.machine] = mode
    found = [mode for mode in arrivals if mode.machine in ways]
    if not found:
        return min(arrivals, key=_by_arrival)

    def end(arrival: Mode) -> tuple[float, int]:
        way = ways[arrival.machine]
        free_s = way.finish_s - way.seconds + promised.get(way.machine, 0.0)
        return max(arrival.ready_s, free_s) + way.seconds, arrival.machine

    best = min(found, key=end)
    _promise(view, promised, ways[best.machine])
    return best


def _promised(view: View, run: RunView) -> _Promised:
    """Add what is behind the transfers under way to the ready tasks that wait for their machines."""
    promised = dict(run.promised_s())
    for task in dict.fromkeys(_follower(run, transfer) for transfer in run.moving()):
        modes = [] if task is None else view.modes(run, task, free=False)
        if modes:
            _promise(view, promised, min(modes, key=lambda mode: mode.seconds))
    return promised


def _promise(view: View, promised: _Promised, mode: Mode) -> None:
    share = mode.seconds * mode.nodes / view.machines[mode.machine].nodes
    promised[mode.machine] = promised.get(mode.machine, 0.0) + share


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
