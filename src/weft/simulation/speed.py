"""How fast a machine computes while slowdowns and competing processes come and go: piecewise constant.

A machine keeps a clock of its own that runs at the share of its speed that is ours: in 9 s at a third of it
the clock moves by 3 s. Work that takes w seconds undisturbed, begun when the clock stands at c, is done when
it stands at c + w, whatever happens in between. So a change of speed costs nothing per running task, and only
the next end has to be looked up again. Undisturbed, the clock is the time of the run, bit for bit.
"""

from __future__ import annotations

__all__ = ["Speed"]


class Speed:
    """The share of a machine's speed that is ours, and the machine's own clock."""

    __slots__ = ("_clock_s", "_processes", "_share", "_since_s", "_slowdowns")

    def __init__(self) -> None:
        self._slowdowns: list[float] = []
        self._processes = 0
        self._share = 1.0
        self._since_s = 0.0
        self._clock_s = 0.0

    @property
    def share(self) -> float:
        """Give the current share: 1 undisturbed, the product of all slowdowns and 1/(processes + 1)."""
        return self._share

    def clock_s(self, now: float) -> float:
        """Give the time of the machine's own clock; ``now`` is not before the last change."""
        return self._clock_s + (now - self._since_s) * self._share

    def time_of(self, clock_s: float) -> float:
        """Give the time at which the clock will stand there if nothing changes any more."""
        return self._since_s + (clock_s - self._clock_s) / self._share

    def finish_s(self, work_s: float, now: float) -> float:
        """Give the time at which work begun now will be done if nothing changes any more.

        ``work_s``: what it takes undisturbed.
        """
        return self.time_of(self.clock_s(now) + work_s)

    def slow(self, slowdown: float, now: float) -> None:
        """Make the machine so many times slower, on top of what slows it already."""
        self._slowdowns.append(slowdown)
        self._change(now)

    def relieve(self, slowdown: float, now: float) -> None:
        """End one slowdown by this factor; it must have begun."""
        self._slowdowns.remove(slowdown)
        self._change(now)

    def load(self, processes: int, now: float) -> None:
        """Let so many more processes compete."""
        self._processes += processes
        self._change(now)

    def unload(self, processes: int, now: float) -> None:
        """Let so many processes fewer compete."""
        if processes > self._processes:
            raise ValueError(f"{processes} processes end where {self._processes} compete")
        self._processes -= processes
        self._change(now)

    def _change(self, now: float) -> None:
        self._clock_s, self._since_s = self.clock_s(now), now
        share = 1.0 / (self._processes + 1)
        # Multiplied anew each time: what comes and goes leaves no rounding behind.
        for slowdown in self._slowdowns:
            share /= slowdown
        self._share = share
