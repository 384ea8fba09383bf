"""Merged edges: equal pairs of tasks put together, sorted by target and then source."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.workflow.unfolding.cycles import topological_order
from weft.workflow.unfolding.edges import Edges

__all__ = ["Merged"]


class Merged:
    """Columns over edges between different pairs of tasks."""

    def __init__(self, edges: Edges, tasks: int) -> None:
        self.tasks = tasks
        source = np.concatenate((_numbers(edges.source), _numbers(edges.data_source)))
        target = np.concatenate((_numbers(edges.target), _numbers(edges.data_target)))
        key, inverse = np.unique(target * max(tasks, 1) + source, return_inverse=True)
        plain, data = inverse[: len(edges.source)], inverse[len(edges.source) :]
        self.source: NDArray[np.int64] = key % max(tasks, 1)
        self.target: NDArray[np.int64] = key // max(tasks, 1)
        self.bytes = _sums(data, edges.bytes, len(key))
        self.files = _sums(data, edges.files, len(key))
        self.seconds = _sums(data, edges.seconds, len(key))
        self.only_data = np.ones(len(key), dtype=bool)
        """Edges that nothing but a file makes."""
        self.only_data[plain] = False

    def successors(self) -> list[list[int]]:
        """Give the successor lists, each in ascending order."""
        lists: list[list[int]] = [[] for _ in range(self.tasks)]
        for source, target in zip(self.source.tolist(), self.target.tolist(), strict=True):
            lists[source].append(target)
        return lists

    def keep(self, kept: NDArray[Any]) -> None:
        """Keep some edges, or all of them in another order."""
        for name in ("source", "target", "bytes", "files", "seconds", "only_data"):
            setattr(self, name, getattr(self, name)[kept])

    def order(self) -> Sequence[int] | None:
        """Give a topological order; None if there is a cycle."""
        if bool((self.source < self.target).all()):
            return range(self.tasks)  # program order already is one
        return topological_order(self.successors())

    def renumber(self, position: NDArray[np.int64]) -> None:
        """Give every task its position as its number, and sort again."""
        self.source, self.target = position[self.source], position[self.target]
        self.keep(np.lexsort((self.source, self.target)))

    def place(self, source: int, target: int) -> int:
        """Find an edge."""
        first, end = np.searchsorted(self.target, [target, target + 1])
        return int(first + np.searchsorted(self.source[first:end], source))


def _numbers(column: array[int]) -> NDArray[np.int64]:
    return np.array(column, dtype=np.int64)


def _sums(group: NDArray[np.int64], values: array[float], count: int) -> NDArray[np.float64]:
    return np.bincount(group, weights=np.array(values, dtype=float), minlength=count).astype(float)
