"""Optimistic costs: what follows a task at best if it runs on a machine, and machines are always free.

H. Arabnejad, J. G. Barbosa, IEEE TPDS 25(3), 2014, equation 4:
``OCT(i, k) = max over successors j of min over machines w of (OCT(j, w) + seconds(j, w) + c_ij if w != k)``.
The minimum over w is either that of k itself or the least of all with communication, so that an edge costs
O(p) and not O(p^2). Tasks stand in topological order and are gone through backwards, each telling its
predecessors what it needs.
"""

from __future__ import annotations

from weft.kernels.choices import mode_seconds
from weft.kernels.forms import kernel
from weft.kernels.problem import COMPUTE, Modes, Tasks
from weft.kernels.types import Doubles

__all__ = ["optimistic_costs"]

_INFINITE = float("inf")


@kernel
def optimistic_costs(
    tasks: Tasks,
    modes: Modes,
    machines: int,
    mean_seconds: Doubles,
    communication: Doubles,
    total: Doubles,
    costs: Doubles,
    ranks: Doubles,
) -> None:
    """Fill ``costs`` (tasks x machines) and ``ranks``, the mean costs of a task over its machines.

    ``mean_seconds`` of transfers stand for those of all machines; ``communication`` is the mean per edge;
    ``total`` is scratch, per machine.
    """
    for index in range(tasks.number * machines):
        costs[index] = 0.0
    for back in range(tasks.number):
        task = tasks.number - 1 - back
        for machine in range(machines):
            total[machine] = _INFINITE
        if tasks.kind[task] == COMPUTE:
            _add_modes(tasks, modes, machines, task, costs, total)
        else:
            _add_candidates(tasks, machines, task, mean_seconds[task], costs, total)
        least = _INFINITE
        used = 0
        weight = 0.0
        for machine in range(machines):
            if total[machine] < _INFINITE:
                used += 1
                weight += costs[task * machines + machine]
                if total[machine] < least:
                    least = total[machine]
        ranks[task] = 0.0
        if used > 0:
            ranks[task] = weight / used
        for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
            row = tasks.before[edge] * machines
            elsewhere = least + communication[edge]
            if tasks.variable[tasks.before[edge]] == tasks.variable[task]:
                elsewhere = _INFINITE  # both are on one machine
            for machine in range(machines):
                cost = total[machine]
                if elsewhere < cost:
                    cost = elsewhere
                if cost > costs[row + machine]:
                    costs[row + machine] = cost


@kernel
def _add_modes(tasks: Tasks, modes: Modes, machines: int, task: int, costs: Doubles, total: Doubles) -> None:
    """Fill the total of every machine that can run a compute task: with its least seconds there."""
    pinned = tasks.pinned[tasks.variable[task]]
    group = modes.group[task]
    for mode in range(0 + modes.first[group], 0 + modes.first[group + 1]):
        machine = modes.machine[mode]
        if pinned < machines and machine != pinned:
            continue
        needed = costs[task * machines + machine] + mode_seconds(modes, task, mode)
        if needed < total[machine]:
            total[machine] = needed


@kernel
def _add_candidates(
    tasks: Tasks, machines: int, task: int, seconds: float, costs: Doubles, total: Doubles
) -> None:
    """Fill the total of every machine that a transfer may lead to, or a virtual task be on."""
    variable = tasks.variable[task]
    pinned = tasks.pinned[variable]
    found = tasks.candidate_set[variable]
    for position in range(tasks.candidate_pointer[found], tasks.candidate_pointer[found + 1]):
        machine = tasks.candidate[position]
        if pinned == machines or machine == pinned:
            total[machine] = costs[task * machines + machine] + seconds
