"""The instance: tasks, machines and seconds compiled into arrays. It is all a planner reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.instance.budgets import exceeded, largest_consumption
from weft.instance.modes import ModeGroup, Modes
from weft.platform.machine import Machine
from weft.platform.network import Network
from weft.platform.platform import Platform
from weft.predictors.seconds import Seconds
from weft.workflow.unfolding.task_graph import Floats, Indices, TaskGraph

__all__ = ["Busy", "Instance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Nodes and amounts that something else holds for a time: the start of a profile when re-planning."""

    machine: int
    start_s: float
    finish_s: float
    nodes: int
    amounts: tuple[float, ...] = ()
    """In the order of the graph's ``resource_names``; empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Instance:
    """A task graph on a platform, with estimates, candidates and what is already decided."""

    graph: TaskGraph
    platform: Platform
    machines: tuple[Machine, ...]
    """As planners see them: virtual shares are machines."""
    network: Network
    seconds: Seconds

    capacity: NDArray[np.int64]
    """Per machine: nodes."""
    unlimited: NDArray[np.bool_]
    """Per machine: whether tasks on it do not disturb each other (S1 section 6, occupancy none)."""
    price_per_node_s: Floats
    amounts: Floats
    """Machines x resources: totals; inf where a machine does not state its memory."""

    candidate_sets: tuple[Indices, ...]
    """Distinct sets of machines, ascending."""
    candidates: Indices
    """Per binding variable: index into ``candidate_sets``."""
    groups: tuple[ModeGroup, ...]
    """Compute tasks by the modes they can run in."""
    group: NDArray[np.int64]
    """Per task: index into ``groups``; -1 for transfers and virtual tasks."""

    pinned: Mapping[int, int]
    """Binding variables that are already bound to a machine, one of their candidates."""
    earliest_start_s: Floats
    """Per task."""
    busy: tuple[Busy, ...]

    def __len__(self) -> int:
        return len(self.graph)

    def candidates_of(self, variable: int) -> Indices:
        """Give the machines a binding variable may be bound to."""
        return self.candidate_sets[int(self.candidates[variable])]

    def modes(self, task: int) -> Modes:
        """Give every way to run a compute task on its candidates, by machine, then count."""
        group = self.groups[int(self.group[task])]
        seconds = group.seconds_of(task)
        return Modes(machine=group.machine, count=group.count, nodes=group.nodes, seconds=seconds)

    def binding_budgets(self) -> tuple[str, ...]:
        """Name the budgets that some choice of modes exceeds; a planner need not care about the others."""
        if not self.graph.budget_names:
            return ()
        over = exceeded(self.graph, largest_consumption(self.graph, self.groups))
        return tuple(name for name, binds in zip(self.graph.budget_names, over, strict=True) if binds)

    def shortest_s(self) -> Floats:
        """Give per task the seconds of its fastest mode; 0 for transfers and virtual tasks."""
        shortest = np.zeros(len(self))
        for group in self.groups:
            for tasks, seconds in group.chunks():
                shortest[tasks] = seconds.min(axis=1)
        return shortest

    def transfer_s(self, task: int, source: int, target: int) -> float:
        """Give the seconds of a transfer task between two machines; nothing on one host."""
        return self.link_s(source, target, float(self.graph.transfer_bytes[task]), 1.0, 0.0)

    def edge_s(self, edge: int, source: int, target: int) -> float:
        """Give the seconds the data of an edge take between two machines; nothing on one host."""
        graph = self.graph
        size, files = float(graph.edge_bytes[edge]), float(graph.edge_files[edge])
        return self.link_s(source, target, size, files, float(graph.edge_seconds[edge]))

    def link_s(self, source: int, target: int, size: float, files: float, fixed_s: float) -> float:
        """Give the seconds data take between two machines; nothing on one host."""
        network = self.network
        if network.host[source] == network.host[target]:
            return 0.0
        here, there = network.location[source], network.location[target]
        latency = float(network.latency_s[here, there])
        return fixed_s + files * latency + size * float(network.inverse_bandwidth[here, there])
