"""Packing: nodes and countable amounts as fields of one integer (read by ``weft.kernels.searches.shared``).

A dimension that never runs out takes no field. Whole numbers, and decimals with few digits, are packed as
they are, divided by what they have in common. Others become shares of the whole, what is needed rounded up
and what is free rounded down: what fits packed fits in truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Busy, Instance
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Packing", "pack"]

_BITS = 63
"""Of a signed integer that is not negative."""
_SCALES = (1.0, 2.0, 4.0, 10.0, 100.0, 1000.0)
"""By which amounts may become whole numbers."""
_SHARES = (720720, 55440, 5040, 840, 60, 12, 2, 1)
"""Into how many parts a total is divided else: numbers that many others divide."""
_ROUNDING = 1e-9

_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Dimension:
    """Nodes or one resource: what ways need and machines have."""

    need: Floats
    """Per way."""
    total: Floats
    """Per machine; infinite where it never runs out."""
    unit: Floats
    """Per machine: how much one is."""
    most: int
    """The largest total in units."""

    @property
    def width(self) -> int:
        return self.most.bit_length() + 1

    def needed(self, machine: NDArray[np.uint32]) -> _Integers:
        """Give the needs of ways in units, rounded up; nothing where the total never runs out."""
        unlimited = np.isinf(self.total[machine])
        exact = np.where(unlimited, 0.0, self.need) / self.unit[machine]
        return np.ceil(exact * (1 - _ROUNDING) - _ROUNDING).astype(np.int64)

    def free(self, machine: int, taken: float) -> int:
        """Give what a machine has left in units, rounded down."""
        if math.isinf(self.total[machine]):
            return 0
        left = max(0.0, float(self.total[machine]) - taken) / float(self.unit[machine])
        return min(self.most, math.floor(left * (1 + _ROUNDING) + _ROUNDING))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Packing:
    """Packed needs of ways, and what machines have free before anything is planned (CSR)."""

    guard: int
    need: _Integers
    pointer: _Integers
    time_s: Floats
    free: _Integers


def pack(
    instance: Instance, task: NDArray[np.int64], machine: NDArray[np.uint32], needs: list[Floats]
) -> Packing:
    """Pack what ways (task and machine of each) need of nodes and of every resource."""
    totals = [instance.capacity.astype(np.float64), *instance.amounts.T]
    columns = zip(needs, totals, strict=True)
    limited = [(need, _limited(instance, task, machine, need, total)) for need, total in columns]
    dimensions = [_dimension(need, total, machine) for need, total in limited]
    while sum(found.width for found in dimensions) > _BITS:
        widest = max(range(len(dimensions)), key=lambda index: dimensions[index].width)
        dimensions[widest] = _coarser(dimensions[widest])
    shifts = np.cumsum([0, *(found.width for found in dimensions)]).tolist()
    packed = np.zeros(len(task), dtype=np.int64)
    for found, shift in zip(dimensions, shifts, strict=False):
        packed |= found.needed(machine) << shift
    pointer, time_s, free = _beginning(instance, dimensions, shifts)
    return Packing(
        guard=sum(1 << (shift - 1) for shift in shifts[1:]),
        need=packed,
        pointer=pointer,
        time_s=time_s,
        free=free,
    )


def _limited(
    instance: Instance, task: NDArray[np.int64], machine: NDArray[np.uint32], need: Floats, total: Floats
) -> Floats:
    """Give the totals, infinite where all tasks together cannot exhaust them."""
    largest = np.zeros((len(instance.machines), len(instance)))
    np.maximum.at(largest, (machine, task), need)
    plenty = largest.sum(axis=1) <= total
    plenty[[held.machine for held in instance.busy]] = False
    return np.where(plenty, np.inf, total)


def _dimension(need: Floats, total: Floats, machine: NDArray[np.uint32]) -> _Dimension:
    """Find the unit in which needs are whole numbers, else a share of the total."""
    counted = np.unique(need[np.isfinite(total[machine]) & (need > 0)])
    finite = total[np.isfinite(total)]
    for scale in _SCALES:
        whole = np.rint(counted * scale)
        if len(counted) and (np.abs(whole - counted * scale) > _ROUNDING * whole).any():
            continue
        if whole.max(initial=0.0) > 2.0**53:
            break
        common = math.gcd(*whole.astype(np.int64).tolist()) or 1
        unit = np.full(len(total), common / scale)
        most = math.floor(finite.max(initial=0.0) / (common / scale) * (1 + _ROUNDING))
        return _Dimension(need=need, total=total, unit=unit, most=most)
    return _in_shares(need, total, _SHARES[0])


def _in_shares(need: Floats, total: Floats, parts: int) -> _Dimension:
    unit = np.where(np.isfinite(total) & (total > 0), total, parts) / parts
    return _Dimension(need=need, total=total, unit=unit, most=parts)


def _coarser(found: _Dimension) -> _Dimension:
    parts = next(parts for parts in _SHARES if parts.bit_length() + 1 < found.width)
    return _in_shares(found.need, found.total, parts)


def _beginning(
    instance: Instance, dimensions: list[_Dimension], shifts: list[int]
) -> tuple[_Integers, Floats, _Integers]:
    """Give the steps of every machine: what is free beside what is busy beforehand."""
    pointer, times, free = [0], [], []
    for machine in range(len(instance.machines)):
        held = [one for one in instance.busy if one.machine == machine]
        ends = {moment for one in held for moment in _stretch(one)}
        for moment in sorted({0.0, *(end for end in ends if math.isfinite(end))}):
            beside = [one for one in held if _stretch(one)[0] <= moment < _stretch(one)[1]]
            left = [found.free(machine, _taken(beside, place)) for place, found in enumerate(dimensions)]
            times.append(moment)
            free.append(sum(amount << shift for amount, shift in zip(left, shifts, strict=False)))
        pointer.append(len(times))
    return np.array(pointer), np.array(times, dtype=np.float64), np.array(free, dtype=np.int64)


def _stretch(held: Busy) -> tuple[float, float]:
    """Give begin and end as decoders count them: what is over does not matter."""
    begin_s = max(0.0, held.start_s)
    return begin_s, begin_s + max(0.0, held.finish_s - begin_s)


def _taken(held: list[Busy], dimension: int) -> float:
    if dimension == 0:
        return float(sum(one.nodes for one in held))
    return sum(one.amounts[dimension - 1] for one in held if one.amounts)
