"""CPOP: critical path on a processor.

All tasks of the critical path go to the one machine that runs them in the least time; of the ready tasks the
one with the longest way through it comes first, and all others go where they finish first, into a gap if one
is long enough. H. Topcuoglu, S. Hariri, M.-Y. Wu, Performance-Effective and Low-Complexity Task Scheduling
for Heterogeneous Computing, IEEE TPDS 13(3), 2002, section 4.2.

Deviations: communication is averaged over pairs of *different* machines. There may be several entry tasks;
the critical path begins at the one of the highest upward rank and goes on with the successor that makes the
rank what it is. If no machine can run the whole path, the one that can run most of its tasks is taken, and
the others count as not critical. Tasks of one abstract machine follow the first of them that is placed, so
that those of a critical task are where it will be; a moldable task counts with its fastest node count on a
machine and takes the smallest that ends within 5 % of its earliest finish.

Complexity O((v + e) log v + e l + v k log g) for v tasks, e edges, l network locations, k modes that are
looked at per task and g gaps per machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.list_planner import FRUGAL, make_rule, place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.ranks import downward_ranks, least_seconds, mean_communication_s, ready_order, upward_ranks
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool
from weft.workflow.task_graph import COMPUTE, Floats, Indices

__all__ = ["Cpop", "critical_tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpop:
    """Keeps the critical path on one machine."""

    name: ClassVar[str] = "cpop"
    title: ClassVar[str] = "CPOP, the critical path on one machine (Topcuoglu et al. 2002)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("CPOP", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Compute priorities, bind the critical path to a machine, place the others as HEFT does."""
        upward = upward_ranks(instance)
        order = ready_order(instance, upward + downward_ranks(instance))
        bound = _bound(instance, critical_tasks(instance, upward))
        schedule = place(instance, order, rule=make_rule(factor=FRUGAL), bound=bound)
        return Plan(schedule=schedule, steps=1)


def critical_tasks(instance: Instance, upward: Floats) -> list[int]:
    """Follow the longest way through the graph from its first task to its last."""
    graph = instance.graph
    communication = mean_communication_s(instance)
    entries = np.flatnonzero(np.diff(graph.predecessor_pointer) == 0)
    path = [int(entries[np.argmax(upward[entries])])]
    while True:
        task = path[-1]
        edges = slice(int(graph.successor_pointer[task]), int(graph.successor_pointer[task + 1]))
        following = graph.successor[edges]
        if not len(following):
            return path
        ways = communication[graph.successor_edge[edges]] + upward[following]
        path.append(int(following[np.argmax(ways)]))


def _bound(instance: Instance, path: list[int]) -> Indices:
    """Bind the variables of the critical tasks to their machine; all others are left open."""
    graph, machines = instance.graph, len(instance.machines)
    bound = np.full(len(graph.variables), machines, dtype=np.uint32)
    critical = [task for task in path if graph.kind[task] == COMPUTE]
    totals, runnable = np.zeros(machines), np.zeros(machines, dtype=np.int64)
    for task in critical:
        seconds = _seconds(instance, task)
        possible = np.isfinite(seconds)
        totals[possible] += seconds[possible]
        runnable += possible
    chosen = int(np.lexsort((np.arange(machines), totals, -runnable))[0])
    for task in critical:
        if np.isfinite(_seconds(instance, task)[chosen]):
            bound[graph.variable[task]] = chosen
    return bound


def _seconds(instance: Instance, task: int) -> Floats:
    """Give the least seconds of a task per machine; infinite where it cannot run or must not."""
    seconds = least_seconds(instance, task)
    pinned = instance.pinned.get(int(instance.graph.variable[task]))
    if pinned is not None:
        seconds[np.arange(len(seconds)) != pinned] = np.inf
    return seconds
