"""Simulation of the batch queue of one machine, which decides when ready tasks start."""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels.compilation import inlined_kernel, kernel
from weft.kernels.problem import INFINITY, Doubles, Indices, Integers
from weft.kernels.skylines import Skylines, first_fit, occupy_skyline, write_demand

FIFO, FIRST_FIT, EASY, CONSERVATIVE = 0, 1, 2, 3
"""Queue rules, in the order of ``weft.platform.machine.QUEUES``."""
_WRONG = -1.0
"""Returned instead of node-seconds for an invalid individual."""


class QueueJobs(NamedTuple):
    """The jobs that are submitted to the queue of a machine.

    Jobs with an index of at least ``tasks`` are not tasks: they occupy the machine or delay a task, and are
    submitted before all tasks. The job with the index ``number`` finishes at time 0; it is the predecessor of
    all jobs that have no other.
    """

    number: int
    tasks: int
    capacity: int
    resources: int
    total: Doubles
    slack: Doubles
    """Per resource: ``total`` is the total amount of the machine, ``slack`` the tolerance for rounding."""
    after_pointer: Indices
    after: Indices
    before: Integers
    """``after`` holds the successors of each job (CSR with ``after_pointer``), ``before`` its number of
    predecessors.
    """
    row: Integers
    """Per job: the position of its first choice in ``seconds`` and ``need``.

    A task has one choice per node count from 0 to ``most``; other jobs have one choice.
    """
    most: Indices
    """Per task: its largest node count; 0 if the task has only one choice."""
    width: Integers
    """Per job: the nodes it takes; for a job with several choices, the nodes per unit of its node count."""
    seconds: Doubles
    need: Integers
    """Per choice: ``seconds`` (negative if the count is not allowed), and ``need``, a row of ``amount``."""
    amount: Doubles
    """Rows x resources: amounts that a job takes."""


class JobRequests(NamedTuple):
    """The individuals to run. ``..._step`` is the distance between rows; 0 if all share one row."""

    number: int
    order: Indices
    order_step: int
    """Distance between rows of ``order``; a row lists all tasks in the order of submission."""
    count: Indices
    count_step: int
    """Distance between rows of ``count``; a row has the node count of each task."""
    kept: int
    """Whether start and finish of every individual are stored; otherwise only those of the last one."""


class QueueState(NamedTuple):
    """The state of the queue while one individual is run."""

    rank: Indices
    job: Indices
    """``rank`` is the position of each job in the order of submission, ``job`` the job at each position."""
    missing: Integers
    """Per job: number of unfinished predecessors."""
    nodes: Integers
    spent: Doubles
    need: Integers
    """Per job: its ``nodes``, its seconds (``spent``) and its row of ``amount`` (``need``) for its node
    count.
    """
    ready: Indices
    """Ranks of ready jobs, ascending."""
    running: Indices
    until: Doubles
    """``running`` holds the running jobs, ``until`` their finish times; both are sorted by finish time."""
    left: Doubles
    extra: Doubles
    """Per resource: ``left`` is the free amount, ``extra`` the amount left beside the reserved job."""
    taken: Doubles
    least: Doubles
    """Per resource: ``taken`` is the amount that a job takes, ``least`` the amount that must be free."""


