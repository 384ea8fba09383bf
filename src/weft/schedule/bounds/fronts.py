"""Fronts: how much of a supply each task takes at least, given how long it may last.

A wide run is short and takes much, a narrow one is long and takes little. Of a task's ways only those count
that no other one beats in both seconds and share per second. Where too many are left, neighbours are merged
into a step with the least of each: optimistic, so the bound stays a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.schedule.bounds.supplies import Supply
from weft.schedule.bounds.ways import Ways
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Front", "front_of"]

_MOST_STEPS = 48
_SORTED = 1_000_000
"""Tables with more entries than this are not sorted: their fronts have one optimistic step."""
_TOGETHER = 500_000
"""Entries looked at together."""

_Steps = tuple[Floats, Floats, Floats]
"""Seconds, rate and area, each rows x steps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Front:
    """Per task the row of its steps; steps get longer and cheaper. Tasks without nodes have nothing."""

    row: NDArray[np.int64]
    scale_s: Floats
    scale_rate: Floats
    step_s: Floats
    """Rows x steps, ascending; where a row has fewer, its last one is repeated."""
    step_rate: Floats
    cheapest: Floats
    """Rows x steps: the least area (seconds x rate) of a step and those before it."""
    area: Floats
    """Per task: what it takes at least, in seconds of the whole supply."""
    shortest_s: Floats
    """Per task: its fastest way."""
    least_rate: Floats
    """Per task: the smallest share of the supply it can take at once."""
    peak: Floats
    """Per task: the largest share of the supply it can take at once."""
    bends: bool
    """Whether a limit can make any task dearer."""

    def area_within(self, limit_s: Floats, tasks: NDArray[np.intp] | None = None) -> Floats:
        """Give what some tasks take at least if each lasts no longer than its limit; inf where it cannot."""
        chosen = slice(None) if tasks is None else tasks
        row, scale_s = self.row[chosen], self.scale_s[chosen]
        fitting = (self.step_s[row] * scale_s[:, None] <= limit_s[:, None]).sum(axis=1)
        area = scale_s * self.scale_rate[chosen] * self.cheapest[row, np.maximum(fitting, 1) - 1]
        return np.where(fitting > 0, area, np.inf)

    def backwards(self) -> Front:
        """Give the same with the tasks in reverse order."""
        return replace(
            self,
            row=self.row[::-1],
            scale_s=self.scale_s[::-1],
            scale_rate=self.scale_rate[::-1],
            area=self.area[::-1],
            shortest_s=self.shortest_s[::-1],
            least_rate=self.least_rate[::-1],
            peak=self.peak[::-1],
        )


def front_of(instance: Instance, ways: list[Ways], supply: Supply) -> Front:
    """Find the fronts of all tasks for one supply."""
    row, scale_s = np.zeros(len(instance), dtype=np.int64), np.zeros(len(instance))
    # Row 0 is that of tasks without nodes.
    parts, filled = [(np.zeros((1, 1)),) * 3], 1
    for found in ways:
        row[found.tasks] = filled + found.row
        scale_s[found.tasks] = found.scale
        rate, small = supply.rate(found), found.unit_s.size <= _SORTED
        parts += [_steps(piece, rate) if small else _step(piece, rate) for piece in _pieces(found)]
        filled += len(found.unit_s)
    width = max(part[0].shape[1] for part in parts)
    step_s, step_rate, step_area = (
        np.concatenate([_padded(part[column], width) for part in parts]) for column in range(3)
    )
    cheapest, scale_rate = np.minimum.accumulate(step_area, axis=1), supply.scale(instance, ways)
    return Front(
        row=row,
        scale_s=scale_s,
        scale_rate=scale_rate,
        step_s=step_s,
        step_rate=step_rate,
        cheapest=cheapest,
        area=scale_s * scale_rate * cheapest[row, -1],
        shortest_s=scale_s * step_s[row, 0],
        least_rate=scale_rate * step_rate.min(axis=1)[row],
        peak=scale_rate * step_rate.max(axis=1)[row],
        bends=bool((cheapest[:, 0] > cheapest[:, -1] * (1 + 1e-9)).any()),
    )


def _pieces(found: Ways) -> Iterator[Floats]:
    rows = max(1, _TOGETHER // len(found))
    for first in range(0, len(found.unit_s), rows):
        yield found.unit_s[first : first + rows]


def _padded(steps: Floats, width: int) -> Floats:
    return np.pad(steps, ((0, 0), (0, width - steps.shape[1])), mode="edge")


def _step(unit_s: Floats, rate: Floats) -> _Steps:
    """Merge all ways of every row into one step."""
    shortest = unit_s.min(axis=1, keepdims=True)
    return shortest, np.full_like(shortest, rate.min()), (unit_s * rate).min(axis=1, keepdims=True)


def _steps(unit_s: Floats, rate: Floats) -> _Steps:
    """Give the steps of every row."""
    if (rate == rate[0]).all():
        return _step(unit_s, rate)
    order = np.lexsort((np.broadcast_to(rate, unit_s.shape), unit_s), axis=1)
    seconds, rates = np.take_along_axis(unit_s, order, axis=1), rate[order]
    kept = np.ones(unit_s.shape, dtype=bool)
    kept[:, 1:] = rates[:, 1:] < np.minimum.accumulate(rates, axis=1)[:, :-1]
    rows, columns = np.nonzero(kept)
    count = kept.sum(axis=1)[rows]
    place = np.cumsum(kept, axis=1)[rows, columns] - 1
    # Short fronts keep every step; of long ones neighbours share a place.
    place = np.where(count > _MOST_STEPS, place * _MOST_STEPS // count, place)
    values = (seconds[rows, columns], rates[rows, columns])
    steps = []
    for column in (*values, values[0] * values[1]):
        step = np.full((len(unit_s), int(place.max()) + 1), np.inf)
        np.minimum.at(step, (rows, place), column)
        for right in range(1, step.shape[1]):
            missing = np.isinf(step[:, right])
            step[missing, right] = step[missing, right - 1]
        steps.append(step)
    return steps[0], steps[1], steps[2]
