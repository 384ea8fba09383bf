"""Decoding of node counts into schedules by a simulation of the queue of one machine.

``weft.kernels.queue`` documents the rules. Tasks are submitted breadth first: by level, then by index
(docs/papers/moldable.md, section 2).
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import Infeasible, InvalidInput
from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels import problem as kernel
from weft.kernels.problem import make_arrays
from weft.kernels.queue import CONSERVATIVE, JobRequests, QueueJobs, QueueState, run_amount_queue
from weft.kernels.queue import run_queue as run_node_queue
from weft.kernels.skylines import Skylines
from weft.planners.decoding import DecodedPopulation, check_rows, count_individuals, row_stride, select_modes
from weft.planners.problem import compile_problem, make_schedule
from weft.platform.machine import QUEUES
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices

_JOB_S, _EDGE_S, _RESERVING = 1.2e-6, 0.3e-6, 3
"""Approximate seconds per job and per edge in plain Python; ``conservative`` takes this factor longer."""
_MAX_CHOICES = 10_000_000
"""Largest number of cells of the table of seconds (tasks x node counts)."""
_ENDLESS = 2**62
"""Capacity of an unlimited machine: more nodes than all tasks together take."""

_Choices = tuple[NDArray[np.int64], Indices, NDArray[np.int64], Floats, NDArray[np.int64]]
"""Columns ``row, most, width, seconds, need`` of ``QueueJobs``."""

_jobs_cache: WeakKeyDictionary[Instance, QueueJobs | None] = WeakKeyDictionary()


def run_queue(
    instance: Instance, counts: ArrayLike, rule: str | None = None, *, order: ArrayLike | None = None
) -> Schedule:
    """Return the schedule built by the queue of the only machine, given the node count of each task.

    ``rule`` is a value of the key ``queue`` in a platform file; if it is None, the rule of the machine is
    used. ``order`` is the order of submission; if it is None, tasks are submitted breadth first. Raises
    Infeasible if a task can never start.
    """
    if np.ndim(counts) != 1:
        raise InvalidInput(f"counts is an array of shape {np.shape(counts)}", rule="must be one row")
    decoded = run_queue_population(instance, counts, rule, order=order, times=True)
    assert decoded.start_s is not None
    assert decoded.finish_s is not None
    start = decoded.start_s[0]
    if not np.isfinite(start).all():
        name = instance.graph.names[int(np.argmax(~np.isfinite(start)))]
        raise Infeasible(f"{name} never fits on {instance.machines[0].name} beside its busy intervals")
    problem, nodes = compile_problem(instance), np.zeros(len(instance), dtype=np.uint32)
    compute = instance.graph.kind == COMPUTE
    nodes[compute] = problem.modes.nodes[
        _modes(instance, check_rows("counts", counts, len(instance)))[compute]
    ]
    machine = np.zeros(len(instance), dtype=np.uint32)
    return make_schedule(instance, machine=machine, nodes=nodes, start_s=start, finish_s=decoded.finish_s[0])


def run_queue_population(
    instance: Instance,
    counts: ArrayLike,
    rule: str | None = None,
    *,
    order: ArrayLike | None = None,
    times: bool = False,
) -> DecodedPopulation:
    """Simulate the queue of the only machine for many individuals and return their results.

    ``counts`` and ``order`` are one row for all individuals, or individuals x tasks. With ``times`` the
    starts and finishes of all tasks are returned too. The other arguments are those of ``run_queue``.
    """
    if len(instance.machines) != 1:
        what = f"an instance with {len(instance.machines)} machines cannot be decoded by a queue"
        raise InvalidInput(
            what,
            rule="must have one machine",
            advice="plan each machine by itself, or use `weft.planners.decoding.decode`",
        )
    word = instance.machines[0].queue if rule is None else rule
    if word not in QUEUES:
        raise InvalidInput(f"the queue rule is {word!r}", rule=f"must be one of {', '.join(QUEUES)}")
    # With one node no job can overtake another: all rules are equal.
    code = QUEUES.index(word) if compile_problem(instance).machines.form[0] == kernel.SHARED else 0
    tasks = len(instance)
    count_rows = check_rows("counts", counts, tasks)
    orders = submission_order(instance) if order is None else check_rows("order", order, tasks)
    number = count_individuals(count_rows, orders)
    if (jobs := _jobs(instance)) is None:
        return _one_by_one(instance, code, orders, count_rows, number, times=times)
    return _run(instance, jobs, code, _requests(number, orders, count_rows, times=times))


def submission_order(instance: Instance) -> Indices:
    """Return the tasks breadth first: by the number of edges of the longest path to them, then by index."""
    graph = instance.graph
    level = [0] * len(graph)
    for task in range(len(graph)):
        before = graph.predecessors(task).tolist()
        level[task] = 1 + max(map(level.__getitem__, before), default=-1)
    return np.argsort(level, kind="stable").astype(np.uint32)


def _requests(number: int, order: Indices, counts: Indices, *, times: bool) -> JobRequests:
    return JobRequests(
        number=number,
        order=order.reshape(-1),
        order_step=row_stride(order),
        count=counts.reshape(-1),
        count_step=row_stride(counts),
        kept=int(times),
    )


def _one_by_one(
    instance: Instance, rule: int, orders: Indices, counts: Indices, number: int, *, times: bool
) -> DecodedPopulation:
    """Return the results of individuals that are simulated one by one.

    This is used for instances whose table of seconds (tasks x node counts) would be too large.
    """
    found = []
    for individual in range(number):
        order = orders[individual] if orders.ndim == 2 else orders
        row = counts[individual] if counts.ndim == 2 else counts
        jobs = _make_jobs(instance, _given_choices(instance, row))
        found.append(_run(instance, jobs, rule, _requests(1, order, row, times=times)))
    starts = [one.start_s for one in found if one.start_s is not None]
    finishes = [one.finish_s for one in found if one.finish_s is not None]
    return DecodedPopulation(
        makespan_s=np.concatenate([one.makespan_s for one in found]),
        node_seconds=np.concatenate([one.node_seconds for one in found]),
        cost=np.concatenate([one.cost for one in found]),
        start_s=np.concatenate(starts) if starts else None,
        finish_s=np.concatenate(finishes) if finishes else None,
    )


def _run(instance: Instance, jobs: QueueJobs, rule: int, requests: JobRequests) -> DecodedPopulation:
    number, rows = requests.number, requests.number if requests.kept else 1
    makespan, node_seconds = np.zeros(number), np.zeros(number)
    start, finish = np.zeros(rows * jobs.number), np.zeros(rows * jobs.number)
    work_s = (
        number
        * (jobs.number * _JOB_S + len(jobs.after) * _EDGE_S)
        * (_RESERVING if rule == CONSERVATIVE else 1)
    )
    outputs = (_make_scratch(jobs), makespan, node_seconds, start, finish)
    if jobs.resources == 0 and rule != CONSERVATIVE:
        wrong = compilation.run_kernel(run_node_queue, (jobs, rule, requests), outputs, work_s=work_s)
    else:
        wrong = compilation.run_kernel(
            run_amount_queue, (jobs, rule, requests, _line(jobs)), outputs, work_s=work_s
        )
    if wrong < number:
        order = requests.order[wrong * requests.order_step :][: jobs.tasks]
        counts = requests.count[wrong * requests.count_step :][: jobs.tasks]
        _modes(instance, counts)  # raises an error if a count is invalid
        missing = np.setdiff1d(np.arange(jobs.tasks), order)
        what = f"the order lacks {instance.graph.names[int(missing[0])]}"
        raise InvalidInput(what, rule="every task must occur once")
    return DecodedPopulation(
        makespan_s=makespan,
        node_seconds=node_seconds,
        cost=node_seconds * instance.price_per_node_s[0],
        start_s=start.reshape(number, jobs.number)[:, : jobs.tasks] if requests.kept else None,
        finish_s=finish.reshape(number, jobs.number)[:, : jobs.tasks] if requests.kept else None,
    )


def _make_scratch(jobs: QueueJobs) -> QueueState:
    number, resources = jobs.number, jobs.resources
    return make_arrays(
        QueueState,
        number,
        nodes=number + 1,
        running=number + 1,
        until=number + 1,
        left=resources,
        extra=resources,
        taken=resources,
        least=resources,
    )


def _line(jobs: QueueJobs) -> Skylines:
    steps = 2 * jobs.number + 1  # a job begins one step and ends one
    return make_arrays(
        Skylines, steps, resources=jobs.resources, first=1, last=1, left=steps * jobs.resources
    )


def _jobs(instance: Instance) -> QueueJobs | None:
    """Return the jobs of an instance (cached); None if the table of all node counts would be too large."""
    if instance not in _jobs_cache:
        choices = sum(len(group.tasks) * (int(group.count.max()) + 1) for group in instance.groups)
        small = choices <= _MAX_CHOICES
        _jobs_cache[instance] = _make_jobs(instance, _all_choices(instance)) if small else None
    return _jobs_cache[instance]


def _all_choices(instance: Instance) -> _Choices:
    """Return columns with all node counts of compute tasks; counts that are not allowed have -1 seconds."""
    problem = compile_problem(instance)
    tasks, first = len(instance), problem.modes.first
    row, most = np.zeros(tasks, dtype=np.int64), np.zeros(tasks, dtype=np.uint32)
    width, seconds, need = np.zeros(tasks, dtype=np.int64), [np.zeros(1)], [np.zeros(1, dtype=np.int64)]
    filled = 1
    for index, group in enumerate(instance.groups):
        columns = int(group.count.max()) + 1
        shift = problem.modes.shift[first[index] : first[index + 1]].astype(np.int64)
        # On one machine the number of nodes per count is the same for every count.
        width[group.tasks] = group.nodes[0] // group.count[0]
        for members, spent in group.chunks():
            shape = (len(members), columns)
            row[members] = filled + np.arange(len(members)) * columns
            most[members] = columns - 1
            filled += len(members) * columns
            seconds.append(_spread(shape, -1.0, group.count, spent))
            needed = problem.tasks.need[members].astype(np.int64)[:, None] + shift
            need.append(_spread(shape, 0, group.count, needed))
    return row, most, width, np.concatenate(seconds), np.concatenate(need)


def _spread(shape: tuple[int, int], empty: float, columns: Indices, values: NDArray[Any]) -> NDArray[Any]:
    table = np.full(shape, empty, dtype=values.dtype)
    table[:, columns] = values
    return table.reshape(-1)


def _given_choices(instance: Instance, counts: Indices) -> _Choices:
    """Return columns with only the given node count of every task."""
    problem, compute = compile_problem(instance), instance.graph.kind == COMPUTE
    tasks, modes = len(instance), problem.modes
    mode = _modes(instance, counts)[compute]
    nodes, seconds, need = np.zeros(tasks, dtype=np.int64), np.zeros(tasks), np.zeros(tasks, dtype=np.int64)
    nodes[compute] = modes.nodes[mode]
    if modes.layout == kernel.RELATED:
        seconds[compute] = modes.work[compute] / modes.rate[mode] / modes.gain[mode]
    elif modes.layout == kernel.CLASSES:
        seconds[compute] = modes.rate[mode]
    else:
        first = modes.first[modes.group[compute]].astype(np.int64)
        seconds[compute] = modes.cell[modes.row[compute] + mode - first]
    need[compute] = problem.tasks.need[compute].astype(np.int64) + modes.shift[mode]
    return np.arange(tasks, dtype=np.int64), np.zeros(tasks, dtype=np.uint32), nodes, seconds, need


def _modes(instance: Instance, counts: Indices) -> NDArray[np.int64]:
    """Return the mode of each compute task for its node count, numbered over all groups.

    The entries of other tasks are meaningless.
    """
    first, group = compile_problem(instance).modes.first, np.maximum(instance.group, 0)
    found = select_modes(instance, np.zeros(len(instance.graph.variables), dtype=np.uint32), counts)
    return np.asarray(first[group] + found, dtype=np.int64)


def _make_jobs(instance: Instance, choices: _Choices) -> QueueJobs:
    """Return the jobs of the queue: all tasks, a job per busy interval, and a job per earliest start.

    A job for an earliest start uses no nodes and ends at that time. The task with this earliest start depends
    on the job.
    """
    problem, tasks = compile_problem(instance), len(instance)
    machines = problem.machines
    unlimited = machines.form[0] == kernel.OPEN
    resources = 0 if unlimited else machines.resources
    row, most, width, seconds, need = choices
    busy = 0 if unlimited else _count_busy(instance)
    late = np.flatnonzero(problem.tasks.earliest > 0)
    number = tasks + busy + len(late)
    rows = len(problem.tasks.amount) // resources if resources else 0
    pointer, after, before = _successors(problem, busy, late)
    return QueueJobs(
        number=number,
        tasks=tasks,
        capacity=_ENDLESS if unlimited else int(machines.capacity[0]),
        resources=resources,
        total=machines.amount[:resources],
        slack=machines.slack[:resources],
        after_pointer=pointer,
        after=after,
        before=before,
        row=np.concatenate([row, len(seconds) + np.arange(busy + len(late))]),
        most=most,
        width=np.concatenate([width, problem.busy_nodes[:busy], np.zeros(len(late), dtype=np.int64)]),
        seconds=np.concatenate([seconds, problem.busy_seconds[:busy], problem.tasks.earliest[late]]),
        need=np.concatenate([need, rows + np.arange(busy), np.zeros(len(late), dtype=np.int64)]),
        amount=np.concatenate([problem.tasks.amount, problem.busy_amount]),
    )


def _count_busy(instance: Instance) -> int:
    """Return the number of busy intervals.

    Raises InvalidInput if one begins after time 0, and Infeasible if they do not fit together.
    """
    problem, name = compile_problem(instance), instance.machines[0].name
    if (problem.busy_start > 0).any():
        what = f"{name} is reserved from {float(problem.busy_start.max()):g} s on"
        advice = "use `weft.planners.decoding.decode`"
        raise InvalidInput(
            what, rule="a queue cannot model reservations that start after time 0", advice=advice
        )
    machines, held = problem.machines, problem.busy_nodes.sum()
    if held > machines.capacity[0]:
        raise Infeasible(f"{name} has {machines.capacity[0]} nodes, but its busy intervals use {held}")
    for column, resource in enumerate(instance.graph.resource_names):
        taken = problem.busy_amount[column :: machines.resources].sum()
        if taken > machines.amount[column] + machines.slack[column]:
            has = f"{name} has {machines.amount[column]:g} of {resource}"
            raise Infeasible(f"{has}, but its busy intervals use {taken:g}")
    return len(problem.busy_nodes)


def _successors(
    problem: kernel.ProblemArrays, busy: int, late: NDArray[np.intp]
) -> tuple[Indices, Indices, NDArray[np.int64]]:
    """Return the successors of all jobs (CSR; the last row lists all entry jobs), and predecessor counts."""
    tasks = problem.tasks.number
    before = np.diff(problem.tasks.pointer.astype(np.int64))
    before[late] += 1
    before = np.concatenate([before, np.zeros(busy + len(late), dtype=np.int64)])
    entries = np.flatnonzero(before == 0)
    before[entries] = 1
    numbers = np.concatenate(
        [
            np.diff(problem.tasks.after_pointer.astype(np.int64)),
            np.zeros(busy, dtype=np.int64),
            np.ones(len(late), dtype=np.int64),
            [len(entries)],
        ]
    )
    assert len(numbers) == tasks + busy + len(late) + 1
    pointer = np.concatenate([[0], np.cumsum(numbers)]).astype(np.uint32)
    after = np.concatenate([problem.tasks.after, late, entries]).astype(np.uint32)
    return pointer, after, before
