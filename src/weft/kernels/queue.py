"""The queue of one machine: which of the ready tasks start when others end.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows, cluster simulator (S2
section 5). Tasks are submitted at time 0 in a given order; a task is ready when its predecessors have ended,
and one that is not ready blocks nobody. At time 0 and whenever something ends (all that ends at one moment
first) the ready tasks are looked at in order of submission. ``FIFO`` stops at the first that does not fit.
``FIRST_FIT`` skips it. ``EASY`` reserves its earliest start, anew each time, and lets others pass that do not
delay it. ``CONSERVATIVE`` gives every task, when it becomes ready, the earliest start that delays none of the
starts given before.

Deviations: backfilling, which the paper leaves to future work (D. Lifka, The ANL/IBM SP Scheduling System,
1995; A. Mu'alem, D. Feitelson, IEEE TPDS 12(6), 2001). A task of no seconds occupies nothing and starts when
it is ready, as transfers and virtual tasks do.

Complexity per individual: O(v r + e) for v tasks, e edges and at most r ready or running tasks at a time.

The queue of one machine where tasks take amounts beside nodes, or where all of them reserve.

The rules are those of ``weft.kernels.queue``, all four of them.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import kernel
from weft.kernels.problem import Doubles, Indices, Integers
from weft.kernels.skylines import Skylines, first_fit, occupy_skyline, write_demand

__all__ = [
    "CONSERVATIVE",
    "EASY",
    "FIFO",
    "FIRST_FIT",
    "WRONG",
    "JobRequests",
    "QueueJobs",
    "QueueState",
    "insert_rank",
    "insert_running",
    "remove_rank",
    "run_amount_queue",
    "run_queue",
    "submit_jobs",
]


FIFO, FIRST_FIT, EASY, CONSERVATIVE = 0, 1, 2, 3
"""Rules: who may start. Their order is that of ``weft.platform.machine.QUEUES``."""
_NEVER = float("inf")
WRONG = -1.0
"""Given instead of node-seconds for individuals that ask for what does not exist."""


class QueueJobs(NamedTuple):
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
    """Per task: its largest count; 0: it has one choice."""
    width: Integers
    """Per job: the nodes it takes for every one of its count."""
    seconds: Doubles
    need: Integers
    """Per choice: seconds, below 0 where the count is not allowed; its row of ``amount``."""
    amount: Doubles
    """Rows x resources."""


class JobRequests(NamedTuple):
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


class QueueState(NamedTuple):
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
    extra: Doubles
    """Per resource: what is free; what is left beside a reserved job."""
    taken: Doubles
    least: Doubles
    """Per resource: what a job takes; what must be free for it."""


@kernel
def run_queue(
    jobs: QueueJobs,
    rule: int,
    requests: JobRequests,
    desk: QueueState,
    makespan: Doubles,
    node_seconds: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Run all individuals; give the first that asks for what does not exist, or their number.

    Jobs take nodes alone, and the rule is not CONSERVATIVE: the rest is in ``run_amount_queue``.
    """
    for individual in range(requests.number):
        used = submit_jobs(jobs, requests, individual, desk)
        if used == WRONG:
            return individual
        makespan[individual] = _serve(
            rule,
            jobs.tasks,
            jobs.capacity,
            jobs.after_pointer,
            jobs.after,
            desk.missing,
            desk.rank,
            desk.job,
            desk.nodes,
            desk.spent,
            desk.ready,
            desk.running,
            desk.until,
            individual * requests.kept * jobs.number,
            start,
            finish,
        )
        node_seconds[individual] = used
    return requests.number


@kernel
def _serve(
    rule: int,
    tasks: int,
    capacity: int,
    after_pointer: Indices,
    after: Indices,
    missing: Integers,
    rank: Indices,
    job_at: Indices,
    nodes: Integers,
    spent: Doubles,
    waiting: Indices,
    running_job: Indices,
    until: Doubles,
    row: int,
    start: Doubles,
    finish: Doubles,
) -> float:
    """Run one individual; give its makespan. Few arrays: every one more that a loop reads makes it slower."""
    free = capacity
    ready = 0
    ready_end = 0
    running = 0
    running_end = 1
    last = 0.0
    while running < running_end:
        now = until[running]
        while running < running_end and until[running] == now:
            job = running_job[running]
            running += 1
            free += nodes[job]
            if job < tasks:
                last = now
            for position in range(after_pointer[job], after_pointer[job + 1]):
                follower = after[position]
                lack = missing[follower] - 1
                missing[follower] = lack
                if lack == 0 and nodes[follower] > 0:
                    insert_rank(waiting, ready, ready_end, rank[follower])
                    ready_end += 1
                elif lack == 0:
                    end = now + spent[follower]
                    start[row + follower] = now
                    finish[row + follower] = end
                    insert_running(running_job, until, running, running_end, follower, end)
                    running_end += 1
        while ready < ready_end and nodes[job_at[waiting[ready]]] <= free:
            job = job_at[waiting[ready]]
            ready += 1
            free -= nodes[job]
            end = now + spent[job]
            start[row + job] = now
            finish[row + job] = end
            insert_running(running_job, until, running, running_end, job, end)
            running_end += 1
        if rule == FIFO or free == 0 or ready_end - ready < 2:
            continue
        # The first does not fit. Who may pass it must end before it can start, or leave it room.
        shadow = _NEVER
        extra = free
        if rule == EASY:
            head = nodes[job_at[waiting[ready]]]
            position = running
            # Until it fits, and on to the end of that moment: what ends together is free together.
            while position < running_end and (extra < head or until[position] == shadow):
                extra += nodes[running_job[position]]
                shadow = until[position]
                position += 1
            extra -= head
        index = ready + 1
        while index < ready_end and free > 0:
            job = job_at[waiting[index]]
            wanted = nodes[job]
            end = now + spent[job]
            if wanted <= free and (end <= shadow or wanted <= extra):
                if end > shadow:
                    extra -= wanted
                free -= wanted
                start[row + job] = now
                finish[row + job] = end
                insert_running(running_job, until, running, running_end, job, end)
                running_end += 1
                remove_rank(waiting, ready, index)
                ready += 1
            index += 1
    return last


