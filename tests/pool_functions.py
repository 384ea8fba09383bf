"""Functions for the tests of pools; worker processes import them from here."""

from __future__ import annotations

import os
import signal
import threading
import time

from weft.errors import InvalidInput, Problem
from weft.randomness import generator


def squared(number):
    return number * number


def slow_first(number):
    """Return the item; the first item takes longest, so that it ends last."""
    time.sleep(0.3 if number == 0 else 0.0)
    return number, os.getpid(), threading.get_ident()


def together(number):
    """Sleep, so that concurrent calls overlap; return start and end of the call."""
    started = time.time()
    time.sleep(0.4)
    return started, time.time()


def drawn(seed):
    return generator(seed, "piece").random(5).tolist()


def refused(number):
    if number == 3:
        raise InvalidInput(Problem(what=f"piece {number}", rule="must not be 3"))
    return number


class Private(Exception):
    """An exception that can be pickled but not unpickled."""

    def __init__(self, left, right):
        super().__init__(f"{left} and {right}")


def failing_privately(number):
    raise Private("one", "other")


def added(large, number):
    return number + len(large.entries)


class Large:
    """An object that counts how often it is pickled."""

    def __init__(self):
        self.entries = [1, 2, 3]
        self.journeys = 0

    def __getstate__(self):
        self.journeys += 1
        return {"entries": self.entries, "journeys": 0}


def worker(number):
    return os.getpid()


def interrupted(number):
    os.kill(os.getpid(), signal.SIGINT)
    return number


def killed(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def leaving(number):
    os._exit(7)


def sleeping(seconds):
    time.sleep(seconds)
    return os.getpid()
