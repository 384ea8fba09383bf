"""Binding of tasks to the machines that their rank expressions will choose.

A task may have a rank, an expression over the properties of a machine. During a run it is evaluated when the
task is dispatched: of the machines that are free at that time, the one with the highest value is used
(``policies/placement.py``). ``bind_by_rank`` predicts this choice. It walks through a schedule in the order
of time and binds each task with a rank to the machine with the highest value among those that are free beside
the tasks placed before. All other tasks keep machine, node count and order; the times are computed again. The
plan that is shown is therefore the one that a run follows if the estimates are exact.

For measured properties, the values of idle machines are used (``platform.arrays.idle_columns``). The walk
counts nodes, not resources; the decoder counts both. Complexity: O(v m + v log v) for v tasks and m machines.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance, TaskModes
from weft.instance.preferences import MachinePreference
from weft.planners.decoding import decode, encode_schedule
from weft.planners.planner import Plan, Planner, PlanRequest, RankChoice
from weft.platform.arrays import idle_columns, machine_columns
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats

_MOST_WALKS = 4


def make_plan(planner: Planner, request: PlanRequest, *, besides: Collection[str] = ()) -> Plan:
    """Return the plan of a planner, with tasks that have a rank on the machines that their ranks will choose.

    ``besides`` names tasks that stay on the machine that the planner chose.
    """
    made = planner.plan(request)
    schedule, choices = bind_by_rank(request.instance, made.schedule, besides=besides)
    return replace(made, schedule=schedule, ranked=tuple(choices)) if choices else made


def bind_by_rank(
    instance: Instance, schedule: Schedule, *, besides: Collection[str] = ()
) -> tuple[Schedule, list[RankChoice]]:
    """Return the schedule with the machines that ranks choose, and the choices.

    If no task has a rank, the given schedule and no choices are returned. The new starts may change the order
    in which tasks that are ready at the same time choose. The choices are therefore made again until
    nothing changes, a few times at most. ``besides`` names tasks whose ranks are ignored.
    """
    choices: list[RankChoice] = []
    if not any(task.rank is not None for task in instance.graph.workflow.tasks):
        return schedule, choices
    for _ in range(_MOST_WALKS):
        walk = _ScheduleWalk(instance, schedule, besides)
        if not walk.open:
            return schedule, choices
        walk.run()
        before, choices = schedule, walk.choices
        bound = np.array(walk.bound, dtype=np.uint32)
        schedule = decode(instance, np.array(walk.order, dtype=np.uint32), bound, walk.modes)
        if np.array_equal(before.machine, schedule.machine) and np.array_equal(
            before.start_s, schedule.start_s
        ):
            break
    return schedule, choices


class _ScheduleWalk:
    """One pass through a schedule in the order of time."""

    def __init__(self, instance: Instance, schedule: Schedule, besides: Collection[str]) -> None:
        graph = instance.graph
        self.instance = instance
        self.before_s: list[float] = schedule.start_s.tolist()
        """Planned start of each task."""
        genome = encode_schedule(instance, schedule)
        self.modes, self.bound = genome.modes.copy(), genome.bound.tolist()
        self.finish_s = [0.0] * len(graph)
        self.order: list[int] = []
        self.choices: list[RankChoice] = []
        self.ranked = {
            task
            for task in np.flatnonzero((graph.kind == COMPUTE) & (instance.group >= 0)).tolist()
            if graph.description(task).rank is not None and graph.names[task] not in besides
        }
        self.open = {int(graph.variable[task]) for task in self.ranked} - instance.pinned.keys()
        """Binding variables whose machine will be decided by a rank later in the walk."""
        self.nodes = _FreeNodes(instance)
        self._stated = machine_columns(instance.machines)
        self._idle = idle_columns(instance.machines)
        self._preferences: dict[object, MachinePreference] = {}
        self._constant: dict[MachinePreference, list[float | None]] = {}
        """Values for all machines, by rank; only ranks whose values do not change during the walk."""

    def run(self) -> None:
        """Place each task at its planned start, or later if its predecessors have not ended by then.

        A task whose rank decides its machine does not wait for its planned start.
        """
        graph, earliest_s = self.instance.graph, self.instance.earliest_start_s
        missing = np.diff(graph.predecessor_pointer).tolist()
        heap: list[tuple[float, float, int]] = []

        def offer(task: int) -> None:
            ends = [self.finish_s[before] for before in graph.predecessors(task).tolist()]
            ready_s = max([*ends, float(earliest_s[task])])
            due_s = ready_s if self._is_open(task) else max(ready_s, self.before_s[task])
            heapq.heappush(heap, (due_s, self.before_s[task], task))

        for task in [task for task, count in enumerate(missing) if not count]:
            offer(task)
        while heap:
            at_s, planned_s, task = heapq.heappop(heap)
            if (again_s := self._place(task, at_s)) is not None:
                heapq.heappush(heap, (again_s, planned_s, task))
                continue
            self.order.append(task)
            for successor in graph.successors(task).tolist():
                missing[successor] -= 1
                if not missing[successor]:
                    offer(successor)

    def _is_open(self, task: int) -> bool:
        """Return whether the rank of a task decides its machine, but the machine is not chosen yet."""
        return task in self.ranked and int(self.instance.graph.variable[task]) in self.open

    def _place(self, task: int, at_s: float) -> float | None:
        """Place a task that is ready at ``at_s`` and return None.

        If the task has to wait, return the time at which to try again.
        """
        graph, variable = self.instance.graph, int(self.instance.graph.variable[task])
        if graph.kind[task] == TRANSFER:
            self._send(task, variable, at_s)
        elif graph.kind[task] != COMPUTE or self.instance.group[task] < 0:
            self.finish_s[task] = at_s
        else:
            if self._is_open(task) and (again_s := self._choose(task, at_s)) is not None:
                return again_s
            self.open.discard(variable)
            self._occupy(task, self.bound[variable], at_s)
        return None

    def _send(self, task: int, variable: int, at_s: float) -> None:
        """Place a transfer.

        If its destination is not chosen yet, the rank of the task that reads the data chooses it.
        """
        graph = self.instance.graph
        if variable in self.open:
            behind = (other for other in graph.successors(task).tolist() if self._is_open(other))
            follower = next((other for other in behind if int(graph.variable[other]) == variable), None)
            if follower is not None:
                self._choose(follower, at_s)
            self.open.discard(variable)
        source = self.bound[int(graph.source_variable[task])]
        self.finish_s[task] = at_s + self.instance.transfer_s(task, source, self.bound[variable])

    def _choose(self, task: int, at_s: float) -> float | None:
        """Bind a task to the machine with the highest rank value and return None.

        If no machine is free, or the best machine is busy, return the time at which to try again.
        """
        modes, variable = self.instance.modes(task), int(self.instance.graph.variable[task])
        rows = self._sized_modes(task, modes)
        preference = self._preference(task)
        waits_s = self.nodes.waits_s(modes.machine[rows], modes.nodes[rows], at_s)
        if not preference.waits:
            free = waits_s <= 0.0
            if not free.any():
                return at_s + float(waits_s.min())
            rows, waits_s = rows[free], waits_s[free]
        values = self._values(task, preference, modes, rows, waits_s, at_s)
        best = self._find_best(values, modes, rows, waits_s, self.bound[variable])
        if waits_s[best] > 0.0:
            return at_s + float(waits_s[best])
        self.modes[task], self.bound[variable] = rows[best], int(modes.machine[rows[best]])
        graph = self.instance.graph
        choice = RankChoice(
            task=graph.names[task],
            machine=self.instance.machines[self.bound[variable]].name,
            rank=str(graph.description(task).rank),
            value=values[best],
        )
        self.choices.append(choice)
        return None

    def _sized_modes(self, task: int, modes: TaskModes) -> NDArray[np.intp]:
        """Return one row of ``modes`` per machine: the planned node count, or else the fastest mode."""
        rows = np.arange(len(modes))
        if len(np.unique(modes.machine)) == len(modes):
            return rows
        other = modes.count != modes.count[int(self.modes[task])]
        order = np.lexsort((modes.seconds, other, modes.machine))
        _, first = np.unique(modes.machine[order], return_index=True)
        return rows[order[first]]

    def _preference(self, task: int) -> MachinePreference:
        graph = self.instance.graph
        rank, context = graph.description(task).rank, graph.context(task)
        assert rank is not None
        key = (str(rank), tuple((name, repr(context[name])) for name in rank.names if name in context))
        if key not in self._preferences:
            self._preferences[key] = MachinePreference(rank, self._stated, context)
        return self._preferences[key]

    def _values(
        self,
        task: int,
        preference: MachinePreference,
        modes: TaskModes,
        rows: NDArray[np.intp],
        waits_s: Floats,
        at_s: float,
    ) -> list[float | None]:
        """Return the rank value at ``at_s`` of each mode in ``rows``; None if the rank gives no number."""
        machines = modes.machine[rows].tolist()
        if not preference.live:
            if preference not in self._constant:
                every = range(len(self.instance.machines))
                self._constant[preference] = preference.numbers(every, {})
            return [self._constant[preference][machine] for machine in machines]
        live: dict[str, NDArray[Any]] = {}
        for name in preference.live:
            if name == "seconds":
                live[name] = modes.seconds[rows]
            elif name == "queue_s":
                live[name] = waits_s
            elif name == "transfer_s":
                live[name] = np.array([self._ready_s(task, machine, at_s) - at_s for machine in machines])
            elif name == "free_nodes":
                live[name] = np.array([self.nodes.free(machine, at_s) for machine in machines])
            else:
                live[name] = self._idle[name][machines]
        return preference.numbers(machines, live)

    def _find_best(
        self,
        values: list[float | None],
        modes: TaskModes,
        rows: NDArray[np.intp],
        waits_s: Floats,
        planned: int,
    ) -> int:
        """Return the position of the highest rank value.

        Ties go to the planned machine, then to the earliest end, then to the lower index.
        """
        ends_s = (waits_s + modes.seconds[rows]).tolist()
        machines = modes.machine[rows].tolist()
        keys = [
            (value is None, -(value or 0.0), machine != planned, end_s, machine)
            for value, machine, end_s in zip(values, machines, ends_s, strict=True)
        ]
        return keys.index(min(keys))

    def _ready_s(self, task: int, machine: int, at_s: float) -> float:
        """Return when the data of a task have arrived on a machine if their transfer starts at ``at_s``."""
        graph, ready_s = self.instance.graph, at_s
        first = int(graph.predecessor_pointer[task])
        for edge, before in enumerate(graph.predecessors(task).tolist(), start=first):
            place = self.bound[int(graph.variable[before])]
            ready_s = max(ready_s, at_s + self.instance.edge_s(edge, place, machine))
        return ready_s

    def _occupy(self, task: int, machine: int, at_s: float) -> None:
        """Place a compute task on its machine as early as possible."""
        modes, row = self.instance.modes(task), int(self.modes[task])
        if int(modes.machine[row]) != machine:  # its abstract machine was bound to another one
            sized = self._sized_modes(task, modes)
            row = int(sized[np.flatnonzero(modes.machine[sized] == machine)[0]])
            self.modes[task] = row
        nodes = int(modes.nodes[row])
        wait_s = float(self.nodes.waits_s(modes.machine[[row]], modes.nodes[[row]], at_s)[0])
        start_s = max(at_s + wait_s, self._ready_s(task, machine, at_s))
        self.finish_s[task] = start_s + float(modes.seconds[row])
        self.nodes.take(machine, nodes, self.finish_s[task])


class _FreeNodes:
    """The free nodes of the machines; successive calls must have ascending times."""

    def __init__(self, instance: Instance) -> None:
        self._capacity: list[int] = instance.capacity.tolist()
        self._unlimited: list[bool] = instance.unlimited.tolist()
        self._single = (instance.capacity == 1) & ~instance.unlimited
        self._until_s = np.zeros(len(self._capacity))
        """Time from which a machine of one node is free."""
        self._busy: list[list[tuple[float, int]]] = [[] for _ in self._capacity]
        """By machine of several nodes: a heap of (end, nodes) of the tasks placed on it."""
        for interval in instance.busy:
            self.take(interval.machine, interval.nodes, interval.finish_s)

    def take(self, machine: int, nodes: int, until_s: float) -> None:
        """Allocate nodes until a time."""
        if self._single[machine]:
            self._until_s[machine] = max(self._until_s[machine], until_s)
        elif not self._unlimited[machine]:
            heapq.heappush(self._busy[machine], (until_s, nodes))

    def free(self, machine: int, at_s: float) -> int:
        """Return the number of free nodes of a machine at ``at_s``."""
        if self._unlimited[machine]:
            return self._capacity[machine]
        if self._single[machine]:
            return int(self._until_s[machine] <= at_s)
        busy = self._busy[machine]
        while busy and busy[0][0] <= at_s:
            heapq.heappop(busy)
        return self._capacity[machine] - sum(taken for _, taken in busy)

    def waits_s(self, machines: NDArray[Any], nodes: NDArray[Any], at_s: float) -> Floats:
        """Return for each machine the seconds from ``at_s`` until enough nodes are free.

        ``nodes`` is the number of nodes needed on each machine.
        """
        found: Floats = np.maximum(0.0, self._until_s[machines] - at_s)
        for row in np.flatnonzero(~self._single[machines]).tolist():
            found[row] = self._wait_s(int(machines[row]), int(nodes[row]), at_s)
        return found

    def _wait_s(self, machine: int, nodes: int, at_s: float) -> float:
        if (free := self.free(machine, at_s)) >= nodes:
            return 0.0
        for end_s, taken in sorted(self._busy[machine]):
            free += taken
            if free >= nodes:
                return end_s - at_s
        return 0.0
