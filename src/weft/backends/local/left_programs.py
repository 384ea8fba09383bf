"""Left programs: what an engine that died has left with its runners, and what they remember of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.backends.local.live import Live
from weft.backends.local.runners import Record

__all__ = ["LeftPrograms"]


@dataclass(slots=True)
class LeftPrograms:
    """The programs of an engine that died."""

    commanded: set[int] = field(default_factory=set)
    """Attempts that it had decided to start, whether or not a runner heard of it."""
    running: set[int] = field(default_factory=set)
    """Attempts whose programs still run."""
    ends: dict[int, Record] = field(default_factory=dict)
    """Attempts whose programs have ended since."""
    _starts: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def take(self, here: Mapping[str, Any]) -> None:
        """Take in the greeting of a runner."""
        self.running |= {int(each["attempt"]) for each in here["running"]}
        self.ends |= {int(each["attempt"]): each for each in here["ended"]}
        starts = here.get("starts", ())  # a runner of an older weft tells none
        self._starts |= {int(each["attempt"]): each for each in starts}

    def recall(self, live: Live) -> None:
        """Let an attempt know again what was known when its program was started.

        Its inputs may have changed since: what it is made from is never worked out anew.
        """
        number = live.number
        live.inherited = number in self.commanded
        start = self._starts.pop(number, None)
        if start is None or not (number in self.running or number in self.ends):
            return
        live.recall(str(start.get("reminder") or ""))
        if number in self.running or self.ends[number].get("cause") != "lost":  # else nobody saw it end
            live.began_at = float(start["at"])
