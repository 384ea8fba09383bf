"""Pools that must be closed, and their names.

Names are ``serial``, ``threads:4``, ``processes:4`` and ``dask:tcp://host:8786``.
Results do not depend on the pool; see ``weft.search.pool``, the interface that planners use. Threads suit
work that releases the interpreter lock, as compiled kernels do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from weft.errors import InvalidInput, shorten
from weft.search.pool import INLINE_POOL

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class OpenPool(ABC):
    """A pool that must be closed; it is a context manager."""

    name: ClassVar[str]
    """The name of the pool in the registry."""

    @classmethod
    @abstractmethod
    def of(cls, argument: str) -> Self:
        """Return a pool; ``argument`` is the text after the colon, such as ``4`` in ``processes:4``."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """Return the number of items computed at the same time."""

    @abstractmethod
    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results in the order of the items.

        Items that have not started are cancelled when the caller stops reading. A function object is sent to
        the workers only once, so callers should pass the same ``partial`` object in repeated calls.
        """

    @abstractmethod
    def close(self) -> None:
        """Free all threads, processes and connections; running items are stopped or left to finish."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_pool(text: str) -> OpenPool:
    """Return the pool with a name such as ``processes:4``."""
    from weft.pools import POOLS

    name, _, argument = text.partition(":")
    kind: type[OpenPool] = POOLS.load(name)
    return kind.of(argument)


def _parse_workers(name: str, argument: str) -> int:
    """Return the number of workers in a text; 1 if the text is empty.

    Raises InvalidInput unless the text is a number of at least 1.
    """
    try:
        workers = int(argument or "1")
    except ValueError:
        workers = 0
    if workers < 1:
        what = f"the pool {name}:{shorten(argument)} has no valid number of workers"
        rule = "it must be a whole number of at least 1"
        raise InvalidInput(what, rule=rule, advice=f"write, for example, {name}:2")
    return workers


class SerialPool(OpenPool):
    """A pool that computes one item after another in the calling thread."""

    name: ClassVar[str] = "serial"

    @classmethod
    def of(cls, argument: str) -> Self:
        """Return the pool; raises InvalidInput if an argument is given."""
        if argument:
            what = f"the pool serial:{shorten(argument)} has an argument"
            raise InvalidInput(
                what, rule="the pool serial has one worker and takes no argument", advice="write serial"
            )
        return cls()

    @property
    def workers(self) -> int:
        """Return 1, the number of items computed at the same time."""
        return 1

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results in the order of the items."""
        return INLINE_POOL.map(function, items)

    def close(self) -> None:
        """Do nothing, because the pool has no threads, processes or connections."""


class WorkerPool(OpenPool):
    """Base of pools with a fixed number of workers, which are started with the first item."""

    def __init__(self, workers: int) -> None:
        self._workers = _parse_workers(self.name, str(workers))

    @classmethod
    def of(cls, argument: str) -> Self:
        """Return a pool, given its number of workers as text."""
        return cls(_parse_workers(cls.name, argument))

    @property
    def workers(self) -> int:
        """Return the number of items computed at the same time."""
        return self._workers


class ThreadPool(WorkerPool):
    """A pool of threads of this process."""

    name: ClassVar[str] = "threads"

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._executor: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results in the order of the items."""
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
        """Cancel items that have not started, and wait for the threads to finish their current items."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None
