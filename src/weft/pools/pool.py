"""Pools that are opened, used and closed, and their names: ``serial``, ``threads:4``, ``processes:4``,
``dask:tcp://host:8786``.

What a pool computes does not depend on the pool: see ``weft.search.pool``, the contract planners know.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from weft.errors import InvalidInput, Problem, shorten

__all__ = ["OpenPool", "pool_named", "workers_of"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class OpenPool(ABC):
    """A pool with an end: use it in a ``with`` statement, or close it."""

    name: ClassVar[str]
    """As the shelf knows it."""

    @classmethod
    @abstractmethod
    def of(cls, argument: str) -> Self:
        """Make the pool from what follows its name; nothing may be started before the first item."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """Say how many items are worked on at once."""

    @abstractmethod
    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Give the results in the order of the items; whoever stops reading stops the work.

        A function that was given before is not sent again: whoever maps often over something large makes
        one partial of it.
        """

    @abstractmethod
    def close(self) -> None:
        """Free all threads, processes and connections; what still runs is stopped, or left to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def pool_named(text: str) -> OpenPool:
    """Make the pool that a name describes."""
    from weft.pools import POOLS

    name, _, argument = text.partition(":")
    kind: type[OpenPool] = POOLS.load(name)
    return kind.of(argument)


def workers_of(name: str, argument: str) -> int:
    """Read a number of workers."""
    try:
        workers = int(argument or "1")
    except ValueError:
        workers = 0
    if workers < 1:
        what = f"pool {name}:{shorten(argument)}"
        raise InvalidInput(
            Problem(what=what, rule="needs a number of workers, at least 1", advice=f"write {name}:2")
        )
    return workers
