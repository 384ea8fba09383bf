"""A pool on the workers of a running Dask cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Self, TypeVar

from weft.errors import InvalidInput, WeftError, shorten
from weft.pools.pool import OpenPool

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_TIMEOUT_S = 5
"""Timeout in seconds for connecting to a scheduler."""


class DaskPool(OpenPool):
    """A pool that computes items in all threads of the workers of a Dask cluster.

    The function is sent to every worker once, then the items are sent. The workers must have the same version
    of weft as this process, because other versions may find other plans. When the caller stops reading
    results, items that have not started are cancelled; Dask cannot stop running items.
    """

    name: ClassVar[str] = "dask"

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = _connect(address)
        try:
            self._workers = _count_threads(self._client, address)
        except BaseException:
            self._client.close()
            raise
        self._function: Callable[[Any], Any] | None = None
        self._sent: Any = None

    @classmethod
    def of(cls, argument: str) -> Self:
        """Return a pool that is connected to the scheduler at an address."""
        return cls(argument)

    @property
    def workers(self) -> int:
        """Return the number of items computed at the same time."""
        return self._workers

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results in the order of the items."""
        from distributed import CancelledError, KilledWorker

        futures: list[Any] = []
        try:
            sent = self._scattered(function)
            futures += [self._client.submit(_apply, sent, item, pure=False) for item in items]
            for future in futures:
                yield future.result()
        except (KilledWorker, CancelledError, OSError) as error:
            what = f"the Dask cluster {self._address} failed during the computation"
            raise WeftError(f"{what}: {_short(error, 200)}") from error
        finally:
            if any(not future.done() for future in futures):
                self._client.cancel(futures, force=True)

    def _scattered(self, function: Callable[[Any], Any]) -> Any:
        if self._function is not function:
            [self._sent] = self._client.scatter([function], broadcast=True, hash=False)
            self._function = function
        return self._sent

    def close(self) -> None:
        """Disconnect from the cluster, which keeps running."""
        self._function = self._sent = None
        self._client.close()


def _connect(address: str) -> Any:
    if not re.fullmatch(r"\w+://.+:\d+", address):
        what, rule = f"the Dask scheduler is {shorten(address)!r}", "it must be an address with a port"
        raise InvalidInput(what, rule=rule, advice="write tcp://HOST:8786")
    try:
        from distributed import Client
    except ImportError:
        what = "the pool dask needs the package distributed, which is not installed"
        raise InvalidInput(what, advice="pip install 'weft[dask]'") from None
    advice = (
        "start one with `dask scheduler` and `dask worker`, and use the address that the scheduler prints"
    )
    try:
        return Client(address, timeout=_TIMEOUT_S, set_as_default=False)
    except OSError as error:
        what = f"no Dask scheduler answers at {shorten(address)!r}"
        raise InvalidInput(what, rule=_short(error), advice=advice) from None


def _short(error: Exception, most: int = 100) -> str:
    return shorten(str(error).splitlines()[0], most) if str(error) else type(error).__name__


def _count_threads(client: Any, address: str) -> int:
    """Return the number of threads of all workers; raise InvalidInput if versions of weft differ."""
    version_of = _make_version_query()
    ours, versions = version_of(), client.run(version_of)
    if not versions:
        what = f"the Dask cluster {address} has no workers"
        raise InvalidInput(what, advice="start workers with `dask worker ADDRESS`")
    for worker, version in sorted(versions.items()):
        if version != ours:
            found = f"has weft {version}" if version else "has no weft"
            what = f"the worker {worker} of the Dask cluster {address} {found}"
            advice = "install this version in the environment of the worker"
            raise InvalidInput(what, rule=f"every worker must have weft {ours}", advice=advice)
    return int(sum(client.nthreads().values()))


def _make_version_query() -> Callable[[], str]:
    # A nested function is pickled by value; a module function could not be found on a worker without weft.
    # ``__import__`` is used because ``import weft`` would violate the import rules between packages.
    def version() -> str:
        try:
            return str(__import__("weft").__version__)
        except ImportError:
            return ""

    return version


def _apply(function: Callable[[_Item], _Result], item: _Item) -> _Result:
    return function(item)
