"""Work aside: what takes long happens in threads, and what follows from it happens in the one that waits."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

__all__ = ["Aside", "Follow"]

_THREADS = 4

Follow = Callable[[], None]
"""What is to be done in the waiting thread."""


class Aside:
    """Threads, and a descriptor that can be read when one of them has something to tell."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="staging")
        self._follow: SimpleQueue[Follow] = SimpleQueue()
        self.descriptor, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def do(self, work: Callable[[], Follow]) -> None:
        """Do something in a thread; what it gives is done by the next ``follow``."""
        self._pool.submit(self._done, work)

    def _done(self, work: Callable[[], Follow]) -> None:
        try:
            self._follow.put(work())
        except BaseException as error:  # raised again where it can be told
            self._follow.put(partial(_raise, error))
        self.wake()

    @property
    def waiting(self) -> bool:
        """Say whether something is to be followed up."""
        return not self._follow.empty()

    def follow(self) -> None:
        """Do what follows from what was done."""
        while not self._follow.empty():
            self._follow.get()()

    def wake(self) -> None:
        """Let the descriptor become readable."""
        with suppress(BlockingIOError):  # it is already
            os.write(self._waker, b"x")

    def drain(self) -> None:
        """Let the descriptor become quiet again."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def close(self) -> None:
        """Wait for the threads, and let go."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        os.close(self.descriptor)
        os.close(self._waker)


def _raise(error: BaseException) -> None:
    raise error
