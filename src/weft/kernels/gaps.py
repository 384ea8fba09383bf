"""Gaps: the free stretches between the tasks of a machine that serves one task at a time.

Each machine has a stretch of the common arrays, in order of time; when it is full it moves to one twice as
long. A search begins, by bisection, at the first gap that ends late enough (not long before the last one
found), and ends at once where no later gap is wide enough. The widths are kept a little too large, and are
not lowered when a gap is cut: they only save time.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.types import Doubles, Integers

__all__ = ["FIRST_ROOM", "Gaps", "append_gap", "begin_gaps", "cut_gap", "earliest_gap"]

FIRST_ROOM = 4
"""Gaps for which every machine has room from the beginning."""
_ROUNDING = 1e-12
_BEHIND = 6
"""How many gaps before the last one found a search begins: what is placed next may be ready earlier."""


class Gaps(NamedTuple):
    """The gaps of all machines."""

    base: Integers
    """Per machine: the position of its first gap."""
    count: Integers
    room: Integers
    reach: Doubles
    """Per machine: the end of its last gap; 0: it has none."""
    hint: Integers
    """Per machine: where a search may begin, counted from its first gap."""
    used: Integers
    """One number: positions taken by all machines."""
    start: Doubles
    end: Doubles
    widest: Doubles
    """Per gap: at least the width of the widest from here on."""


@kernel
def begin_gaps(machines: int, gaps: Gaps) -> None:
    """Begin without gaps."""
    for machine in range(machines):
        gaps.base[machine] = machine * FIRST_ROOM
        gaps.count[machine] = 0
        gaps.reach[machine] = 0.0
        gaps.hint[machine] = 0
        gaps.room[machine] = FIRST_ROOM
    gaps.used[0] = machines * FIRST_ROOM


@kernel
def earliest_gap(
    machine: int,
    base: Integers,
    count: Integers,
    hint: Integers,
    gap_start: Doubles,
    gap_end: Doubles,
    widest: Doubles,
    free: float,
    ready: float,
    seconds: float,
    limit: float,
) -> float:
    """Find the earliest start in a gap of a machine, else ``free``, from where all is free.

    Only for machines whose ``reach`` is at least ``ready + seconds``: no gap ends later. The search gives up
    where the task would end after ``limit``.
    """
    first = base[machine]
    end = first + count[machine]
    needed = ready + seconds
    low = first + hint[machine]
    if low >= end or gap_end[low] >= needed:
        low = first
    if widest[low] < seconds:
        return free
    # The first gap that ends late enough lies between low and its last position; no branch to be guessed.
    size = end - low
    while size > 1:
        half = size // 2
        low += half * (gap_end[low + half - 1] < needed)
        size -= half
    hint[machine] = max(0, low - first - _BEHIND)
    while low < end and widest[low] >= seconds:
        begin = gap_start[low]
        if ready > begin:
            begin = ready
        finish = begin + seconds
        if finish <= gap_end[low]:
            return begin
        if finish > limit:
            return free
        low += 1
    return free


@kernel
def append_gap(gaps: Gaps, machine: int, start: float, end: float) -> None:
    """Note a gap behind all others."""
    if gaps.count[machine] == gaps.room[machine]:
        _move(gaps, machine)
    base = gaps.base[machine]
    position = base + gaps.count[machine]
    gaps.count[machine] += 1
    gaps.reach[machine] = end
    gaps.start[position] = start
    gaps.end[position] = end
    width = end - start + _ROUNDING * end
    gaps.widest[position] = width
    while position > base and gaps.widest[position - 1] < width:
        position -= 1
        gaps.widest[position] = width


@kernel
def _move(gaps: Gaps, machine: int) -> None:
    """Give a machine twice the room."""
    base = gaps.base[machine]
    target = gaps.used[0]
    for offset in range(gaps.count[machine]):
        gaps.start[target + offset] = gaps.start[base + offset]
        gaps.end[target + offset] = gaps.end[base + offset]
        gaps.widest[target + offset] = gaps.widest[base + offset]
    gaps.base[machine] = target
    gaps.room[machine] *= 2
    gaps.used[0] = target + gaps.room[machine]


@kernel
def cut_gap(gaps: Gaps, machine: int, start: float, finish: float) -> None:
    """Take a stretch out of the gap that holds it; what is left of it stays free."""
    low = gaps.base[machine]
    high = low + gaps.count[machine]
    while low < high:
        middle = (low + high) // 2
        if gaps.end[middle] <= start:
            low = middle + 1
        else:
            high = middle
    inside = start > gaps.start[low]
    if finish < gaps.end[low]:
        if inside:
            low = _split(gaps, machine, low, start)
        gaps.start[low] = finish
        return
    last = gaps.base[machine] + gaps.count[machine] - 1
    if inside:
        gaps.end[low] = start
    else:
        for position in range(low, last):
            gaps.start[position] = gaps.start[position + 1]
            gaps.end[position] = gaps.end[position + 1]
            gaps.widest[position] = gaps.widest[position + 1]
        gaps.count[machine] -= 1
        last -= 1
    gaps.reach[machine] = gaps.end[last] if gaps.count[machine] > 0 else 0.0


@kernel
def _split(gaps: Gaps, machine: int, position: int, start: float) -> int:
    """Divide a gap at a moment; give the later part."""
    if gaps.count[machine] == gaps.room[machine]:
        position -= gaps.base[machine]
        _move(gaps, machine)
        position += gaps.base[machine]
    end = gaps.base[machine] + gaps.count[machine]
    while end > position:
        gaps.start[end] = gaps.start[end - 1]
        gaps.end[end] = gaps.end[end - 1]
        gaps.widest[end] = gaps.widest[end - 1]
        end -= 1
    gaps.count[machine] += 1
    gaps.end[position] = start
    return position + 1
