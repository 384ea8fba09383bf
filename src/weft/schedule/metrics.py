"""Metrics of schedules: eight of docs/papers/dynamic-grid.md (section 7), cost, used share, length ratio."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from weft.instance.instance import Instance
from weft.records import dataclass
from weft.schedule.bounds import heads
from weft.schedule.costs import schedule_cost, sequential_execution
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import TRANSFER, Indices


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The metrics of a schedule; the numbered metrics are those of Prodan and Fahringer.

    R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid, SAC 2005.
    Deviations: the paper's machines have one processor each. Here ``|M|`` is the number of nodes that the
    schedule holds at once, summed over its machines, and sequential execution counts by its node-seconds, so
    that efficiency and overhead also make sense for machines and tasks of several nodes. Metric 8 has no
    formula in the paper; ours is ``w*E + (1-w)*(1 - T/Const)`` with w = 0.5 and Const = twice the sequential
    time on the best machine of the platform, which is the same for all schedules of an instance.
    """

    makespan_s: float
    """Metric 1: finish of the last task."""
    sequential_s: float
    """Time of sequential execution on the machine of the schedule where it is fastest, without transfers."""
    speedup: float
    """Metric 2: sequential time divided by makespan."""
    efficiency: float
    """Metric 3: node-seconds of sequential execution divided by (makespan times the nodes used at once).

    Equal to speed-up divided by the number of used machines if machines and tasks have one node. Above 1 only
    if tasks run on machines where they are faster than on the best single machine, or use several nodes with
    a superlinear speed-up."""
    communication_s: float
    """Metric 4: seconds of transfers on the critical path."""
    synchronisation_s: float
    """Metric 5: seconds of waiting on the critical path."""
    overhead_s: float
    """Metric 6: makespan minus (node-seconds of sequential execution divided by the nodes used at once)."""
    lost_parallelism_s: float
    """Metric 7: overhead minus communication and synchronisation."""
    throughput: float
    """Metric 8: efficiency and time combined; higher is better."""
    cost: float
    """Price of all occupied node-seconds."""
    node_seconds: float
    used_share: float
    """Occupied node-seconds divided by those of the whole platform during the makespan, from 0 to 1."""
    idle_share: float
    length_ratio: float
    """Schedule length ratio: makespan over the critical path of fastest modes without communication."""
    machines_used: int
    nodes_used: int
    """Nodes that the schedule holds at once: the largest number on each machine, summed over machines."""


def critical_path(schedule: Schedule, instance: Instance, *, through_machines: bool = False) -> list[int]:
    """Return the tasks on the critical path, first task first.

    The path leads from the task that finishes last back to the predecessor whose data arrived last, and so
    on. With ``through_machines`` it leads to the previous task on the same machine if that task finished
    later, so that waiting for a busy machine is not counted as synchronisation.
    """
    return _CriticalTrace(schedule, instance).path(through_machines=through_machines)


class _CriticalTrace:
    """Traces a schedule backwards: from each task to the task for which it waited."""

    def __init__(self, schedule: Schedule, instance: Instance) -> None:
        self.schedule = schedule
        self.instance = instance
        self.reads_on = _reading_machines(schedule, instance)

    def path(self, *, through_machines: bool) -> list[int]:
        """Return the tasks on the critical path, first task first."""
        found = [int(np.argmax(self.schedule.finish_s))] if len(self.schedule) else []
        while found and (before := self._last_before(found[-1], through_machines)) is not None:
            found.append(before)
        return found[::-1]

    def moving_s(self, path: list[int]) -> float:
        """Return the seconds that data take along the edges of a path, without transfer tasks."""
        graph, total = self.instance.graph, 0.0
        for before, task in pairwise(path):
            first, end = int(graph.predecessor_pointer[task]), int(graph.predecessor_pointer[task + 1])
            position = first + int(np.searchsorted(graph.predecessor[first:end], before))
            if position < end and graph.predecessor[position] == before:
                total += self._edge_s(position, before, task)
        return total

    def _edge_s(self, edge: int, before: int, task: int) -> float:
        return self.instance.edge_s(edge, int(self.schedule.machine[before]), int(self.reads_on[task]))

    def _last_before(self, task: int, through_machines: bool) -> int | None:
        graph, finish = self.instance.graph, self.schedule.finish_s
        best: tuple[float, int] | None = None
        first = int(graph.predecessor_pointer[task])
        for edge, before in enumerate(graph.predecessors(task).tolist(), start=first):
            arrival = float(finish[before]) + self._edge_s(edge, before, task)
            if best is None or arrival > best[0]:
                best = (arrival, before)
        previous = self._previous_on_machine(task) if through_machines else None
        if previous is not None and (best is None or finish[previous] > best[0]):
            return previous
        return None if best is None else best[1]

    def _previous_on_machine(self, task: int) -> int | None:
        """Return the task on the same machine that finished last before ``task`` started, or None."""
        schedule = self.schedule
        if schedule.nodes[task] == 0:
            return None
        same = (schedule.machine == schedule.machine[task]) & (schedule.nodes > 0)
        start = schedule.start_s[task]
        # Require an earlier start, or tasks of 0 seconds would form a cycle.
        found = np.flatnonzero(same & (schedule.finish_s <= start) & (schedule.start_s < start))
        return int(found[np.argmax(schedule.finish_s[found])]) if len(found) else None


