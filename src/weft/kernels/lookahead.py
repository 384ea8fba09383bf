"""Looking ahead: place each task on the machine that lets its successors end first.

For every machine a task could take, each successor is tried wherever it could go; the latest of their
earliest finishes decides. A successor starts after the task, so that the task is not in its way and nothing
has to be placed on trial. Successors are tried one by one, as if alone; data of predecessors that have no
place yet count for nothing, nor do successors that occupy nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import Arrivals, data_ready_s, gather_data
from weft.kernels.compilation import kernel
from weft.kernels.placement import (
    PartialSchedule,
    PlacementRule,
    commit_task,
    find_modes,
    gather_all_data,
    mode_seconds,
    place_without_nodes,
    reset_schedule,
    settle_transfers,
)
from weft.kernels.problem import (
    COMPUTE,
    Doubles,
    Indices,
    Integers,
    MachineArrays,
    ModeArrays,
    ProblemArrays,
    TaskArrays,
)
from weft.kernels.timelines import Timelines, earliest_start

__all__ = ["LookaheadScratch", "place_with_lookahead"]


_INFINITE = float("inf")


class LookaheadScratch(NamedTuple):
    """Scratch: the machines one task could take, and the modes of one of its successors."""

    mode: Integers
    start: Doubles
    finish: Doubles
    """Per machine the task could take: what it would get there."""
    score: Doubles
    """Per machine the task could take: the latest of its own and its successors' earliest finishes."""
    ready: Doubles
    spent: Doubles
    """Per mode of the successor: when all other data are there; its seconds."""


@kernel
def place_with_lookahead(
    problem: ProblemArrays,
    rule: PlacementRule,
    order: Indices,
    look: LookaheadScratch,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
) -> int:
    """Place all tasks in an order in which predecessors come first; give the task that fits nowhere.

    The number of tasks: all are placed. Of ``rule`` only the factor counts.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    reset_schedule(problem, lines, arrivals, board)
    for position in range(tasks.number):
        task = order[position]
        settle_transfers(tasks, machines, arrivals, board, task)
        if tasks.kind[task] != COMPUTE:
            place_without_nodes(tasks, machines, arrivals, board, task)
            continue
        choices = _choices(tasks, modes, machines, lines, arrivals, board, look, rule.factor, task)
        if choices == 0:
            return task
        if choices > 1:
            for edge in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
                following = tasks.after[edge]
                if tasks.kind[following] == COMPUTE:
                    _follow(
                        tasks,
                        modes,
                        machines,
                        lines,
                        arrivals,
                        board,
                        look,
                        choices,
                        task,
                        following,
                        tasks.after_edge[edge],
                    )
        best = _best(modes, look, choices)
        commit_task(tasks, modes, machines, lines, arrivals, board, task, look.mode[best], look.start[best])
    return tasks.number


@kernel
def _choices(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
    look: LookaheadScratch,
    factor: float,
    task: int,
) -> int:
    """List the machines a task could take, each with its best mode there; give their number.

    That is the smallest count that ends within a factor of the earliest finish on the machine.
    """
    gather_all_data(tasks, machines, arrivals, board, task)
    group = modes.group[task]
    low = 0 + modes.first[group]
    high = 0 + modes.first[group + 1]
    bound = board.bound[tasks.variable[task]]
    if bound < machines.number:
        low, high = find_modes(modes, task, bound)
    starts, finishes = board.mode_start, board.mode_finish
    choices = 0
    while low < high:
        machine = modes.machine[low]
        ready = data_ready_s(machines, arrivals, machine)
        end = low
        soonest = _INFINITE
        while end < high and modes.machine[end] == machine:
            spent = mode_seconds(modes, task, end)
            need = 0 + tasks.need[task] + modes.shift[end]
            start = earliest_start(
                machines, lines, machine, ready, spent, modes.nodes[end], need, tasks.amount
            )
            starts[end - low] = start
            finishes[end - low] = start + spent
            if start + spent < soonest:
                soonest = start + spent
            end += 1
        if soonest < _INFINITE:
            # Counts ascend: the first that is early enough is the smallest.
            mode = low
            while finishes[mode - low] > soonest * factor:
                mode += 1
            look.mode[choices] = mode
            look.start[choices] = starts[mode - low]
            look.finish[choices] = finishes[mode - low]
            look.score[choices] = finishes[mode - low]
            choices += 1
        low = end
    return choices


@kernel
def _follow(
    tasks: TaskArrays,
    modes: ModeArrays,
    machines: MachineArrays,
    lines: Timelines,
    arrivals: Arrivals,
    board: PartialSchedule,
    look: LookaheadScratch,
    choices: int,
    task: int,
    following: int,
    edge: int,
) -> None:
    """Raise the score of every choice to the earliest finish of one successor."""
    gather_data(tasks, machines, arrivals, following, board.machine, board.finish)
    group = modes.group[following]
    first = 0 + modes.first[group]
    last = 0 + modes.first[group + 1]
    for mode in range(first, last):
        look.ready[mode - first] = data_ready_s(machines, arrivals, modes.machine[mode])
        look.spent[mode - first] = mode_seconds(modes, following, mode)
    together = tasks.variable[following] == tasks.variable[task]
    bound = board.bound[tasks.variable[following]]
    size, files, fixed = tasks.size[edge], tasks.files[edge], tasks.fixed[edge]
    on, location, host_of, places = modes.machine, machines.location, machines.host, machines.locations
    for choice in range(choices):
        source = on[look.mode[choice]]
        done = look.finish[choice]
        links = location[source] * places
        low, high = first, last
        if together:
            low, high = find_modes(modes, following, source)
        elif bound < machines.number:
            low, high = find_modes(modes, following, bound)
        soonest = _INFINITE
        for mode in range(low, high):
            # What ends no later than something known already changes nothing.
            if soonest <= look.score[choice]:
                break
            machine = on[mode]
            there = done
            if host_of[machine] != host_of[source]:
                link = links + location[machine]
                there = done + (fixed + files * machines.latency[link] + size * machines.inverse[link])
            if look.ready[mode - first] > there:
                there = look.ready[mode - first]
            spent = look.spent[mode - first]
            if there + spent < soonest:
                need = 0 + tasks.need[following] + modes.shift[mode]
                start = earliest_start(
                    machines, lines, machine, there, spent, modes.nodes[mode], need, tasks.amount
                )
                if start + spent < soonest:
                    soonest = start + spent
        if soonest > look.score[choice]:
            look.score[choice] = soonest


@kernel
def _best(modes: ModeArrays, look: LookaheadScratch, choices: int) -> int:
    """Give the choice of the least score; ties go to the earlier finish, smaller count, lower machine."""
    best = 0
    for choice in range(1, choices):
        score, other = look.score[choice], look.score[best]
        if score < other:
            best = choice
        elif score == other:
            finish, soonest = look.finish[choice], look.finish[best]
            count, least = modes.count[look.mode[choice]], modes.count[look.mode[best]]
            if finish < soonest or (finish == soonest and count < least):
                best = choice
    return best
