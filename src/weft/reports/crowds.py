"""Crowds: in plans of very many tasks, neighbours too short to be told apart are drawn as one bar.

The plan is cut into moments; bars of the same lanes of a machine that start in the same moment, and are
shorter than it, are joined. The moment is doubled until there are few enough. A crowd has the kind that takes
most of its time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.reports.lanes import Lanes
from weft.reports.report import PlanView
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Bars", "bars_of"]

_MOMENTS = 65_536
"""Into so many moments a plan is cut at first: finer than any screen."""

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bars:
    """What is drawn, by machine and start."""

    task: _Numbers
    """The task, or the first task of a crowd."""
    machine: _Numbers
    lane: _Numbers
    height: _Numbers
    kind: _Numbers
    start_s: Floats
    finish_s: Floats
    tasks: _Numbers
    """How many tasks a bar stands for."""

    def __len__(self) -> int:
        return len(self.task)


def bars_of(view: PlanView, lanes: Lanes, kinds: _Numbers, most: int) -> Bars:
    """Give one bar per piece of a task, or crowds where that would be more than ``most``."""
    schedule = view.schedule
    task = np.array(lanes.task, dtype=np.int64)
    bars = Bars(
        task=task,
        machine=schedule.machine[task].astype(np.int64),
        lane=np.array(lanes.lane, dtype=np.int64),
        height=np.array(lanes.height, dtype=np.int64),
        kind=kinds[task],
        start_s=schedule.start_s[task],
        finish_s=schedule.finish_s[task],
        tasks=np.ones(len(task), dtype=np.int64),
    )
    moment_s = schedule.makespan_s / _MOMENTS
    whole = bars
    while len(bars) > most and moment_s <= schedule.makespan_s:
        moment_s *= 2
        bars = _joined(whole, moment_s)
    return bars


def _joined(bars: Bars, moment_s: float) -> Bars:
    """Join neighbours on the same lanes that start in the same moment and are shorter than it."""
    order = np.lexsort((bars.start_s, bars.height, bars.lane, bars.machine))
    start, finish = bars.start_s[order], bars.finish_s[order]
    short = finish - start < moment_s
    places = [column[order] for column in (bars.machine, bars.lane, bars.height)]
    columns = (*places, np.floor(start / moment_s))
    alike = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    near = alike & short[1:] & short[:-1]
    group = np.concatenate([[0], np.cumsum(~near)])
    first = np.flatnonzero(np.diff(group, prepend=-1))
    found = Bars(
        task=bars.task[order][first],
        machine=places[0][first],
        lane=places[1][first],
        height=places[2][first],
        kind=_largest_kind(group, bars.kind[order], finish - start),
        start_s=start[first],
        finish_s=np.maximum.reduceat(finish, first),
        tasks=np.add.reduceat(bars.tasks[order], first),
    )
    by_start = np.lexsort((found.start_s, found.machine))
    sorted_columns = {name: getattr(found, name)[by_start] for name in Bars.__dataclass_fields__}
    return Bars(**sorted_columns)


def _largest_kind(group: _Numbers, kind: _Numbers, seconds: Floats) -> _Numbers:
    """Give per group the kind with the most seconds; of several, the first."""
    kinds = int(kind.max()) + 1
    pairs, position = np.unique(group * kinds + kind, return_inverse=True)
    total = np.bincount(position, seconds)
    order = np.lexsort((pairs, -total, pairs // kinds))
    first = np.flatnonzero(np.diff(pairs[order] // kinds, prepend=-1))
    largest: _Numbers = (pairs[order] % kinds)[first]
    return largest
