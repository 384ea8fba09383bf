"""What the terminal can do: its width, and whether colour is wanted.

Live progress: a block of lines that is drawn again and again on a terminal, else a line now and then.

It goes to the standard error. A block never has a line longer than the terminal is wide, nor more lines than
it is high, so that nothing wraps and what was drawn can be taken back.

Progress on long work: one line on the standard error, only where somebody can see it.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.planners.planner import PlanProgress

__all__ = [
    "LiveDisplay",
    "ProgressLine",
    "colored",
    "colored_errors",
    "redraws",
    "stage",
    "terminal_size",
    "width",
]


def width() -> int:
    """Give the columns to fill: those of COLUMNS or of the terminal, from 60 to 140; 100 without either."""
    return max(60, min(140, shutil.get_terminal_size((100, 24)).columns))


def colored() -> bool:
    """Say whether to colour: only on a terminal, and never when NO_COLOR is set."""
    return redraws(sys.stdout) and not os.environ.get("NO_COLOR")


def colored_errors() -> bool:
    """Say the same of the standard error, where progress is shown."""
    return redraws(sys.stderr) and not os.environ.get("NO_COLOR")


def redraws(stream: TextIO) -> bool:
    """Say whether lines can be taken back and coloured there: on terminals, but for dumb ones."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


_UP_AND_CLEAR = "\x1b[{}A\x1b[J"
_PAUSE_S = 0.2
_SHARE = 20
"""What drawing takes may be at most one part in so many of all time."""
_FIRST_S, _LATER_S = 10.0, 30.0
"""Seconds between two lines where there is no terminal: in the first minutes, and later."""
_SOON_S = 300.0
_LEAST_COLUMNS = 10


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Give columns and lines of a terminal; what it does not know is taken as usual."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return max(_LEAST_COLUMNS, found.columns or 80), max(2, found.lines or 24)


class LiveDisplay:
    """The block while it is there. Without a terminal ``say`` prints lines, and the block is one of them."""

    def __init__(
        self,
        block: Callable[[int, int], Sequence[str]],
        line: Callable[[], str],
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
    ) -> None:
        """``block`` gives the lines for so many columns and lines, ``line`` the same in one."""
        self._block = block
        self._line = line
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self.drawn = not quiet and redraws(self._stream)
        self._lines = 0
        self._next_s = 0.0
        self._began_s = time.monotonic()
        self._last = ""

    def tick(self) -> None:
        """Draw again if it is time to."""
        now_s = time.monotonic()
        if self._quiet or now_s < self._next_s:
            return
        if self.drawn:
            self._draw()
            took_s = time.monotonic() - now_s
            self._next_s = now_s + max(_PAUSE_S, _SHARE * took_s)
        else:
            pause_s = _FIRST_S if now_s - self._began_s < _SOON_S else _LATER_S
            # The first line comes after a pause too: a run that is over by then needs none.
            if self._next_s and (line := self._line()) != self._last:
                self._last = line
                self._write(f"{line}\n")
            self._next_s = now_s + pause_s

    def say(self, text: str) -> None:
        """Print a line that stays, above the block."""
        if not self._quiet:
            self.clear()
            self._write(f"{text}\n")
            self._next_s = min(self._next_s, time.monotonic() + _PAUSE_S) if self.drawn else self._next_s

    def say_at_once(self, text: str) -> None:
        """Print a last line from the handler of a signal, which may have come in the middle of writing."""
        if not self._quiet:
            with suppress(RuntimeError):  # a stream that is writing is not written to once more
                self.clear()
            with suppress(OSError):
                os.write(self._stream.fileno(), f"{text}\n".encode())

    def clear(self) -> None:
        """Take the block back."""
        if self._lines:
            self._write(_UP_AND_CLEAR.format(self._lines))
            self._lines = 0

    def _draw(self) -> None:
        columns, rows = terminal_size(self._stream)
        # One column is left free: a full line makes some terminals wrap.
        lines = list(self._block(columns - 1, rows - 1))[: rows - 1]
        back = _UP_AND_CLEAR.format(self._lines) if self._lines else ""
        self._write(back + "".join(f"{line}\n" for line in lines))
        self._lines = len(lines)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._quiet, self.drawn, self._lines = True, False, 0  # nobody is there any more


_WIDTH = 100
_CLEAR = "\r\x1b[2K"
_UPDATE_PAUSE_S = 0.1
"""News that come faster than anybody reads are left out."""


class ProgressLine:
    """The line while it is there; without a terminal nothing is written, and nobody need tell anything."""

    def __init__(self, text: str, *, seen: bool) -> None:
        self.text = text
        self.news: Callable[[PlanProgress], None] | None = self._tell if seen else None
        self._told_s = 0.0

    def say(self, more: str = "") -> None:
        """Show what is being done, and something about it."""
        told = f": {more}" if more else ""
        _write_error(f"{_CLEAR}{self.text[: max(0, _WIDTH - len(told))]}{told} …")

    def compiling(self, kernel: str) -> Callable[[], None]:
        """Say that a kernel is compiled; give what takes that back."""
        self.say(f"compiling {kernel} for this processor (once)")
        return self.say

    def _tell(self, progress: PlanProgress) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= _UPDATE_PAUSE_S:
            self._told_s = now_s
            self.say(_progress_text(progress))


@contextmanager
def stage(text: str) -> Iterator[ProgressLine]:
    """Show what is being done while it is done, and take the line back afterwards.

    Where a kernel must first be compiled, the line says so: that takes seconds, once per processor type.
    """
    line = ProgressLine(text, seen=redraws(sys.stderr))
    if line.news is None:
        yield line
        return
    line.say()
    # Loads numpy, which the work needs anyway, and only now that the line is there.
    from weft.kernels.compilation import report_compilation

    try:
        with report_compilation(line.compiling):
            yield line
    finally:
        _write_error(_CLEAR)


def _progress_text(progress: PlanProgress) -> str:
    """Write how far a search is: the plan, the bound, the gap, and who found the last of it."""
    told = f"{format_seconds(progress.makespan_s)} by {progress.by}"
    if progress.bound_s <= 0:
        return told
    gap = max(0.0, progress.makespan_s / progress.bound_s - 1.0)
    return f"{told}, bound {format_seconds(progress.bound_s)}, gap {gap:.1%}"


def _write_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
