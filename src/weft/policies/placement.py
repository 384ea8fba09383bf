"""Choice of machine and node count for a ready task, and of the destination of transfers.

Each choice takes O(modes of the task).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from weft.policies.policy import Mode, Place, PlannedTaskView, RunView, View
from weft.records import dataclass
from weft.workflow.task_graph import COMPUTE

Sizing = Literal["fastest", "frugal"]

_FRUGAL = 1.05
"""With ``frugal`` a task may take this many times its shortest time in order to save nodes."""


def size_modes(run: RunView, task: int, modes: list[Mode], sizing: Sizing) -> list[Mode]:
    """Return one mode per machine, with the node count to use; ``modes`` are sorted by machine, then count.

    If the run has a plan for the task, the planned count is used. Otherwise the count depends on ``sizing``.
    ``fastest`` chooses the count with the fewest seconds (the local optimum of docs/papers/moldable.md,
    section 4), ``frugal`` (ours) the smallest count that takes at most 5 % longer. Ties: smaller count.
    """
    if len(modes) < 2:
        return modes
    by_machine: dict[int, list[Mode]] = {}
    for mode in modes:
        by_machine.setdefault(mode.machine, []).append(mode)
    if len(by_machine) == len(modes):
        return modes
    planned = _planned_count(run, task)
    return [
        next((mode for mode in there if mode.count == planned), None) or _best(there, sizing)
        for there in by_machine.values()
    ]


def _best(modes: list[Mode], sizing: Sizing) -> Mode:
    least = min(mode.seconds for mode in modes)
    limit = least * _FRUGAL if sizing == "frugal" else least
    return next(mode for mode in modes if mode.seconds <= limit)


def _planned_count(run: RunView, task: int) -> int | None:
    """Return the planned node count of a task; None if it is not planned."""
    line = None if run.plan is None else run.plan.planned_tasks.get(task)
    return None if line is None else line.count


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePlacer:
    """Chooses machine and node count of a ready task.

    A task runs where it finishes first, transfers included (docs/papers/many-workflows.md, section 1), unless
    it has a rank, which then decides between the machines that are free now (``place_by_rank``). The view
    lists only machines that meet the requirements. Ties: lower machine index.
    """

    sizing: Sizing = "fastest"
    queue: bool = False
    """Whether busy machines are considered as well; the task then waits in the queue of the machine."""

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Return the placement of a ready task; None: no machine can run the task now."""
        ranked = place_by_rank(view, run, task, self.sizing)
        if ranked is not None and (ranked.place is not None or ranked.waits):
            return ranked.place
        modes = size_modes(run, task, view.modes(run, task, free=not self.queue), self.sizing)
        if not modes:
            return None
        best = earliest_finish(modes)
        return Place(
            run=run.index,
            task=task,
            machine=best.machine,
            count=best.count,
            queue=self.queue and best.nodes > 0,
            reason="earliest finish" if self.queue else "earliest finish of the free machines",
        )


class RankedPlacement(NamedTuple):
    """The decision about a task that has a rank expression."""

    place: Place | None
    """The machine on which the task runs; None: no machine now."""
    waits: bool
    """Whether the task waits for a busy machine, because that machine has the highest rank."""


def place_by_rank(
    view: View, run: RunView, task: int, sizing: Sizing, *, planned: PlannedTaskView | None = None
) -> RankedPlacement | None:
    """Return the placement of a task by its rank expression; None if it has none or is already bound.

    The value of the expression for a machine is the rank of the machine. Of the machines on which the task
    can start now, the one with the highest rank is chosen. If the expression uses the wait for a machine
    (``queue_s``), busy machines are compared too. If one of them has the highest rank, the task waits, and a
    new decision is made at the next event. Ties go to the ``planned`` machine, then to the earliest finish,
    then to the lower machine index. Machines without a rank come last. Nodes that queued tasks need do not
    count as free; on the planned machine only queued tasks with an earlier planned start count.
    """
    if (ranking := view.ranking(run, task)) is None or run.bound(task) is not None:
        return None
    free = size_modes(run, task, _list_unclaimed(view, run, task, planned), sizing)
    compared = size_modes(run, task, view.modes(run, task, free=False), sizing) if ranking.waits else free
    if not compared:
        return RankedPlacement(None, waits=False)
    values = ranking.values(compared, free=[mode.machine for mode in free])
    best, value = min(
        zip(compared, values, strict=True),
        key=lambda each: (*_by_rank(each[1]), *_by_plan(each[0], planned), each[0].machine),
    )
    now = next((mode for mode in free if mode.machine == best.machine), None)
    if now is None:
        return RankedPlacement(None, waits=True)
    among = "" if ranking.waits else " of the free machines"
    reason = f"highest rank{among}: {value:.6g}" if value is not None else f"no machine has a rank{among}"
    return RankedPlacement(
        Place(run=run.index, task=task, machine=now.machine, count=now.count, reason=reason), waits=False
    )


