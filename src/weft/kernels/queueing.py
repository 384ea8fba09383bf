"""The queue of one machine: which of the ready tasks start when others end.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows, cluster simulator (S2
section 5). Tasks are submitted at time 0 in a given order; a task is ready when its predecessors have ended,
and one that is not ready blocks nobody. At time 0 and whenever something ends (all that ends at one moment
first) the ready tasks are looked at in order of submission. ``FIFO`` stops at the first that does not fit.
``FIRST_FIT`` skips it. ``EASY`` reserves its earliest start and lets others pass that do not delay it.
``CONSERVATIVE`` reserves a start for every ready task and lets others pass that delay none.

Deviations: backfilling, which the paper leaves to future work. Reservations are made anew each time, so that
a task that becomes ready takes the place of its submission. A task of no seconds occupies nothing and starts
when it is ready, as transfers and virtual tasks do.

Complexity per individual: O(v r + e) for v tasks, e edges and at most r ready or running tasks at a time;
with reservations O(v r s) for s steps looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.forms import kernel
from weft.kernels.skylines import Skylines, ask, first_fit, lower
from weft.kernels.types import Doubles, Indices, Integers

__all__ = ["CONSERVATIVE", "EASY", "FIFO", "FIRST_FIT", "Desk", "Jobs", "Requests", "run_queue"]

FIFO, FIRST_FIT, EASY, CONSERVATIVE = 0, 1, 2, 3
"""Rules: who may start. Their order is that of ``weft.platform.machine.QUEUES``."""
_WRONG = -1.0


class Jobs(NamedTuple):
    """What a machine is asked to run.

    Jobs from ``tasks`` on are no tasks: they hold the machine, or a task back, and are submitted before all
    tasks. The job ``number`` ends at 0, before everything else; all jobs without predecessors follow it.
    """

    number: int
    tasks: int
    capacity: int
    resources: int
    total: Doubles
    slack: Doubles
    """Per resource: what the machine has, and by how much rounding may exceed it."""
    after_pointer: Indices
    after: Indices
    before: Integers
    """Successors (CSR); per job: how many predecessors it has."""
    row: Integers
    """Per job: its first choice. The choices of a task are its node counts from 0 on, others have one."""
    most: Indices
    """Per task: its largest count."""
    nodes: Integers
    """Per choice; below 0: the count is not allowed."""
    seconds: Doubles
    need: Integers
    """Per choice: seconds, and its row of ``amount``."""
    amount: Doubles
    """Rows x resources."""


class Requests(NamedTuple):
    """What is run. A step is the distance between the rows of two individuals; 0: they share one row."""

    number: int
    order: Indices
    order_step: int
    """Rows of tasks by submission."""
    count: Indices
    count_step: int
    """Rows over tasks: node counts."""
    kept: int
    """Whether start and finish of every individual are kept; else those of the last one."""


class Desk(NamedTuple):
    """The state of the queue."""

    rank: Indices
    job: Indices
    """Per job: its place in the order of submission; per place: the job."""
    missing: Integers
    """Per job: predecessors that have not ended."""
    nodes: Integers
    spent: Doubles
    need: Integers
    """Per job: what its choice takes."""
    ready: Indices
    """Ranks, ascending."""
    running: Indices
    until: Doubles
    """Jobs and when they end, ascending."""
    left: Doubles
    taken: Doubles
    least: Doubles
    """Per resource: what is free; what a job takes; what must be free for it."""


@kernel
def run_queue(
    jobs: Jobs,
    rule: int,
    requests: Requests,
    line: Skylines,
    desk: Desk,
    makespan: Doubles,
    node_seconds: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Run all individuals; give the first that asks for what does not exist, or their number.

    ``line`` is one skyline: what will be free beside running and reserved jobs.
    """
    tasks, number, resources = jobs.tasks, jobs.number, jobs.resources
    depth = 0
    if rule == EASY:
        depth = 1
    elif rule == CONSERVATIVE:
        depth = number
    for individual in range(requests.number):
        row = individual * requests.kept * number
        used = _submit(jobs, requests, individual, desk)
        if used == _WRONG:
            return individual
        for resource in range(resources):
            desk.left[resource] = jobs.total[resource]
        free = jobs.capacity
        ready = 0
        ready_end = 0
        desk.running[0] = number
        desk.until[0] = 0.0
        running = 0
        running_end = 1
        now = 0.0
        last = 0.0
        while running < running_end:
            now = desk.until[running]
            while running < running_end and desk.until[running] == now:
                job = desk.running[running]
                running += 1
                if job < tasks:
                    last = now
                if desk.nodes[job] > 0:
                    free += desk.nodes[job]
                    _give(desk.left, jobs.amount, desk.need[job], resources)
                for position in range(jobs.after_pointer[job], jobs.after_pointer[job + 1]):
                    after = jobs.after[position]
                    desk.missing[after] -= 1
                    if desk.missing[after] > 0:
                        continue
                    if desk.nodes[after] > 0:
                        _insert(desk.ready, ready, ready_end, desk.rank[after])
                        ready_end += 1
                    else:
                        end = now + desk.spent[after]
                        start[row + after] = now
                        finish[row + after] = end
                        _insert_until(desk.running, desk.until, running, running_end, after, end)
                        running_end += 1
            reserved = 0
            index = ready
            while index < ready_end and free > 0:
                job = desk.job[desk.ready[index]]
                nodes = desk.nodes[job]
                spent = desk.spent[job]
                fits = nodes <= free
                if resources > 0:
                    ask(resources, jobs.amount, desk.need[job], jobs.slack, 0, desk.taken, desk.least)
                    for resource in range(resources):
                        fits = fits and desk.left[resource] >= desk.least[resource]
                slot = now
                if reserved > 0 and (fits or reserved < depth):
                    slot = first_fit(line, 0, now, spent, nodes, desk.least)
                    fits = slot == now
                if fits:
                    free -= nodes
                    for resource in range(resources):
                        desk.left[resource] -= desk.taken[resource]
                    end = now + spent
                    start[row + job] = now
                    finish[row + job] = end
                    _insert_until(desk.running, desk.until, running, running_end, job, end)
                    running_end += 1
                    _remove(desk.ready, ready, index)
                    ready += 1
                    if reserved > 0:
                        lower(line, 0, now, end, nodes, desk.taken)
                elif rule == FIFO:
                    break
                elif reserved < depth:
                    if index + 1 == ready_end:
                        break  # nobody is left who could pass
                    if reserved == 0:
                        _outline(jobs, desk, running, running_end, free, line)
                        slot = first_fit(line, 0, now, spent, nodes, desk.least)
                    lower(line, 0, slot, slot + spent, nodes, desk.taken)
                    reserved += 1
                index += 1
        makespan[individual] = last
        node_seconds[individual] = used
    return requests.number


