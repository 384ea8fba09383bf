"""CPA: critical path and area."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible
from weft.instance.instance import Instance, ModeGroup
from weft.kernels import compilation
from weft.kernels.moldable_placement import AllotmentModes, CriticalPaths, allot_nodes
from weft.kernels.problem import ProblemArrays, make_arrays
from weft.planners.list_planner import place_tasks
from weft.planners.planner import BasePlanner, Plan, PlanRequest
from weft.planners.problem import ModeSubset, compile_problem, restrict_modes
from weft.planners.ranks import mean_communication_s, mean_seconds, order_by_rank
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

_ELEMENT_S, _PASSES_PER_COUNT = 0.3e-6, 0.1
"""Approximate seconds per task or edge in plain Python; passes over the graph per added node count."""


class Cpa(BasePlanner):
    """Chooses node counts by critical path and area, then places tasks by descending bottom level.

    First the tasks of the critical path get more nodes, one task at a time, until the path is no longer than
    the average area: the node-seconds of all tasks divided by all nodes. Then tasks are placed by descending
    bottom level. A. Radulescu, A. J. C. van Gemund, A Low-Cost Approach towards Mixed Task and Data Parallel
    Scheduling, ICPP 2001, section 3.

    Deviations: a task takes its next allowed count that is faster, where the paper adds one node. On several
    machines a count has one duration and one area for the platform as a whole (``_mean_duration``), and each
    task goes where it ends first with its count. Placement uses gaps. Communication takes its mean time. On
    one machine whose tasks may take any count the allotment is the published one.

    Complexity: that of the allotment (``weft.kernels.moldable_placement``), then as HEFT with one count per
    task.
    """

    name = "cpa"
    title = "CPA, node counts by critical path and area (Radulescu and van Gemund 2001)"
    label = "CPA"

    def plan(self, request: PlanRequest) -> Plan:
        """Choose a node count for every task, then place the tasks by descending bottom level."""
        instance = request.instance
        allotment = plan_allotment(instance)
        order = order_by_rank(allotment.bottom_s)
        try:
            problem = restrict_to_counts(instance, allotment.counts)
            return Plan(schedule=place_tasks(instance, order, problem=problem), steps=1)
        except Infeasible:
            # If nodes are busy for ever, only a smaller count may fit.
            return Plan(schedule=place_tasks(instance, order), steps=2)


class Allotment(NamedTuple):
    """The node count and the bottom level of every task."""

    counts: Indices
    """Per task: node count; 1 for transfers and virtual tasks."""
    bottom_s: Floats
    """Per task: seconds from its start to the end of the workflow without waiting (the bottom level)."""


def plan_allotment(instance: Instance) -> Allotment:
    """Return the node count and the bottom level of every task.

    The tasks of the critical path get more nodes until the path is no longer than the average area.
    """
    options, count = _list_counts(instance)
    tasks, number = compile_problem(instance).tasks, len(instance)
    chosen = np.zeros(number, dtype=np.uint32)
    paths = make_arrays(CriticalPaths, number)
    compilation.run_kernel(
        allot_nodes,
        (tasks, options, mean_communication_s(instance)),
        (chosen, paths),
        work_s=_ELEMENT_S
        * (number + instance.graph.edge_count)
        * (1 + _PASSES_PER_COUNT * (len(count) - number)),
    )
    return Allotment(counts=count[chosen], bottom_s=paths.bottom)


def restrict_to_counts(instance: Instance, count: Indices) -> ProblemArrays:
    """Return the problem in which each task has one mode per machine, chosen by its node count in ``count``.

    If a machine does not allow the count, the task has the mode of the next smaller count there, or else of
    the smallest count.
    """
    parts: list[ModeSubset] = []
    for index, group in enumerate(instance.groups):
        counts, number = np.unique(count[group.tasks], return_inverse=True)
        modes = _modes_by_count(group, counts)
        parts.extend(
            ModeSubset(group=index, tasks=group.tasks[number == row], modes=modes[row])
            for row in range(len(counts))
        )
    return restrict_modes(compile_problem(instance), parts)


def _list_counts(instance: Instance) -> tuple[AllotmentModes, Indices]:
    """Return the options of all tasks, and the node count of each option.

    An option is a node count that is faster than all smaller ones; it has a duration and an area.
    """
    graph = instance.graph
    others = np.flatnonzero(graph.kind != COMPUTE)
    other_s = mean_seconds(instance)[others] if (graph.kind == TRANSFER).any() else np.zeros(len(others))
    task, count = [others], [np.ones(len(others), dtype=np.int64)]
    seconds, share = [other_s], [np.zeros(len(others))]
    for group in instance.groups:
        counts = np.unique(group.count)
        modes = _modes_by_count(group, counts)
        parallel = (instance.capacity[group.machine] / group.nodes)[modes]
        limited = not instance.unlimited[group.machine].any()
        for members, every in group.chunks():
            spent, taken = _mean_duration(every[:, modes], parallel)
            kept = np.ones(spent.shape, dtype=bool)
            kept[:, 1:] = spent[:, 1:] < np.minimum.accumulate(spent, axis=1)[:, :-1]
            row, column = np.nonzero(kept)
            task.append(members[row].astype(np.int64))
            count.append(counts[column].astype(np.int64))
            seconds.append(spent[kept])
            share.append(taken[kept] if limited else np.zeros(len(row)))
    return _join_options(
        len(graph),
        np.concatenate(task),
        np.concatenate(count),
        np.concatenate(seconds),
        np.concatenate(share),
    )


def _mean_duration(every: Floats, parallel: Floats) -> tuple[Floats, Floats]:
    """Return the mean durations and the areas (tasks x counts).

    ``every`` (tasks x counts x machines) is the seconds of every mode; ``parallel`` (counts x machines) is
    the number of tasks that a machine runs at a time.

    Duration and area of a count: machine k of P_k nodes runs P_k / r_k tasks of r_k nodes at a time, and ends
    P_k / (r_k t_k) of them per second if each takes t_k seconds. One task therefore occupies the whole
    platform for a = 1 / sum of P_k / (r_k t_k) seconds (its area), and its mean duration is a times the sum
    of P_k / r_k. On one machine the area is r t / P and the duration is t. If a machine does not allow the
    count, r_k and t_k are those of its next smaller count, or else of its smallest. The caller leaves out
    counts that are not faster than a smaller one.
    """
    with np.errstate(divide="ignore", over="ignore"):  # a task of almost 0 s has area 0
        share = 1.0 / (parallel / every).sum(axis=2)
    one_machine = every.shape[2] == 1
    return every[:, :, 0] if one_machine else parallel.sum(axis=1) * share, share


def _join_options(
    tasks: int, task: NDArray[np.int64], count: NDArray[np.int64], seconds: Floats, share: Floats
) -> tuple[AllotmentModes, Indices]:
    """Return the options sorted by task, and the node count of each option.

    The gain of an option is its seconds / count minus those of the next option of the task.
    """
    order = np.argsort(task, kind="stable")
    count, seconds, share = count[order], seconds[order], share[order]
    per_node = seconds / count
    gain = np.append(per_node[:-1] - per_node[1:], 0.0)
    first = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=tasks))])
    options = AllotmentModes(first=first.astype(np.uint32), seconds=seconds, share=share, gain=gain)
    return options, count.astype(np.uint32)


def _modes_by_count(group: ModeGroup, counts: Indices) -> NDArray[np.int64]:
    """Return a table (counts x machines): the mode of each count on each machine.

    If a machine does not allow a count, the entry is the mode of the next smaller count, or else of the
    smallest count.
    """
    _, first = np.unique(group.machine, return_index=True)
    last = np.append(first[1:], len(group))
    columns = [
        begin + np.maximum(np.searchsorted(group.count[begin:end], counts, side="right") - 1, 0)
        for begin, end in zip(first.tolist(), last.tolist(), strict=True)
    ]
    return np.stack(columns, axis=1).astype(np.int64)
