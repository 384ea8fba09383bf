"""The plan in force, carried over to what remains: what a new plan has to beat.

Every task keeps the machine and the node count it has been promised, in the promised order; what is too slow
stays where it runs, and what completed does not run again. Only the times are new, by what is known now.
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from weft.engine.remaining.occupation import expected_end_s
from weft.engine.remaining.remainder import Remainder
from weft.engine.state.plans import Line
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners.decoding import decode
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices

__all__ = ["carried"]


def carried(state: State, run: Run, remainder: Remainder) -> Schedule | None:
    """Give the schedule of what remains under the plan in force; None: there is none, or it cannot go on."""
    if run.plan is None:
        return None
    instance = remainder.instance
    lines = [_line(state, run, remainder, name) for name in instance.graph.names]
    bound = _bound(instance, lines)
    modes = None if bound is None else _modes(instance, lines, bound)
    if bound is None or modes is None:
        return None
    seconds = _seconds(state, run, remainder, modes)
    try:
        return decode(instance, _order(instance, lines), bound, modes, seconds=seconds)
    except Infeasible:
        return None


def _line(state: State, run: Run, remainder: Remainder, name: str) -> Line | None:
    """Give the line of a row; of one that runs, where it runs."""
    task = remainder.tasks.get(name)
    if task is None or run.plan is None:
        return None
    number = run.attempt_of.get(task)
    if name in remainder.moving and number is not None:
        attempt = state.attempts[number]
        return Line(machine=attempt.machine, count=attempt.count, start_s=-math.inf, finish_s=0.0)
    return run.plan.line.get(task)


def _bound(instance: Instance, lines: list[Line | None]) -> Indices | None:
    """Give the machine of every variable; None: some variable has none, or one it may not have."""
    chosen = dict(instance.pinned)
    for variable, line in zip(instance.graph.variable.tolist(), lines, strict=True):
        if line is not None:
            chosen.setdefault(variable, line.machine)
    bound = np.zeros(len(instance.graph.variables), dtype=np.uint32)
    for variable in range(len(bound)):
        allowed = instance.candidates_of(variable)
        machine = chosen.get(variable)
        if machine is None or machine not in allowed:
            return None
        bound[variable] = machine
    return bound


def _modes(instance: Instance, lines: list[Line | None], bound: Indices) -> Indices | None:
    """Give the mode of every row among those of its group; None: some row has no such mode.

    The machine is that of the row's variable: a member that went elsewhere took the others with it.
    """
    modes = np.zeros(len(instance), dtype=np.uint32)
    for row in np.flatnonzero(instance.graph.kind == COMPUTE).tolist():
        line, variable = lines[row], int(instance.graph.variable[row])
        group = instance.groups[int(instance.group[row])]
        found = (
            np.zeros(0, dtype=np.intp)
            if line is None
            else np.flatnonzero((group.machine == bound[variable]) & (group.count == line.count))
        )
        if not len(found):
            return None
        modes[row] = found[0]
    return modes


def _seconds(state: State, run: Run, remainder: Remainder, modes: Indices) -> Floats:
    """Give what every row takes if nothing moves."""
    instance = remainder.instance
    seconds = np.zeros(len(instance))
    for row in np.flatnonzero(instance.graph.kind == COMPUTE).tolist():
        name = instance.graph.names[row]
        if name in remainder.moving:
            attempt = state.attempts[run.attempt_of[remainder.tasks[name]]]
            seconds[row] = expected_end_s(state, attempt) - state.now
        elif name not in remainder.again:
            seconds[row] = instance.modes(row).seconds[modes[row]]
    return seconds


def _order(instance: Instance, lines: list[Line | None]) -> Indices:
    """Order the rows by their planned starts, predecessors first."""
    graph = instance.graph
    waiting = np.diff(graph.predecessor_pointer).tolist()
    key = [-math.inf if line is None else line.start_s for line in lines]
    ready = [(key[row], row) for row, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, row = heapq.heappop(ready)
        order.append(row)
        for successor in graph.successors(row).tolist():
            waiting[successor] -= 1
            if waiting[successor] == 0:
                heapq.heappush(ready, (key[successor], successor))
    return np.array(order, dtype=np.uint32)
