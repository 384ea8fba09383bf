"""The interface of pools, which evaluate independent items in parallel.

Results must not depend on where or when an item is computed, so every pool returns the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Pool(Protocol):
    """Parallel application of a function to many items."""

    @property
    def workers(self) -> int:
        """Return the number of items computed at the same time."""

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results in the order of the items; the exception of an item is raised at its turn.

        Function and items may be pickled: the function must be defined at the top level of a module, or be a
        ``partial`` of such a function.
        """


class InlinePool:
    """Computes one item after another in the calling thread."""

    workers = 1

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results in the order of the items."""
        return map(function, items)


INLINE_POOL: Pool = InlinePool()