@kernel
def submit_jobs(jobs: QueueJobs, requests: JobRequests, individual: int, desk: QueueState) -> float:
    """Rank the jobs of one individual and write down what they take; give the node-seconds of its tasks.

    WRONG: its order does not hold every task once, or a count is not allowed.
    """
    order_row = individual * requests.order_step
    if (individual == 0 or order_row > 0) and not _rank_jobs(
        jobs.tasks, jobs.number, requests.order, order_row, desk.rank, desk.job
    ):
        return WRONG
    desk.running[0] = jobs.number
    desk.until[0] = 0.0
    for job in range(jobs.number):
        desk.missing[job] = jobs.before[job]
    return _look_up_choices(
        jobs.tasks,
        jobs.number,
        jobs.resources,
        jobs.row,
        jobs.most,
        jobs.width,
        jobs.seconds,
        jobs.need,
        requests.count,
        individual * requests.count_step,
        desk.nodes,
        desk.spent,
        desk.need,
    )


@kernel
def _rank_jobs(tasks: int, number: int, order: Indices, first: int, rank: Indices, job: Indices) -> bool:
    """Rank the jobs by submission; False: the order does not hold every task once."""
    held = number - tasks
    for task in range(tasks):
        rank[task] = number
    for position in range(held):
        rank[tasks + position] = position
        job[position] = tasks + position
    for position in range(tasks):
        task = order[first + position]
        if task >= tasks or rank[task] != number:
            return False
        rank[task] = held + position
        job[held + position] = task
    return True


@kernel
def _look_up_choices(
    tasks: int,
    number: int,
    resources: int,
    row: Integers,
    most: Indices,
    width: Integers,
    seconds: Doubles,
    need: Integers,
    count: Indices,
    first: int,
    job_nodes: Integers,
    job_spent: Doubles,
    job_need: Integers,
) -> float:
    """Write down what all jobs take; give the node-seconds of the tasks, or that a count is not allowed."""
    used = 0.0
    for job in range(number):
        choice = row[job]
        taken = width[job]
        if job < tasks and most[job] > 0:
            asked = count[first + job]
            if asked > most[job]:
                return WRONG
            choice += asked
            taken *= asked
        spent = seconds[choice]
        if spent < 0.0:
            return WRONG
        if job < tasks:
            used += taken * spent
        if spent == 0.0:
            taken = 0
        job_nodes[job] = taken
        job_spent[job] = spent
        if resources > 0:
            job_need[job] = need[choice]
    job_nodes[number] = 0
    return used


@kernel
def insert_rank(ready: Indices, begin: int, end: int, rank: int) -> None:
    """Put a rank into its place in an ascending list."""
    position = end
    while position > begin and ready[position - 1] > rank:
        ready[position] = ready[position - 1]
        position -= 1
    ready[position] = rank


@kernel
def insert_running(running: Indices, until: Doubles, begin: int, end: int, job: int, moment: float) -> None:
    """Put a job into its place in the list of those that run, behind all that end no later."""
    position = end
    while position > begin and until[position - 1] > moment:
        running[position] = running[position - 1]
        until[position] = until[position - 1]
        position -= 1
    running[position] = job
    until[position] = moment


@kernel
def remove_rank(ready: Indices, begin: int, index: int) -> None:
    """Close the gap that a job leaves which starts; the list begins one later."""
    for back in range(index - begin):
        position = index - back
        ready[position] = ready[position - 1]


_INFINITE = float("inf")


