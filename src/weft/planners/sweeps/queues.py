"""Queues of machines with times: made from layers, improved by the steps of xDCP, turned into a schedule."""

from __future__ import annotations

from typing import Literal

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels.xdcp import Sweep, xdcp_steps
from weft.planners.planner import Budget
from weft.planners.problem import problem_of
from weft.planners.sweeps.layers import Layers
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE

__all__ = ["Start", "SweepQueues"]

Start = Literal["shuffle", "sequential"]
"""How queues are filled first: the tasks of a layer in turn over its machines, or all on the first one."""

_PLAIN_S = 1e-6
"""What plain Python spends per step and task or edge."""
_ELEMENTS_PER_CALL = 5_000_000
"""Tasks and edges looked at before the clock is asked again: about a tenth of a second."""


class SweepQueues:
    """Who runs where and after whom, from a simple start on; times are those of the queues as they stand."""

    def __init__(self, instance: Instance, layers: Layers, *, start: Start) -> None:
        problem = problem_of(instance)
        tasks, modes = problem.tasks, problem.modes
        number = tasks.number
        self.instance = instance
        self.modes = modes
        self.sweep = Sweep(
            number=number,
            machines=problem.machines.number,
            pointer=tasks.pointer,
            before=tasks.before,
            after_pointer=tasks.after_pointer,
            after=tasks.after,
            earliest=tasks.earliest,
            layer=layers.layer,
            bound=tasks.pinned[tasks.variable],
        )
        self.compute = instance.graph.kind == COMPUTE
        self.mode = np.zeros(number, dtype=np.uint32)
        self.seconds = np.zeros(number)
        # Along dependencies the layer rises, so layer by layer is an order for queues and dependencies alike.
        self.order = np.lexsort((np.arange(number), layers.layer)).astype(np.uint32)
        self.previous = np.full(number, number, dtype=np.uint32)
        self.following = np.full(number, number, dtype=np.uint32)
        self.head = np.full(self.sweep.machines, number, dtype=np.uint32)
        self._fill(layers, start)
        self.placed = np.ones(number, dtype=np.uint8)
        self.start, self.finish, self.latest = np.zeros(number), np.zeros(number), np.zeros(number)
        self.steps(0)

    @property
    def length_s(self) -> float:
        """Give the length of the schedule."""
        return float(self.finish.max(initial=0.0))

    def improve(self, budget: Budget) -> bool:
        """Make a pass: every task may move once. False if the clock ended it early."""
        self.placed[:] = ~self.compute
        left = int(self.compute.sum())
        at_once = max(1, _ELEMENTS_PER_CALL // (len(self.placed) + len(self.sweep.before)))
        while left:
            left -= self.steps(min(left, at_once))
            if left and budget.left is not None and budget.left() <= 0:
                return False
        return True

    def schedule(self) -> Schedule:
        """Give the schedule of the queues as they stand."""
        instance, machine = self.instance, self.sweep.bound.copy()
        machine[self.compute] = self.modes.machine[self.mode[self.compute]]
        for task in np.flatnonzero(machine == self.sweep.machines).tolist():  # virtual and not bound
            machine[task] = instance.candidates_of(int(instance.graph.variable[task]))[0]
        return Schedule(
            tasks=instance.graph.names,
            machines=tuple(machine.name for machine in instance.machines),
            machine=machine,
            nodes=self.compute.astype(np.uint32),
            start_s=self.start.copy(),
            finish_s=self.finish.copy(),
        )

    def steps(self, limit: int) -> int:
        """Let the kernel move so many tasks."""
        number = self.sweep.number
        scratch = (
            np.zeros(number),
            np.zeros(number),
            np.zeros(number, dtype=np.uint8),
            np.zeros(number, dtype=np.uint32),
        )
        state = (
            self.placed, self.mode, self.seconds, self.previous, self.following, self.head, self.order,
            self.start, self.finish, self.latest,
        )  # fmt: skip
        work_s = _PLAIN_S * (1 + limit) * (number + len(self.sweep.before))
        moved: int = forms.run(xdcp_steps, (self.sweep, self.modes, limit, *scratch), state, work_s=work_s)
        return moved

    def _fill(self, layers: Layers, start: Start) -> None:
        """Choose the first mode of every task, and queue tasks layer by layer, then by index."""
        modes, bound = self.modes, self.sweep.bound
        queued = self.order[self.compute[self.order]]
        first = modes.first.astype(np.int64)
        begin, end = first[modes.group[queued]], first[modes.group[queued] + 1]
        self.mode[queued] = begin + (layers.position[queued] % (end - begin) if start == "shuffle" else 0)
        for index in np.flatnonzero(bound[queued] < self.sweep.machines).tolist():
            own = modes.machine[begin[index] : end[index]]
            self.mode[queued[index]] = begin[index] + int(np.argmax(own == bound[queued[index]]))
        machine = modes.machine[self.mode[queued]]
        by_machine = np.argsort(machine, kind="stable")
        queued, machine = queued[by_machine], machine[by_machine]
        same = machine[1:] == machine[:-1]
        self.previous[queued[1:][same]] = queued[:-1][same]
        self.following[queued[:-1][same]] = queued[1:][same]
        heads = np.concatenate(([True], ~same))[: len(queued)]
        self.head[machine[heads]] = queued[heads]