@kernel
def run_queue(
    jobs: QueueJobs,
    rule: int,
    requests: JobRequests,
    state: QueueState,
    makespan: Doubles,
    node_seconds: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Simulate the queue for all individuals; return the index of the first invalid individual.

    If all are valid, the result is the number of individuals.

    M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows, cluster simulator
    (docs/papers/moldable.md, section 5). Tasks are submitted at time 0 in a given order. A task is ready when
    its predecessors have finished; a task that is not ready does not block others. At time 0 and after every
    finish (all finishes of one time together) ready tasks are considered in order of submission. ``FIFO``
    stops at the first task that does not fit. ``FIRST_FIT`` skips tasks that do not fit. ``EASY`` reserves
    the earliest start of the first task that does not fit, anew each time, and starts later tasks that do not
    delay that task. ``CONSERVATIVE`` gives every task, when it becomes ready, the earliest start that delays
    no start given before.

    Deviations: backfilling, which the paper leaves to future work (D. Lifka, The ANL/IBM SP Scheduling
    System, 1995; A. Mu'alem, D. Feitelson, IEEE TPDS 12(6), 2001). A task of 0 seconds occupies nothing and
    starts when it is ready, as transfers and virtual tasks do.

    Complexity per individual: O(v r + e) for v tasks, e edges and at most r ready or running tasks at a time.

    This kernel supports jobs without resource amounts under rules other than CONSERVATIVE;
    ``run_amount_queue`` supports all cases.
    """
    for individual in range(requests.number):
        used = _submit_jobs(jobs, requests, individual, state)
        if used == _WRONG:
            return individual
        makespan[individual] = _serve(
            rule,
            jobs.tasks,
            jobs.capacity,
            jobs.after_pointer,
            jobs.after,
            state.missing,
            state.rank,
            state.job,
            state.nodes,
            state.spent,
            state.ready,
            state.running,
            state.until,
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
    """Simulate the queue for one individual and return the makespan.

    Single arrays are passed instead of tuples, which is faster.
    """
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
                    _insert_rank(waiting, ready, ready_end, rank[follower])
                    ready_end += 1
                elif lack == 0:
                    end = now + spent[follower]
                    start[row + follower] = now
                    finish[row + follower] = end
                    _insert_running(running_job, until, running, running_end, follower, end)
                    running_end += 1
        while ready < ready_end and nodes[job_at[waiting[ready]]] <= free:
            job = job_at[waiting[ready]]
            ready += 1
            free -= nodes[job]
            end = now + spent[job]
            start[row + job] = now
            finish[row + job] = end
            _insert_running(running_job, until, running, running_end, job, end)
            running_end += 1
        if rule == FIFO or free == 0 or ready_end - ready < 2:
            continue
        # The first job does not fit. A job may pass it if it finishes before the first can start or leaves
        # enough nodes.
        shadow = INFINITY
        extra = free
        if rule == EASY:
            head = nodes[job_at[waiting[ready]]]
            position = running
            # Go on to the last job with this finish time: their nodes become free together.
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
                _insert_running(running_job, until, running, running_end, job, end)
                running_end += 1
                _remove_rank(waiting, ready, index)
                ready += 1
            index += 1
    return last


@kernel
def _submit_jobs(jobs: QueueJobs, requests: JobRequests, individual: int, state: QueueState) -> float:
    """Initialise the state with the jobs of one individual; return the node-seconds of its tasks.

    Returns _WRONG if the order does not contain every task once or a count is not allowed.
    """
    order_row = individual * requests.order_step
    if (individual == 0 or order_row > 0) and not _rank_jobs(
        jobs.tasks, jobs.number, requests.order, order_row, state.rank, state.job
    ):
        return _WRONG
    state.running[0] = jobs.number
    state.until[0] = 0.0
    for job in range(jobs.number):
        state.missing[job] = jobs.before[job]
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
        state.nodes,
        state.spent,
        state.need,
    )


@kernel
def _rank_jobs(tasks: int, number: int, order: Indices, first: int, rank: Indices, job: Indices) -> bool:
    """Fill the ranks of the jobs in submission order; return False if a task is missing or occurs twice."""
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
    """Fill nodes, seconds and amount rows of all jobs; return the node-seconds of the tasks, or _WRONG."""
    used = 0.0
    for job in range(number):
        choice = row[job]
        taken = width[job]
        if job < tasks and most[job] > 0:
            wanted_count = count[first + job]
            if wanted_count > most[job]:
                return _WRONG
            choice += wanted_count
            taken *= wanted_count
        spent = seconds[choice]
        if spent < 0.0:
            return _WRONG
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
def _insert_rank(ready: Indices, begin: int, end: int, rank: int) -> None:
    position = end
    while position > begin and ready[position - 1] > rank:
        ready[position] = ready[position - 1]
        position -= 1
    ready[position] = rank


@kernel
def _insert_running(running: Indices, until: Doubles, begin: int, end: int, job: int, moment: float) -> None:
    """Insert a job into the list of running jobs, after all that finish no later."""
    position = end
    while position > begin and until[position - 1] > moment:
        running[position] = running[position - 1]
        until[position] = until[position - 1]
        position -= 1
    running[position] = job
    until[position] = moment


@kernel
def _remove_rank(ready: Indices, begin: int, index: int) -> None:
    """Remove a rank from the list of ready jobs; the caller increments ``begin``."""
    for back in range(index - begin):
        position = index - back
        ready[position] = ready[position - 1]


@kernel
def run_amount_queue(
    jobs: QueueJobs,
    rule: int,
    requests: JobRequests,
    skyline: Skylines,
    state: QueueState,
    makespan: Doubles,
    node_seconds: Doubles,
    start: Doubles,
    finish: Doubles,
) -> int:
    """Simulate the queue for all individuals, with resource amounts; return the same as ``run_queue``.

    All rules are supported. ``skyline`` is a work array for CONSERVATIVE: the capacity that jobs with a fixed
    start leave free.
    """
    for individual in range(requests.number):
        used = _submit_jobs(jobs, requests, individual, state)
        if used == _WRONG:
            return individual
        row = individual * requests.kept * jobs.number
        makespan[individual] = _serve_amounts(jobs, rule, skyline, state, row, start, finish)
        node_seconds[individual] = used
    return requests.number


@inlined_kernel
def _serve_amounts(
    jobs: QueueJobs,
    rule: int,
    skyline: Skylines,
    state: QueueState,
    row: int,
    start: Doubles,
    finish: Doubles,
) -> float:
    """Simulate the queue for one individual with resource amounts, and return the makespan."""
    tasks, resources = jobs.tasks, jobs.resources
    for resource in range(resources):
        state.left[resource] = jobs.total[resource]
        skyline.left[resource] = jobs.total[resource]
    free = jobs.capacity
    skyline.first[0] = 0
    skyline.last[0] = 0
    skyline.time[0] = 0.0
    skyline.nodes[0] = free
    ready = 0
    ready_end = 0
    running = 0
    running_end = 1
    last = 0.0
    while running < running_end:
        now = state.until[running]
        while running < running_end and state.until[running] == now:
            job = state.running[running]
            running += 1
            if job < tasks:
                last = now
            free += state.nodes[job]
            if resources > 0 and state.nodes[job] > 0:
                _give(state.left, jobs.amount, state.need[job], resources)
            for position in range(jobs.after_pointer[job], jobs.after_pointer[job + 1]):
                after = jobs.after[position]
                state.missing[after] -= 1
                if state.missing[after] == 0 and state.nodes[after] > 0:
                    _insert_rank(state.ready, ready, ready_end, state.rank[after])
                    ready_end += 1
                elif state.missing[after] == 0:
                    end = now + state.spent[after]
                    start[row + after] = now
                    finish[row + after] = end
                    _insert_running(state.running, state.until, running, running_end, after, end)
                    running_end += 1
        blocked = False
        shadow = INFINITY
        extra = 0
        index = ready
        while index < ready_end and (free > 0 or rule == CONSERVATIVE):
            job = state.job[state.ready[index]]
            nodes = state.nodes[job]
            spent = state.spent[job]
            begin = now
            fits = nodes <= free
            if resources > 0:
                write_demand(resources, jobs.amount, state.need[job], jobs.slack, 0, state.taken, state.least)
                fits = fits and _covers(state.left, state.least, resources)
            if rule == CONSERVATIVE:
                begin = first_fit(skyline, 0, now, spent, nodes, state.least)
                occupy_skyline(skyline, 0, begin, begin + spent, nodes, state.taken)
                fits = True
            end = begin + spent
            if fits and end > shadow:
                # This job would still run when the reserved job starts, so both must fit together.
                fits = nodes <= extra and _covers(state.extra, state.least, resources)
                if fits:
                    extra -= nodes
                    _take(state.extra, state.taken, resources)
            if fits:
                free -= nodes
                _take(state.left, state.taken, resources)
                start[row + job] = begin
                finish[row + job] = end
                _insert_running(state.running, state.until, running, running_end, job, end)
                running_end += 1
                _remove_rank(state.ready, ready, index)
                ready += 1
            elif rule == FIFO:
                break
            elif rule == EASY and not blocked:
                blocked = True
                for resource in range(resources):
                    state.extra[resource] = state.left[resource]
                shadow, extra = _reserve(jobs, state, running, running_end, free, nodes)
                _take(state.extra, state.taken, resources)
            index += 1
    return last


@inlined_kernel
def _reserve(
    jobs: QueueJobs, state: QueueState, begin: int, end: int, free: int, wanted: int
) -> tuple[float, int]:
    """Return the earliest time at which a waiting job fits, and the nodes that stay free from that time on.

    Adds the amounts that running jobs free until that time to ``state.extra``. The amounts of the waiting job
    are not subtracted.
    """
    shadow = INFINITY
    found = False
    position = begin
    # Go on to the last job with this finish time: their nodes become free together.
    while position < end and (not found or state.until[position] == shadow):
        job = state.running[position]
        if state.nodes[job] > 0:
            free += state.nodes[job]
            _give(state.extra, jobs.amount, state.need[job], jobs.resources)
        if not found and free >= wanted and _covers(state.extra, state.least, jobs.resources):
            found = True
            shadow = state.until[position]
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
