"""Terminal output: width, colour, the progress line, and the live display of a run.

Progress is written to the standard error. On a terminal the live display is redrawn in place; its lines are
cut to the width of the terminal, because wrapped lines could not be erased. Without a terminal, a line is
printed every 10 to 30 seconds.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from weft.cli.output import escape_controls, write_styled
from weft.redaction import redact
from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.planners.planner import PlanProgress
    from weft.reports.report import GanttView


def width() -> int:
    """Return the output width: $COLUMNS or the terminal's width, limited to 60..140; default 100."""
    return max(60, min(140, shutil.get_terminal_size((100, 24)).columns))


def colored() -> bool:
    """Return whether to colour the standard output: on a terminal, unless NO_COLOR is set."""
    return redraws(sys.stdout) and not os.environ.get("NO_COLOR")


def colored_errors() -> bool:
    """Return whether to colour the standard error: on a terminal, unless NO_COLOR is set."""
    return redraws(sys.stderr) and not os.environ.get("NO_COLOR")


def ascii_only(stream: TextIO | None = None) -> bool:
    """Return whether a stream (default: the standard output) can show only ASCII characters."""
    return "utf" not in ((stream or sys.stdout).encoding or "").lower()


def print_chart(view: GanttView) -> None:
    """Print the chart of a schedule."""
    from weft.reports import REPORTS

    gantt, color = REPORTS.load("gantt-text")(), colored()
    chart = gantt.render(view, width=width(), color=color, ascii=ascii_only(), heading=False)
    write_styled(sys.stdout, f"\n{chart}\n")


def redraws(stream: TextIO) -> bool:
    """Return whether lines of a stream can be erased and redrawn: a terminal whose TERM is not dumb."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


_UP_AND_CLEAR = "\x1b[{}A\x1b[J"
_PAUSE_S = 0.2
_SHARE = 20
"""Redrawing takes at most about 1 / ``_SHARE`` of the elapsed time."""
_FIRST_S, _LATER_S = 10.0, 30.0
"""Without a terminal: seconds between two lines in the first ``_SOON_S`` seconds, and after them."""
_SOON_S = 300.0
_LEAST_COLUMNS = 10


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return (columns, lines) of a terminal; default (80, 24)."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return max(_LEAST_COLUMNS, found.columns or 80), max(2, found.lines or 24)


class LiveDisplay:
    """A block of lines that is redrawn in place; without a terminal, a line every 10 to 30 seconds."""

    def __init__(
        self,
        block: Callable[[int, int], Sequence[str]],
        line: Callable[[], str],
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
    ) -> None:
        """Create a display.

        ``block(columns, lines)`` returns the lines for a terminal of this size; ``line()`` returns the line
        that is printed without a terminal.
        """
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
        """Redraw the block or print a line, if enough time has passed since the last redraw or line."""
        now_s = time.monotonic()
        if self._quiet or now_s < self._next_s:
            return
        if self.drawn:
            self._draw()
            took_s = time.monotonic() - now_s
            self._next_s = now_s + max(_PAUSE_S, _SHARE * took_s)
        else:
            pause_s = _FIRST_S if now_s - self._began_s < _SOON_S else _LATER_S
            # The first line is printed after a pause, so that short runs print none.
            if self._next_s and (line := self._line()) != self._last:
                self._last = line
                self._write(f"{line}\n")
            self._next_s = now_s + pause_s

    def say(self, text: str, *, error: bool = False) -> None:
        """Print a permanent line above the block; a quiet display prints only errors."""
        if error or not self._quiet:
            self.clear()
            self._write(f"{text}\n")
            self._next_s = min(self._next_s, time.monotonic() + _PAUSE_S) if self.drawn else self._next_s

    def say_at_once(self, text: str) -> None:
        """Print a last line from a signal handler, which may have interrupted a write to the stream."""
        if not self._quiet:
            with suppress(RuntimeError):  # the stream may be in the middle of a write
                self.clear()
            with suppress(OSError):
                os.write(self._stream.fileno(), f"{escape_controls(text)}\n".encode(errors="replace"))

    def clear(self) -> None:
        """Erase the block of lines from the terminal."""
        if self._lines:
            self._write(_UP_AND_CLEAR.format(self._lines), styled=True)
            self._lines = 0

    def _draw(self) -> None:
        columns, rows = terminal_size(self._stream)
        # Leave one column free: some terminals wrap a full line.
        lines = list(self._block(columns - 1, rows - 1))[: rows - 1]
        back = _UP_AND_CLEAR.format(self._lines) if self._lines else ""
        self._write(back + "".join(f"{line}\n" for line in lines), styled=True)
        self._lines = len(lines)

    def _write(self, text: str, *, styled: bool = False) -> None:
        try:
            if styled:
                write_styled(self._stream, text)
            else:
                self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._quiet, self.drawn, self._lines = True, False, 0  # the terminal was closed


_WIDTH = 100
_CLEAR = "\r\x1b[2K"
_UPDATE_PAUSE_S = 0.1
"""Minimal number of seconds between two updates of the progress line."""


class ProgressLine:
    """A line on the terminal that shows the current step.

    ``on_progress`` is a callback for planners that updates the line; None if standard error is not a
    terminal.
    """

    def __init__(self, text: str, *, seen: bool) -> None:
        self.text = text
        self.on_progress: Callable[[PlanProgress], None] | None = self._show_progress if seen else None
        self._shown_s = 0.0

    def say(self, more: str = "") -> None:
        """Show the current step, followed by the detail ``more``."""
        detail = f": {more}" if more else ""
        step = escape_controls(f"{redact(self.text)[: max(0, _WIDTH - len(detail))]}{redact(detail)}")
        _write_error(f"{_CLEAR}{step} …")

    def compiling(self, kernel: str) -> Callable[[], None]:
        """Show that a kernel is being compiled; return a callback that shows the current step again."""
        self.say(f"compiling {kernel} for this processor (once)")
        return self.say

    def say_if_due(self, detail: Callable[[], str]) -> None:
        """Show the current step and ``detail()``, unless the line was updated within ``_UPDATE_PAUSE_S``."""
        now_s = time.monotonic()
        if now_s - self._shown_s >= _UPDATE_PAUSE_S:
            self._shown_s = now_s
            self.say(detail())

    def _show_progress(self, progress: PlanProgress) -> None:
        self.say_if_due(lambda: _progress_text(progress))


@contextmanager
def stage(text: str) -> Iterator[ProgressLine]:
    """Context manager that shows ``text`` on the terminal while its block runs, and erases it afterwards.

    The line also shows when a kernel is compiled, which takes seconds, once per type of processor.
    """
    line = ProgressLine(text, seen=redraws(sys.stderr))
    if line.on_progress is None:
        yield line
        return
    line.say()
    # Imported after the line is shown, because the import of numpy takes time.
    from weft.kernels.compilation import report_compilation

    try:
        with report_compilation(line.compiling):
            yield line
    finally:
        _write_error(_CLEAR)


def _progress_text(progress: PlanProgress) -> str:
    """Return the state of a search as text: best makespan, the planner that found it, lower bound and gap."""
    detail = f"{format_seconds(progress.makespan_s)} by {progress.by}"
    if progress.bound_s <= 0:
        return detail
    gap = max(0.0, progress.makespan_s / progress.bound_s - 1.0)
    return f"{detail}, bound {format_seconds(progress.bound_s)}, gap {gap:.1%}"


def _write_error(text: str) -> None:
    write_styled(sys.stderr, text)
    sys.stderr.flush()
