"""Timelines: what is free on a machine, and the earliest place a task fits into.

Three forms with one interface. ``Gaps`` serves machines of one node: a sorted list of the free intervals
that are left. ``Skyline`` serves machines of several nodes and countable resources: a step function of
what is free. ``Open`` serves machines on which tasks do not disturb each other.
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
        """Find the earliest start not before ``ready_s``; inf where it never fits."""
        ...

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Occupy nodes and amounts from ``start_s`` on."""
        ...


class Open:
    """A machine on which tasks do not disturb each other."""

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Start at once."""
        return ready_s

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Nothing is occupied."""


class Gaps:
    """Free intervals of a machine of one node, ascending; the last one never ends."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts = [0.0]
        self.ends = [math.inf]

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Find the first gap that holds the task. A task of no length fits anywhere."""
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
        """Cut the gap that holds the task; what is left of it stays free."""
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
        # Amounts are doubles that are taken and given back: compare with a tolerance, nodes exactly.
        self.slack = tuple(1e-9 * total if math.isfinite(total) else 0.0 for total in amounts)

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Find the first moment from which enough is free for as long as it takes."""
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
        """Make a step begin at a time and return its position."""
        position = bisect.bisect_left(self.times, time_s)
        if position == len(self.times) or self.times[position] != time_s:
            self.times.insert(position, time_s)
            self.nodes.insert(position, self.nodes[position - 1])
            self.amounts.insert(position, self.amounts[position - 1])
        return position

    def _merge(self, position: int) -> None:
        """Drop a step that is like the one before it, so that a full stretch of time is one step."""
        if (
            position > 0
            and self.nodes[position] == self.nodes[position - 1]
            and self.amounts[position] == self.amounts[position - 1]
        ):
            del self.times[position], self.nodes[position], self.amounts[position]


def timelines(instance: Instance) -> list[Timeline]:
    """Make the timelines of all machines, with what is already busy on them."""
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
