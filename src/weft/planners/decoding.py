"""Decoding for planners: genomes of an instance become schedules, one at a time or a population at once.

``weft.planners.genomes`` says what a genome is, ``weft.kernels.decoders.decoding`` what the rules mean; the
queue of a machine, which orders tasks itself, is in ``weft.planners.queueing``.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import Infeasible, InvalidInput, Problem
from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels import problem as kernel
from weft.kernels.decoders.decoding import APPEND, EXCLUSIVE, INSERTION, UNLIMITED, Genomes, Scratch
from weft.kernels.decoders.decoding import decode as decode_kernel
from weft.kernels.decoders.skylines import Skylines
from weft.planners.courses import course_of, lines_per_machine, run_course
from weft.planners.genomes import (
    Decoded,
    Genome,
    genome_of,
    individuals_in,
    modes_of,
    rows_of,
    step_of,
    wrong_genome,
)
from weft.planners.problem import problem_of
from weft.planners.queueing import run_queue, run_queue_population
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices

__all__ = [
    "APPEND",
    "EXCLUSIVE",
    "INSERTION",
    "UNLIMITED",
    "Decoded",
    "Genome",
    "decode",
    "decode_population",
    "genome_of",
    "modes_of",
    "run_queue",
    "run_queue_population",
]

_TASK_S, _EDGE_S, _LINE_S, _MACHINE_S = 2e-6, 0.35e-6, 5e-6, 0.8e-6
"""What a task, an edge, a task where nodes are counted, and an empty line take in plain Python, about."""
_MOST_CELLS = 4_000_000
"""Groups x machines up to which the usual modes are kept in a table."""

_usual: WeakKeyDictionary[Instance, Indices] = WeakKeyDictionary()


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
    genomes = _genomes(instance, order, bound, modes, seconds, times=True)
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
    nodes[compute] = problem_of(instance).modes.nodes[scratch.mode[compute]]
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
) -> Decoded:
    """Decode many genomes at once; each array is one row for all of them, or individuals x row.

    With ``times`` start and finish of all tasks are given, without ``priced`` node-seconds and cost are 0. A
    search over bindings that wants neither is twice as fast on machines that serve tasks in turn.
    """
    if modes is None and seconds is None and not times and not priced:
        route = course_of(instance, rule, order)
        if route is not None:
            return run_course(instance, route, order, bound)
    genomes = _genomes(instance, order, bound, modes, seconds, times=times, priced=priced)
    return _run(instance, genomes, rule)[0]


def _genomes(
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
    bindings = rows_of("bound", bound, variables)
    orders = np.arange(tasks, dtype=np.uint32) if order is None else rows_of("order", order, tasks)
    few = len(instance.groups) * len(instance.machines) <= _MOST_CELLS
    chosen = usual = np.zeros(0, dtype=np.uint32)
    if modes is not None:
        chosen = rows_of("modes", modes, tasks)
    elif few:
        usual = _usual_modes(instance)
    else:
        chosen = modes_of(instance, bindings)
    durations = np.zeros(0) if seconds is None else _durations(seconds, tasks)
    return Genomes(
        number=individuals_in(bindings, orders, chosen, durations),
        order=orders.reshape(-1),
        order_step=step_of(orders),
        bound=bindings.reshape(-1),
        bound_step=step_of(bindings),
        chosen=int(modes is not None or not few),
        mode=chosen.reshape(-1),
        mode_step=step_of(chosen),
        usual=usual,
        timed=int(seconds is not None),
        seconds=durations.reshape(-1),
        seconds_step=step_of(durations),
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


def _usual_modes(instance: Instance) -> Indices:
    """Give groups x machines: the mode of the least count; their number: the group cannot run there."""
    if instance not in _usual:
        modes = problem_of(instance).modes
        table = np.full((modes.groups, len(instance.machines)), len(modes.machine), dtype=np.uint32)
        for row, group in enumerate(instance.groups):
            machine, first = np.unique(group.machine, return_index=True)
            table[row, machine] = modes.first[row] + first
        _usual[instance] = table.reshape(-1)
    return _usual[instance]


def _run(instance: Instance, genomes: Genomes, rule: int) -> tuple[Decoded, Scratch]:
    problem = problem_of(instance)
    tasks = problem.tasks
    number, rows = genomes.number, genomes.number if genomes.kept else 1
    drawn = lines_per_machine(problem, rule)
    makespan, node_seconds, cost = np.zeros(number), np.zeros(number), np.zeros(number)
    start, finish = np.zeros(rows * tasks.number), np.zeros(rows * tasks.number)
    scratch = _scratch(problem)
    wrong = forms.run(
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
        raise _wrong(instance, genomes, wrong)
    return Decoded(
        makespan_s=makespan,
        node_seconds=node_seconds,
        cost=cost,
        start_s=start.reshape(number, tasks.number) if genomes.kept else None,
        finish_s=finish.reshape(number, tasks.number) if genomes.kept else None,
    ), scratch


def _lines(problem: kernel.Problem, drawn: int) -> Skylines:
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


def _scratch(problem: kernel.Problem) -> Scratch:
    tasks, machines = problem.tasks.number, problem.machines.number
    return Scratch(
        seen=np.zeros(tasks, dtype=np.uint8),
        host=np.zeros(tasks, dtype=np.uint32),
        links=np.zeros(tasks, dtype=np.uint32),
        mode=np.zeros(tasks, dtype=np.uint32),
        free=np.zeros(machines),
        room=np.zeros(machines, dtype=np.int64),
        taken=np.zeros(problem.machines.resources),
        least=np.zeros(problem.machines.resources),
    )


def _wrong(instance: Instance, genomes: Genomes, individual: int) -> Exception:
    def row(array: Indices, step: int, width: int) -> Indices:
        return array[individual * step : individual * step + width]

    tasks = len(instance)
    order = row(genomes.order, genomes.order_step, tasks)
    bound = row(genomes.bound, genomes.bound_step, len(instance.graph.variables))
    modes = row(genomes.mode, genomes.mode_step, tasks) if genomes.chosen else None
    return wrong_genome(instance, order, bound, modes)
