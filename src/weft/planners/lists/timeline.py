"""Timelines: what is free on a machine, and the earliest place a task fits into.

Two forms with one interface. ``Gaps`` serves machines of one node: a sorted list of the free intervals that are left.
``Skyline`` serves machines of several nodes and countable resources: a step function of what is free.
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
        """Find the earliest start not before ``ready_s``."""
        ...

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Occupy nodes and amounts from ``start_s`` on."""
        ...


class Open:
    """A machine on which tasks do not disturb each other."""

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:  # noqa: ARG002
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

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:  # noqa: ARG002
        """Find the first gap that holds the task. A task of no length fits anywhere."""
        if seconds == 0.0:
            return ready_s
        starts, ends = self.starts, self.ends
        position = max(bisect.bisect_right(starts, ready_s) - 1, 0)
        while True:
            start = starts[position] if starts[position] > ready_s else ready_s
            if start + seconds <= ends[position]:
                return start
            position += 1

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:  # noqa: ARG002
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
    """A step function: from ``times[i]`` on, ``free[i]`` nodes (and amounts) are free."""

    __slots__ = ("free", "slack", "times")

    def __init__(self, nodes: int, amounts: tuple[float, ...]) -> None:
        self.times = [0.0]
        self.free = [[float(nodes), *amounts]]
        # Amounts are doubles that are taken and given back: compare with a tolerance, nodes exactly.
        self.slack = [0.0, *(1e-9 * total if math.isfinite(total) else 0.0 for total in amounts)]

    def earliest(self, ready_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> float:
        """Find the first moment from which enough is free for as long as it takes."""
        if seconds == 0.0:
            return ready_s
        times, free = self.times, self.free
        need = [amount - slack for amount, slack in zip((nodes, *amounts), self.slack, strict=True)]
        last = len(times) - 1
        start = ready_s
        position = max(bisect.bisect_right(times, ready_s) - 1, 0)
        while position <= last:
            if not all(map(float.__ge__, free[position], map(float, need))):
                position += 1
                start = times[position]
            elif position == last or times[position + 1] >= start + seconds:
                return start
            else:
                position += 1
        raise AssertionError("the last step of a skyline is the empty machine, where every mode fits")

    def take(self, start_s: float, seconds: float, nodes: int, amounts: tuple[float, ...]) -> None:
        """Lower the skyline while the task runs."""
        if seconds == 0.0:
            return
        first, end = self._cut(start_s), self._cut(start_s + seconds)
        for position in range(first, end):
            self.free[position] = [
                have - took for have, took in zip(self.free[position], (nodes, *amounts), strict=True)
            ]

    def _cut(self, time_s: float) -> int:
        """Make a step begin at a time and give its position."""
        position = bisect.bisect_left(self.times, time_s)
        if position == len(self.times) or self.times[position] != time_s:
            self.times.insert(position, time_s)
            self.free.insert(position, list(self.free[position - 1]))
        return position


def timelines(instance: Instance) -> list[Timeline]:
    """Make the timelines of all machines, with what is already busy on them."""
    found: list[Timeline] = []
    resources = len(instance.graph.resource_names)
    for machine in range(len(instance.machines)):
        if instance.unlimited[machine]:
            found.append(Open())
        elif instance.capacity[machine] == 1 and not instance.busy:
            found.append(Gaps())  # one task at a time: its amounts were compared with the totals beforehand
        else:
            found.append(Skyline(int(instance.capacity[machine]), tuple(instance.amounts[machine].tolist())))
    for held in instance.busy:
        amounts = held.amounts or (0.0,) * resources
        found[held.machine].take(held.start_s, held.finish_s - held.start_s, held.nodes, amounts)
    return found
