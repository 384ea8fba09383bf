"""Windows: in every stretch of time [a, b] the work that cannot lie outside it must fit into it.

If all is to end by T, a task runs between its head and T less its tail. Pushed to either end of that stretch,
a part of it may still lie inside the window: at least so much of the supply is taken there, in whichever way
the task runs. More than the window has refutes T (energetic reasoning: P. Baptiste, C. Le Pape, W. Nuijten,
Satisfiability Tests and Time-Bound Adjustments for Cumulative Scheduling Problems, Annals of Operations
Research 92, 1999). What others hold of the machines counts, too. Deviations: ways of different width; a
limited number of windows; nothing is adjusted.

The same with moments instead of seconds: of k moments that cut a window into k + 1 equal parts, a task that
covers more than j parts meets at least j, and at every moment the supply is there once. So of tasks that last
longer than half the time, no two run on the same node.

Complexity O(w v k) per try for w windows, v tasks and k steps of their fronts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.instance.instance import Instance
from weft.schedule.bounds.combination import Load
from weft.schedule.bounds.refutation import SLACK
from weft.schedule.bounds.supplies import Supply
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Windows", "windows_of"]

_CELLS = 250_000
"""Tasks x steps x windows per try."""
_MOST = 20
"""Starts, and ends, of windows."""
_MOMENTS = (1, 2, 3, 4)
_NOTHING = 1e-300
"""Seconds that count for nothing, but do not make infinity times nothing undefined."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """The tasks that take something of a supply, and what others take of it."""

    head_s: Floats
    tail_s: Floats
    seconds_s: Floats
    rate: Floats
    """Tasks x steps."""
    held_start_s: Floats
    held_finish_s: Floats
    held_rate: Floats
    """Per stretch that somebody else holds."""
    points: int
    """How many starts, and how many ends, of windows are tried."""

    def refutes(self, limit_s: float) -> bool:
        """Tell whether the tasks cannot all end by a time."""
        end_s, slack = limit_s - self.tail_s, SLACK * limit_s
        fits = self.seconds_s <= (end_s - self.head_s + slack)[:, None]
        if not fits.any(axis=1).all():
            return True
        # A way that lasts too long is none; its seconds inside do not matter then.
        rate = np.where(fits, self.rate, np.inf)[:, :, None]
        ends = _picked(np.concatenate([end_s, self.held_finish_s]), self.points)
        late = self.seconds_s[:, :, None] - np.maximum(0.0, end_s[:, None] - ends)[:, None, :]
        for start in _picked(np.concatenate([self.head_s, self.held_start_s]), self.points).tolist():
            later = ends > start
            length = ends[later] - start
            early = self.seconds_s - np.maximum(0.0, start - self.head_s)[:, None]
            inside = np.minimum(np.minimum(late[:, :, later], early[:, :, None]), length)
            if (_sum(rate, inside) + self._held(start, ends[later]) > length + slack).any():
                return True
            for moments in _MOMENTS:
                met = np.ceil((moments + 1) * inside / length - SLACK) - 1.0
                if (_sum(rate, met) > moments * (1 + SLACK)).any():
                    return True
        return False

    def _held(self, start_s: float, ends_s: Floats) -> Floats:
        finish = np.minimum(self.held_finish_s[:, None], ends_s)
        inside = np.maximum(0.0, finish - np.maximum(self.held_start_s, start_s)[:, None])
        return np.asarray((self.held_rate[:, None] * inside).sum(axis=0), dtype=np.float64)


def _sum(rate: Floats, inside: Floats) -> Floats:
    """Add up, per window, what the tasks take at least in whichever way they run."""
    taken: Floats = (rate * np.maximum(inside, _NOTHING)).min(axis=1).sum(axis=0)
    return taken


def _picked(values: Floats, number: int) -> Floats:
    """Pick some of the distinct values, the first and the last among them."""
    distinct = np.unique(values)
    chosen: Floats = distinct[np.unique(np.linspace(0, len(distinct) - 1, number).astype(int))]
    return chosen


def windows_of(instance: Instance, load: Load, head_s: Floats, tail_s: Floats) -> Windows | None:
    """Collect what lies in windows; None: too many tasks, or none that takes anything."""
    front = load.front
    tasks = np.flatnonzero(front.area > 0)
    cells = len(tasks) * front.step_s.shape[1]
    points = min(_MOST, int((_CELLS / max(1, cells)) ** 0.5))
    if not len(tasks) or points < 2:
        return None
    row = front.row[tasks]
    start, finish, rate = _held_stretches(instance, load.supply)
    return Windows(
        head_s=head_s[tasks],
        tail_s=tail_s[tasks],
        seconds_s=front.step_s[row] * front.scale_s[tasks][:, None],
        rate=front.step_rate[row] * front.scale_rate[tasks][:, None],
        held_start_s=start,
        held_finish_s=finish,
        held_rate=rate,
        points=points,
    )


def _held_stretches(instance: Instance, supply: Supply) -> tuple[Floats, Floats, Floats]:
    """Give start, finish and share of what others hold; never more than a machine has."""
    found: list[tuple[float, float, float]] = []
    for machine in sorted({held.machine for held in instance.busy}) if supply.resource is None else ():
        holding = [held for held in instance.busy if held.machine == machine and held.finish_s > 0]
        times = np.unique([max(0.0, time) for held in holding for time in (held.start_s, held.finish_s)])
        change = np.zeros(len(times) + 1)
        for held in holding:
            change[np.searchsorted(times, max(0.0, held.start_s))] += held.nodes
            change[np.searchsorted(times, held.finish_s)] -= held.nodes
        nodes = np.minimum(np.cumsum(change)[: len(times)], supply.capacity[machine])
        if not supply.rounding:
            shares = (nodes * supply.weight[machine]).tolist()
            found += zip(times[:-1].tolist(), times[1:].tolist(), shares, strict=False)
    columns = np.array(found, dtype=np.float64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]
