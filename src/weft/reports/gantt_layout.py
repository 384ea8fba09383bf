"""Layout of Gantt charts: occupancy of machines, lanes of tasks, bands of machines, and joined bars.

Lanes: a schedule states how many nodes a task uses, not which. In order of start, each task gets the first
group of adjacent free lanes that is large enough. Without such a group, the task gets the first free lanes,
in several pieces.
A machine has more lanes than nodes only if the schedule uses more nodes (machines shared without limit).
Complexity: O(v P) array steps for v tasks on machines of P nodes.

Bands: if a chart does not have enough rows, the machines of a site share a row. If sites are unknown or too
many, neighbours in the order of the platform share a row.

Joined bars: in very large plans, neighbouring bars that are too short to be distinguished are drawn as one.
Bars on the same lanes that start in the same time slot and are shorter than the slot are joined; the slot is
doubled until the number of bars is small enough. A joined bar has the kind with the most seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.records import dataclass
from weft.reports.report import GanttView
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats


def busy_seconds(schedule: Schedule) -> Floats:
    """Return the used node-seconds of each machine."""
    taken = schedule.nodes * (schedule.finish_s - schedule.start_s)
    sums = np.bincount(schedule.machine, weights=taken, minlength=len(schedule.machines))
    return sums.astype(np.float64)


def busy_shares(schedule: Schedule, machine_nodes: Sequence[int]) -> Floats:
    """Return, for each machine, the share of its node-seconds up to the makespan that is used."""
    offered = np.asarray(machine_nodes, dtype=np.float64) * schedule.makespan_s
    return np.divide(busy_seconds(schedule), offered, out=np.zeros(len(offered)), where=offered > 0)


def tasks_by_machine(schedule: Schedule) -> list[NDArray[np.intp]]:
    """Return, for each machine, its tasks that use nodes, by start, then index."""
    order = np.lexsort((schedule.start_s, schedule.machine))
    order = order[schedule.nodes[order] > 0]
    bounds = np.searchsorted(schedule.machine[order], np.arange(len(schedule.machines) + 1))
    return [order[low:high] for low, high in pairwise(bounds.tolist())]


def occupation(schedule: Schedule, tasks: NDArray[np.intp], capacity: int, edges_s: Floats) -> Floats:
    """Return the mean share of ``capacity`` that ``tasks`` use between consecutive times ``edges_s``.

    The node-seconds before a time are a sum over starts minus a sum over finishes. Both come from prefix sums
    over sorted times, so n tasks and w edges cost O((n + w) log n).
    """
    nodes = schedule.nodes[tasks].astype(np.float64)
    before = _area(schedule.start_s[tasks], nodes, edges_s) - _area(schedule.finish_s[tasks], nodes, edges_s)
    shares: Floats = np.clip(np.diff(before) / (np.diff(edges_s) * max(capacity, 1)), 0.0, 1.0)
    return shares


def _area(times_s: Floats, nodes: Floats, edges_s: Floats) -> Floats:
    """Return, for each edge, the sum of nodes * (edge - time) over all times before the edge."""
    order = np.argsort(times_s, kind="stable")
    count = np.searchsorted(times_s[order], edges_s)
    heights = np.concatenate([[0.0], np.cumsum(nodes[order])])[count]
    moments = np.concatenate([[0.0], np.cumsum(nodes[order] * times_s[order])])[count]
    area: Floats = heights * edges_s - moments
    return area


_ROUNDING = 1e-9
"""Relative tolerance by which a task may end after the start of the next task on its lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Lanes of the bars, by machine and start; a task on lanes that are not adjacent has several bars."""

    task: tuple[int, ...]
    lane: tuple[int, ...]
    """First lane of each bar."""
    height: tuple[int, ...]
    """Number of lanes of each bar."""
    count: tuple[int, ...]
    """Number of lanes of each machine."""


def pack_lanes(schedule: Schedule, machine_nodes: Sequence[int]) -> Lanes:
    """Return lanes for all tasks that use nodes; tasks on the same lane do not overlap."""
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
    """Return whether tasks, sorted by start, use one node each and do not overlap."""
    start_s, finish_s = schedule.start_s[tasks], np.maximum.accumulate(schedule.finish_s[tasks])
    apart = finish_s[:-1] <= start_s[1:] + _ROUNDING * np.maximum(1.0, np.abs(start_s[1:]))
    return bool(apart.all() and (schedule.nodes[tasks] == 1).all())


def _more_lanes(busy: Floats, free: NDArray[np.intp], wanted: int) -> tuple[Floats, NDArray[np.intp]]:
    missing = wanted - len(free)
    fresh = np.arange(len(busy), len(busy) + missing)
    return np.concatenate([busy, np.full(missing, -np.inf)]), np.concatenate([free, fresh])


def _first_fit(free: NDArray[np.intp], wanted: int) -> NDArray[np.intp]:
    """Return the first ``wanted`` free lanes that are adjacent; without such lanes, the first free ones."""
    runs = np.flatnonzero(free[wanted - 1 :] - free[: len(free) - wanted + 1] == wanted - 1)
    first = int(runs[0]) if len(runs) else 0
    return free[first : first + wanted]


def _pieces(lanes: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return (first lane, number of lanes) of each group of adjacent lanes."""
    pieces: list[tuple[int, int]] = []
    for lane in lanes.tolist():
        if pieces and sum(pieces[-1]) == lane:
            pieces[-1] = (pieces[-1][0], pieces[-1][1] + 1)
        else:
            pieces.append((lane, 1))
    return pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBand:
    """Machines that share a row of the chart."""

    name: str
    machines: tuple[int, ...]
    """Machine indices in the order of the platform."""


