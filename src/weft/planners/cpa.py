"""Allotments: how many nodes every task should have, before anybody says when and where it runs.

What tasks can take is written down as *ways*: a node count, its seconds, and the share of the platform it
takes. A machine k of P_k nodes has room for P_k / r_k tasks that take r_k nodes, and ends P_k / (r_k t_k)
of them a second if each takes t_k. So the whole platform is taken for 1 / sum of P_k / (r_k t_k) seconds by
one task, whose seconds are in the mean sum of P_k / r_k times that; on one machine they are r t / P and t.
Where a machine does not allow a count, its next smaller one counts instead (or its smallest). Counts that
are not faster than a smaller one are left out.

CPA: critical path and area.

First every task gets the node count with which the critical path is as long as all node-seconds take on the
whole platform; then tasks are placed in order of descending bottom level. A. Radulescu, A. J. C. van
Gemund, A Low-Cost Approach towards Mixed Task and Data Parallel Scheduling, ICPP 2001, section 3.

Deviations: a task takes its next allowed count that is faster, where the paper adds one node; on several
machines counts are found on the platform as a whole (``allotments``) and each task goes where it ends first
with its count; placement uses gaps. Communication counts with its mean. On one machine whose tasks may take
any count the allotment is the published one.

Complexity: that of the allotment (``weft.kernels.moldable_placement``), then as HEFT with one count per
task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.instance import Instance, ModeGroup
from weft.kernels import compilation
from weft.kernels.moldable_placement import AllotmentModes, CriticalPaths, allot_nodes
from weft.kernels.problem import ProblemArrays
from weft.planners.list_planner import place
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only
from weft.planners.problem import ModeSubset, compile_problem, restrict_modes
from weft.planners.ranks import mean_communication_s, mean_seconds, order_by_rank
from weft.schedule.objective import Objective
from weft.search.pool import INLINE_POOL, Pool
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

__all__ = ["Allotment", "Cpa", "plan_allotment", "restrict_to_counts"]


_ELEMENT_S, _MEASURED = 0.3e-6, 0.1
"""What a task or an edge takes in plain Python, about, and how often all are measured per way."""


class Allotment(NamedTuple):
    """What every task has been given."""

    counts: Indices
    """Per task: node count; 1 for transfers and virtual tasks."""
    bottom_s: Floats
    """Per task: seconds from its start to the end of the workflow, if nothing waits."""


def plan_allotment(instance: Instance) -> Allotment:
    """Give nodes to the tasks of the critical path until it is no longer than the average area (CPA)."""
    ways, count = _ways(instance)
    tasks, number = compile_problem(instance).tasks, len(instance)
    way = np.zeros(number, dtype=np.uint32)
    paths = CriticalPaths(
        bottom=np.zeros(number),
        follower=np.zeros(number, dtype=np.uint32),
        heap=np.zeros(number, dtype=np.uint32),
        loss=np.zeros(number),
        rank=np.zeros(number, dtype=np.uint32),
    )
    compilation.run_kernel(
        allot_nodes,
        (tasks, ways, mean_communication_s(instance)),
        (way, paths),
        work_s=_ELEMENT_S * (number + instance.graph.edge_count) * (1 + _MEASURED * (len(count) - number)),
    )
    return Allotment(counts=count[way], bottom_s=paths.bottom)


def restrict_to_counts(instance: Instance, count: Indices) -> ProblemArrays:
    """Give the problem in which tasks take their counts, on each machine the nearest that is not above."""
    parts: list[ModeSubset] = []
    for index, group in enumerate(instance.groups):
        counts, number = np.unique(count[group.tasks], return_inverse=True)
        places = _modes_by_count(group, counts)
        parts.extend(
            ModeSubset(group=index, tasks=group.tasks[number == row], modes=places[row])
            for row in range(len(counts))
        )
    return restrict_modes(compile_problem(instance), parts)


def _ways(instance: Instance) -> tuple[AllotmentModes, Indices]:
    """Give the ways of all tasks, and the count of each way."""
    graph = instance.graph
    others = np.flatnonzero(graph.kind != COMPUTE)
    waiting_s = mean_seconds(instance)[others] if (graph.kind == TRANSFER).any() else np.zeros(len(others))
    task, count = [others], [np.ones(len(others), dtype=np.int64)]
    seconds, share = [waiting_s], [np.zeros(len(others))]
    for group in instance.groups:
        counts = np.unique(group.count)
        places = _modes_by_count(group, counts)
        room = (instance.capacity[group.machine] / group.nodes)[places]
        crowded = not instance.unlimited[group.machine].any()
        for members, every in group.chunks():
            spent, taken = _means(every[:, places], room)
            kept = np.ones(spent.shape, dtype=bool)
            kept[:, 1:] = spent[:, 1:] < np.minimum.accumulate(spent, axis=1)[:, :-1]
            row, column = np.nonzero(kept)
            task.append(members[row].astype(np.int64))
            count.append(counts[column].astype(np.int64))
            seconds.append(spent[kept])
            share.append(taken[kept] if crowded else np.zeros(len(row)))
    return _join_ways(
        len(graph),
        np.concatenate(task),
        np.concatenate(count),
        np.concatenate(seconds),
        np.concatenate(share),
    )


def _means(every: Floats, room: Floats) -> tuple[Floats, Floats]:
    """Give mean seconds and shares (tasks x counts) of seconds per machine (tasks x counts x machines)."""
    with np.errstate(divide="ignore"):  # a task of no seconds takes nothing
        share = 1.0 / (room / every).sum(axis=2)
    one_machine = every.shape[2] == 1
    return every[:, :, 0] if one_machine else room.sum(axis=1) * share, share


def _join_ways(
    tasks: int, task: NDArray[np.int64], count: NDArray[np.int64], seconds: Floats, share: Floats
) -> tuple[AllotmentModes, Indices]:
    """Put the ways in the order of tasks, and say what the next one is worth: time per node it saves."""
    order = np.argsort(task, kind="stable")
    count, seconds, share = count[order], seconds[order], share[order]
    per_node = seconds / count
    gain = np.append(per_node[:-1] - per_node[1:], 0.0)
    first = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=tasks))])
    ways = AllotmentModes(first=first.astype(np.uint32), seconds=seconds, share=share, gain=gain)
    return ways, count.astype(np.uint32)


def _modes_by_count(group: ModeGroup, counts: Indices) -> NDArray[np.int64]:
    """Give counts x machines: the mode of the largest count that is not above, else of the smallest."""
    _, first = np.unique(group.machine, return_index=True)
    last = np.append(first[1:], len(group))
    columns = [
        begin + np.maximum(np.searchsorted(group.count[begin:end], counts, side="right") - 1, 0)
        for begin, end in zip(first.tolist(), last.tolist(), strict=True)
    ]
    return np.stack(columns, axis=1).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpa:
    """Balances the longest path against the room there is."""

    name: ClassVar[str] = "cpa"
    title: ClassVar[str] = "CPA, node counts by critical path and area (Radulescu and van Gemund 2001)"

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve the makespan, where no budget has to be kept."""
        return check_makespan_only("CPA", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,  # noqa: ARG002
        budget: Budget,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Allot, then place."""
        allotment = plan_allotment(instance)
        order = order_by_rank(allotment.bottom_s)
        try:
            schedule = place(instance, order, problem=restrict_to_counts(instance, allotment.counts))
        except Infeasible:
            # Beside what is busy for ever only a smaller count may fit.
            return Plan(schedule=place(instance, order), steps=2)
        return Plan(schedule=schedule, steps=1)
