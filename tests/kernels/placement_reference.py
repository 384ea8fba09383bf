"""Reference of placement: place tasks in a given order, each where it finishes first."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kernels.arrivals_reference import Arrivals
from kernels.timeline_reference import timelines
from weft.errors import Infeasible
from weft.instance.instance import Instance, ModeGroup
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

__all__ = ["Placement"]

_UNBOUND = -1
_Listed = tuple[Callable[[int | Indices], Floats], list[int], list[int], list[int], float]
"""A group of modes: function of seconds, machines, counts, nodes, factor by which a finish may be later."""


class Placement:
    """A schedule under construction. Tasks must come after their predecessors."""

    def __init__(self, instance: Instance, *, tolerance: float = 0.0) -> None:
        self.instance = instance
        self.graph = graph = instance.graph
        self.timelines = timelines(instance)
        self.arrivals = Arrivals(instance)
        self.modes = [_listed(group, tolerance) for group in instance.groups]
        self.group = instance.group.tolist()
        self.kind = graph.kind.tolist()
        self.variable = graph.variable.tolist()
        self.earliest_s = instance.earliest_start_s.tolist()
        self.demand = list(map(tuple, graph.demand.tolist()))
        self.machine = [0] * len(graph)
        self.nodes = [0] * len(graph)
        self.start_s = [math.nan] * len(graph)
        self.finish_s = [math.nan] * len(graph)
        self.bound = [_UNBOUND] * len(graph.variables)
        for variable, machine in instance.pinned.items():
            self.bound[variable] = machine
        self.waiting: dict[int, list[int]] = {}
        """Per binding variable that is not bound yet: transfers that end there."""
        choosing = graph.variable[graph.kind != TRANSFER]
        self.anchors = np.bincount(choosing, minlength=len(graph.variables)).tolist()
        """Per binding variable: the number of tasks that can choose its machine."""

    def schedule(self) -> Schedule:
        """Return the finished schedule."""
        return Schedule(
            tasks=self.graph.names,
            machines=tuple(machine.name for machine in self.instance.machines),
            machine=np.array(self.machine, dtype=np.uint32),
            nodes=np.array(self.nodes, dtype=np.uint32),
            start_s=np.array(self.start_s),
            finish_s=np.array(self.finish_s),
        )

    def place(self, task: int) -> None:
        """Place one task where it finishes first."""
        kind, variable = self.kind[task], self.variable[task]
        arriving = self._unsettled(task) if self.waiting else []
        if kind == TRANSFER:
            self._place_transfer(task, variable)
            return
        ready = self.arrivals.ready_s(task, self.earliest_s[task], self.machine, self.finish_s)
        for transfer in arriving:
            ready = list(map(max, ready, self._arrival_s(transfer)))
        if kind == COMPUTE:
            self._place_compute(task, variable, ready)
        else:
            machine = self._soonest(variable, ready)
            self._record(task, machine, 0, ready[machine], ready[machine])
        self._settle_waiting(variable)

    def _unsettled(self, task: int) -> list[int]:
        """Return the preceding transfers to the machine of this task; place all others now."""
        before = [
            other for other in self.graph.predecessors(task).tolist() if math.isnan(self.finish_s[other])
        ]
        own = _UNBOUND if self.kind[task] == TRANSFER else self.variable[task]
        for other in before:
            variable = self.variable[other]
            if variable != own and math.isnan(self.finish_s[other]):
                self.bound[variable] = self._soonest(variable, self._arrival_s(other))
                self._settle_waiting(variable)
        return [other for other in before if math.isnan(self.finish_s[other])]

    def _place_compute(self, task: int, variable: int, ready: list[float]) -> None:
        machine, nodes, start, seconds = self._earliest_finish(task, variable, ready)
        self.timelines[machine].take(start, seconds, nodes, self.demand[task])
        self._record(task, machine, nodes, start, start + seconds)

    def _record(self, task: int, machine: int, nodes: int, start: float, finish: float) -> None:
        self.machine[task], self.nodes[task] = machine, nodes
        self.start_s[task], self.finish_s[task] = start, finish
        self.bound[self.variable[task]] = machine

    def _soonest(self, variable: int, ready: list[float]) -> int:
        """Return the machine of a variable: the bound one, else the candidate that is ready first."""
        if self.bound[variable] != _UNBOUND:
            return self.bound[variable]
        candidates: list[int] = self.instance.candidates_of(variable).tolist()
        return min(candidates, key=ready.__getitem__)

    def _earliest_finish(self, task: int, variable: int, ready: list[float]) -> tuple[int, int, float, float]:
        """Choose machine and node count; return (machine, nodes, start, seconds).

        Ties go to the smaller count, then to the machine of lower index.
        """
        seconds_of, machines, counts, nodes, factor = self.modes[self.group[task]]
        seconds: list[float] = seconds_of(task).tolist()
        possible = [ready[machine] + spent for machine, spent in zip(machines, seconds, strict=True)]
        bound, amounts = self.bound[variable], self.demand[task]
        modes = range(len(machines)) if bound == _UNBOUND else _indices_of(bound, machines)
        found: list[tuple[int, float, int, int, float]] = []
        best = limit = math.inf
        for mode in sorted(modes, key=possible.__getitem__):
            if possible[mode] > limit:
                break  # too late even on empty machines, and so are all that follow
            machine, spent = machines[mode], seconds[mode]
            start = self.timelines[machine].earliest(ready[machine], spent, nodes[mode], amounts)
            finish = start + spent
            found.append((counts[mode], finish, machine, mode, start))
            if finish < best:
                best, limit = finish, finish * factor
        if best == math.inf:
            what = "cannot end at a finite time on any machine that can run it"
            raise Infeasible(f"{self.graph.names[task]} {what}")
        _, _, machine, mode, start = min(entry for entry in found if entry[1] <= limit)
        return machine, nodes[mode], start, seconds[mode]

    def _place_transfer(self, task: int, variable: int) -> None:
        """Place a transfer if its destination is bound or no task will bind it; otherwise postpone it."""
        if self.bound[variable] == _UNBOUND and self.anchors[variable]:
            self.waiting.setdefault(variable, []).append(task)
            return
        if self.bound[variable] == _UNBOUND:
            self.bound[variable] = self._soonest(variable, self._arrival_s(task))
        self._settle(task)

    def _arrival_s(self, transfer: int) -> list[float]:
        """Return, per machine, when a transfer would arrive there."""
        source, start = self._departure(transfer)
        return self.arrivals.moved_s(start, source, float(self.graph.transfer_bytes[transfer]))

    def _departure(self, transfer: int) -> tuple[int, float]:
        """Return the source of a transfer and its earliest start."""
        source = int(self.graph.source_variable[transfer])
        if self.bound[source] == _UNBOUND:
            self.bound[source] = int(self.instance.candidates_of(source)[0])
        machine = self.bound[source]
        ready = self.arrivals.ready_s(transfer, self.earliest_s[transfer], self.machine, self.finish_s)
        return machine, ready[machine]

    def _settle_waiting(self, variable: int) -> None:
        for transfer in self.waiting.pop(variable, ()):
            self._settle(transfer)

    def _settle(self, transfer: int) -> None:
        """Fix a transfer whose destination is bound."""
        source, start = self._departure(transfer)
        target = self.bound[self.variable[transfer]]
        seconds = self.instance.transfer_s(transfer, source, target)
        self._record(transfer, target, 0, start, start + seconds)


def _listed(group: ModeGroup, tolerance: float) -> _Listed:
    # Without a choice of counts a later finish cannot be better, so fewer modes are evaluated.
    moldable = len(np.unique(group.count)) > 1
    columns = (group.machine.tolist(), group.count.tolist(), group.nodes.tolist())
    return (group.seconds_of, *columns, 1.0 + tolerance if moldable else 1.0)


def _indices_of(value: int, values: list[int]) -> list[int]:
    return [index for index, other in enumerate(values) if other == value]
