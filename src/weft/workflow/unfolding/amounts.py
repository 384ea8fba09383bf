"""What unfolded tasks take of resources or budgets: a row per task, more where the node count matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

__all__ = ["Amounts", "ByCount"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByCount:
    """Amounts that depend on the node count: CSR over tasks, one row per allowed count, in their order."""

    pointer: NDArray[np.int64]
    """Per task and one more; a task whose amounts do not depend on the count has no rows."""
    rows: NDArray[np.float64]
    """Rows x names."""

    def of(self, task: int) -> NDArray[np.float64]:
        """Give the rows of a task, one per allowed count; none: its amounts do not depend on the count."""
        return self.rows[self.pointer[task] : self.pointer[task + 1]]


class Amounts:
    """Amounts by name over rows in program order, growing while descriptions are expanded."""

    def __init__(self) -> None:
        self._least: dict[str, dict[int, float]] = {}
        self._by_count: dict[str, dict[int, list[float]]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """List the names of which some task takes something, in alphabetical order."""
        return tuple(sorted(self._least))

    def add(self, name: str, start: int, column: Iterable[float]) -> None:
        """Note the amounts of consecutive rows, the same on every count."""
        self._least.setdefault(name, {}).update(enumerate(column, start))

    def add_by_count(self, name: str, row: int, amounts: list[float]) -> None:
        """Note the amounts of one row, in the order of its counts."""
        least = min(amounts)
        self._least.setdefault(name, {})[row] = least
        if max(amounts) > least:
            self._by_count.setdefault(name, {})[row] = amounts

    def columns(
        self, names: tuple[str, ...], order: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], ByCount]:
        """Give the least amounts (rows x names) and those by count, of the rows in another order."""
        least = np.zeros((len(order), len(names)))
        length = np.zeros(len(order), dtype=np.int64)
        for column, name in enumerate(names):
            stated = self._least.get(name, {})
            least[list(stated), column] = list(stated.values())
            varied = self._by_count.get(name, {})
            length[list(varied)] = list(map(len, varied.values()))
        least, length = least[order], length[order]
        pointer = np.concatenate(([0], np.cumsum(length)))
        rows = np.repeat(least, length, axis=0)
        for column, name in enumerate(names):
            varied = self._by_count.get(name, {})
            if varied:
                listed = [varied.get(row) for row in order.tolist()]
                own = np.repeat([amounts is not None for amounts in listed], length)
                rows[own, column] = list(chain.from_iterable(amounts for amounts in listed if amounts))
        return least, ByCount(pointer=pointer, rows=rows)
