"""Slow reference implementation of placement by due dates: the minimum of a list of all modes."""

from __future__ import annotations

import math

from kernels.placement_reference import Placement
from weft.errors import Infeasible

__all__ = ["InTime"]


class InTime(Placement):
    """Placement of tasks in the cheapest mode that meets the due date, else in the mode with the earliest
    finish.
    """

    def __init__(self, instance, due_s, prices):
        super().__init__(instance)
        self.due_s, self.prices = due_s, prices

    def _earliest_finish(self, task, variable, ready):
        modes, bound, found = self.instance.modes(task), self.bound[variable], []
        for machine, count, nodes, spent in zip(
            modes.machine.tolist(),
            modes.count.tolist(),
            modes.nodes.tolist(),
            modes.seconds.tolist(),
            strict=True,
        ):
            if bound in (-1, machine):
                start = self.timelines[machine].earliest(ready[machine], spent, nodes, self.demand[task])
                charge = nodes * spent * self.prices[machine]
                found.append((charge, start + spent, count, machine, nodes, start, spent))
        found = [option for option in found if option[1] < math.inf]
        if not found:
            raise Infeasible(f"{self.graph.names[task]} cannot end at a finite time")
        in_time = [option for option in found if option[1] <= self.due_s[task]]
        best = min(in_time) if in_time else min(found, key=lambda option: option[1:4])
        _, _, _, machine, nodes, start, spent = best
        return machine, nodes, start, spent
