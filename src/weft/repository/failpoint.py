"""A hook for tests: the process dies at a chosen write, as if it had been killed there.

``WEFT_FAILPOINT=commit:3`` kills it (SIGKILL) before its third commit, ``WEFT_FAILPOINT=committed:3`` after
it, before anything that follows from it can happen. Other values, and no value, do nothing.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

__all__ = ["VARIABLE", "Failpoint"]

VARIABLE = "WEFT_FAILPOINT"


@dataclass(slots=True)
class Failpoint:
    """Counts commits, and ends the process at the stated one."""

    place: str = ""
    """``commit``, ``committed``; "": nowhere."""
    left: int = 0
    """Commits until then."""

    @classmethod
    def stated(cls) -> Failpoint:
        """Read the environment variable."""
        place, _, number = os.environ.get(VARIABLE, "").partition(":")
        if place not in ("commit", "committed") or not number.isdecimal():
            return cls()
        return cls(place=place, left=int(number))

    def before_commit(self) -> None:
        """Hear that a commit is about to be made."""
        if self.place:
            self.left -= 1
            self._die_at("commit")

    def after_commit(self) -> None:
        """Hear that a commit was made."""
        if self.place:
            self._die_at("committed")

    def _die_at(self, place: str) -> None:
        if self.place == place and self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
