"""Decode genomes (order, machine and mode of every task) to start and finish times."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import (
    CLASSES,
    COMPUTE,
    INFINITY,
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

APPEND, INSERTION, EXCLUSIVE, UNLIMITED = 0, 1, 2, 3
"""The rules by which a machine is available to a task (see ``decode``)."""


class Genomes(NamedTuple):
    """The individuals to decode. ``..._step`` is the distance between rows; 0 if all share one row."""

    number: int
    order: Indices
    order_step: int
    """Distance between rows of ``order``; a row lists all tasks in topological order."""
    bound: Indices
    bound_step: int
    """Distance between rows of ``bound``; a row has one machine per binding variable."""
    chosen: int
    """Whether ``mode`` is read; otherwise a task takes the mode in ``usual`` for its machine."""
    mode: Indices
    mode_step: int
    """Distance between rows of ``mode``. A row has, for each task, the position of the chosen mode among the
    modes of the task's group.
    """
    usual: Indices
    """Groups x machines: the default mode of a group on a machine; the number of modes if there is none."""
    timed: int
    """Whether ``seconds`` is read; otherwise seconds follow from the modes."""
    seconds: Doubles
    seconds_step: int
    """Distance between rows of ``seconds``, which have one entry per task; only those of compute tasks are
    read.
    """
    priced: int
    """Whether node-seconds and prices are summed."""
    kept: int
    """Whether start and finish of every individual are stored; otherwise only those of the last one."""


class DecoderScratch(NamedTuple):
    """Scratch arrays for the tasks and machines of one individual."""

    seen: Flags
    host: Indices
    """Per task: the host that has its results."""
    links: Indices
    """Per task: the row of the network matrices for the location of its results."""
    mode: Indices
    """Per compute task: its mode, numbered over all groups."""
    free: Doubles
    """Per machine: the end of its last task."""
    steps: Integers
    """Per machine: the largest possible number of steps of one of its skylines."""
    taken: Doubles
    least: Doubles
    """Per resource: ``taken`` is the amount that a task takes, ``least`` the amount that must be free."""


@kernel
def decode(
    problem: ProblemArrays,
    rule: int,
    drawn: int,
    genomes: Genomes,
    skylines: Skylines,
    scratch: DecoderScratch,
    makespan: Doubles,
    node_seconds: Doubles,
    price: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Decode all individuals; return the index of the first invalid one, or the number of individuals.

    A task starts when its data have arrived and its machine is available under a rule. ``APPEND``: on a
    machine of one node, a task starts after all tasks placed before; on several nodes, when enough nodes stay
    free for good. ``INSERTION``: a task starts in the first gap with enough nodes and time. ``EXCLUSIVE``: a
    machine runs one task at a time, whatever the number of its nodes (R. Prodan, T. Fahringer, SAC 2005;
    docs/papers/dynamic-grid.md, section 6). ``UNLIMITED``: tasks do not delay each other (occupancy none of
    the same section).

    Busy intervals block machines under every rule except ``UNLIMITED``; a task may run before them. A task of
    0 seconds occupies nothing. Transfers occupy nothing and end on the machine of their destination.

    A population is decoded in one call. This takes O(v + e + p) per individual for v tasks, e edges and p
    machines. Where nodes and amounts are counted or gaps are filled, the number of visited and moved steps of
    skylines is added. ``decode_bindings`` is twice as fast for one case: only bindings vary and only
    makespans are needed. It reads fewer arrays.

    ``drawn`` is the number of skylines per machine: 0 if machines are single or unlimited; 1 for their free
    capacity; 2 under APPEND with busy intervals: the first skyline contains only the tasks, the second also
    the busy intervals. A task that never fits starts at infinity.
    """
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    number, layout = machines.number, modes.layout
    # One flat loop: a call that passes all these arrays takes longer than its body.
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
            _reset_skylines(problem, drawn, genomes.bound, bound_row, skylines, scratch)
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
                # A transfer needs its data at its source.
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
                    begin = _put(skylines, rule, line, whole, begin, spent, nodes, taken, least)
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
    """The input of ``decode_bindings``; tasks are numbered in the order in which they are placed."""

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
    """Per machine: whether it runs one task at a time; otherwise it is unlimited."""
    release: Doubles
    """Per machine: the time until which it is busy from time 0 on; 0 if it is free at time 0."""
    work: Doubles
    row: Indices
    """Per task: first position of its group in ``rate``."""
    rate: Doubles
    """Groups x machines: work per second; negative if the group cannot run on the machine."""


