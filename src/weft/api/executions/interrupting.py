"""Being interrupted: the first signal ends a run in order, the second at once.

Handlers are put in place only in the main thread of a process, because Python allows them nowhere else; in
another thread, as in some notebooks, a run is ended by whoever started the thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

__all__ = ["SIGNALS", "Interruptions"]

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """A context in which signals are counted instead of ending the process."""

    def __init__(
        self, at_once: Callable[[int], object], *, signals: Sequence[signal.Signals] = SIGNALS
    ) -> None:
        """``at_once`` is called, with the signal's number, when a second signal comes; it may raise."""
        self.first: int | None = None
        """The number of the first signal; None: none came."""
        self._at_once = at_once
        self._signals = signals
        self._before: dict[signal.Signals, Any] = {}

    def __call__(self) -> bool:
        """Say whether a signal came."""
        return self.first is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in self._signals:
                # What was ignored before us (`nohup`) stays ignored.
                if signal.getsignal(each) is not signal.SIG_IGN:
                    self._before[each] = signal.signal(each, self._heard)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    def _heard(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 -- a handler is given both
        if self.first is None:
            self.first = number
        else:
            self._at_once(number)
