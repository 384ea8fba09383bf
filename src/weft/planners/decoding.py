"""Courses: what decoding reads of an instance in the simplest case, that of S1 (spec s1 section 6).

All tasks are compute tasks whose seconds are work over the speed of a machine, or stand for data that are
somewhere; machines serve them one at a time, or any number at once; what is busy beforehand takes whole
machines from the begin on; and all individuals have one order. Then bindings give makespans very quickly.

Decoding for planners: genomes of an instance become schedules, one at a time or a population at once.

``weft.planners.genome`` says what a genome is, ``weft.kernels.decoder`` what the rules mean; the
queue of a machine, which orders tasks itself, is in ``weft.planners.queue_decoding``.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import Infeasible, InvalidInput, Problem
from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels import problem as kernel
from weft.kernels.decoder import (
    APPEND,
    EXCLUSIVE,
    INSERTION,
    UNLIMITED,
    BindingProblem,
    DecoderScratch,
    Genomes,
    decode_bindings,
)
from weft.kernels.decoder import decode as decode_kernel
from weft.kernels.skylines import Skylines
from weft.planners.genome import (
    DecodedPopulation,
    Genome,
    check_rows,
    count_individuals,
    encode_schedule,
    explain_invalid_genome,
    row_stride,
    select_modes,
)
from weft.planners.problem import compile_problem
from weft.planners.queue_decoding import run_queue, run_queue_population
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, Floats, Indices

__all__ = [
    "APPEND",
    "EXCLUSIVE",
    "INSERTION",
    "UNLIMITED",
    "DecodedPopulation",
    "FastPath",
    "Genome",
    "count_skylines",
    "decode",
    "decode_fast_path",
    "decode_population",
    "encode_schedule",
    "find_fast_path",
    "run_queue",
    "run_queue_population",
    "select_modes",
]


_FAST_TASK_S, _FAST_EDGE_S, _FAST_MACHINE_S = 0.6e-6, 0.25e-6, 0.03e-6
"""What a task, an edge and a machine take in plain Python, about."""
_MAX_RATE_CELLS = 4_000_000
"""Groups x machines up to which rates are kept in a table."""
_MAX_ORDERS = 4
"""How many orders of one instance are remembered."""


class FastPath(NamedTuple):
    """A course, and what data pay beside their size; None: nothing."""

    course: BindingProblem
    fixed: Floats | None
    files: Floats | None
    latency: Floats | None


_fast_path_cache: WeakKeyDictionary[Instance, dict[tuple[int, bytes], FastPath | None]] = WeakKeyDictionary()


def count_skylines(problem: kernel.ProblemArrays, rule: int) -> int:
    """Say how many lines each machine needs; none if all serve one task after the other, or any number."""
    if rule not in (APPEND, INSERTION, EXCLUSIVE, UNLIMITED):
        raise InvalidInput(Problem(what=f"rule {rule}", rule="must be a rule of the decoder"))
    busy, shared = len(problem.busy_machine) > 0, bool((problem.machines.form == kernel.SHARED).any())
    if rule == APPEND:
        return (2 if busy else 1) if shared else 0
    return int(rule == INSERTION or (rule == EXCLUSIVE and busy))


def find_fast_path(instance: Instance, rule: int, order: ArrayLike | None) -> FastPath | None:
    """Give the course of an instance under a rule, in an order; None: it is not that simple."""
    turns = None if order is None else check_rows("order", order, len(instance))
    if turns is not None and turns.ndim > 1:
        return None
    routes = _fast_path_cache.setdefault(instance, {})
    key = (rule, b"" if turns is None else turns.tobytes())
    if key not in routes:
        if len(routes) >= _MAX_ORDERS:
            routes.clear()
        routes[key] = _build_fast_path(instance, rule, turns)
    return routes[key]


def _build_fast_path(instance: Instance, rule: int, turns: Indices | None) -> FastPath | None:
    problem = compile_problem(instance)
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    simple = modes.layout == kernel.RELATED and not bool((tasks.kind == kernel.TRANSFER).any())
    release = _release(problem, rule) if simple else None
    rates = None if release is None else _rates(instance, problem)
    order = np.arange(tasks.number, dtype=np.uint32) if turns is None else turns
    edges = _reorder_edges(tasks, order) if rates is not None else None
    if release is None or rates is None or edges is None:
        return None
    pointer, before, edge = edges
    alone = (machines.form != kernel.OPEN) & (rule != UNLIMITED)
    course = BindingProblem(
        tasks=tasks.number,
        machines=machines.number,
        locations=machines.locations,
        variable=tasks.variable[order],
        earliest=tasks.earliest[order],
        pointer=pointer,
        before=before,
        size=tasks.size[edge],
        host=machines.host,
        location=machines.location,
        inverse=machines.inverse,
        alone=alone.astype(np.uint8),
        release=release,
        # What stands for data takes no time, whatever work its task had.
        work=np.where(tasks.kind == kernel.COMPUTE, modes.work, 0.0)[order],
        row=modes.group[order] * np.uint32(machines.number),
        rate=rates.reshape(-1),
    )
    if tasks.fixed.any() or (tasks.files.any() and machines.latency.any()):
        return FastPath(course, tasks.fixed[edge], tasks.files[edge], machines.latency)
    return FastPath(course, None, None, None)


def _release(problem: kernel.ProblemArrays, rule: int) -> Floats | None:
    """Give when each machine is free for good; None: lines of what is free are needed.

    Under the rules that fill no gaps, a machine of one node that is busy without a break from 0 on is one
    whose first task ends then.
    """
    machines = problem.machines
    release = np.zeros(machines.number)
    if count_skylines(problem, rule) == 0:
        # Nothing is busy, or it stands in nobody's way.
        return release
    held = np.zeros(machines.number, dtype=np.bool_)
    held[problem.busy_machine] = True
    counted = (machines.form == kernel.SHARED) & ~held
    if rule not in (APPEND, EXCLUSIVE) or (rule == APPEND and counted.any()):
        return None
    if (machines.capacity[held & (machines.form != kernel.OPEN)] != 1).any():
        return None
    if (problem.modes.nodes < 1).any() or (problem.busy_nodes < 1).any():
        return None
    for stretch in np.argsort(problem.busy_start, kind="stable").tolist():
        machine, start_s = problem.busy_machine[stretch], problem.busy_start[stretch]
        if problem.busy_seconds[stretch] > 0.0:
            if start_s > release[machine]:
                return None
            release[machine] = max(release[machine], start_s + problem.busy_seconds[stretch])
    return release


def _rates(instance: Instance, problem: kernel.ProblemArrays) -> Floats | None:
    """Give groups x machines: the rate of the least count, below 0 for none; None: there is more to it.

    The last row is that of tasks without a group, which take no time anywhere.
    """
    modes = problem.modes
    if (modes.groups + 1) * len(instance.machines) > _MAX_RATE_CELLS:
        return None
    table = np.full((modes.groups + 1, len(instance.machines)), -1.0)
    table[modes.groups] = 1.0
    for row, group in enumerate(instance.groups):
        machine, first = np.unique(group.machine, return_index=True)
        mode = int(modes.first[row]) + first
        if (modes.gain[mode] != 1.0).any():
            return None
        table[row, machine] = modes.rate[mode]
    return table


def _reorder_edges(
    tasks: kernel.TaskArrays, order: Indices
) -> tuple[Indices, Indices, NDArray[np.int64]] | None:
    """Renumber tasks by an order; give predecessors (CSR) and their edges; None: the order is not valid."""
    if not (np.sort(order) == np.arange(tasks.number)).all():
        return None
    place = np.empty(tasks.number, dtype=np.uint32)
    place[order] = np.arange(tasks.number)
    first = tasks.pointer[:-1].astype(np.int64)[order]
    number = np.diff(tasks.pointer.astype(np.int64))[order]
    pointer = np.concatenate([[0], np.cumsum(number)])
    edge = np.repeat(first - pointer[:-1], number) + np.arange(pointer[-1])
    before = place[tasks.before[edge]]
    if (before >= np.repeat(np.arange(tasks.number), number)).any():
        return None
    return pointer.astype(np.uint32), before, edge


def decode_fast_path(
    instance: Instance, route: FastPath, order: ArrayLike | None, bound: ArrayLike
) -> DecodedPopulation:
    """Give the makespans of bindings: one row, or individuals x variables."""
    tasks, machines = route.course.tasks, route.course.machines
    bounds = check_rows("bound", bound, len(instance.graph.variables))
    number = count_individuals(bounds)
    makespan = np.zeros(number)
    astray = _first_pin_violation(instance, bounds)
    wrong = compilation.run_kernel(
        decode_bindings,
        (
            *route,
            number,
            bounds.reshape(-1),
            row_stride(bounds),
            np.zeros(tasks, dtype=np.uint32),
            np.zeros(tasks, dtype=np.uint32),
            np.zeros(machines),
            np.zeros(tasks),
        ),
        (makespan,),
        work_s=number
        * (tasks * _FAST_TASK_S + len(route.course.before) * _FAST_EDGE_S + machines * _FAST_MACHINE_S),
    )
    wrong = min(wrong, astray)
    if wrong < number:
        turns = np.arange(tasks, dtype=np.uint32) if order is None else check_rows("order", order, tasks)
        raise explain_invalid_genome(instance, turns, bounds[wrong] if bounds.ndim == 2 else bounds, None)
    nothing = np.zeros(number)
    return DecodedPopulation(
        makespan_s=makespan, node_seconds=nothing, cost=nothing, start_s=None, finish_s=None
    )


def _first_pin_violation(instance: Instance, bounds: Indices) -> int:
    """Give the first individual that binds a pinned variable elsewhere; their number: none."""
    rows = np.atleast_2d(bounds)
    if instance.pinned:
        kept = (rows[:, list(instance.pinned)] == list(instance.pinned.values())).all(axis=1)
        if not kept.all():
            return int(np.argmin(kept))
    return len(rows)


_TASK_S, _EDGE_S, _LINE_S, _MACHINE_S = 2e-6, 0.35e-6, 5e-6, 0.8e-6
"""What a task, an edge, a task where nodes are counted, and an empty line take in plain Python, about."""
_MAX_MODE_CELLS = 4_000_000
"""Groups x machines up to which the usual modes are kept in a table."""

_default_mode_cache: WeakKeyDictionary[Instance, Indices] = WeakKeyDictionary()


def decode(
    instance: Instance,
    order: ArrayLike | None,
    bound: ArrayLike,
    modes: ArrayLike | None = None,
    *,
    rule: int = APPEND,
    seconds: ArrayLike | None = None,
) -> Schedule:
    """Decode one genome. Without an order tasks go by index, without modes each takes the least count.

    ``seconds`` replaces the estimates of compute tasks. Infeasible if a task can never start.
    """
    genomes = _pack_genomes(instance, order, bound, modes, seconds, times=True)
    if genomes.number != 1:
        raise InvalidInput(Problem(what=f"{genomes.number} genomes", rule="one is decoded at a time"))
    decoded, scratch = _run(instance, genomes, rule)
    assert decoded.start_s is not None
    assert decoded.finish_s is not None
    start, machine = decoded.start_s[0], genomes.bound[instance.graph.variable]
    if not np.isfinite(start).all():
        first = next(task for task in genomes.order.tolist() if not np.isfinite(start[task]))
        name, place = instance.graph.names[first], instance.machines[machine[first]].name
        raise Infeasible(f"{name} never fits on {place} beside what is busy there")
    compute = instance.graph.kind == COMPUTE
    nodes = np.zeros(len(instance), dtype=np.uint32)
    nodes[compute] = compile_problem(instance).modes.nodes[scratch.mode[compute]]
    return Schedule(
        tasks=instance.graph.names,
        machines=tuple(found.name for found in instance.machines),
        machine=machine,
        nodes=nodes,
        start_s=start,
        finish_s=decoded.finish_s[0],
    )


def decode_population(
    instance: Instance,
    order: ArrayLike | None,
    bound: ArrayLike,
    modes: ArrayLike | None = None,
    *,
    rule: int = APPEND,
    seconds: ArrayLike | None = None,
    times: bool = False,
    priced: bool = True,
) -> DecodedPopulation:
    """Decode many genomes at once; each array is one row for all of them, or individuals x row.

    With ``times`` start and finish of all tasks are given, without ``priced`` node-seconds and cost are 0. A
    search over bindings that wants neither is twice as fast on machines that serve tasks in turn.
    """
    if modes is None and seconds is None and not times and not priced:
        route = find_fast_path(instance, rule, order)
        if route is not None:
            return decode_fast_path(instance, route, order, bound)
    genomes = _pack_genomes(instance, order, bound, modes, seconds, times=times, priced=priced)
    return _run(instance, genomes, rule)[0]


def _pack_genomes(
    instance: Instance,
    order: ArrayLike | None,
    bound: ArrayLike,
    modes: ArrayLike | None,
    seconds: ArrayLike | None,
    *,
    times: bool,
    priced: bool = True,
) -> Genomes:
    """Check the shapes and lay the arrays out as the kernels read them."""
    tasks, variables = len(instance), len(instance.graph.variables)
    bindings = check_rows("bound", bound, variables)
    orders = np.arange(tasks, dtype=np.uint32) if order is None else check_rows("order", order, tasks)
    few = len(instance.groups) * len(instance.machines) <= _MAX_MODE_CELLS
    chosen = usual = np.zeros(0, dtype=np.uint32)
    if modes is not None:
        chosen = check_rows("modes", modes, tasks)
    elif few:
        usual = _default_modes(instance)
    else:
        chosen = select_modes(instance, bindings)
    durations = np.zeros(0) if seconds is None else _durations(seconds, tasks)
    return Genomes(
        number=count_individuals(bindings, orders, chosen, durations),
        order=orders.reshape(-1),
        order_step=row_stride(orders),
        bound=bindings.reshape(-1),
        bound_step=row_stride(bindings),
        chosen=int(modes is not None or not few),
        mode=chosen.reshape(-1),
        mode_step=row_stride(chosen),
        usual=usual,
        timed=int(seconds is not None),
        seconds=durations.reshape(-1),
        seconds_step=row_stride(durations),
        priced=int(priced),
        kept=int(times),
    )


def _durations(given: ArrayLike, width: int) -> Floats:
    rows = np.ascontiguousarray(given, dtype=np.float64)
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        rule = f"must be a row of {width} numbers, or individuals x {width}"
        raise InvalidInput(Problem(what=f"seconds: an array of shape {rows.shape}", rule=rule))
    wrong = ~((rows >= 0) & (rows < np.inf))
    if wrong.any():
        raise InvalidInput(Problem(what=f"seconds: {rows[wrong][0]}", rule="must be finite and not negative"))
    return rows


def _default_modes(instance: Instance) -> Indices:
    """Give groups x machines: the mode of the least count; their number: the group cannot run there."""
    if instance not in _default_mode_cache:
        modes = compile_problem(instance).modes
        table = np.full((modes.groups, len(instance.machines)), len(modes.machine), dtype=np.uint32)
        for row, group in enumerate(instance.groups):
            machine, first = np.unique(group.machine, return_index=True)
            table[row, machine] = modes.first[row] + first
        _default_mode_cache[instance] = table.reshape(-1)
    return _default_mode_cache[instance]


def _run(instance: Instance, genomes: Genomes, rule: int) -> tuple[DecodedPopulation, DecoderScratch]:
    problem = compile_problem(instance)
    tasks = problem.tasks
    number, rows = genomes.number, genomes.number if genomes.kept else 1
    drawn = count_skylines(problem, rule)
    makespan, node_seconds, cost = np.zeros(number), np.zeros(number), np.zeros(number)
    start, finish = np.zeros(rows * tasks.number), np.zeros(rows * tasks.number)
    scratch = _scratch(problem)
    wrong = compilation.run_kernel(
        decode_kernel,
        (problem, rule, drawn, genomes, _lines(problem, drawn)),
        (scratch, makespan, node_seconds, cost, start, finish),
        work_s=number
        * (
            tasks.number * (_TASK_S + drawn * _LINE_S)
            + len(tasks.before) * _EDGE_S
            + drawn * problem.machines.number * _MACHINE_S
        ),
    )
    if wrong < number:
        raise _invalid_genome_error(instance, genomes, wrong)
    return DecodedPopulation(
        makespan_s=makespan,
        node_seconds=node_seconds,
        cost=cost,
        start_s=start.reshape(number, tasks.number) if genomes.kept else None,
        finish_s=finish.reshape(number, tasks.number) if genomes.kept else None,
    ), scratch


def _lines(problem: kernel.ProblemArrays, drawn: int) -> Skylines:
    machines, resources = problem.machines.number, problem.machines.resources
    steps = drawn * (machines + 2 * (problem.tasks.number + len(problem.busy_machine)))
    return Skylines(
        resources=resources,
        first=np.zeros(drawn * machines, dtype=np.int64),
        last=np.zeros(drawn * machines, dtype=np.int64),
        time=np.zeros(steps),
        nodes=np.zeros(steps, dtype=np.int64),
        left=np.zeros(steps * resources),
    )


def _scratch(problem: kernel.ProblemArrays) -> DecoderScratch:
    tasks, machines = problem.tasks.number, problem.machines.number
    return DecoderScratch(
        seen=np.zeros(tasks, dtype=np.uint8),
        host=np.zeros(tasks, dtype=np.uint32),
        links=np.zeros(tasks, dtype=np.uint32),
        mode=np.zeros(tasks, dtype=np.uint32),
        free=np.zeros(machines),
        steps=np.zeros(machines, dtype=np.int64),
        taken=np.zeros(problem.machines.resources),
        least=np.zeros(problem.machines.resources),
    )


def _invalid_genome_error(instance: Instance, genomes: Genomes, individual: int) -> Exception:
    def row(array: Indices, step: int, width: int) -> Indices:
        return array[individual * step : individual * step + width]

    tasks = len(instance)
    order = row(genomes.order, genomes.order_step, tasks)
    bound = row(genomes.bound, genomes.bound_step, len(instance.graph.variables))
    modes = row(genomes.mode, genomes.mode_step, tasks) if genomes.chosen else None
    return explain_invalid_genome(instance, order, bound, modes)
