"""Slow reference implementation of the allotment: paths are lists and are computed again in every pass."""

from __future__ import annotations

__all__ = ["allotment", "longest_path"]


def allotment(ways, after, communication, shorter):
    """Return the index of the mode of every task, and the number of steps.

    ``ways`` lists (seconds, share, gain of the next) per task, ``after`` the successors per task,
    ``communication`` is by (task, successor).
    """
    taken, steps = [0] * len(ways), 0
    area = 0.0
    for own in ways:
        area += own[0][1]
    while True:
        length, path = longest_path(ways, taken, after, communication)
        limit = length * shorter
        able = [task for task in path if taken[task] + 1 < len(ways[task])]
        if not able or length <= area:
            return taken, steps
        while able:
            best = max(able, key=lambda task: (ways[task][taken[task]][2], -task))
            old, new = ways[best][taken[best] : taken[best] + 2]
            length -= old[0] - new[0]
            area += new[1] - old[1]
            taken[best] += 1
            steps += 1
            able = [task for task in path if taken[task] + 1 < len(ways[task])]
            if length <= area or length <= limit:
                break


def longest_path(ways, taken, after, communication):
    """Return the length of the critical path and its tasks; ties go to tasks of lower index."""
    found = {}
    for task in reversed(range(len(ways))):
        behind = [(communication[task, other] + found[other][0], -other) for other in after[task]]
        rest_s, last = max(behind, default=(0.0, None))
        rest = [] if last is None else found[-last][1]
        found[task] = ways[task][taken[task]][0] + rest_s, [task, *rest]
    return max(found.values(), key=lambda entry: (entry[0], -entry[1][0]))
