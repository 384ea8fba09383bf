"""Decoding: tasks in a given order, each in a given mode on a given machine, become start and finish times.

A task starts when its data are there and its machine lets it. ``APPEND``: a machine serves its tasks in order
and puts none before or between others; on several nodes a task starts as soon as enough of them are free for
good, so that the number of free nodes only grows. ``INSERTION``: the first gap that is wide and long enough.
``EXCLUSIVE``: one task at a time, however many nodes it takes (R. Prodan, T. Fahringer, SAC 2005; S1 section
6). ``UNLIMITED``: tasks do not disturb each other (occupancy none of the same section).

What is busy beforehand stands in the way under every rule but the last; it does not count as served, so that
a task may run before it. A task of no seconds occupies nothing. Transfers occupy nothing and end on the
machine of their destination.

A population is decoded in one call, O(v + e + p) per individual for v tasks, e edges and p machines; where
nodes and amounts are counted or gaps are filled, a task also pays for the steps it looks at or moves.
``decode_bindings`` does the same for the case of S1: only bindings are searched, only makespans are
wanted. It
reads few arrays, and that alone makes it twice as fast.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import (
    CLASSES,
    COMPUTE,
    OPEN,
    RELATED,
    TRANSFER,
    Doubles,
    Flags,
    Indices,
    Integers,
    ProblemArrays,
)
from weft.kernels.skylines import Skylines, first_fit, occupy_skyline, permanent_fit, write_demand

__all__ = [
    "APPEND",
    "EXCLUSIVE",
    "INSERTION",
    "UNLIMITED",
    "BindingProblem",
    "DecoderScratch",
    "Genomes",
    "decode",
    "decode_bindings",
]


APPEND, INSERTION, EXCLUSIVE, UNLIMITED = 0, 1, 2, 3
"""Rules: when a machine lets a task start."""
_INFINITE = float("inf")


class Genomes(NamedTuple):
    """What is decoded. A step is the distance between the rows of two individuals; 0: they share one row."""

    number: int
    order: Indices
    order_step: int
    """Rows of tasks; predecessors come first."""
    bound: Indices
    bound_step: int
    """Rows of machines, one per binding variable."""
    chosen: int
    """Whether ``mode`` is read; else every task takes the mode that ``usual`` names for its machine."""
    mode: Indices
    mode_step: int
    """Rows over tasks: positions among the modes of the task's group."""
    usual: Indices
    """Groups x machines: a mode; the number of modes: none."""
    timed: int
    """Whether ``seconds`` is read; else seconds follow from the modes."""
    seconds: Doubles
    seconds_step: int
    """Rows over tasks; read for compute tasks."""
    priced: int
    """Whether node-seconds and prices are added up."""
    kept: int
    """Whether start and finish of every individual are kept; else those of the last one."""


class DecoderScratch(NamedTuple):
    """What is known of the tasks and machines of one individual."""

    seen: Flags
    host: Indices
    """Per task: the host on which its results are."""
    links: Indices
    """Per task: the row of the network's matrices that begins where its results are."""
    mode: Indices
    """Per compute task."""
    free: Doubles
    """Per machine: the end of its last task."""
    room: Integers
    """Per machine: the steps a line of it may have."""
    taken: Doubles
    least: Doubles
    """Per resource: what a task takes, and what must be free at least."""