def _list_unclaimed(view: View, run: RunView, task: int, planned: PlannedTaskView | None) -> list[Mode]:
    """Return the modes in which a task can start now on nodes that queued tasks before it do not need."""
    found = []
    for mode in view.modes(run, task):
        own = planned is not None and mode.machine == planned.machine
        before = planned.start_s if planned is not None and own else None
        if view.machines[mode.machine].unclaimed_nodes(before) >= mode.nodes:
            found.append(mode)
    return found


def _by_plan(mode: Mode, planned: PlannedTaskView | None) -> tuple[bool, float]:
    """Return a sort key: the planned machine first, then the earliest finish."""
    return planned is None or mode.machine != planned.machine, mode.finish_s


def _by_rank(value: float | None) -> tuple[bool, float]:
    """Return a sort key: the highest rank first, machines without a rank last."""
    return value is None, 0.0 if value is None else -value


def earliest_finish(modes: list[Mode]) -> Mode:
    """Return the mode that finishes first; of equal modes the first in the list."""
    best = modes[0]
    for mode in modes:
        if mode.finish_s < best.finish_s:
            best = mode
    return best


def send_transfers(view: View) -> Iterator[Place]:
    """Yield a placement for every ready transfer that has a possible destination.

    Transfers take no nodes and are sent when they are ready. If the abstract machine of the destination is
    not bound yet, the transfer binds it for all tasks that use it (a static schedule dependency in
    docs/papers/dynamic-grid.md, section 13). The transfer goes to the machine on which the first of these
    tasks would finish first. This estimate includes the transfer, the load of the machine and the seconds of
    the task. Tasks that are bound to a machine but not sent yet count as load. Deviation: the paper considers
    the transfer alone; see the policy ``lazy``.
    """
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
    """Return the placement of a transfer on the machine where it arrives first; None: no destination."""
    arrivals = view.modes(run, task, free=False)
    return (
        _place_transfer(run, task, min(arrivals, key=_by_arrival), "shortest transfer") if arrivals else None
    )


def _send_ahead(view: View, run: RunView, task: int, follower: int) -> Place | None:
    """Return the placement of a transfer on the machine where task ``follower`` finishes first.

    If that task has a rank, the transfer goes to the free machine with the highest rank. None: there is no
    such machine.
    """
    if (ranked := place_by_rank(view, run, follower, "fastest")) is not None and ranked.place is not None:
        arrival = view.mode(run, task, ranked.place.machine, 0)
        if arrival is not None:
            return _place_transfer(run, task, arrival, "where the task behind it has the highest rank")
    ways: dict[int, Mode] = {}
    for mode in view.modes(run, follower, free=False):
        if (known := ways.get(mode.machine)) is None or mode.finish_s < known.finish_s:
            ways[mode.machine] = mode
    best: tuple[tuple[float, int], Mode] | None = None
    for machine, way in ways.items():
        if (arrival := view.mode(run, task, machine, 0)) is not None:
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
    """Return the first waiting compute task that uses the destination of a transfer; None: no such task."""
    graph = run.instance.graph
    for other in graph.successors(task).tolist():
        same = graph.kind[other] == COMPUTE and graph.variable[other] == graph.variable[task]
        if same and run.state(other) == "WAITING":
            return int(other)
    return None
