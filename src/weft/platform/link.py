"""A link: how fast data move between two places."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from weft.errors import Problem

__all__ = ["DEFAULT_LINK", "Link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Moving B bytes takes ``latency_s + B / bandwidth_Bps`` seconds."""

    latency_s: float = 0.0
    bandwidth_Bps: float = 1e9  # noqa: N815 -- B is bytes, b would be bits
    """Bytes per second; infinite where data move at once."""

    def seconds(self, size: float) -> float:
        """Give how long so many bytes take."""
        return self.latency_s + size / self.bandwidth_Bps

    def faults(self) -> Iterator[Problem]:
        """Find what breaks a link's rules."""
        if not 0 <= self.latency_s < math.inf:
            what = f"latency {self.latency_s}"
            yield Problem(what=what, rule="must be finite and at least 0 seconds", path=("latency",))
        # A rate so small that one byte takes for ever cannot be inverted; nan fails this, too.
        if not self.bandwidth_Bps > 0 or 1 / self.bandwidth_Bps == math.inf:
            what = f"bandwidth {self.bandwidth_Bps}"
            yield Problem(what=what, rule="must be above 0 bytes per second", path=("bandwidth",))


DEFAULT_LINK = Link()
"""Where nothing is said: 1 GB/s, no latency."""
