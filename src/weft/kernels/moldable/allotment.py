"""Allotment: give nodes to the tasks of the critical path until it is no longer than the average area.

The first phase of CPA: A. Radulescu, A. J. C. van Gemund, A Low-Cost Approach towards Mixed Task and Data
Parallel Scheduling, ICPP 2001, section 3. A task has ways to run, each faster than the one before it; it
begins with the first. While the critical path is longer than what the platform needs for all node-seconds,
the task on the path that gains most takes its next way.

Deviation: paths are measured again when the critical one has become 1 % shorter, not after every step. Up to
some 50 tasks on it every step does that. O(m (v + e) + s log d) for m measurements, s steps and d tasks on a
path; m is at most s.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.lists.heaps import pop, push
from weft.kernels.problem import Tasks
from weft.kernels.types import Doubles, Indices

__all__ = ["Paths", "Ways", "allot"]

_SHORTER = 0.99
"""Share of its length down to which a path counts as critical without measuring again."""


class Ways(NamedTuple):
    """How tasks can run, each way faster than the one before it (CSR over tasks)."""

    first: Indices
    """Per task and one more."""
    seconds: Doubles
    share: Doubles
    """How long the whole platform is taken by one task."""
    gain: Doubles
    """How much the next way is worth; of a last way: not read."""


class Paths(NamedTuple):
    """The longest paths under the ways taken, and a heap of the tasks on the critical one."""

    bottom: Doubles
    """Per task: seconds from its start to the end of the workflow, if nothing waits."""
    follower: Indices
    """Per task: the successor on its longest path; the number of tasks: none."""
    heap: Indices
    loss: Doubles
    """Per task: the gain of its next way, negative so that the largest comes first."""
    rank: Indices
    """Per task: its index."""


@kernel
def allot(tasks: Tasks, ways: Ways, communication: Doubles, way: Indices, paths: Paths) -> int:
    """Fill ``way`` with the way of every task; give the number of steps. ``communication`` is per edge."""
    area = 0.0
    for task in range(tasks.number):
        way[task] = ways.first[task]
        area += ways.share[ways.first[task]]
        paths.rank[task] = task
    heap, loss, rank = paths.heap, paths.loss, paths.rank
    steps = 0
    while True:
        task = _measure(tasks, ways.seconds, communication, way, paths.bottom, paths.follower)
        length = paths.bottom[task]
        shorter = length * _SHORTER
        size = _gather(ways, way, paths, task, tasks.number)
        if size == 0 or length <= area:
            return steps
        critical = True
        while critical:
            task = pop(heap, size, loss, rank)
            size -= 1
            own = 0 + way[task]
            length -= ways.seconds[own] - ways.seconds[own + 1]
            area += ways.share[own + 1] - ways.share[own]
            way[task] = own + 1
            steps += 1
            if own + 2 < ways.first[task + 1]:
                loss[task] = -ways.gain[own + 1]
                push(heap, size, task, loss, rank)
                size += 1
            critical = size > 0 and length > area and length > shorter


@kernel
def _measure(
    tasks: Tasks, seconds: Doubles, communication: Doubles, way: Indices, bottom: Doubles, follower: Indices
) -> int:
    """Measure all bottom levels; give the task of the longest path, of lower index if several."""
    number = tasks.number
    pointer, after, edge = tasks.after_pointer, tasks.after, tasks.after_edge
    first = 0
    highest = -1.0
    for done in range(number):
        task = number - 1 - done
        longest = 0.0
        following = number
        for position in range(pointer[task], pointer[task + 1]):
            other = 0 + after[position]
            length = communication[edge[position]] + bottom[other]
            if following == number or length > longest:
                longest = length
                following = other
        follower[task] = following
        bottom[task] = seconds[way[task]] + longest
        if bottom[task] >= highest:
            highest = bottom[task]
            first = task
    return first


@kernel
def _gather(ways: Ways, way: Indices, paths: Paths, first: int, number: int) -> int:
    """Put the tasks of a path that have another way into the heap; give their number."""
    size = 0
    task = 0 + first
    while task != number:
        own = 0 + way[task]
        if own + 1 < ways.first[task + 1]:
            paths.loss[task] = -ways.gain[own]
            push(paths.heap, size, task, paths.loss, paths.rank)
            size += 1
        task = 0 + paths.follower[task]
    return size
