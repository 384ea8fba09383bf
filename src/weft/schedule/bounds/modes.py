"""The modes of tasks for bounds, and whether all times are integers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance, ModeGroup
from weft.predictors.seconds import ClassSeconds, RelatedSeconds
from weft.records import dataclass
from weft.workflow.task_graph import TRANSFER, Floats, Indices

_ROUNDING = 1e-9
"""Relative tolerance with which sums of amounts are compared with a budget."""

_Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundModes:
    """Tasks with the same machines and node counts; modes are sorted by machine.

    The seconds of a task are ``scale * unit_s[row]``. If seconds are work divided by a rate, thousands of
    tasks share one row. Pinned tasks have only the modes of their machine. A mode that exceeds a budget even
    if all other tasks consume their least is excluded.
    """

    tasks: Indices
    row: NDArray[np.int64]
    """Per task: its row of ``unit_s``."""
    scale: Floats
    """Per task: factor of the entries of its row."""
    machine: Indices
    nodes: NDArray[np.int64]
    demand: Floats | None
    """Modes x resources: amounts; None if ``demand`` of the graph applies to all modes."""
    unit_s: Floats
    """Rows x modes: seconds at scale 1."""

    def __len__(self) -> int:
        return len(self.machine)

    def least_by(self, group: NDArray[np.intp], values: Floats) -> tuple[_Positions, Floats]:
        """Return the groups of machines that occur, and a table (rows x groups) of least values.

        ``group`` has the group of each machine; ``values`` is a table (rows x modes).
        """
        groups = group[self.machine]
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        return groups[order][starts], np.minimum.reduceat(values[:, order], starts, axis=1)


def collect_modes(instance: Instance) -> list[BoundModes]:
    """Return the modes of all compute tasks; tasks with equal machines and node counts are joined."""
    parts = [part for group in instance.groups for part in _parts(instance, group)]
    alike: dict[tuple[bytes, ...], list[BoundModes]] = {}
    for part in parts:
        demand = b"" if part.demand is None else part.demand.tobytes()
        alike.setdefault((part.machine.tobytes(), part.nodes.tobytes(), demand), []).append(part)
    return [_stack(listed) for listed in alike.values()]


def shortest_seconds(modes: list[BoundModes], tasks: int) -> Floats:
    """Return the seconds of the fastest mode of each task; 0 for tasks without nodes."""
    shortest = np.zeros(tasks)
    for found in modes:
        shortest[found.tasks] = found.scale * found.unit_s.min(axis=1)[found.row]
    return shortest


def widest_nodes(modes: list[BoundModes], tasks: int) -> Floats:
    """Return the largest number of nodes of each task; 0 for tasks without nodes."""
    widest = np.zeros(tasks)
    for found in modes:
        widest[found.tasks] = float(found.nodes.max())
    return widest


def _parts(instance: Instance, group: ModeGroup) -> Iterator[BoundModes]:
    """Yield the modes of a group, split by the machines to which its tasks are pinned."""
    affordable = _affordable_modes(instance, group)
    if not instance.pinned:
        yield _read(instance, group, group.tasks, affordable)
        return
    free = len(instance.machines)
    variables = instance.graph.variable[group.tasks].tolist()
    pin = np.array([instance.pinned.get(variable, free) for variable in variables])
    for machine in np.unique(pin).tolist():
        kept = affordable if machine == free else affordable[group.machine[affordable] == machine]
        yield _read(instance, group, group.tasks[pin == machine], kept)


def _affordable_modes(instance: Instance, group: ModeGroup) -> _Positions:
    """Return the modes of a group that keep every budget if all other tasks consume their least.

    If there is no such mode, return all modes.
    """
    everything = np.arange(len(group))
    if group.consumption is None:
        return everything
    least = instance.graph.consumption.sum(axis=0)
    left = instance.graph.budgets * (1 + _ROUNDING) - least
    more = group.consumption - instance.graph.consumption[group.tasks[0]]
    kept = np.flatnonzero((more <= left).all(axis=1))
    return kept if len(kept) else everything


def _read(instance: Instance, group: ModeGroup, tasks: Indices, kept: _Positions) -> BoundModes:
    seconds, machine = instance.seconds, group.machine[kept]
    row, scale = np.zeros(len(tasks), dtype=np.int64), np.ones(len(tasks))
    if isinstance(seconds, RelatedSeconds):
        example = int(group.tasks[0])
        rate = seconds.rate[seconds.service[example], machine]
        unit = (1.0 / rate / seconds.speedup[seconds.law[example], group.count[kept]])[None]
        scale = seconds.work[tasks]
    elif isinstance(seconds, ClassSeconds):
        unit = group.seconds_of(int(group.tasks[0]))[None, kept]
    else:
        unit, row = group.seconds_of(tasks)[:, kept], np.arange(len(tasks))
    return BoundModes(
        tasks=tasks,
        row=row,
        scale=scale,
        machine=machine,
        nodes=group.nodes[kept],
        demand=None if group.demand is None else group.demand[kept],
        unit_s=unit,
    )


def _stack(parts: list[BoundModes]) -> BoundModes:
    """Return one BoundModes for several parts with equal modes; the rows of the parts are concatenated."""
    if len(parts) == 1:
        return parts[0]
    first = np.cumsum([0] + [len(part.unit_s) for part in parts]).tolist()
    return BoundModes(
        tasks=np.concatenate([part.tasks for part in parts]),
        row=np.concatenate([part.row + start for part, start in zip(parts, first, strict=False)]),
        scale=np.concatenate([part.scale for part in parts]),
        machine=parts[0].machine,
        nodes=parts[0].nodes,
        demand=parts[0].demand,
        unit_s=np.concatenate([part.unit_s for part in parts]),
    )


_LARGEST = 2.0**40
"""Larger numbers do not count as integers, because rounding hides their fractional parts."""
_TOGETHER = 500_000
"""Number of table entries checked at a time."""
_FEW = 64
"""Largest number of rows of a table whose equal columns (identical machines) are checked only once."""


def has_whole_times(instance: Instance, modes: list[BoundModes]) -> bool:
    """Return whether all durations, transfers and given times are whole seconds.

    If all times are integers, so is the optimal makespan, and bounds may be rounded up: in some optimal
    schedule every task starts at 0, at its earliest start, when data arrive, or at the end of another task or
    busy interval.
    """
    return _given_whole(instance) and _data_whole(instance) and all(_seconds_whole(found) for found in modes)


def _given_whole(instance: Instance) -> bool:
    ends = np.array([held.finish_s for held in instance.busy], dtype=np.float64)
    return _almost_whole(instance.earliest_start_s) and _almost_whole(ends)


def _data_whole(instance: Instance) -> bool:
    """Return whether all edges and transfers take whole seconds over every link."""
    graph, network = instance.graph, instance.network
    if len(np.unique(network.host)) == 1:
        return True
    moved = graph.transfer_bytes[graph.kind == TRANSFER]
    files = np.concatenate([graph.edge_files, np.ones(len(moved))])
    size = np.concatenate([graph.edge_bytes, moved])
    fixed = np.concatenate([graph.edge_seconds, np.zeros(len(moved))])
    links = np.unique(np.stack([network.latency_s.ravel(), network.inverse_bandwidth.ravel()]), axis=1)
    if links.shape[1] * len(files) > _TOGETHER:
        return False  # so many transfers are hardly ever all whole seconds
    return _almost_whole(fixed[:, None] + files[:, None] * links[0] + size[:, None] * links[1])


def _seconds_whole(found: BoundModes) -> bool:
    """Return whether all tasks take whole seconds in all modes."""
    unit_s = found.unit_s
    if len(unit_s) <= _FEW:
        unit_s = np.unique(unit_s, axis=1)
    rows = max(1, _TOGETHER // unit_s.shape[1])
    return all(
        _almost_whole(found.scale[first : first + rows, None] * unit_s[found.row[first : first + rows]])
        for first in range(0, len(found.tasks), rows)
    )


def _almost_whole(seconds: Floats) -> bool:
    # Work times an inverse rate is an integer except for the last digits.
    near = np.rint(seconds)
    # A tiny time is not 0 whole seconds: bounds would be rounded up from it to 1 s.
    close = np.abs(seconds - near) <= 1e-12 * np.abs(near)
    return bool((close & (np.abs(near) < _LARGEST)).all())