@kernel
def _submit(jobs: Jobs, requests: Requests, individual: int, desk: Desk) -> float:
    """Look up what all jobs take and rank them; give the node-seconds of the tasks, or that it is wrong."""
    tasks, number = jobs.tasks, jobs.number
    order_row = individual * requests.order_step
    count_row = individual * requests.count_step
    for job in range(number):
        desk.missing[job] = jobs.before[job]
        desk.rank[job] = number
    for held in range(number - tasks):
        desk.rank[tasks + held] = held
        desk.job[held] = tasks + held
    for position in range(tasks):
        task = requests.order[order_row + position]
        if task >= tasks or desk.rank[task] != number:
            return _WRONG
        desk.rank[task] = number - tasks + position
        desk.job[number - tasks + position] = task
    used = 0.0
    for job in range(number):
        choice = jobs.row[job]
        if job < tasks and jobs.most[job] > 0:
            count = requests.count[count_row + job]
            if count > jobs.most[job]:
                return _WRONG
            choice += count
        nodes = jobs.nodes[choice]
        spent = jobs.seconds[choice]
        if nodes < 0:
            return _WRONG
        if job < tasks:
            used += nodes * spent
        if spent == 0.0:
            nodes = 0
        desk.nodes[job] = nodes
        desk.spent[job] = spent
        desk.need[job] = jobs.need[choice]
    desk.nodes[number] = 0
    return used


@kernel
def _outline(jobs: Jobs, desk: Desk, running: int, running_end: int, free: int, line: Skylines) -> None:
    """Draw what will be free as the running jobs end."""
    resources = jobs.resources
    last = 0
    line.first[0] = 0
    line.time[0] = 0.0
    line.nodes[0] = free
    for resource in range(resources):
        line.left[resource] = desk.left[resource]
    for position in range(running, running_end):
        job = desk.running[position]
        if line.time[last] < desk.until[position]:
            last += 1
            line.time[last] = desk.until[position]
            line.nodes[last] = line.nodes[last - 1]
            for resource in range(resources):
                line.left[last * resources + resource] = line.left[(last - 1) * resources + resource]
        if desk.nodes[job] > 0:
            line.nodes[last] += desk.nodes[job]
            for resource in range(resources):
                returned = jobs.amount[desk.need[job] * resources + resource]
                line.left[last * resources + resource] += returned
    line.last[0] = last


@kernel
def _give(left: Doubles, amount: Doubles, need: int, resources: int) -> None:
    for resource in range(resources):
        left[resource] += amount[need * resources + resource]


@kernel
def _insert(ready: Indices, begin: int, end: int, rank: int) -> None:
    """Put a rank into its place in an ascending list."""
    position = end
    while position > begin and ready[position - 1] > rank:
        ready[position] = ready[position - 1]
        position -= 1
    ready[position] = rank


@kernel
def _insert_until(running: Indices, until: Doubles, begin: int, end: int, job: int, moment: float) -> None:
    """Put a job into its place in the list of those that run, behind all that end no later."""
    position = end
    while position > begin and until[position - 1] > moment:
        running[position] = running[position - 1]
        until[position] = until[position - 1]
        position -= 1
    running[position] = job
    until[position] = moment


@kernel
def _remove(ready: Indices, begin: int, index: int) -> None:
    """Close the gap that a job leaves which starts; the list begins one later."""
    for back in range(index - begin):
        position = index - back
        ready[position] = ready[position - 1]
