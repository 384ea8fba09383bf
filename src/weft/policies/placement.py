"""Sizing: on how many nodes a task runs.

What the run's plan says, if it has one. Else the local optimum of M. Jaros, J. Jaros, Performance-Cost
Optimization of Moldable Scientific Workflows (S2 section 4), capped by the nodes that are free: the count
with which the task takes least, whoever must wait for it (``fastest``). ``frugal`` is ours: the smallest
count that takes at most 5 % longer than that, as HEFT chooses.

Ties go to the smaller count. O(modes).

Placement: on which machine a task runs, of those where it can start right now.

``finish``: where it ends first, data and machine considered (S5 section 1). ``rank``: where the task's own
ranking expression is highest (S3 section 3: E. Huedo, R. Montero, I. Llorente, The GridWay Framework for
Adaptive Scheduling and Execution on Grids); a task without one goes where its turnaround is shortest, which
is the same estimate. Requirements are considered before: the view lists only machines that meet them.

Ties go to the machine of the lowest index. O(modes).

Moving: explicit transfers take no nodes, so they go as soon as they are ready.

A transfer whose destination is bound goes there. Otherwise it decides where the tasks at its destination will
run (S1 section 13 calls this a static schedule dependency): it goes where the first of them would end first,
the transfer, what runs and waits there and the task's own seconds considered. What is bound to a machine and
was not sent there yet, be it ready or behind a transfer under way, counts like what waits there.

Deviations: S1 looks at the transfer alone; that is the policy ``lazy``. O(modes) per transfer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from weft.policies.policy import Mode, Place, RunView, View
from weft.workflow.task_graph import COMPUTE

__all__ = [
    "ModePlacer",
    "Placement",
    "Sizing",
    "earliest_finish",
    "planned_count",
    "send_transfers",
    "size_modes",
]


Sizing = Literal["fastest", "frugal"]

_FRUGAL = 1.05
"""How many times its least seconds a task may take to save nodes."""


def size_modes(run: RunView, task: int, modes: list[Mode], sizing: Sizing) -> list[Mode]:
    """Choose one mode per machine out of those that are possible, which are listed by machine, then count."""
    if len(modes) < 2:
        return modes
    by_machine: dict[int, list[Mode]] = {}
    for mode in modes:
        by_machine.setdefault(mode.machine, []).append(mode)
    if len(by_machine) == len(modes):
        return modes
    planned = planned_count(run, task)
    return [
        next((mode for mode in there if mode.count == planned), None) or _best(there, sizing)
        for there in by_machine.values()
    ]


def _best(modes: list[Mode], sizing: Sizing) -> Mode:
    least = min(mode.seconds for mode in modes)
    limit = least * _FRUGAL if sizing == "frugal" else least
    return next(mode for mode in modes if mode.seconds <= limit)


def planned_count(run: RunView, task: int) -> int | None:
    """Give the node count of a task as its run's plan says; None: it says nothing of it."""
    line = None if run.plan is None else run.plan.line.get(task)
    return None if line is None else line.count


Placement = Literal["finish", "rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePlacer:
    """Finds the place of one task after another."""

    sizing: Sizing = "fastest"
    placement: Placement = "finish"
    queue: bool = False
    """Whether busy machines count too; the task waits there."""

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Choose machine and count of a ready task; None: nothing can take it now."""
        modes = size_modes(run, task, view.modes(run, task, free=not self.queue), self.sizing)
        if not modes:
            return None
        reason = "earliest finish"
        best = None
        if self.placement == "rank":
            best = _highest(view, run, task, modes)
            reason = "highest rank" if best is not None else reason
        if best is None:
            best = earliest_finish(modes)
        return Place(
            run=run.index,
            task=task,
            machine=best.machine,
            count=best.count,
            queue=self.queue and best.nodes > 0,
            reason=reason,
        )


def earliest_finish(modes: list[Mode]) -> Mode:
    """Give the mode that ends first."""
    best = modes[0]
    for mode in modes:
        if mode.finish_s < best.finish_s:
            best = mode
    return best


def _highest(view: View, run: RunView, task: int, modes: list[Mode]) -> Mode | None:
    """Give the mode on the machine the task itself ranks highest; None: it ranks none."""
    best, highest = None, 0.0
    for mode in modes:
        rank = view.rank(run, task, mode.machine)
        if rank is not None and (best is None or rank > highest):
            best, highest = mode, rank
    return best


def send_transfers(view: View) -> Iterator[Place]:
    """Send every transfer that is ready."""
    for run in list(view.runs):
        if run.transfers and run.ready:
            yield from _send_transfers_of(view, run)


def _send_transfers_of(view: View, run: RunView) -> Iterator[Place]:
    refused: set[int] = set()
    while heads := [task for task in run.ready.transfers() if task not in refused]:
        for task in heads:
            follower = _follower(run, task) if run.bound(task) is None else None
            place = None if follower is None else _send_ahead(view, run, task, follower)
            place = _send_first_arrival(view, run, task) if place is None else place
            if place is None:
                refused.add(task)
            else:
                yield place


def _send_first_arrival(view: View, run: RunView, task: int) -> Place | None:
    """Send a transfer where it arrives first; None: nowhere."""
    arrivals = view.modes(run, task, free=False)
    return (
        _place_transfer(run, task, min(arrivals, key=_by_arrival), "shortest transfer") if arrivals else None
    )


def _send_ahead(view: View, run: RunView, task: int, follower: int) -> Place | None:
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
    return (
        None if best is None else _place_transfer(run, task, best[1], "where the task behind it ends first")
    )


def _by_arrival(mode: Mode) -> tuple[float, int]:
    return mode.ready_s, mode.machine


def _place_transfer(run: RunView, task: int, mode: Mode, reason: str) -> Place:
    return Place(run=run.index, task=task, machine=mode.machine, count=mode.count, reason=reason)


def _follower(run: RunView, task: int) -> int | None:
    """Find the first task behind a transfer that runs at its destination and has no attempt; None: none."""
    graph = run.instance.graph
    for other in graph.successors(task).tolist():
        same = graph.kind[other] == COMPUTE and graph.variable[other] == graph.variable[task]
        if same and run.state(other) == "WAITING":
            return int(other)
    return None