@kernel
def decode_bindings(
    problem: BindingProblem,
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
    """Decode bindings on machines that run tasks in order; return the index of the first invalid binding.

    Returns ``number`` if all bindings are valid. ``fixed``, ``files`` and ``latency`` are None if transfer
    times depend on sizes alone; numba compiles a separate variant for that case. ``bound`` is as in
    ``Genomes``, ``host`` and ``links`` as in ``DecoderScratch``.
    """
    machines = problem.machines
    for individual in range(number):
        row = individual * bound_step
        for machine in range(machines):
            free[machine] = problem.release[machine]
        last = 0.0
        for task in range(problem.tasks):
            machine = bound[row + problem.variable[task]]
            if machine >= machines:
                return individual
            spent = problem.work[task] / problem.rate[problem.row[task] + machine]
            here = problem.host[machine]
            location = problem.location[machine]
            host[task] = here
            links[task] = location * problem.locations
            begin = problem.earliest[task]
            for edge in range(problem.pointer[task], problem.pointer[task + 1]):
                before = problem.before[edge]
                arrival = finish[before]
                if host[before] != here:
                    link = links[before] + location
                    if fixed is None:
                        arrival += problem.size[edge] * problem.inverse[link]
                    else:
                        arrival += (
                            fixed[edge]
                            + files[edge] * latency[link]
                            + problem.size[edge] * problem.inverse[link]
                        )
                if arrival > begin:
                    begin = arrival
            if spent > 0.0:
                if problem.alone[machine] != 0:
                    if free[machine] > begin:
                        begin = free[machine]
                    free[machine] = begin + spent
            elif problem.rate[problem.row[task] + machine] < 0.0:
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
    """Return whether an order contains every task once, after its predecessors."""
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
    problem: ProblemArrays, drawn: int, bound: Indices, row: int, skylines: Skylines, scratch: DecoderScratch
) -> None:
    """Reset all skylines to free machines, and enter the busy intervals in the last skyline of each machine.

    ``drawn`` is the number of skylines per machine.
    """
    tasks, machines = problem.tasks, problem.machines
    number, resources = machines.number, machines.resources
    for machine in range(number):
        scratch.steps[machine] = 1
    # A task adds a step at its start and one at its finish.
    for task in range(tasks.number):
        scratch.steps[bound[row + tasks.variable[task]]] += 2
    for stretch in range(len(problem.busy_machine)):
        scratch.steps[problem.busy_machine[stretch]] += 2
    step = 0
    for copy in range(drawn):
        for machine in range(number):
            line = copy * number + machine
            skylines.first[line] = step
            skylines.last[line] = step
            skylines.time[step] = 0.0
            skylines.nodes[step] = machines.capacity[machine]
            for resource in range(resources):
                skylines.left[step * resources + resource] = machines.amount[machine * resources + resource]
            step += scratch.steps[machine]
    for stretch in range(len(problem.busy_machine)):
        line = (drawn - 1) * number + problem.busy_machine[stretch]
        for resource in range(resources):
            scratch.taken[resource] = problem.busy_amount[stretch * resources + resource]
        if problem.busy_seconds[stretch] > 0.0:
            begin = problem.busy_start[stretch]
            end = begin + problem.busy_seconds[stretch]
            occupy_skyline(skylines, line, begin, end, problem.busy_nodes[stretch], scratch.taken)


@kernel
def _put(
    skylines: Skylines,
    rule: int,
    line: int,
    whole: int,
    ready: float,
    spent: float,
    nodes: int,
    taken: Doubles,
    least: Doubles,
) -> float:
    """Place a task on skyline ``line`` and, if ``whole`` is another skyline, on ``whole``; return its start.

    Returns infinity, and places nothing, if the task never fits.
    """
    start = ready
    if rule == APPEND:
        start = permanent_fit(skylines, line, start, nodes, least)
    if rule != APPEND or whole != line:
        start = first_fit(skylines, whole, start, spent, nodes, least)
    if start < INFINITY:
        occupy_skyline(skylines, line, start, start + spent, nodes, taken)
        if whole != line:
            occupy_skyline(skylines, whole, start, start + spent, nodes, taken)
    return start
