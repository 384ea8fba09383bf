"""Lower bounds of an instance by six arguments, from cheap to expensive; later ones use earlier results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from weft.instance.instance import Instance
from weft.records import dataclass
from weft.schedule.bounds.area import (
    SLACK,
    SupplyLoad,
    bound_by_area,
    build_windows,
    heads_after_ancestors,
    heads_after_stages,
    longest_refuted,
)
from weft.schedule.bounds.colocation import find_colocation
from weft.schedule.bounds.modes import (
    BoundModes,
    collect_modes,
    has_whole_times,
    shortest_seconds,
    widest_nodes,
)
from weft.schedule.bounds.paths import (
    PathEdges,
    TransferBounds,
    backward_edges,
    bound_transfers,
    follow_machine_paths,
    forward_edges,
    heads,
    tails,
)
from weft.schedule.bounds.supplies import build_front, list_supplies
from weft.workflow.task_graph import Floats

_DEEP_LOADS = 2
"""Number of supplies for the expensive arguments: the supplies with the highest bounds by area."""
_MOST_ANCESTORS = 1_000
"""Largest number of tasks for which heads include the area of all ancestors."""
_MOST_BOTH_WAYS = 100
"""Largest number of tasks for which tails include area as well."""
_EXACT = 60
"""Largest number of tasks for which the longest refuted makespan is searched exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Lower bounds of the makespan in seconds, one per argument (see ``lower_bounds``).

    ``together_s`` and ``windows_s`` are 0 if they are not higher than the bounds before.
    """

    critical_path_s: float
    area_s: float
    combined_s: float
    levels_s: float = 0.0
    together_s: float = 0.0
    windows_s: float = 0.0
    whole: bool = False
    """Whether the optimal makespan is an integer."""

    @property
    def parts(self) -> dict[str, float]:
        """Return the bounds by the name of the argument that proves them, the simplest first."""
        return {
            "critical path": self.critical_path_s,
            "area": self.area_s,
            "heads, area and tails": self.combined_s,
            "area of levels": self.levels_s,
            "tasks that must be together": self.together_s,
            "time windows": self.windows_s,
        }

    @property
    def best_s(self) -> float:
        """Return the largest bound, rounded up if the optimal makespan is an integer."""
        return self._rounded(max(self.parts.values()))

    @property
    def argument(self) -> str:
        """Return the name of the simplest argument that gives the best bound."""
        enough = self.best_s * (1 - SLACK)
        return next(name for name, value in self.parts.items() if self._rounded(value) >= enough)

    def _rounded(self, value_s: float) -> float:
        return float(math.ceil(value_s * (1 - SLACK))) if self.whole else value_s


@np.errstate(over="ignore")  # times that overflow are refused elsewhere
def lower_bounds(instance: Instance) -> Bounds:
    """Return the lower bounds of an instance.

    - *critical path* (``paths``): on every path, each task takes its fastest mode, necessary transfers take
      their least time, and for heterogeneous machines the best machine is chosen per path;
    - *area* (``supplies``): every task needs its least share of the platform;
    - *combination* (``area``): sets of tasks need their area between their heads and tails;
    - *levels* (``area``): heads and tails include the area of the tasks before and after a task;
    - *co-location* (``colocation``): tasks that must share a host or machine need their time on it;
    - *windows* (``area``): work that cannot lie outside a time window must fit into the window.

    If all times are integers, the bound is rounded up (``modes.has_whole_times``). On time-shared machines
    tasks need not run in turn: only the first three arguments are used, and nothing is rounded.
    """
    case = _BoundCase(instance)
    critical = case.critical_path_s()
    in_turn = not instance.is_time_shared
    loads = [load for load in case.loads() if in_turn or not load.supply.rounding]
    tasks = np.arange(len(instance))
    area = max((float(load.front.area.sum()) for load in loads), default=0.0)
    each = [bound_by_area(load, tasks, case.head_s, case.tail_s, 0.0, in_turn=in_turn) for load in loads]
    if not in_turn:
        combined = max(each, default=0.0)
        return Bounds(critical_path_s=critical, area_s=area, combined_s=combined)
    best = max(critical, area, *each, 0.0)
    deep = [loads[index] for index in np.argsort(-np.array(each), kind="stable")[:_DEEP_LOADS].tolist()]
    levels = case.levels_s(deep)
    glued = case.together_s(max(best, levels))
    windows = case.windows_s(deep, max(best, levels, glued))
    return Bounds(
        critical_path_s=critical,
        area_s=area,
        combined_s=max(each, default=0.0),
        levels_s=levels,
        together_s=glued,
        windows_s=windows,
        whole=case.whole,
    )


_ARRIVAL_THRESHOLDS = 64
"""Largest number of heads of tasks that ``bound_arrivals`` tries as the time a."""


@np.errstate(over="ignore")
def bound_arrivals(parts: Sequence[tuple[Instance, float]]) -> float:
    """Return a lower bound of the time at which several workflows on one platform have all ended.

    ``parts`` are instances on one platform with the times at which they arrive; an instance may occur several
    times. Each workflow takes at least its own bound. Consider all tasks that cannot start before a time a
    and are followed by at least b seconds: their area lies between a and b seconds before the end. Work
    counts as divisible and is summed over all workflows (S5.18 of docs/papers/many-workflows.md).
    """
    cases = {instance: _BoundCase(instance) for instance, _ in parts}
    alone_s = {instance: lower_bounds(instance).best_s for instance in cases}
    best = max((arrival_s + alone_s[each] for each, arrival_s in parts), default=0.0)
    if len(parts) < 2:
        return best
    modes = [found for case in cases.values() for found in case.modes]
    for case in cases.values():
        case.critical_path_s()
    head_s = np.concatenate([cases[each].head_s + arrival_s for each, arrival_s in parts])
    tail_s = np.concatenate([cases[each].tail_s for each, _ in parts])
    order = np.argsort(-tail_s, kind="stable")
    head_s, tail_s = head_s[order], tail_s[order]
    times = np.unique(head_s)
    times = times[np.unique(np.linspace(0, len(times) - 1, _ARRIVAL_THRESHOLDS).astype(int))]
    times = np.unique(np.concatenate([times, [arrival_s for _, arrival_s in parts]]))
    in_turn = not parts[0][0].is_time_shared
    for supply in list_supplies(parts[0][0], modes):
        if supply.resource is None and (in_turn or not supply.rounding):
            area = {each: build_front(each, case.modes, supply).area for each, case in cases.items()}
            together = np.concatenate([area[each] for each, _ in parts])[order]
            for start_s in times.tolist():
                late = head_s >= start_s
                after_s = together[late].cumsum() + tail_s[late]
                best = max(best, start_s + float(after_s.max(initial=0.0)))
    return best


class _BoundCase:
    """One instance with the heads and tails of its tasks, which successive arguments raise."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.modes: list[BoundModes] = collect_modes(instance)
        self.moving: TransferBounds = bound_transfers(instance)
        self.shortest_s: Floats = shortest_seconds(self.modes, len(instance)) + self.moving.transfer_s
        self.whole = has_whole_times(instance, self.modes)
        graph, edge_s = instance.graph, self.moving.edge_s
        self.head_s = heads(graph, self.shortest_s, instance.earliest_start_s, edge_s)
        self.tail_s = tails(graph, self.shortest_s, edge_s)

    def critical_path_s(self) -> float:
        """Return the length of the longest path; heads and tails are raised by the paths on each machine."""
        longest = 0.0
        if (found := follow_machine_paths(self.instance, self.modes)) is not None:
            self.head_s = np.maximum(self.head_s, found.head_s)
            self.tail_s = np.maximum(self.tail_s, found.tail_s)
            longest = found.longest_s
        return max(longest, self._longest_s())

    def _longest_s(self) -> float:
        return float((self.head_s + self.shortest_s + self.tail_s).max(initial=0.0))

    def loads(self) -> list[SupplyLoad]:
        """Return the demand of all tasks for each supply that some task uses."""
        widest = widest_nodes(self.modes, len(self.instance))
        supplies = list_supplies(self.instance, self.modes)
        fronts = [build_front(self.instance, self.modes, supply) for supply in supplies]
        return [
            SupplyLoad(supply=supply, front=front, widest=widest, reach=supply.reach())
            for supply, front in zip(supplies, fronts, strict=True)
            if front.area.any()
        ]

    def levels_s(self, loads: list[SupplyLoad]) -> float:
        """Raise heads and tails by the area of other tasks; return the resulting bound."""
        if not loads:
            return 0.0
        graph, tasks = self.instance.graph, np.arange(len(self.instance))
        self.head_s = self._raised(
            forward_edges(graph, self.moving.edge_s), self.shortest_s, self.head_s, loads
        )
        if len(tasks) <= _MOST_BOTH_WAYS:
            edges, reverse = backward_edges(graph, self.moving.edge_s), [load.backwards() for load in loads]
            self.tail_s = self._raised(edges, self.shortest_s[::-1], self.tail_s[::-1], reverse)[::-1]
        longest = self._longest_s()
        return max(bound_by_area(load, tasks, self.head_s, self.tail_s, longest) for load in loads)

    def _raised(self, edges: PathEdges, seconds_s: Floats, base_s: Floats, loads: list[SupplyLoad]) -> Floats:
        raising = heads_after_ancestors if len(edges) <= _MOST_ANCESTORS else heads_after_stages
        return raising(edges, seconds_s, base_s, loads, whole=self.whole)

    def together_s(self, low_s: float) -> float:
        """Return the bound by co-location; 0 if it is not above ``low_s``."""
        tied = find_colocation(self.instance, self.modes, self.moving, self.shortest_s)
        if tied is None:
            return 0.0
        found = self._longest_refuted(low_s, lambda limit_s: tied.refutes(limit_s, self.head_s, self.tail_s))
        return found if found > low_s else 0.0

    def windows_s(self, loads: list[SupplyLoad], low_s: float) -> float:
        """Return the bound by time windows; 0 if it is not above ``low_s``."""
        best = low_s
        for load in loads:
            windows = build_windows(self.instance, load, self.head_s, self.tail_s)
            if windows is not None:
                best = self._longest_refuted(best, windows.refutes)
        return best if best > low_s else 0.0

    def _longest_refuted(self, low_s: float, refuted: Callable[[float], bool]) -> float:
        tries = 48 if len(self.instance) <= _EXACT else 12
        return longest_refuted(low_s, refuted, whole=self.whole, tries=tries)
