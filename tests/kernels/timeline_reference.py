"""Reference of timelines: the free capacity of a machine, and the earliest start of a task.

Three forms with one interface. ``Gaps`` is for machines of one node: a sorted list of free intervals.
``Skyline`` is for machines of several nodes and countable resources: a step function of the free capacity.
``Open`` is for machines without limits.
"""

from __future__ import annotations

import bisect
import math
from typing import Protocol

from weft.instance.instance import Instance

__all__ = ["Gaps", "Open", "Skyline", "Timeline", "timelines"]


class Timeline(Protocol):
    """The occupancy of one machine."""

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Return the earliest start not before ``ready_s``; inf if it never fits."""
        ...

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Occupy nodes and amounts from ``start_s`` on."""
        ...


class Open:
    """A machine without limits."""

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Return the ready time."""
        return ready_s

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Do nothing, because there are no limits."""


class Gaps:
    """Free intervals of a machine of one node, ascending; the last one never ends."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts = [0.0]
        self.ends = [math.inf]

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Return the start in the first gap that is long enough. A task of 0 s fits anywhere."""
        starts = self.starts
        if ready_s >= starts[-1] or seconds == 0.0:
            return ready_s
        ends = self.ends
        position = max(bisect.bisect_right(starts, ready_s) - 1, 0)
        start = max(starts[position], ready_s)
        while start + seconds > ends[position]:
            position += 1
            start = starts[position]
        return start

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Remove the time of the task from its gap."""
        if seconds == 0.0:
            return
        finish = start_s + seconds
        position = bisect.bisect_right(self.starts, start_s) - 1
        gap_start, gap_end = self.starts[position], self.ends[position]
        before, after = start_s > gap_start, finish < gap_end
        if before and after:
            self.ends[position] = start_s
            self.starts.insert(position + 1, finish)
            self.ends.insert(position + 1, gap_end)
        elif before:
            self.ends[position] = start_s
        elif after:
            self.starts[position] = finish
        else:
            del self.starts[position], self.ends[position]


class Skyline:
    """A step function: from ``times[i]`` on, ``nodes[i]`` nodes and ``amounts[i]`` are free."""

    __slots__ = ("amounts", "nodes", "slack", "times")

    def __init__(self, nodes: int, amounts: tuple[float, ...]) -> None:
        self.times = [0.0]
        self.nodes = [nodes]
        self.amounts = [amounts]
        # Amounts are sums of doubles: compare with a tolerance, nodes exactly.
        self.slack = tuple(1e-9 * total if math.isfinite(total) else 0.0 for total in amounts)

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Return the earliest time at which enough is free for the whole duration."""
        if seconds == 0.0:
            return ready_s
        times, free, left = self.times, self.nodes, self.amounts
        need = tuple(map(float.__sub__, amounts, self.slack)) if any(amounts) else ()
        last = len(times) - 1
        position = max(bisect.bisect_right(times, ready_s) - 1, 0)
        start = ready_s
        while True:
            if free[position] < nodes or (need and any(map(float.__lt__, left[position], need))):
                if position == last:
                    return math.inf
                position += 1
                start = times[position]
            elif position == last or times[position + 1] >= start + seconds:
                return start
            else:
                position += 1

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Lower the skyline while the task runs."""
        if seconds == 0.0:
            return
        first, end = self._cut(start_s), self._cut(start_s + seconds)
        for position in range(first, end):
            self.nodes[position] -= nodes
        if any(amounts):
            for position in range(first, end):
                self.amounts[position] = tuple(map(float.__sub__, self.amounts[position], amounts))
        self._merge(end)
        self._merge(first)

    def _cut(self, time_s: float) -> int:
        """Insert a step at a time if there is none; return its index."""
        position = bisect.bisect_left(self.times, time_s)
        if position == len(self.times) or self.times[position] != time_s:
            self.times.insert(position, time_s)
            self.nodes.insert(position, self.nodes[position - 1])
            self.amounts.insert(position, self.amounts[position - 1])
        return position

    def _merge(self, position: int) -> None:
        """Remove a step that equals the one before it."""
        if (
            position > 0
            and self.nodes[position] == self.nodes[position - 1]
            and self.amounts[position] == self.amounts[position - 1]
        ):
            del self.times[position], self.nodes[position], self.amounts[position]


def timelines(instance: Instance) -> list[Timeline]:
    """Return the timelines of all machines, with their busy intervals."""
    found: list[Timeline] = []
    shared = {held.machine for held in instance.busy}
    for machine, nodes in enumerate(instance.capacity.tolist()):
        if instance.unlimited[machine]:
            found.append(Open())
        elif nodes == 1 and machine not in shared:
            found.append(Gaps())  # one task at a time: its amounts were compared with the totals beforehand
        else:
            found.append(Skyline(nodes, tuple(instance.amounts[machine].tolist())))
    nothing = (0.0,) * len(instance.graph.resource_names)
    for held in instance.busy:
        start = max(0.0, held.start_s)
        seconds = max(0.0, held.finish_s - start)
        found[held.machine].take(start, seconds, held.nodes, held.amounts or nothing)
    return found
