"""Threads of this process: for work that lets go of the interpreter, as compiled kernels do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Self, TypeVar

from weft.pools.pool import OpenPool, workers_of

__all__ = ["Threads"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Threads(OpenPool):
    """Some threads, started with the first item."""

    name: ClassVar[str] = "threads"

    def __init__(self, workers: int) -> None:
        self._workers = workers_of(self.name, str(workers))
        self._executor: ThreadPoolExecutor | None = None

    @classmethod
    def of(cls, argument: str) -> Self:
        """Make the pool from its number of workers."""
        return cls(workers_of(cls.name, argument))

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