def _reading_machines(schedule: Schedule, instance: Instance) -> Indices:
    """Return the machine on which each task reads its inputs; a transfer reads at its source."""
    graph, machines = instance.graph, schedule.machine.copy()
    moving = graph.kind == TRANSFER
    machines[moving] = instance.bind_variables(schedule.machine)[graph.source_variable[moving]]
    return machines


def measure_schedule(
    schedule: Schedule,
    instance: Instance,
    *,
    through_machines: bool = False,
    constant_s: float | None = None,
    weight: float = 0.5,
) -> Metrics:
    """Return the metrics of a schedule.

    ``constant_s`` and ``weight`` are Const and w in the formula of the throughput (see ``Metrics``). If
    ``constant_s`` is None, it is twice the sequential time on the best machine of the platform.
    """
    graph, makespan = instance.graph, schedule.makespan_s
    trace = _CriticalTrace(schedule, instance)
    path = trace.path(through_machines=through_machines)
    spent = schedule.finish_s - schedule.start_s
    computing = float(sum(spent[task] for task in path if graph.kind[task] != TRANSFER))
    communicating = float(sum(spent[task] for task in path if graph.kind[task] == TRANSFER))
    communicating += trace.moving_s(path)
    used_machines = np.unique(schedule.machine[schedule.nodes > 0])
    one_by_one = sequential_execution(instance, used_machines)
    at_once = nodes_at_once(schedule, instance)
    shared_s = one_by_one.node_seconds / max(1, at_once)
    efficiency = shared_s / makespan if makespan > 0 else 1.0
    overhead = makespan - shared_s
    synchronising = makespan - computing - communicating
    node_seconds = spent * schedule.nodes
    available = float(instance.capacity.sum()) * makespan
    used = float(node_seconds.sum()) / available if available > 0 else 0.0
    shortest = _critical_length_s(instance)
    constant = 2 * sequential_execution(instance).time_s if constant_s is None else constant_s
    return Metrics(
        makespan_s=makespan,
        sequential_s=one_by_one.time_s,
        speedup=one_by_one.time_s / makespan if makespan > 0 else 1.0,
        efficiency=efficiency,
        communication_s=communicating,
        synchronisation_s=synchronising,
        overhead_s=overhead,
        lost_parallelism_s=overhead - communicating - synchronising,
        throughput=weight * efficiency + (1 - weight) * (1 - makespan / constant if constant > 0 else 1.0),
        cost=schedule_cost(schedule, instance),
        node_seconds=float(node_seconds.sum()),
        used_share=used,
        idle_share=1.0 - used if available > 0 else 0.0,
        length_ratio=makespan / shortest if shortest > 0 else 1.0,
        machines_used=len(used_machines),
        nodes_used=at_once,
    )


def nodes_at_once(schedule: Schedule, instance: Instance) -> int:
    """Return the sum over machines of the largest number of nodes that a schedule holds at once."""
    holding = np.flatnonzero((schedule.nodes > 0) & (schedule.finish_s > schedule.start_s))
    machine, nodes = schedule.machine[holding], schedule.nodes[holding].astype(np.int64)
    times = np.concatenate([schedule.start_s[holding], schedule.finish_s[holding]])
    change, where = np.concatenate([nodes, -nodes]), np.concatenate([machine, machine])
    # By machine, then time; nodes are released before others are taken at the same time.
    order = np.lexsort((change, times, where))
    most = np.zeros(len(instance.machines), dtype=np.int64)
    np.maximum.at(most, where[order], np.cumsum(change[order]))
    # Rounding errors of times can make consecutive tasks seem to overlap.
    limited = np.where(instance.unlimited, most, np.minimum(most, instance.capacity))
    return max(int(limited.sum()), schedule.machines_used)


def _critical_length_s(instance: Instance) -> float:
    shortest = instance.shortest_s()
    return float((heads(instance.graph, shortest, np.zeros(len(instance))) + shortest).max(initial=0.0))
