"""A pool of worker processes on this host."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, TypeVar

from weft.errors import WeftError
from weft.pools.pool import WorkerPool

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Function = Callable[[Any], Any]

_AHEAD = 4
"""With at least this many items per worker, the next item is sent to a worker before its current item ends.

This avoids idle workers after short items.
"""


class ProcessPool(WorkerPool):
    """A pool of worker processes, started with the first item.

    Workers are forked if that is safe, so that they share the loaded modules and compiled kernels of this
    process. Each worker has a pipe of its own, by which the parent detects the end of the worker. When the
    caller stops reading results, busy workers are killed. Workers ignore Ctrl-C, which the parent handles,
    and exit when the parent ends for any reason.
    """

    name: ClassVar[str] = "processes"

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._processes: list[_WorkerHandle] = []

    def map(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Yield the results in the order of the items."""
        todo = deque(enumerate(items))
        results: dict[int, Any] = {}
        depth = 2 if len(todo) >= _AHEAD * self._workers else 1
        self._start_workers(function, min(self._workers, len(todo)))
        try:
            for number in range(len(todo)):
                while number not in results:
                    self._dispatch(todo, depth)
                    self._collect(results)
                self._dispatch(todo, depth)
                yield _unpack_result(results.pop(number))
        finally:
            self._stop_workers(lambda worker: bool(worker.pending))

    def close(self) -> None:
        """Kill all workers."""
        self._stop_workers(lambda _: True)

    def _start_workers(self, function: _Function, wanted: int) -> None:
        """Send the function to workers that do not have it, and start workers until there are ``wanted``."""
        message: bytes | None = None
        for worker in self._processes:
            if worker.function is not function:
                message = message or pickle.dumps((None, function))
                worker.function = function
                worker.connection.send_bytes(message)
        context = _context()
        while len(self._processes) < wanted:
            self._processes.append(_WorkerHandle(context, function))

    def _dispatch(self, todo: deque[tuple[int, Any]], depth: int) -> None:
        for load in range(depth):
            for worker in self._processes:
                if todo and len(worker.pending) == load:
                    number, item = todo.popleft()
                    worker.pending.append(number)
                    worker.connection.send_bytes(pickle.dumps((number, item)))

    def _collect(self, results: dict[int, Any]) -> None:
        """Wait for at least one result; add all available results, still pickled, by item number."""
        busy = {worker.connection: worker for worker in self._processes if worker.pending}
        for connection in wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]
            try:
                message = worker.connection.recv_bytes()
            except (EOFError, OSError):
                raise _worker_error(worker) from None
            results[worker.pending.popleft()] = message

    def _stop_workers(self, unwanted: Callable[[_WorkerHandle], bool]) -> None:
        stopped = [worker for worker in self._processes if unwanted(worker)]
        self._processes = [worker for worker in self._processes if worker not in stopped]
        for worker in stopped:
            worker.process.kill()
        for worker in stopped:
            worker.process.join()
            worker.process.close()
            worker.connection.close()


class _WorkerHandle:
    """The parent's side of a worker process."""

    def __init__(self, context: BaseContext, function: _Function) -> None:
        self.function = function
        self.pending: deque[int] = deque()
        """Numbers of the items that were sent and have no result yet, in the order of sending."""
        self.connection, theirs = context.Pipe()
        # A forked process shares the function with its parent; it is not pickled.
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=_work, args=(theirs, function), daemon=True, name="weft-worker"
        )
        with warnings.catch_warnings():
            # Python warns of a fork with threads; those of linear algebra libraries handle forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()  # only the worker has this end open, so its exit closes the pipe


def _context() -> BaseContext:
    """Return a context that forks if this process has no other Python thread, else one that spawns.

    Another thread could hold a lock, which would stay locked in a forked process.
    """
    forks = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    return multiprocessing.get_context("fork" if forks else "spawn")


def _worker_error(worker: _WorkerHandle) -> WeftError:
    worker.process.join()
    code = worker.process.exitcode or 0
    why = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    advice = "if memory is short, use fewer workers"
    return WeftError(
        f"a worker process (pid {worker.process.pid}) ended {why} before it returned a result; {advice}"
    )


def _unpack_result(message: bytes) -> Any:
    """Return the result in a message of a worker, or raise the exception in the message."""
    good, value = pickle.loads(message)  # noqa: S301 - written by a worker
    if good:
        return value
    raise value


def _work(connection: Connection, function: _Function) -> None:
    """Main loop of a worker process: compute items until the process is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        number, item = pickle.loads(connection.recv_bytes())  # noqa: S301 - written by the parent
        if number is None:
            function = item
        else:
            connection.send_bytes(_answer(function, item))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _answer(function: _Function, item: Any) -> bytes:
    try:
        return pickle.dumps((True, function(item)))
    except Exception as error:
        return _pack_error(error)


def _pack_error(error: Exception) -> bytes:
    """Return a pickled exception with its traceback as a note.

    If the exception cannot be pickled, return a pickled WeftError with the traceback as text.
    """
    where = "".join(traceback.format_exception(error))
    error.add_note(f"in a worker process:\n{where}")
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)  # noqa: S301 - some errors can be packed but not unpacked
    except Exception:
        return pickle.dumps((False, WeftError(f"an error in a worker process:\n{where}")))
    return packed
