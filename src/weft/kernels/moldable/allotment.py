"""Allotment: give nodes to the tasks of the critical path until it is no longer than the average area.

The first phase of CPA: A. Radulescu, A. J. C. van Gemund, A Low-Cost Approach towards Mixed Task and Data
Parallel Scheduling, ICPP 2001, section 3. A task has ways to run, each faster than the one before it; it
begins with the first. While the critical path is longer than what the platform needs for all node-seconds,
the task on the path that gains most takes its next way.

After a step only bottom levels that change are measured again: those of tasks that reach the longest path
through the task. O(s (d + a)) for s steps, d tasks on the path and a positions (in topological order)
between the task and the first one whose level changes.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.problem import Tasks
from weft.kernels.types import Doubles, Flags, Indices

__all__ = ["Levels", "Ways", "allot"]


class Ways(NamedTuple):
    """How tasks can run, each way faster than the one before it (CSR over tasks)."""

    first: Indices
    """Per task and one more."""
    seconds: Doubles
    share: Doubles
    """How long the whole platform would be taken if it ran nothing but such tasks."""
    gain: Doubles
    """How much the next way is worth; of a last way: not read."""


class Levels(NamedTuple):
    """The longest paths, under the ways taken."""

    bottom: Doubles
    """Per task: seconds from its start to the end of the workflow, if nothing waits."""
    follower: Indices
    """Per task: the successor on its longest path; the number of tasks: none."""
    entry: Indices
    """Tasks without predecessors."""
    slot: Indices
    """Per task: its position in ``entry``; their number: it has predecessors."""
    winner: Indices
    """A tournament of the entries (2 x entries): position 1 is the first task of the critical path."""
    stale: Flags
    """Per task: whether its level must be measured again."""


@kernel
def allot(tasks: Tasks, ways: Ways, communication: Doubles, way: Indices, levels: Levels) -> int:
    """Fill ``way`` with the way of every task; give the number of steps. ``communication`` is per edge."""
    number, entries = tasks.number, len(levels.entry)
    winner = levels.winner
    area = 0.0
    for task in range(number):
        own = ways.first[task]
        way[task] = own
        area += ways.share[own]
        levels.stale[task] = 0
    for done in range(number):
        _measure(tasks, ways, communication, way, levels, number - 1 - done)
    for position in range(entries):
        winner[entries + position] = levels.entry[position]
    for done in range(1, entries):
        _play(levels, entries - done)
    steps = 0
    while levels.bottom[winner[1]] > area:
        task = _best_on_path(ways, way, levels, winner[1], number)
        if task == number:
            break
        own = way[task]
        area += ways.share[own + 1] - ways.share[own]
        way[task] = own + 1
        steps += 1
        _measure_again(tasks, ways, communication, way, levels, task)
    return steps


@kernel
def _measure(
    tasks: Tasks, ways: Ways, communication: Doubles, way: Indices, levels: Levels, task: int
) -> None:
    longest = 0.0
    follower = tasks.number
    for position in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
        other = tasks.after[position]
        length = communication[tasks.after_edge[position]] + levels.bottom[other]
        if follower == tasks.number or length > longest:
            longest = length
            follower = other
    levels.bottom[task] = ways.seconds[way[task]] + longest
    levels.follower[task] = follower


@kernel
def _play(levels: Levels, place: int) -> None:
    """Let two entries play: the longer path wins, then the lower index."""
    left = levels.winner[2 * place]
    right = levels.winner[2 * place + 1]
    longer = levels.bottom[right] > levels.bottom[left]
    if longer or (levels.bottom[right] == levels.bottom[left] and right < left):
        levels.winner[place] = right
    else:
        levels.winner[place] = left


@kernel
def _best_on_path(ways: Ways, way: Indices, levels: Levels, first: int, number: int) -> int:
    """Give the task on the critical path that gains most; their number: none can take more."""
    best = -1.0
    chosen = number
    task = 0 + first
    while task != number:
        own = way[task]
        if own + 1 < ways.first[task + 1] and ways.gain[own] > best:
            best = ways.gain[own]
            chosen = task
        task = 0 + levels.follower[task]
    return chosen


@kernel
def _measure_again(
    tasks: Tasks, ways: Ways, communication: Doubles, way: Indices, levels: Levels, changed: int
) -> None:
    """Measure the levels that depend on a task; predecessors have lower indices, so go down from it."""
    entries = len(levels.entry)
    stale = levels.stale
    stale[changed] = 1
    waiting = 1
    task = 0 + changed
    while waiting > 0:
        if stale[task] != 0:
            stale[task] = 0
            waiting -= 1
            before = levels.bottom[task]
            _measure(tasks, ways, communication, way, levels, task)
            if levels.bottom[task] != before:
                # Levels only fall: who does not follow this task keeps its longest path.
                for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
                    earlier = tasks.before[edge]
                    if levels.follower[earlier] == task and stale[earlier] == 0:
                        stale[earlier] = 1
                        waiting += 1
                if levels.slot[task] < entries:
                    place = (entries + levels.slot[task]) // 2
                    while place > 0:
                        _play(levels, place)
                        place = place // 2
        task -= 1
