"""Slow reference implementation of the state of annealing on machines that run one task at a time.

Works from the instance, not from the arrays that kernels read; paths are computed recursively.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

from weft.workflow.task_graph import COMPUTE

__all__ = ["Standing"]


class Standing:
    """The schedule of an order of tasks and a machine per task."""

    def __init__(self, made, order, machine):
        self.made, self.order, self.machine = made, order, machine
        self.spent = [self._seconds(task) for task in range(len(made))]
        self.lines = {
            place: [task for task in order if machine[task] == place and self.spent[task] > 0]
            for place in range(len(made.machines))
            if not made.unlimited[place]
        }
        self._edges = {}
        for after in range(len(made)):
            first = int(made.graph.predecessor_pointer[after])
            for index, before in enumerate(made.graph.predecessors(after).tolist()):
                self._edges[before, after] = first + index

    def _seconds(self, task):
        if self.made.graph.kind[task] != COMPUTE:
            return 0.0
        modes = self.made.modes(task)
        return float(modes.seconds[modes.machine.tolist().index(self.machine[task])])

    def neighbours(self):
        """Return each task's previous and next task on its machine; the number of tasks stands for none."""
        none = len(self.made)
        before, behind = [none] * none, [none] * none
        for line in self.lines.values():
            for one, two in pairwise(line):
                behind[one], before[two] = two, one
        return before, behind

    def finishes(self):
        """Return the ends of all tasks, each as early as its data and its machine allow."""
        before = self.neighbours()[0]

        @cache
        def finish(task):
            moments = [float(self.made.earliest_start_s[task])]
            for (source, target), edge in self._edges.items():
                if target == task:
                    lag = self.made.edge_s(edge, self.machine[source], self.machine[task])
                    moments.append(finish(source) + lag)
            if before[task] < len(self.made):
                moments.append(finish(before[task]))
            return max(moments) + self.spent[task]

        return [finish(task) for task in range(len(self.made))]

    def tails(self):
        """Return the longest path from the start of each task to the end of all."""
        behind = self.neighbours()[1]

        @cache
        def tail(task):
            lengths = [0.0]
            for (source, target), edge in self._edges.items():
                if source == task:
                    lag = self.made.edge_s(edge, self.machine[task], self.machine[target])
                    lengths.append(tail(target) + lag)
            if behind[task] < len(self.made):
                lengths.append(tail(behind[task]))
            return max(lengths) + self.spent[task]

        return [tail(task) for task in range(len(self.made))]

    def is_valid_order(self):
        """Return whether the order contains every task once, after its predecessors."""
        place = {task: index for index, task in enumerate(self.order)}
        follows = all(place[before] < place[after] for before, after in self._edges)
        return sorted(self.order) == list(range(len(self.made))) and follows
