"""Topological order of the tasks of a foreign file, and the cycle to show when there is none."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import shorten
from weft.formats.format import Source, damaged

__all__ = ["find_order", "refuse_cycle"]

_SHOWN = 8
"""Tasks of a cycle that a message names."""


def find_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """Order tasks so that parents come first. Tasks on a cycle, and those behind one, are missing from it."""
    children: list[list[int]] = [[] for _ in parents]
    missing = [len(above) for above in parents]
    for index, above in enumerate(parents):
        for parent in above:
            children[parent].append(index)
    order = [index for index, count in enumerate(missing) if count == 0]
    for index in order:  # grows while it is walked
        for child in children[index]:
            missing[child] -= 1
            if missing[child] == 0:
                order.append(child)
    return order


def refuse_cycle(source: Source, names: Sequence[str], parents: Sequence[Sequence[int]]) -> list[int]:
    """Give the topological order. Raises InvalidInput, naming a cycle, when there is none."""
    if all(not above or max(above) < index for index, above in enumerate(parents)):
        return list(range(len(parents)))
    order = find_order(parents)
    if len(order) == len(parents):
        return order
    cycle = [shorten(names[index], 30) for index in _cycle(parents, order)]
    shown = cycle if len(cycle) <= _SHOWN else [*cycle[:_SHOWN], "…"]
    what = f"tasks wait for each other: {' -> '.join([*shown, cycle[0]])}"
    raise damaged(source, what, rule="a task graph has no cycle", advice="remove one of these edges")


def _cycle(parents: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Find a cycle, in the direction of the edges, among the tasks that an order lacks."""
    stuck = [True] * len(parents)
    for index in order:
        stuck[index] = False
    # A stuck task has a stuck parent, so walking up among them comes back to itself.
    index = stuck.index(True)
    trail: dict[int, int] = {}
    while index not in trail:
        trail[index] = len(trail)
        index = next(parent for parent in parents[index] if stuck[parent])
    return list(trail)[trail[index] :][::-1]
