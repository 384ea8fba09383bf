"""Moldable tasks: which node counts are allowed and how time falls with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.errors import Problem

__all__ = ["Amdahl", "Communication", "Measured", "Roofline", "SpeedUp", "interpolate_log_log"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amdahl:
    """A fixed share of the work is serial: speed-up ``1 / (f + (1 - f)/R)`` on R nodes."""

    serial: float

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on one node."""
        return 1.0 / (self.serial + (1.0 - self.serial) / nodes)

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if not 0 <= self.serial <= 1:
            yield Problem(what=f"serial share {self.serial}", rule="must lie between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Perfect speed-up up to a limit, none beyond it."""

    limit: int

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on one node."""
        return float(min(nodes, self.limit))

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if self.limit < 1:
            yield Problem(what=f"roofline limit {self.limit}", rule="must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Perfect division of the work plus an overhead that grows with the nodes.

    Time on R nodes = ``T1 * (1/R + c * (R - 1))``: every added node costs a share c of the serial time.
    """

    overhead: float

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on one node."""
        return 1.0 / (1.0 / nodes + self.overhead * (nodes - 1))

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if not (self.overhead >= 0 and math.isfinite(self.overhead)):
            yield Problem(what=f"communication overhead {self.overhead}", rule="must be at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds measured on machines of speed 1, by node count (S2 section 3).

    Between measured counts the time is interpolated log-log; beyond the largest it is unknown.
    """

    seconds: Mapping[int, float]

    def speedup(self, nodes: int) -> float:
        """Give how many times faster than on the smallest measured count; nan where nothing is known."""
        counts = sorted(self.seconds)
        found = interpolate_log_log(counts, [self.seconds[count] for count in counts], nodes)
        return math.nan if found is None else self.seconds[counts[0]] / found

    @property
    def first_seconds(self) -> float:
        """Give the time on the smallest measured count: the default for ``work``."""
        return self.seconds[min(self.seconds)]

    def faults(self) -> Iterator[Problem]:
        """Find what breaks this record's rules."""
        if not self.seconds:
            yield Problem(what="an empty table of seconds", advice="give at least one {nodes: seconds} entry")
        for count, seconds in self.seconds.items():
            if count < 1:
                yield Problem(what=f"node count {count} in a table of seconds", rule="must be at least 1")
            if not (seconds > 0 and math.isfinite(seconds)):
                yield Problem(what=f"{seconds} seconds on {count} nodes", rule="must be above 0")


SpeedUp = Amdahl | Roofline | Communication | Measured


def interpolate_log_log(xs: Sequence[float], ys: Sequence[float], x: float) -> float | None:
    """Interpolate a positive table piecewise linearly in log-log space; None outside it (S2.10)."""
    if not xs or x < xs[0] or x > xs[-1]:
        return None
    for index, known in enumerate(xs):
        if x == known:
            return ys[index]
        if x < known:
            x0, y0, x1, y1 = xs[index - 1], ys[index - 1], known, ys[index]
            share = math.log(x / x0) / math.log(x1 / x0)
            return math.exp(math.log(y0) + share * math.log(y1 / y0))
    return None
