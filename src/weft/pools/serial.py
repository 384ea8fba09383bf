"""One item after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Self, TypeVar

from weft.errors import InvalidInput, Problem, shorten
from weft.pools.pool import OpenPool
from weft.search.pool import ALONE

__all__ = ["Serial"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Serial(OpenPool):
    """No worker but whoever asks."""

    name: ClassVar[str] = "serial"

    @classmethod
    def of(cls, argument: str) -> Self:
        """Make the pool; it takes no argument."""
        if argument:
            what = f"pool serial:{shorten(argument)}"
            raise InvalidInput(Problem(what=what, rule="has one worker", advice="write serial"))
        return cls()

    @property
    def workers(self) -> int:
        """Say how many items are worked on at once."""
        return 1

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Give the results in the order of the items."""
        return ALONE.map(function, items)

    def close(self) -> None:
        """Do nothing: nothing was started."""
