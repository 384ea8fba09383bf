"""Pools that are opened, used and closed, and their names: ``serial``, ``threads:4``, ``processes:4``,
``dask:tcp://host:8786``.

What a pool computes does not depend on the pool: see ``weft.search.pool``, the contract planners know.

One item after the other, in this process.

Threads of this process: for work that lets go of the interpreter, as compiled kernels do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from weft.errors import InvalidInput, Problem, shorten
from weft.search.pool import INLINE_POOL

__all__ = ["OpenPool", "SerialPool", "ThreadPool", "make_pool", "parse_workers"]


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class OpenPool(ABC):
    """A pool with an end: use it in a ``with`` statement, or close it."""

    name: ClassVar[str]
    """As the registry knows it."""

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


def make_pool(text: str) -> OpenPool:
    """Make the pool that a name describes."""
    from weft.pools import POOLS

    name, _, argument = text.partition(":")
    kind: type[OpenPool] = POOLS.load(name)
    return kind.of(argument)


def parse_workers(name: str, argument: str) -> int:
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


class SerialPool(OpenPool):
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
        return INLINE_POOL.map(function, items)

    def close(self) -> None:
        """Do nothing: nothing was started."""


class ThreadPool(OpenPool):
    """Some threads, started with the first item."""

    name: ClassVar[str] = "threads"

    def __init__(self, workers: int) -> None:
        self._workers = parse_workers(self.name, str(workers))
        self._executor: ThreadPoolExecutor | None = None

    @classmethod
    def of(cls, argument: str) -> Self:
        """Make the pool from its number of workers."""
        return cls(parse_workers(cls.name, argument))

    @property
    def workers(self) -> int:
        """Say how many items are worked on at once."""
        return self._workers

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Give the results in the order of the items."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._workers, thread_name_prefix="weft")
        futures = [self._executor.submit(function, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Start nothing more, and wait for the threads: one that is at work ends with its piece."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
