"""Placement: put one task after another where it finishes first. What list planners share once the order is chosen."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.planners.lists.timeline import timelines
from weft.predictors.transfer import edge_seconds_to
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER, Floats

__all__ = ["Placement"]

_UNBOUND = -1


class Placement:
    """A schedule under construction. Tasks must come after their predecessors."""

    def __init__(self, instance: Instance, *, tolerance: float = 0.0) -> None:
        self.instance = instance
        self.graph = instance.graph
        self.tolerance = tolerance
        self.timelines = timelines(instance)
        tasks = len(instance)
        self.machine = np.zeros(tasks, dtype=np.uint32)
        self.nodes = np.zeros(tasks, dtype=np.uint32)
        self.start_s = np.full(tasks, np.nan)
        self.finish_s = np.full(tasks, np.nan)
        self.bound = np.full(len(self.graph.variables), _UNBOUND, dtype=np.int64)
        for variable, machine in instance.pinned.items():
            self.bound[variable] = machine
        self.waiting: dict[int, list[int]] = {}
        """Per binding variable that is not bound yet: transfers that end there."""
        self.anchors = np.bincount(
            self.graph.variable[self.graph.kind != TRANSFER], minlength=len(self.graph.variables)
        )
        """Per binding variable: tasks that will choose its machine."""

    def schedule(self) -> Schedule:
        """Give the finished schedule."""
        return Schedule(
            tasks=self.graph.names,
            machines=tuple(machine.name for machine in self.instance.machines),
            machine=self.machine,
            nodes=self.nodes,
            start_s=self.start_s,
            finish_s=self.finish_s,
        )

    def place(self, task: int) -> None:
        """Put one task where it finishes first."""
        if self.graph.kind[task] == TRANSFER:
            self._place_transfer(task)
            return
        ready = self._ready_s(task)
        if self.graph.kind[task] == COMPUTE:
            self._place_compute(task, ready)
        else:
            self._place_virtual(task, ready)
        variable = int(self.graph.variable[task])
        for transfer in self.waiting.pop(variable, ()):
            self._settle(transfer)

    def _place_compute(self, task: int, ready: Floats) -> None:
        machine, nodes, start, seconds = self._earliest_finish(task, ready)
        amounts = tuple(self.graph.demand[task].tolist())
        self.timelines[machine].take(start, seconds, nodes, amounts)
        self._record(task, machine, nodes, start, start + seconds)

    def _place_virtual(self, task: int, ready: Floats) -> None:
        candidates = self._candidates(int(self.graph.variable[task]))
        machine = int(candidates[np.argmin(ready[candidates])])
        self._record(task, machine, 0, float(ready[machine]), float(ready[machine]))

    def _record(self, task: int, machine: int, nodes: int, start: float, finish: float) -> None:
        self.machine[task], self.nodes[task] = machine, nodes
        self.start_s[task], self.finish_s[task] = start, finish
        self.bound[self.graph.variable[task]] = machine

    def _candidates(self, variable: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        bound = self.bound[variable]
        if bound != _UNBOUND:
            return np.array([bound], dtype=np.uint32)
        return self.instance.candidates_of(variable)

    def _earliest_finish(self, task: int, ready: Floats) -> tuple[int, int, float, float]:
        """Choose machine and node count; give (machine, nodes, start, seconds)."""
        modes = self.instance.modes(task)
        bound = self.bound[self.graph.variable[task]]
        keep = slice(None) if bound == _UNBOUND else modes.machine == bound
        machines, counts = modes.machine[keep], modes.count[keep].tolist()
        nodes, seconds = modes.nodes[keep].tolist(), modes.seconds[keep].tolist()
        possible = ready[machines] + modes.seconds[keep]
        amounts = tuple(self.graph.demand[task].tolist())
        found: list[tuple[float, int, int, float]] = []
        best = np.inf
        # Modes by the finish they could reach on an empty machine: once that is too late, so are all others.
        for mode in np.argsort(possible, kind="stable").tolist():
            if possible[mode] > best * (1.0 + self.tolerance):
                break
            machine = int(machines[mode])
            start = self.timelines[machine].earliest(float(ready[machine]), seconds[mode], nodes[mode], amounts)
            finish = start + seconds[mode]
            found.append((finish, machine, mode, start))
            best = min(best, finish)
        limit = best * (1.0 + self.tolerance) if self.tolerance else best
        finish, machine, mode, start = min(
            (entry for entry in found if entry[0] <= limit), key=lambda entry: (counts[entry[2]], *entry)
        )
        return machine, nodes[mode], start, seconds[mode]

    def _ready_s(self, task: int) -> Floats:
        """Give, per machine, when everything the task needs would be there."""
        graph = self.graph
        first, end = int(graph.predecessor_pointer[task]), int(graph.predecessor_pointer[task + 1])
        ready = np.full(len(self.instance.machines), self.instance.earliest_start_s[task])
        if first == end:
            return ready
        before = graph.predecessor[first:end]
        for transfer in before[np.isnan(self.finish_s[before])].tolist():
            ready = np.maximum(ready, self._arrivals(transfer, task))
        settled = ~np.isnan(self.finish_s[before])
        edges = np.arange(first, end)[settled]
        before = before[settled]
        if len(before):
            moving = edge_seconds_to(
                self.instance.network, self.machine[before], None,
                graph.edge_bytes[edges], graph.edge_files[edges], graph.edge_seconds[edges],
            )  # fmt: skip
            ready = np.maximum(ready, (self.finish_s[before][:, None] + moving).max(axis=0))
        return ready

    def _arrivals(self, transfer: int, task: int) -> Floats:
        """Give, per machine, when a transfer that has no destination yet would arrive there."""
        if self.graph.variable[transfer] != self.graph.variable[task]:
            # The task reads elsewhere than at the destination: that must be decided now.
            self._bind(int(self.graph.variable[transfer]), self._transfer_ends(transfer))
            for waiting in self.waiting.pop(int(self.graph.variable[transfer])):
                self._settle(waiting)
            return np.full(len(self.instance.machines), -np.inf)
        return self._transfer_ends(transfer)

    def _transfer_ends(self, transfer: int) -> Floats:
        source, start = self._departure(transfer)
        size = float(self.graph.transfer_bytes[transfer])
        moving = edge_seconds_to(self.instance.network, np.array([source], dtype=np.uint32), None, size, 1.0, 0.0)
        return start + moving[0]

    def _place_transfer(self, task: int) -> None:
        """Place a transfer if its destination is decided or nobody else will decide it; else let it wait."""
        variable = int(self.graph.variable[task])
        if self.bound[variable] == _UNBOUND and self.anchors[variable]:
            self.waiting.setdefault(variable, []).append(task)
            return
        if self.bound[variable] == _UNBOUND:
            self._bind(variable, self._transfer_ends(task))
        self._settle(task)

    def _bind(self, variable: int, ends: Floats) -> None:
        candidates = self._candidates(variable)
        self.bound[variable] = candidates[np.argmin(ends[candidates])]

    def _departure(self, transfer: int) -> tuple[int, float]:
        """Give the machine a transfer starts from and the moment it can."""
        graph = self.graph
        source = int(graph.source_variable[transfer])
        before = graph.predecessors(transfer)
        for other in before[np.isnan(self.finish_s[before])].tolist():
            self._bind(int(graph.variable[other]), self._transfer_ends(other))
            for waiting in self.waiting.pop(int(graph.variable[other])):
                self._settle(waiting)
        if self.bound[source] == _UNBOUND:
            self._bind(source, np.zeros(len(self.instance.machines)))
        machine = int(self.bound[source])
        start = float(self.instance.earliest_start_s[transfer])
        first = int(graph.predecessor_pointer[transfer])
        for edge, other in enumerate(before.tolist(), start=first):
            moving = self.instance.link_s(
                int(self.machine[other]), machine, float(graph.edge_bytes[edge]),
                float(graph.edge_files[edge]), float(graph.edge_seconds[edge]),
            )  # fmt: skip
            start = max(start, float(self.finish_s[other]) + moving)
        return machine, start

    def _settle(self, transfer: int) -> None:
        """Fix a transfer whose destination is bound."""
        source, start = self._departure(transfer)
        target = int(self.bound[self.graph.variable[transfer]])
        seconds = self.instance.transfer_s(transfer, source, target)
        self._record(transfer, target, 0, start, start + seconds)
