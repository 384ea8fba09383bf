"""Progress on long work: one line on the standard error, only where somebody can see it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.cli.terminal import redraws
from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.planners.planner import Progress

__all__ = ["Line", "stage"]

_WIDTH = 100
_CLEAR = "\r\x1b[2K"
_PAUSE_S = 0.1
"""News that come faster than anybody reads are left out."""


class Line:
    """The line while it is there; without a terminal nothing is written, and nobody need tell anything."""

    def __init__(self, text: str, *, seen: bool) -> None:
        self.text = text
        self.news: Callable[[Progress], None] | None = self._tell if seen else None
        self._told_s = 0.0

    def say(self, more: str = "") -> None:
        """Show what is being done, and something about it."""
        told = f": {more}" if more else ""
        _write(f"{_CLEAR}{self.text[: max(0, _WIDTH - len(told))]}{told} …")

    def compiling(self, kernel: str) -> Callable[[], None]:
        """Say that a kernel is compiled; give what takes that back."""
        self.say(f"compiling {kernel} for this processor (once)")
        return self.say

    def _tell(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= _PAUSE_S:
            self._told_s = now_s
            self.say(_news(progress))


@contextmanager
def stage(text: str) -> Iterator[Line]:
    """Show what is being done while it is done, and take the line back afterwards.

    Where a kernel must first be compiled, the line says so: that takes seconds, once per processor type.
    """
    line = Line(text, seen=redraws(sys.stderr))
    if line.news is None:
        yield line
        return
    line.say()
    # Loads numpy, which the work needs anyway, and only now that the line is there.
    from weft.kernels.forms import listening

    try:
        with listening(line.compiling):
            yield line
    finally:
        _write(_CLEAR)


def _news(progress: Progress) -> str:
    """Write how far a search is: the plan, the bound, the gap, and who found the last of it."""
    told = f"{format_seconds(progress.makespan_s)} by {progress.by}"
    if progress.bound_s <= 0:
        return told
    gap = max(0.0, progress.makespan_s / progress.bound_s - 1.0)
    return f"{told}, bound {format_seconds(progress.bound_s)}, gap {gap:.1%}"


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
