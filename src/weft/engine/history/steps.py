"""A number that changes now and then: its value over time, as steps."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Steps"]


@dataclass(slots=True)
class Steps:
    """Times and the values from then on; before the first time the value is 0."""

    times_s: list[float] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def at(self, now_s: float, value: int) -> None:
        """Say what the value is from now on; of several at one time the last holds."""
        if self.times_s and self.times_s[-1] == now_s:
            self.values[-1] = value
            if len(self.values) > 1 and self.values[-2] == value:
                del self.times_s[-1], self.values[-1]
        elif not self.values or self.values[-1] != value:
            self.times_s.append(now_s)
            self.values.append(value)

    def add(self, now_s: float, change: int) -> None:
        """Change the value by some amount from now on."""
        self.at(now_s, (self.values[-1] if self.values else 0) + change)

    @property
    def most(self) -> int:
        """Give the largest value."""
        return max(self.values, default=0)

    def mean(self, end_s: float) -> float:
        """Give the mean value from 0 to a time."""
        if end_s <= 0:
            return 0.0
        borders = [*self.times_s[1:], end_s]
        area = sum(
            value * max(0.0, min(after, end_s) - min(start, end_s))
            for start, after, value in zip(self.times_s, borders, self.values, strict=False)
        )
        return area / end_s

    def thinned(self, most: int) -> list[tuple[float, int]]:
        """Give at most about so many steps; where steps are joined, the largest value of them stays."""
        pairs = list(zip(self.times_s, self.values, strict=True))
        each = -(-len(pairs) // most) if pairs else 1
        if each <= 1:
            return pairs
        joined = [
            (pairs[first][0], max(value for _, value in pairs[first : first + each]))
            for first in range(0, len(pairs) - 1, each)
        ]
        return [*joined, pairs[-1]]
