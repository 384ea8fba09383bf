"""Which nodes of a machine a task is drawn on.

A schedule says how many nodes a task takes, not which. For a picture the tasks are packed greedily by start:
the first run of free lanes that is long enough, else the first free lanes, in several pieces. Lanes beyond
the machine's nodes are opened only where the schedule itself takes more than there are (machines that are
shared without limit). Complexity: O(v P) array steps for v tasks on machines of P nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.reports.occupation import tasks_by_machine
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Lanes", "pack_lanes"]

_ROUNDING = 1e-9
"""By which share of a start the task before may end after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Bars to draw: by machine and start; a task whose lanes are not adjacent has several."""

    task: tuple[int, ...]
    lane: tuple[int, ...]
    """Per bar: its first lane."""
    height: tuple[int, ...]
    """Per bar: how many lanes it covers."""
    count: tuple[int, ...]
    """Per machine: how many lanes it has."""


def pack_lanes(schedule: Schedule, machine_nodes: Sequence[int]) -> Lanes:
    """Give every task that takes nodes its lanes; no two tasks share a lane at the same time."""
    bars: list[tuple[int, int, int]] = []
    count = []
    for tasks, nodes in zip(tasks_by_machine(schedule), machine_nodes, strict=True):
        if nodes == 1 and _one_after_another(schedule, tasks):
            bars.extend((task, 0, 1) for task in tasks.tolist())
            count.append(1)
            continue
        busy_until_s = np.full(max(nodes, 1), -np.inf)
        for task in tasks.tolist():
            start_s = float(schedule.start_s[task])
            wanted = int(schedule.nodes[task])
            free = np.flatnonzero(busy_until_s <= start_s + _ROUNDING * max(1.0, abs(start_s)))
            if len(free) < wanted:
                busy_until_s, free = _more_lanes(busy_until_s, free, wanted)
            lanes = _first_fit(free, wanted)
            busy_until_s[lanes] = schedule.finish_s[task]
            bars.extend((task, lane, height) for lane, height in _pieces(lanes))
        count.append(len(busy_until_s))
    task, lane, height = zip(*bars, strict=True) if bars else ((), (), ())
    return Lanes(task=task, lane=lane, height=height, count=tuple(count))


def _one_after_another(schedule: Schedule, tasks: NDArray[np.intp]) -> bool:
    """Tell whether tasks, by start, take one node each and do not overlap."""
    start_s, finish_s = schedule.start_s[tasks], np.maximum.accumulate(schedule.finish_s[tasks])
    apart = finish_s[:-1] <= start_s[1:] + _ROUNDING * np.maximum(1.0, np.abs(start_s[1:]))
    return bool(apart.all() and (schedule.nodes[tasks] == 1).all())


def _more_lanes(busy: Floats, free: NDArray[np.intp], wanted: int) -> tuple[Floats, NDArray[np.intp]]:
    missing = wanted - len(free)
    fresh = np.arange(len(busy), len(busy) + missing)
    return np.concatenate([busy, np.full(missing, -np.inf)]), np.concatenate([free, fresh])


def _first_fit(free: NDArray[np.intp], wanted: int) -> NDArray[np.intp]:
    """Choose the first run of adjacent lanes, or the first lanes if no run is long enough."""
    runs = np.flatnonzero(free[wanted - 1 :] - free[: len(free) - wanted + 1] == wanted - 1)
    first = int(runs[0]) if len(runs) else 0
    return free[first : first + wanted]


def _pieces(lanes: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Split lanes into runs of adjacent ones: (first lane, how many)."""
    pieces: list[tuple[int, int]] = []
    for lane in lanes.tolist():
        if pieces and sum(pieces[-1]) == lane:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + 1)
        else:
            pieces.append((lane, 1))
    return pieces
