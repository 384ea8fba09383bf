"""A pool: where pieces of work are done side by side. The contract of the registry ``pools``; read it first.

Whoever searches cuts its work into pieces whose results do not depend on where or when they are computed, so
that every pool gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

__all__ = ["INLINE_POOL", "InlinePool", "Pool"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Pool(Protocol):
    """Computes a function of many items."""

    @property
    def workers(self) -> int:
        """Say how many items are worked on at once."""
        ...

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Give the results in the order of the items.

        Function and items may travel to other processes: the function is one of a module, or a partial of
        one. An error in a piece is raised here.
        """
        ...


class InlinePool:
    """The pool of whoever has none: one item after the other, here."""

    workers = 1

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Give the results in the order of the items."""
        return map(function, items)


INLINE_POOL: Pool = InlinePool()
