"""Slow reference implementation of the selection kernel: all modes of all ready tasks in every step.

Nothing is cached between two placements; the best is the minimum of a list of tuples.
"""

from __future__ import annotations

import math

from kernels.placement_reference import Placement
from kernels.timeline_reference import Gaps, Skyline
from weft.workflow.task_graph import COMPUTE

__all__ = ["Selection"]


class Selection(Placement):
    """Placement that selects a ready task by a rule and places it by a criterion."""

    def __init__(self, instance, *, criterion, sense, offset, rank, gaps, factor):
        super().__init__(instance)
        self.criterion, self.sense, self.gaps, self.factor = criterion, sense, gaps, factor
        self.offset, self.rank = offset, rank

    def run(self):
        """Place everything and return the schedule."""
        graph = self.graph
        before = [set(graph.predecessors(task).tolist()) for task in range(len(graph))]
        placed, ready, queue = set(), set(), [task for task in range(len(graph)) if not before[task]]
        while queue or ready:
            if queue:
                task = queue.pop(0)
                if self.kind[task] == COMPUTE:
                    self._unsettled(task)
                    ready.add(task)
                    continue
                self.place(task)
            else:
                task = min(ready, key=self.preference)
                ready.remove(task)
                self.take(task)
                self._settle_waiting(self.variable[task])
            placed.add(task)
            queue += [after for after in graph.successors(task).tolist() if before[after] <= placed]
        return self.schedule()

    def preference(self, task):
        """Return the sort key of a task; the minimum is placed first."""
        options = self.options(task)
        best = min(options)
        if self.sense == "least":
            return best[0] - self.offset[task], self.rank[task]
        if self.sense == "most":
            return -best[0], self.rank[task]
        others = [value for value, _, _, machine, *_ in options if machine != best[3]]
        return best[0] - min(others, default=math.inf), self.rank[task]

    def take(self, task):
        """Place a task in its best mode or, with a factor, in the smallest count within the factor."""
        options = self.options(task)
        best = min(options)
        if self.factor > 1 and len({count for _, _, count, *_ in options}) > 1:
            limit = min(finish for _, finish, *_ in options) * self.factor
            by_count = [
                (count, finish, machine, option)
                for option in options
                for _, finish, count, machine, *_ in [option]
            ]
            best = min(entry for entry in by_count if entry[1] <= limit)[3]
        _, _, _, machine, nodes, start, spent = best
        self.timelines[machine].take(start, spent, nodes, self.demand[task])
        self._record(task, machine, nodes, start, start + spent)

    def options(self, task):
        """Return (value, finish, count, machine, nodes, start, seconds) of every mode of a task."""
        ready = self.arrivals.ready_s(task, self.earliest_s[task], self.machine, self.finish_s)
        waiting = [
            other for other in self.graph.predecessors(task).tolist() if math.isnan(self.finish_s[other])
        ]
        for transfer in waiting:
            ready = list(map(max, ready, self._arrival_s(transfer)))
        made = self.earliest_s[task]
        for other in self.graph.predecessors(task).tolist():
            made = max(made, self._departure(other)[1] if other in waiting else self.finish_s[other])
        modes, bound, found = self.instance.modes(task), self.bound[self.variable[task]], []
        for machine, count, nodes, spent in zip(
            modes.machine.tolist(),
            modes.count.tolist(),
            modes.nodes.tolist(),
            modes.seconds.tolist(),
            strict=True,
        ):
            if bound in (-1, machine):
                start = self.earliest_start(task, machine, ready[machine], spent, nodes)
                values = {
                    "finish": start + spent,
                    "start": start,
                    "moment": self.earliest_start(task, machine, made, spent, nodes),
                }
                found.append((values[self.criterion], start + spent, count, machine, nodes, start, spent))
        return found

    def earliest_start(self, task, machine, ready, spent, nodes):
        """Return the earliest start of a task for a ready time."""
        line, amounts = self.timelines[machine], self.demand[task]
        if self.gaps:
            return line.earliest(ready, spent, nodes, amounts)
        if spent == 0:
            return ready
        if isinstance(line, Gaps):
            return max(ready, line.starts[-1])
        if isinstance(line, Skyline):
            return max(ready, free_for_good(line, nodes, amounts))
        return ready


def free_for_good(line, nodes, amounts):
    """Return the time after which enough nodes and amounts are always free."""
    enough = [
        free >= nodes
        and all(left >= need - slack for left, need, slack in zip(rest, amounts, line.slack, strict=True))
        for free, rest in zip(line.nodes, line.amounts, strict=True)
    ]
    return min((time for index, time in enumerate(line.times) if all(enough[index:])), default=math.inf)