@kernel
def run_amount_queue(
    jobs: QueueJobs,
    rule: int,
    requests: JobRequests,
    line: Skylines,
    desk: QueueState,
    makespan: Doubles,
    node_seconds: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Run all individuals; give the first that asks for what does not exist, or their number.

    ``line`` is one skyline, for CONSERVATIVE: what will be free beside all starts given so far.
    """
    for individual in range(requests.number):
        used = submit_jobs(jobs, requests, individual, desk)
        if used == WRONG:
            return individual
        row = individual * requests.kept * jobs.number
        makespan[individual] = _serve_amounts(jobs, rule, line, desk, row, start, finish)
        node_seconds[individual] = used
    return requests.number


@kernel
def _serve_amounts(
    jobs: QueueJobs, rule: int, line: Skylines, desk: QueueState, row: int, start: Doubles, finish: Doubles
) -> float:
    """Run one individual; give its makespan."""
    tasks, resources = jobs.tasks, jobs.resources
    for resource in range(resources):
        desk.left[resource] = jobs.total[resource]
        line.left[resource] = jobs.total[resource]
    free = jobs.capacity
    line.first[0] = 0
    line.last[0] = 0
    line.time[0] = 0.0
    line.nodes[0] = free
    ready = 0
    ready_end = 0
    running = 0
    running_end = 1
    last = 0.0
    while running < running_end:
        now = desk.until[running]
        while running < running_end and desk.until[running] == now:
            job = desk.running[running]
            running += 1
            if job < tasks:
                last = now
            free += desk.nodes[job]
            if resources > 0 and desk.nodes[job] > 0:
                _give(desk.left, jobs.amount, desk.need[job], resources)
            for position in range(jobs.after_pointer[job], jobs.after_pointer[job + 1]):
                after = jobs.after[position]
                desk.missing[after] -= 1
                if desk.missing[after] == 0 and desk.nodes[after] > 0:
                    insert_rank(desk.ready, ready, ready_end, desk.rank[after])
                    ready_end += 1
                elif desk.missing[after] == 0:
                    end = now + desk.spent[after]
                    start[row + after] = now
                    finish[row + after] = end
                    insert_running(desk.running, desk.until, running, running_end, after, end)
                    running_end += 1
        blocked = False
        shadow = _INFINITE
        extra = 0
        index = ready
        while index < ready_end and (free > 0 or rule == CONSERVATIVE):
            job = desk.job[desk.ready[index]]
            nodes = desk.nodes[job]
            spent = desk.spent[job]
            begin = now
            fits = nodes <= free
            if resources > 0:
                write_demand(resources, jobs.amount, desk.need[job], jobs.slack, 0, desk.taken, desk.least)
                fits = fits and _covers(desk.left, desk.least, resources)
            if rule == CONSERVATIVE:
                begin = first_fit(line, 0, now, spent, nodes, desk.least)
                occupy_skyline(line, 0, begin, begin + spent, nodes, desk.taken)
                fits = True
            end = begin + spent
            if fits and end > shadow:
                # It would still run when the reserved job is to start: only beside it.
                fits = nodes <= extra and _covers(desk.extra, desk.least, resources)
                if fits:
                    extra -= nodes
                    _take(desk.extra, desk.taken, resources)
            if fits:
                free -= nodes
                _take(desk.left, desk.taken, resources)
                start[row + job] = begin
                finish[row + job] = end
                insert_running(desk.running, desk.until, running, running_end, job, end)
                running_end += 1
                remove_rank(desk.ready, ready, index)
                ready += 1
            elif rule == FIFO:
                break
            elif rule == EASY and not blocked:
                blocked = True
                for resource in range(resources):
                    desk.extra[resource] = desk.left[resource]
                shadow, extra = _reserve(
                    desk.running,
                    desk.until,
                    desk.nodes,
                    desk.need,
                    jobs.amount,
                    desk.extra,
                    desk.least,
                    running,
                    running_end,
                    free,
                    nodes,
                    resources,
                )
                _take(desk.extra, desk.taken, resources)
            index += 1
    return last


@kernel
def _reserve(
    running: Indices,
    until: Doubles,
    nodes: Integers,
    need: Integers,
    amount: Doubles,
    extra: Doubles,
    least: Doubles,
    begin: int,
    end: int,
    free: int,
    wanted: int,
    resources: int,
) -> tuple[float, int]:
    """Give when a job can start at the earliest, as running jobs end, and how many nodes are then left.

    Amounts that are free then, without the job's own, are added to ``extra``.
    """
    shadow = _INFINITE
    found = False
    position = begin
    # Until it fits, and on to the end of that moment: what ends together is free together.
    while position < end and (not found or until[position] == shadow):
        job = running[position]
        if nodes[job] > 0:
            free += nodes[job]
            _give(extra, amount, need[job], resources)
        if not found and free >= wanted and _covers(extra, least, resources):
            found = True
            shadow = until[position]
        position += 1
    return shadow, free - wanted


@kernel
def _covers(left: Doubles, least: Doubles, resources: int) -> bool:
    covers = True
    for resource in range(resources):
        covers = covers and left[resource] >= least[resource]
    return covers


@kernel
def _take(left: Doubles, taken: Doubles, resources: int) -> None:
    for resource in range(resources):
        left[resource] -= taken[resource]


@kernel
def _give(left: Doubles, amount: Doubles, need: int, resources: int) -> None:
    for resource in range(resources):
        left[resource] += amount[need * resources + resource]
