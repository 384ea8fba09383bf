"""CPOP: critical path on a processor."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import FRUGAL, ListPlanner, make_rule, place_tasks
from weft.planners.ranks import downward_ranks, least_seconds, mean_communication_s, ready_order, upward_ranks
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices


class Cpop(ListPlanner):
    """Places the critical path on one machine, and all other tasks by earliest finish.

    All tasks of the critical path go to the one machine that runs them in the least time. Of the ready tasks
    the one with the longest path through it comes first; tasks off the critical path go where they finish
    first, in a gap if one is long enough. H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-Effective and
    Low-Complexity Task Scheduling for Heterogeneous Computing, IEEE TPDS 13(3), 2002, section 4.2.

    Deviations: there may be several entry tasks; the critical path begins at the entry task of the highest
    upward rank and continues with the successor that determines the rank. If no machine can run the whole
    path, the machine that can run most tasks of the path is taken, and the other tasks of the path count as
    not critical. The machine is chosen by the fastest modes of moldable tasks; each of these tasks then takes
    the smallest node count that ends within 5 % of its earliest finish. Complexity
    O((v + e) log v + e l + v k log g).
    """

    name = "cpop"
    title = "CPOP, the critical path on one machine (Topcuoglu et al. 2002)"
    label = "CPOP"

    def schedule(self, instance: Instance) -> Schedule:
        """Bind the critical path to one machine, then place all tasks by priority where they finish first."""
        upward = upward_ranks(instance)
        order = ready_order(instance, upward + downward_ranks(instance))
        bound = _bind_critical_path(instance, critical_tasks(instance, upward))
        return place_tasks(instance, order, rule=make_rule(factor=FRUGAL), bound=bound)


def critical_tasks(instance: Instance, upward: Floats) -> list[int]:
    """Return the tasks of the longest path from an entry task to an exit task, given the upward ranks."""
    graph = instance.graph
    communication = mean_communication_s(instance)
    entries = np.flatnonzero(np.diff(graph.predecessor_pointer) == 0)
    path = [int(entries[np.argmax(upward[entries])])]
    while True:
        task = path[-1]
        edges = slice(int(graph.successor_pointer[task]), int(graph.successor_pointer[task + 1]))
        successors = graph.successor[edges]
        if not len(successors):
            return path
        lengths = communication[graph.successor_edge[edges]] + upward[successors]
        path.append(int(successors[np.argmax(lengths)]))


def _bind_critical_path(instance: Instance, path: list[int]) -> Indices:
    """Return the machine of each variable: one machine for all critical tasks that it can run.

    ``len(machines)`` stands for variables that are not bound.
    """
    graph, machines = instance.graph, len(instance.machines)
    bound = np.full(len(graph.variables), machines, dtype=np.uint32)
    critical = [task for task in path if graph.kind[task] == COMPUTE]
    totals, runnable = np.zeros(machines), np.zeros(machines, dtype=np.int64)
    for task in critical:
        seconds = _allowed_seconds(instance, task)
        possible = np.isfinite(seconds)
        totals[possible] += seconds[possible]
        runnable += possible
    chosen = int(np.lexsort((np.arange(machines), totals, -runnable))[0])
    for task in critical:
        if np.isfinite(_allowed_seconds(instance, task)[chosen]):
            bound[graph.variable[task]] = chosen
    return bound


def _allowed_seconds(instance: Instance, task: int) -> Floats:
    """Return the least seconds of a task per machine; infinity where it cannot run or is pinned elsewhere."""
    seconds = least_seconds(instance, task)
    if (pinned := instance.pinned.get(int(instance.graph.variable[task]))) is not None:
        seconds[np.arange(len(seconds)) != pinned] = np.inf
    return seconds