@kernel
def decode(
    problem: ProblemArrays,
    rule: int,
    drawn: int,
    genomes: Genomes,
    lines: Skylines,
    scratch: DecoderScratch,
    makespan: Doubles,
    node_seconds: Doubles,
    price: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Decode all individuals; give the first that is wrong, or their number.

    ``drawn`` lines per machine are kept: 0 where machines serve one task at a time or any number; 1 for what
    they hold; 2 under APPEND where something is busy, the first for the tasks alone. A task that never fits
    starts at infinity.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    number, layout = machines.number, modes.layout
    # Written out in one loop: a call that hands over all these arrays costs more than what it would do.
    for individual in range(genomes.number):
        order_row = individual * genomes.order_step
        bound_row = individual * genomes.bound_step
        mode_row = individual * genomes.mode_step
        seconds_row = individual * genomes.seconds_step
        row = individual * genomes.kept * tasks.number
        if (individual == 0 or genomes.order_step != 0) and not _is_topological(
            tasks.number, tasks.pointer, tasks.before, genomes.order, order_row, scratch.seen
        ):
            return individual
        for variable in range(tasks.variables):
            machine = genomes.bound[bound_row + variable]
            pinned = tasks.pinned[variable]
            if machine >= number or (pinned != number and pinned != machine):
                return individual
        for machine in range(number):
            scratch.free[machine] = 0.0
        if drawn != 0:
            _reset_skylines(problem, drawn, genomes.bound, bound_row, lines, scratch)
        used = 0.0
        paid = 0.0
        last = 0.0
        for position in range(tasks.number):
            task = genomes.order[order_row + position]
            machine = genomes.bound[bound_row + tasks.variable[task]]
            host = machines.host[machine]
            location = machines.location[machine]
            scratch.host[task] = host
            scratch.links[task] = location * machines.locations
            mode = 0
            spent = 0.0
            kind = tasks.kind[task]
            if kind == COMPUTE:
                group = modes.group[task]
                if genomes.chosen == 0:
                    mode += genomes.usual[group * number + machine]
                else:
                    mode += modes.first[group]
                    mode += genomes.mode[mode_row + task]
                if mode >= modes.first[group + 1] or modes.machine[mode] != machine:
                    return individual
                scratch.mode[task] = mode
                if genomes.timed != 0:
                    spent = genomes.seconds[seconds_row + task]
                elif layout == RELATED:
                    spent = modes.work[task] / modes.rate[mode] / modes.gain[mode]
                elif layout == CLASSES:
                    spent = modes.rate[mode]
                else:
                    spent = modes.cell[modes.row[task] + mode - modes.first[group]]
                if genomes.priced != 0:
                    now_used = modes.nodes[mode] * spent
                    used += now_used
                    paid += now_used * machines.price[machine]
            elif kind == TRANSFER:
                source = genomes.bound[bound_row + tasks.source[task]]
                if machines.host[source] != host:
                    link = machines.location[source] * machines.locations + location
                    spent = machines.latency[link] + tasks.moved[task] * machines.inverse[link]
                # It needs its data where it starts from.
                host = machines.host[source]
                location = machines.location[source]
            begin = tasks.earliest[task]
            for edge in range(tasks.pointer[task], tasks.pointer[task + 1]):
                before = tasks.before[edge]
                arrival = finish[row + before]
                if scratch.host[before] != host:
                    link = scratch.links[before] + location
                    arrival += (
                        tasks.fixed[edge]
                        + tasks.files[edge] * machines.latency[link]
                        + tasks.size[edge] * machines.inverse[link]
                    )
                if arrival > begin:
                    begin = arrival
            if kind == COMPUTE and spent > 0.0 and rule != UNLIMITED and machines.form[machine] != OPEN:
                if (drawn == 0 or rule == EXCLUSIVE) and scratch.free[machine] > begin:
                    begin = scratch.free[machine]
                if drawn != 0:
                    need = 0 + tasks.need[task] + modes.shift[mode]
                    taken, least = scratch.taken, scratch.least
                    write_demand(
                        machines.resources, tasks.amount, need, machines.slack, machine, taken, least
                    )
                    line = 0 + machine
                    whole = line + (drawn - 1) * number
                    nodes = modes.nodes[mode]
                    begin = _put(lines, rule, line, whole, begin, spent, nodes, taken, least)
                scratch.free[machine] = begin + spent
            end = begin + spent
            start[row + task] = begin
            finish[row + task] = end
            if end > last:
                last = end
        makespan[individual] = last
        node_seconds[individual] = used
        price[individual] = paid
    return genomes.number


class BindingProblem(NamedTuple):
    """What ``decode_bindings`` reads of a problem: compute tasks, numbered in the order of their turns."""

    tasks: int
    machines: int
    locations: int
    variable: Indices
    earliest: Doubles
    pointer: Indices
    before: Indices
    size: Doubles
    host: Indices
    location: Indices
    inverse: Doubles
    alone: Flags
    """Per machine: whether it serves one task at a time; else any number."""
    release: Doubles
    """Per machine: until when it is busy beforehand, from the begin on."""
    work: Doubles
    row: Indices
    """Per task: where its group begins in ``rate``."""
    rate: Doubles
    """Groups x machines; below 0: the group cannot run there."""


@kernel
def decode_bindings(
    course: BindingProblem,
    fixed: Doubles,
    files: Doubles,
    latency: Doubles,
    number: int,
    bound: Indices,
    bound_step: int,
    host: Indices,
    links: Indices,
    free: Doubles,
    finish: Doubles,
    makespan: Doubles,
) -> int:
    """Decode bindings where machines serve tasks in turn; give the first that is wrong, or their number.

    ``fixed``, ``files`` and ``latency`` are None where data pay for their size alone: another form of the
    kernel. ``bound`` as in ``Genomes``, ``host`` and ``links`` as in ``DecoderScratch``.
    """
    machines = course.machines
    for individual in range(number):
        row = individual * bound_step
        for machine in range(machines):
            free[machine] = course.release[machine]
        last = 0.0
        for task in range(course.tasks):
            machine = bound[row + course.variable[task]]
            if machine >= machines:
                return individual
            spent = course.work[task] / course.rate[course.row[task] + machine]
            here = course.host[machine]
            location = course.location[machine]
            host[task] = here
            links[task] = location * course.locations
            begin = course.earliest[task]
            for edge in range(course.pointer[task], course.pointer[task + 1]):
                before = course.before[edge]
                arrival = finish[before]
                if host[before] != here:
                    link = links[before] + location
                    if fixed is None:
                        arrival += course.size[edge] * course.inverse[link]
                    else:
                        arrival += (
                            fixed[edge]
                            + files[edge] * latency[link]
                            + course.size[edge] * course.inverse[link]
                        )
                if arrival > begin:
                    begin = arrival
            if spent > 0.0:
                if course.alone[machine] != 0:
                    if free[machine] > begin:
                        begin = free[machine]
                    free[machine] = begin + spent
            elif course.rate[course.row[task] + machine] < 0.0:
                return individual
            end = begin + spent
            finish[task] = end
            if end > last:
                last = end
        makespan[individual] = last
    return number


@kernel
def _is_topological(
    tasks: int, pointer: Indices, before: Indices, order: Indices, first: int, seen: Flags
) -> bool:
    """Say whether an order holds every task once, after its predecessors."""
    for task in range(tasks):
        seen[task] = 0
    for position in range(tasks):
        task = order[first + position]
        if task >= tasks or seen[task] != 0:
            return False
        for edge in range(pointer[task], pointer[task + 1]):
            if seen[before[edge]] == 0:
                return False
        seen[task] = 1
    return True


@kernel
def _reset_skylines(
    problem: ProblemArrays, drawn: int, bound: Indices, row: int, lines: Skylines, scratch: DecoderScratch
) -> None:
    """Begin with machines on which nothing is placed but what is busy; the last of their lines shows that."""
    tasks, machines = problem.tasks, problem.machines
    number, resources = machines.number, machines.resources
    for machine in range(number):
        scratch.room[machine] = 1
    # A stretch begins one step and ends one.
    for task in range(tasks.number):
        scratch.room[bound[row + tasks.variable[task]]] += 2
    for stretch in range(len(problem.busy_machine)):
        scratch.room[problem.busy_machine[stretch]] += 2
    step = 0
    for copy in range(drawn):
        for machine in range(number):
            line = copy * number + machine
            lines.first[line] = step
            lines.last[line] = step
            lines.time[step] = 0.0
            lines.nodes[step] = machines.capacity[machine]
            for resource in range(resources):
                lines.left[step * resources + resource] = machines.amount[machine * resources + resource]
            step += scratch.room[machine]
    for stretch in range(len(problem.busy_machine)):
        line = (drawn - 1) * number + problem.busy_machine[stretch]
        for resource in range(resources):
            scratch.taken[resource] = problem.busy_amount[stretch * resources + resource]
        if problem.busy_seconds[stretch] > 0.0:
            begin = problem.busy_start[stretch]
            end = begin + problem.busy_seconds[stretch]
            occupy_skyline(lines, line, begin, end, problem.busy_nodes[stretch], scratch.taken)


@kernel
def _put(
    lines: Skylines,
    rule: int,
    line: int,
    whole: int,
    ready: float,
    spent: float,
    nodes: int,
    taken: Doubles,
    least: Doubles,
) -> float:
    """Put a task on the line of its machine, and on the whole line if that is another; give its start."""
    start = ready
    if rule == APPEND:
        start = permanent_fit(lines, line, start, nodes, least)
    if rule != APPEND or whole != line:
        start = first_fit(lines, whole, start, spent, nodes, least)
    if start < _INFINITE:
        occupy_skyline(lines, line, start, start + spent, nodes, taken)
        if whole != line:
            occupy_skyline(lines, whole, start, start + spent, nodes, taken)
    return start
