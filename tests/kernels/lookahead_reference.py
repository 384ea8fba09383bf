"""Slow reference implementation of lookahead: all pairs of a machine and a mode of a successor."""

from __future__ import annotations

import math

from kernels.placement_reference import Placement
from weft.workflow.task_graph import COMPUTE

__all__ = ["LookaheadPlacement"]


class LookaheadPlacement(Placement):
    """Placement of each task on the machine with the earliest finish of its successors."""

    def __init__(self, instance, *, factor):
        super().__init__(instance)
        self.factor = factor

    def _place_compute(self, task, variable, ready):
        by_machine = {}
        for mode in self.modes_of(task, self.bound[variable]):
            machine, _, nodes, spent = mode
            start = self.timelines[machine].earliest(ready[machine], spent, nodes, self.demand[task])
            by_machine.setdefault(machine, []).append((start + spent, start, mode))
        choices = []
        for machine, options in by_machine.items():
            limit = min(options)[0] * self.factor
            count, finish, start, mode = min(
                (mode[1], finish, start, mode) for finish, start, mode in options if finish <= limit
            )
            scores = [
                self.follow(task, after, edge, machine, finish) for after, edge in self.successors(task)
            ]
            choices.append((max([finish, *scores]), finish, count, machine, start, mode))
        _, finish, _, machine, start, (_, _, nodes, spent) = min(choices)
        self.timelines[machine].take(start, spent, nodes, self.demand[task])
        self._record(task, machine, nodes, start, finish)

    def follow(self, task, after, edge, machine, finish):
        """Return the earliest finish of a successor of a task that ends on a machine at a time."""
        ready = self.arrivals.ready_s(after, self.earliest_s[after], self.machine, self.finish_s)
        bound = machine if self.variable[after] == self.variable[task] else self.bound[self.variable[after]]
        found = []
        for there, _, nodes, spent in self.modes_of(after, bound):
            arrival = finish + self.instance.edge_s(edge, machine, there)
            start = self.timelines[there].earliest(
                max(arrival, ready[there]), spent, nodes, self.demand[after]
            )
            found.append(start + spent)
        return min(found)

    def modes_of(self, task, bound):
        """Return (machine, count, nodes, seconds) of a task's modes on machine ``bound``; -1: on all."""
        modes = self.instance.modes(task)
        columns = (modes.machine.tolist(), modes.count.tolist(), modes.nodes.tolist(), modes.seconds.tolist())
        return [mode for mode in zip(*columns, strict=True) if bound in (-1, mode[0])]

    def successors(self, task):
        """Return (task, edge) for each compute task that depends on a task."""
        graph = self.graph
        return [
            (after, edge)
            for after in graph.successors(task).tolist()
            if self.kind[after] == COMPUTE
            for edge, before in enumerate(
                graph.predecessors(after).tolist(), start=int(graph.predecessor_pointer[after])
            )
            if before == task
        ]

    def is_finished(self):
        """Return whether every task is placed."""
        return not any(map(math.isnan, self.finish_s))
