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
    area = 0.0
    for task in range(number):
        own = ways.first[task]
        way[task] = own
        area += ways.share[own]
        levels.stale[task] = 1
        levels.bottom[task] = -1.0
    for position in range(entries):
        levels.winner[entries + position] = levels.entry[position]
    _measure(tasks, ways.seconds, communication, way, levels, number - 1, number)
    steps = 0
    while levels.bottom[levels.winner[1]] > area:
        task = _best_on_path(ways.first, ways.gain, way, levels.follower, levels.winner[1], number)
        if task == number:
            break
        own = way[task]
        area += ways.share[own + 1] - ways.share[own]
        way[task] = own + 1
        steps += 1
        levels.stale[task] = 1
        _measure(tasks, ways.seconds, communication, way, levels, task, 1)
    return steps


@kernel
def _best_on_path(
    first: Indices, gain: Doubles, way: Indices, follower: Indices, task: int, number: int
) -> int:
    """Give the task on the path from a task on that gains most; their number: none can take more."""
    best = -1.0
    chosen = number
    task = 0 + task
    while task != number:
        own = way[task]
        if own + 1 < first[task + 1] and gain[own] > best:
            best = gain[own]
            chosen = task
        task = 0 + follower[task]
    return chosen


@kernel
def _measure(
    tasks: Tasks, seconds: Doubles, communication: Doubles, way: Indices, levels: Levels, last: int, waiting: int
) -> None:
    """Measure stale levels, of which so many are waiting, from a task on down: predecessors have lower indices."""
    number, entries = tasks.number, len(levels.entry)
    pointer, before = tasks.pointer, tasks.before
    after_pointer, after, after_edge = tasks.after_pointer, tasks.after, tasks.after_edge
    bottom, follower, stale, slot = levels.bottom, levels.follower, levels.stale, levels.slot
    task = 0 + last
    while waiting > 0:
        if stale[task] != 0:
            stale[task] = 0
            waiting -= 1
            longest = 0.0
            following = number
            for position in range(after_pointer[task], after_pointer[task + 1]):
                other = 0 + after[position]
                length = communication[after_edge[position]] + bottom[other]
                if following == number or length > longest:
                    longest = length
                    following = other
            follower[task] = following
            level = seconds[way[task]] + longest
            if level != bottom[task]:
                bottom[task] = level
                # Levels only fall: who does not follow this task keeps its longest path.
                for edge in range(pointer[task], pointer[task + 1]):
                    earlier = before[edge]
                    if stale[earlier] == 0 and follower[earlier] == task:
                        stale[earlier] = 1
                        waiting += 1
                if slot[task] < entries:
                    _play(levels.winner, bottom, (entries + slot[task]) // 2)
        task -= 1


@kernel
def _play(winner: Indices, bottom: Doubles, place: int) -> None:
    """Let entries play, from a place of the tournament up: the longer path wins, then the lower index."""
    while place > 0:
        left = winner[2 * place]
        right = winner[2 * place + 1]
        longer = bottom[right] > bottom[left]
        if longer or (bottom[right] == bottom[left] and right < left):
            winner[place] = right
        else:
            winner[place] = left
        place = place // 2