def group_machines(view: GanttView, machines: Sequence[int], most: int) -> list[MachineBand]:
    """Return machines grouped into at most ``most`` bands, in the order of their first machines."""
    sites: dict[str, list[int]] = {}
    for machine in machines:
        name = view.machine_sites[machine] if view.machine_sites else ""
        sites.setdefault(name or view.schedule.machines[machine], []).append(machine)
    if len(sites) == len(machines) or len(sites) == 1:
        # Sites do not group the machines: there is one machine per site, or a single site.
        sites = {view.schedule.machines[machine]: [machine] for machine in machines}
    return _join_bands(sites, most)


def _join_bands(parts: dict[str, list[int]], most: int) -> list[MachineBand]:
    """Return at most ``most`` bands; ``parts`` maps names to machines.

    Each band joins the same number of neighbouring parts; the last band may have fewer.
    """
    names, each = list(parts), math.ceil(len(parts) / most) if parts else 1
    bands = []
    for first in range(0, len(names), each):
        chosen = names[first : first + each]
        name = chosen[0] if len(chosen) == 1 else f"{chosen[0]} - {chosen[-1]}"
        bands.append(
            MachineBand(name=name, machines=tuple(machine for part in chosen for machine in parts[part]))
        )
    return bands


_MOMENTS = 65_536
"""Initial number of time slots; a slot is narrower than a pixel of any screen."""

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GanttBars:
    """The bars to draw, as arrays with one entry per bar, sorted by machine and start."""

    task: _Numbers
    """Task of each bar; for a joined bar, its first task."""
    machine: _Numbers
    lane: _Numbers
    height: _Numbers
    kind: _Numbers
    start_s: Floats
    finish_s: Floats
    tasks: _Numbers
    """Number of tasks that each bar represents."""

    def __len__(self) -> int:
        return len(self.task)


def build_bars(view: GanttView, lanes: Lanes, kinds: _Numbers, most: int) -> GanttBars:
    """Return the bars of all tasks; short neighbours are joined if there are more than ``most`` bars."""
    schedule = view.schedule
    task = np.array(lanes.task, dtype=np.int64)
    bars = GanttBars(
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
        bars = _join_bars(whole, moment_s)
    return bars


def _join_bars(bars: GanttBars, moment_s: float) -> GanttBars:
    """Join bars on the same lanes that start in the same time slot and are shorter than the slot.

    ``moment_s`` is the length of a slot.
    """
    order = np.lexsort((bars.start_s, bars.height, bars.lane, bars.machine))
    start, finish = bars.start_s[order], bars.finish_s[order]
    short = finish - start < moment_s
    places = [column[order] for column in (bars.machine, bars.lane, bars.height)]
    columns = (*places, np.floor(start / moment_s))
    alike = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    near = alike & short[1:] & short[:-1]
    group = np.concatenate([[0], np.cumsum(~near)])
    first = np.flatnonzero(np.diff(group, prepend=-1))
    found = GanttBars(
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
    sorted_columns = {name: getattr(found, name)[by_start] for name in GanttBars.__dataclass_fields__}
    return GanttBars(**sorted_columns)


def _largest_kind(group: _Numbers, kind: _Numbers, seconds: Floats) -> _Numbers:
    """Return, for each group, the kind with the most seconds; for ties the lowest kind."""
    kinds = int(kind.max()) + 1
    pairs, position = np.unique(group * kinds + kind, return_inverse=True)
    total = np.bincount(position, seconds)
    order = np.lexsort((pairs, -total, pairs // kinds))
    first = np.flatnonzero(np.diff(pairs[order] // kinds, prepend=-1))
    largest: _Numbers = (pairs[order] % kinds)[first]
    return largest
