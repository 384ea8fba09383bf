"""Slow reference implementation of just-in-time placement: the next event is the minimum of a list."""

from __future__ import annotations

import math

from kernels.placement_reference import Placement
from kernels.selection_reference import free_for_good
from kernels.timeline_reference import Gaps, Skyline
from weft.errors import Infeasible
from weft.workflow.task_graph import COMPUTE, TRANSFER

__all__ = ["JustInTime"]

_UNBOUND = -1


class JustInTime(Placement):
    """Placement that binds tasks when they become ready and appends them to their machine."""

    def __init__(self, instance, *, by, draw):
        super().__init__(instance)
        self.by, self.draw = by, draw

    def run(self):
        """Place everything and return the schedule."""
        graph, moments = self.graph, {}
        while len(moments) < len(graph):
            ready = []
            for task in range(len(graph)):
                before = graph.predecessors(task).tolist()
                if task not in moments and all(other in moments for other in before):
                    ends = [
                        moments[other] if math.isnan(self.finish_s[other]) else self.finish_s[other]
                        for other in before
                    ]
                    ready.append((max([self.earliest_s[task], *ends]), task))
            moment, task = min(ready)
            self._bind(task)
            self.place(task)
            # Successors of a transfer without a destination can be bound when the transfer could start.
            moments[task] = moment
        return self.schedule()

    def _bind(self, task):
        """Bind a task by transfer time if the rule requires it and the variable is unbound."""
        arriving, variable = self._unsettled(task), self.variable[task]
        if self.by != "transfer" or self.bound[variable] != _UNBOUND:
            return
        candidates = self.instance.candidates_of(variable).tolist()
        if self.kind[task] == TRANSFER:
            source = self.bound[int(self.graph.source_variable[task])]
            if source == _UNBOUND:
                return
            worth = {machine: self.instance.transfer_s(task, source, machine) for machine in candidates}
        elif self.kind[task] == COMPUTE:
            ready = self.arrivals.ready_s(task, self.earliest_s[task], self.machine, self.finish_s)
            for transfer in arriving:
                ready = list(map(max, ready, self._arrival_s(transfer)))
            modes = self.instance.modes(task)
            worth = {
                machine: (ready[machine], modes.seconds[modes.machine == machine].min())
                for machine in candidates
            }
        else:
            return
        best = [machine for machine in candidates if worth[machine] == min(worth.values())]
        self.bound[variable] = best[int(self.draw[task] * len(best))]

    def _earliest_finish(self, task, variable, ready):
        modes, bound, found = self.instance.modes(task), self.bound[variable], []
        for machine, count, nodes, spent in zip(
            modes.machine.tolist(),
            modes.count.tolist(),
            modes.nodes.tolist(),
            modes.seconds.tolist(),
            strict=True,
        ):
            if bound in (_UNBOUND, machine):
                start = self._behind(task, machine, ready[machine], spent, nodes)
                found.append((start + spent, count, machine, nodes, start, spent))
        best = min(found)
        if best[0] == math.inf:
            raise Infeasible(f"{self.graph.names[task]} cannot end at a finite time")
        _, _, machine, nodes, start, spent = best
        return machine, nodes, start, spent

    def _behind(self, task, machine, ready, spent, nodes):
        """Return the earliest start of a task after all others on a machine."""
        line = self.timelines[machine]
        if spent == 0:
            return ready
        if isinstance(line, Gaps):
            return max(ready, line.starts[-1])
        if isinstance(line, Skyline):
            return max(ready, free_for_good(line, nodes, self.demand[task]))
        return ready
