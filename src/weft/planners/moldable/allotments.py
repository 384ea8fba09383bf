"""Allotments: how many nodes every task should have, before anybody says when and where it runs.

What tasks can take is written down as *ways*: a node count, its seconds, and the share of the platform it
takes. A machine k of P_k nodes has room for P_k / r_k tasks that take r_k nodes, and ends P_k / (r_k t_k)
of them a second if each takes t_k. So the whole platform is taken for 1 / sum of P_k / (r_k t_k) seconds by
one task, whose seconds are in the mean sum of P_k / r_k times that; on one machine they are r t / P and t.
Where a machine does not allow a count, its next smaller one counts instead (or its smallest). Counts that
are not faster than a smaller one are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.instance.modes import ModeGroup
from weft.kernels import forms
from weft.kernels.moldable.allotment import Paths, Ways, allot
from weft.kernels.problem import Problem
from weft.planners.lists.ranks import mean_communication_s, mean_seconds
from weft.planners.narrowing import Part, narrowed
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, Floats, Indices

__all__ = ["Allotment", "allotted", "with_counts"]

_ELEMENT_S, _MEASURED = 0.3e-6, 0.1
"""What a task or an edge takes in plain Python, about, and how often all are measured per way."""


class Allotment(NamedTuple):
    """What every task has been given."""

    counts: Indices
    """Per task: node count; 1 for transfers and virtual tasks."""
    bottom_s: Floats
    """Per task: seconds from its start to the end of the workflow, if nothing waits."""


def allotted(instance: Instance) -> Allotment:
    """Give nodes to the tasks of the critical path until it is no longer than the average area (CPA)."""
    ways, count = _ways(instance)
    tasks, number = problem_of(instance).tasks, len(instance)
    way = np.zeros(number, dtype=np.uint32)
    paths = Paths(
        bottom=np.zeros(number),
        follower=np.zeros(number, dtype=np.uint32),
        heap=np.zeros(number, dtype=np.uint32),
        loss=np.zeros(number),
        rank=np.zeros(number, dtype=np.uint32),
    )
    forms.run(
        allot,
        (tasks, ways, mean_communication_s(instance)),
        (way, paths),
        work_s=_ELEMENT_S * (number + instance.graph.edge_count) * (1 + _MEASURED * (len(count) - number)),
    )
    return Allotment(counts=count[way], bottom_s=paths.bottom)


def with_counts(instance: Instance, count: Indices) -> Problem:
    """Give the problem in which tasks take their counts, on each machine the nearest that is not above."""
    parts: list[Part] = []
    for index, group in enumerate(instance.groups):
        counts, number = np.unique(count[group.tasks], return_inverse=True)
        places = _places(group, counts)
        parts.extend(
            Part(group=index, tasks=group.tasks[number == row], modes=places[row])
            for row in range(len(counts))
        )
    return narrowed(problem_of(instance), parts)


def _ways(instance: Instance) -> tuple[Ways, Indices]:
    """Give the ways of all tasks, and the count of each way."""
    graph = instance.graph
    others = np.flatnonzero(graph.kind != COMPUTE)
    waiting_s = mean_seconds(instance)[others] if (graph.kind == TRANSFER).any() else np.zeros(len(others))
    task, count = [others], [np.ones(len(others), dtype=np.int64)]
    seconds, share = [waiting_s], [np.zeros(len(others))]
    for group in instance.groups:
        counts = np.unique(group.count)
        places = _places(group, counts)
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
    return _joined(
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


def _joined(
    tasks: int, task: NDArray[np.int64], count: NDArray[np.int64], seconds: Floats, share: Floats
) -> tuple[Ways, Indices]:
    """Put the ways in the order of tasks, and say what the next one is worth: time per node it saves."""
    order = np.argsort(task, kind="stable")
    count, seconds, share = count[order], seconds[order], share[order]
    per_node = seconds / count
    gain = np.append(per_node[:-1] - per_node[1:], 0.0)
    first = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=tasks))])
    ways = Ways(first=first.astype(np.uint32), seconds=seconds, share=share, gain=gain)
    return ways, count.astype(np.uint32)


def _places(group: ModeGroup, counts: Indices) -> NDArray[np.int64]:
    """Give counts x machines: the mode of the largest count that is not above, else of the smallest."""
    _, first = np.unique(group.machine, return_index=True)
    last = np.append(first[1:], len(group))
    columns = [
        begin + np.maximum(np.searchsorted(group.count[begin:end], counts, side="right") - 1, 0)
        for begin, end in zip(first.tolist(), last.tolist(), strict=True)
    ]
    return np.stack(columns, axis=1).astype(np.int64)
