"""List scheduling with lookahead: place each task on the machine that lets its successors finish first."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.arrivals import data_ready_s, gather_data
from weft.kernels.compilation import kernel
from weft.kernels.placement import (
    PlacementState,
    Workspace,
    begin_placement,
    commit_task,
    find_modes,
    gather_all_data,
    mode_seconds,
    place_without_nodes,
    possible_modes,
    settle_transfers,
    start_of_mode,
)
from weft.kernels.problem import COMPUTE, INFINITY, Doubles, Indices, Integers, ModeArrays, ProblemArrays


class LookaheadScratch(NamedTuple):
    """Scratch arrays: the feasible machines of a task, and the modes of one of its successors."""

    mode: Integers
    start: Doubles
    finish: Doubles
    """Per feasible machine: ``mode``, ``start`` and ``finish`` of the task on this machine."""
    score: Doubles
    """Per feasible machine: the latest of the earliest finishes of the task and of its successors."""
    ready: Doubles
    spent: Doubles
    """Per mode of a successor: ``ready`` is when the data of its other predecessors are on the machine,
    ``spent`` its seconds.
    """


@kernel
def place_with_lookahead(
    problem: ProblemArrays, factor: float, order: Indices, scratch: LookaheadScratch, workspace: Workspace
) -> int:
    """Place all tasks in a given order; return a task that fits nowhere, or the number of tasks.

    For every feasible machine of a task, the earliest finish of each successor on any machine is computed.
    The score of the machine is the latest of these finishes and of the finish of the task; the least score
    wins. A successor starts after the task has ended, so the task never occupies nodes that the successor
    needs, and need not be placed for the evaluation. Successors are evaluated one by one, each as if it were
    the only one. Transfers and virtual tasks among the successors are ignored, and so are data that a
    successor gets from predecessors that are not placed yet. ``factor`` is that of ``PlacementRule``.
    """
    tasks = problem.tasks
    state = begin_placement(problem, workspace)
    for position in range(tasks.number):
        task = order[position]
        settle_transfers(state, task)
        if tasks.kind[task] != COMPUTE:
            place_without_nodes(state, task)
            continue
        choices = _choices(state, scratch, factor, task)
        if choices == 0:
            return task
        if choices > 1:
            for edge in range(tasks.after_pointer[task], tasks.after_pointer[task + 1]):
                following = tasks.after[edge]
                if tasks.kind[following] == COMPUTE:
                    _follow(state, scratch, choices, task, following, tasks.after_edge[edge])
        best = _best(problem.modes, scratch, choices)
        commit_task(state, task, scratch.mode[best], scratch.start[best])
    return tasks.number


@kernel
def _choices(state: PlacementState, scratch: LookaheadScratch, factor: float, task: int) -> int:
    """Fill ``scratch`` with the feasible machines of a task and its best mode on each; return their number.

    The best mode has the smallest count that finishes within a factor of the earliest finish on the machine.
    """
    _, modes, machines, _, arrivals, schedule = state
    gather_all_data(state, task)
    low, high = possible_modes(state, task)
    starts, finishes = schedule.mode_start, schedule.mode_finish
    choices = 0
    while low < high:
        machine = modes.machine[low]
        ready = data_ready_s(machines, arrivals, machine)
        end = low
        soonest = INFINITY
        while end < high and modes.machine[end] == machine:
            spent = mode_seconds(modes, task, end)
            start = start_of_mode(state, 0, task, end, ready, spent, INFINITY)
            starts[end - low] = start
            finishes[end - low] = start + spent
            if start + spent < soonest:
                soonest = start + spent
            end += 1
        if soonest < INFINITY:
            # Counts ascend: the first one that is early enough is the smallest.
            mode = low
            while finishes[mode - low] > soonest * factor:
                mode += 1
            scratch.mode[choices] = mode
            scratch.start[choices] = starts[mode - low]
            scratch.finish[choices] = finishes[mode - low]
            scratch.score[choices] = finishes[mode - low]
            choices += 1
        low = end
    return choices


@kernel
def _follow(
    state: PlacementState, scratch: LookaheadScratch, choices: int, task: int, following: int, edge: int
) -> None:
    """Raise the score of each machine in ``scratch`` to at least the earliest finish of ``following``.

    ``following`` is a successor of the task.
    """
    tasks, modes, machines, _, arrivals, schedule = state
    gather_data(tasks, machines, arrivals, following, schedule.machine, schedule.finish)
    group = modes.group[following]
    first = 0 + modes.first[group]
    last = 0 + modes.first[group + 1]
    for mode in range(first, last):
        scratch.ready[mode - first] = data_ready_s(machines, arrivals, modes.machine[mode])
        scratch.spent[mode - first] = mode_seconds(modes, following, mode)
    together = tasks.variable[following] == tasks.variable[task]
    bound = schedule.bound[tasks.variable[following]]
    size, files, fixed = tasks.size[edge], tasks.files[edge], tasks.fixed[edge]
    on, location, host_of, places = modes.machine, machines.location, machines.host, machines.locations
    for choice in range(choices):
        source = on[scratch.mode[choice]]
        done = scratch.finish[choice]
        links = location[source] * places
        low, high = first, last
        if together:
            low, high = find_modes(modes, following, source)
        elif bound < machines.number:
            low, high = find_modes(modes, following, bound)
        soonest = INFINITY
        for mode in range(low, high):
            # A finish below the score does not change it.
            if soonest <= scratch.score[choice]:
                break
            machine = on[mode]
            there = done
            if host_of[machine] != host_of[source]:
                link = links + location[machine]
                there = done + (fixed + files * machines.latency[link] + size * machines.inverse[link])
            if scratch.ready[mode - first] > there:
                there = scratch.ready[mode - first]
            spent = scratch.spent[mode - first]
            if there + spent < soonest:
                start = start_of_mode(state, 0, following, mode, there, spent, INFINITY)
                if start + spent < soonest:
                    soonest = start + spent
        if soonest > scratch.score[choice]:
            scratch.score[choice] = soonest


@kernel
def _best(modes: ModeArrays, scratch: LookaheadScratch, choices: int) -> int:
    """Return the position in ``scratch`` with the least score; ties by finish, count and machine index."""
    best = 0
    for choice in range(1, choices):
        score, other = scratch.score[choice], scratch.score[best]
        if score < other:
            best = choice
        elif score == other:
            finish, soonest = scratch.finish[choice], scratch.finish[best]
            count, least = modes.count[scratch.mode[choice]], modes.count[scratch.mode[best]]
            if finish < soonest or (finish == soonest and count < least):
                best = choice
    return best
