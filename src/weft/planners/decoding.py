"""Genomes of an instance, and their decoding into schedules, one at a time or a whole population.

A genome is an order of the tasks, a machine per binding variable and a mode per task. A mode is a position
among the modes of the task's group (``Instance.groups``); transfers and virtual tasks have mode 0. A
population has one array for each of these three parts, with a row per individual; an array of one dimension
is a row that all individuals share. The rules of decoding are documented in ``weft.kernels.decoder``.
``weft.planners.queue_decoding`` decodes node counts by simulating the queue of a machine, which orders the
tasks itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import Infeasible, InvalidInput, WeftError, shorten
from weft.instance.instance import Instance, ModeGroup
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
from weft.kernels.problem import make_arrays, select_fields
from weft.kernels.skylines import Skylines
from weft.planners.problem import compile_problem, make_schedule
from weft.records import dataclass
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
    "check_rows",
    "count_individuals",
    "decode",
    "decode_population",
    "encode_schedule",
    "find_fast_path",
    "row_stride",
    "select_modes",
]

_TASK_S, _EDGE_S, _LINE_S, _MACHINE_S = 2e-6, 0.35e-6, 5e-6, 0.8e-6
"""Approximate seconds in plain Python: per task, per edge, per task on a skyline, per empty skyline."""
_FAST_TASK_S, _FAST_EDGE_S, _FAST_MACHINE_S = 0.6e-6, 0.25e-6, 0.03e-6
"""Approximate seconds in plain Python per task, edge and machine on the fast path."""
_MAX_CELLS = 4_000_000
"""Largest number of cells of a table of mode groups x machines."""
_MAX_ORDERS = 4
"""Number of task orders per instance whose fast path is cached."""

_default_mode_cache: WeakKeyDictionary[Instance, Indices] = WeakKeyDictionary()


class Genome(NamedTuple):
    """The choices from which a decoder builds a schedule."""

    order: Indices
    """All tasks in a topological order."""
    bound: Indices
    """Machine of each binding variable."""
    modes: Indices
    """Mode of each task."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodedPopulation:
    """The result of decoding a population: makespan, node-seconds, cost and times per individual."""

    makespan_s: Floats
    """Makespan of each schedule; infinite if some task never fits beside the busy intervals."""
    node_seconds: Floats
    cost: Floats
    start_s: Floats | None
    finish_s: Floats | None
    """Individuals x tasks, like ``start_s``; None if not requested."""


def encode_schedule(instance: Instance, schedule: Schedule) -> Genome:
    """Return the genome of a schedule, with the tasks ordered by start, then finish, then index.

    If the genome is decoded with APPEND or INSERTION, no task starts later than in the schedule: all tasks
    that were running when a task started precede it in the order. If the durations change, APPEND still
    starts the tasks of every machine in this order.
    """
    graph = instance.graph
    if schedule.tasks != graph.names:
        what = "the tasks of the schedule are not those of the instance"
        raise InvalidInput(what, rule="must be a schedule of this instance")
    # A predecessor that starts together with its successor takes 0 s: it ends first or has the lower index.
    order = np.lexsort((np.arange(len(graph)), schedule.finish_s, schedule.start_s)).astype(np.uint32)
    bound = instance.bind_variables(schedule.machine)
    modes = np.zeros(len(graph), dtype=np.uint32)
    for group in instance.groups:
        machine, nodes = schedule.machine[group.tasks], schedule.nodes[group.tasks]
        found = _find_modes(group, group.nodes, machine, nodes)
        if (found == len(group)).any():
            task = int(group.tasks[int(np.argmax(found == len(group)))])
            place = f"{int(schedule.nodes[task])} nodes of {schedule.machines[schedule.machine[task]]}"
            what = f"{graph.names[task]} is scheduled on {place}"
            raise InvalidInput(f"{what}, which is not one of its modes")
        modes[group.tasks] = found
    return Genome(order=order, bound=bound, modes=modes)


def select_modes(instance: Instance, bound: Indices, counts: Indices | None = None) -> Indices:
    """Return the mode of each task on the machine of its variable, for a genome or a whole population.

    ``counts`` are the node counts of the tasks as in the workflow file; without ``counts`` each task takes
    its smallest node count.
    """
    variable, last = instance.graph.variable, bound.shape[:-1]
    modes = np.zeros((*last, len(instance)), dtype=np.uint32)
    for group in instance.groups:
        machine = bound[..., variable[group.tasks]]
        if counts is None:
            found = _find_modes(group, np.zeros(len(group), dtype=np.int64), machine, np.zeros_like(machine))
        else:
            group_counts = np.broadcast_to(counts, (*last, len(instance)))[..., group.tasks]
            found = _find_modes(group, group.count, machine, group_counts)
        if (found == len(group)).any():
            *_, task = np.argwhere(found == len(group))[0].tolist()
            raise _impossible_mode_error(
                instance, int(group.tasks[task]), int(machine[found == len(group)][0])
            )
        modes[..., group.tasks] = found
    return modes


def check_rows(name: str, given: ArrayLike, width: int) -> Indices:
    """Return an array of integers as contiguous uint32 after checking that its rows have length ``width``."""
    rows = np.asarray(given)
    if rows.ndim not in (1, 2) or rows.shape[-1] != width:
        rule = f"must be a row of {width} numbers, or individuals x {width}"
        raise InvalidInput(f"{name} is an array of shape {rows.shape}", rule=rule)
    if rows.dtype != np.uint32:
        if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= 2**32):
            whole = rows.dtype.kind in "iu"
            what = f"values from {rows.min()} to {rows.max()}" if whole else f"values of type {rows.dtype}"
            raise InvalidInput(f"{name} has {what}", rule="must be integers from 0 to 2**32 - 1")
        rows = rows.astype(np.uint32)
    return np.ascontiguousarray(rows)


def row_stride(rows: NDArray[Any]) -> int:
    """Return the number of elements between the rows of two individuals; 0 if all share one row."""
    return rows.shape[1] if rows.ndim == 2 else 0


def count_individuals(*arrays: NDArray[Any]) -> int:
    """Return the common length of the two-dimensional arrays; 1 if every array has one dimension.

    Raises InvalidInput if the lengths differ.
    """
    numbers = {len(rows) for rows in arrays if rows.ndim == 2}
    if len(numbers) > 1:
        what = f"the arrays have {' and '.join(map(str, sorted(numbers)))} individuals"
        raise InvalidInput(what, rule="all arrays must have the same number of individuals, or a single row")
    return numbers.pop() if numbers else 1


def _find_modes(
    group: ModeGroup, values: NDArray[np.integer], machine: Indices, value: NDArray[np.integer]
) -> NDArray[np.intp]:
    """Return the mode of a group for each pair of ``machine`` and ``value``; ``len(group)`` if none matches.

    ``values`` holds the value of each mode of the group (for example its number of nodes); the values of a
    machine are in ascending order.
    """
    most = int(max(values.max(initial=0), value.max(initial=0))) + 1
    keys = group.machine.astype(np.int64) * most + values
    wanted = machine.astype(np.int64) * most + value
    found = np.searchsorted(keys, wanted)
    return np.where(keys[np.minimum(found, len(keys) - 1)] == wanted, found, len(keys))


def _impossible_mode_error(instance: Instance, task: int, machine: int) -> WeftError:
    name, group = instance.graph.names[task], instance.groups[int(instance.group[task])]
    if machine >= len(instance.machines):
        what = f"{name} is bound to machine number {machine}"
        return InvalidInput(what, rule=f"there are {len(instance.machines)} machines")
    place = instance.machines[machine].name
    if not (counts := group.count[group.machine == machine].tolist()):
        return Infeasible(f"{name} cannot run on {place}: bind it to one of its candidates")
    what = f"the given mode of {name} does not exist on {place}"
    return InvalidInput(what, rule=f"the node counts of {name} on {place} are {shorten(counts)}")


def _explain_invalid_genome(
    instance: Instance, order: Indices, bound: Indices, modes: Indices | None
) -> WeftError:
    """Return the error for a genome that the decoder has refused."""
    graph = instance.graph
    names, seen = graph.names, np.zeros(len(graph), dtype=bool)
    for task in order.tolist():
        if task >= len(graph) or seen[task]:
            what = f"the order contains task {task}" + (" twice" if task < len(graph) else "")
            rule = f"every task from 0 to {len(graph) - 1} must occur once"
            return InvalidInput(what, rule=rule)
        late = [int(before) for before in graph.predecessors(task) if not seen[before]]
        if late:
            what = f"the order puts {names[task]} before {names[late[0]]}"
            return InvalidInput(what, rule="predecessors must come first")
        seen[task] = True
    for variable, machine in enumerate(bound.tolist()):
        what = f"{graph.variables[variable]!r} is bound to machine number {machine}"
        if machine >= len(instance.machines):
            return InvalidInput(what, rule=f"there are {len(instance.machines)} machines")
        if instance.pinned.get(variable, machine) != machine:
            rule = f"it is pinned to number {instance.pinned[variable]}"
            return InvalidInput(what, rule=rule)
    for task, group in enumerate(instance.group.tolist()):
        machine = int(bound[graph.variable[task]])
        if group >= 0 and machine not in _machines_of_mode(instance.groups[group], modes, task):
            return _impossible_mode_error(instance, task, machine)
    raise AssertionError("the decoder refused a valid genome")


def _machines_of_mode(group: ModeGroup, modes: Indices | None, task: int) -> Indices:
    """Return the machine of a task's mode as an array of one entry; an empty array for an invalid mode.

    Without ``modes`` the machines of all modes of the group are returned.
    """
    return group.machine if modes is None else group.machine[int(modes[task]) :][:1]


def decode(
    instance: Instance,
    order: ArrayLike | None,
    bound: ArrayLike,
    modes: ArrayLike | None = None,
    *,
    rule: int = APPEND,
    seconds: ArrayLike | None = None,
) -> Schedule:
    """Return the schedule of one genome.

    Without an order tasks are taken by index; without modes each task takes its smallest node count.
    ``seconds`` replaces the estimates of compute tasks. Raises Infeasible if a task can never start.
    """
    genomes = _pack_genomes(instance, order, bound, modes, seconds, times=True)
    if genomes.number != 1:
        what = f"decode got {genomes.number} genomes"
        raise InvalidInput(what, rule="must be one genome; use decode_population for several")
    decoded, scratch = _run(instance, genomes, rule)
    assert decoded.start_s is not None
    assert decoded.finish_s is not None
    start, machine = decoded.start_s[0], genomes.bound[instance.graph.variable]
    if not np.isfinite(start).all():
        first = next(task for task in genomes.order.tolist() if not np.isfinite(start[task]))
        name, place = instance.graph.names[first], instance.machines[machine[first]].name
        raise Infeasible(f"{name} never fits on {place} beside its busy intervals")
    compute = instance.graph.kind == COMPUTE
    nodes = np.zeros(len(instance), dtype=np.uint32)
    nodes[compute] = compile_problem(instance).modes.nodes[scratch.mode[compute]]
    return make_schedule(instance, machine=machine, nodes=nodes, start_s=start, finish_s=decoded.finish_s[0])


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
    """Decode many genomes at once and return the results of all individuals.

    ``order``, ``bound`` and ``modes`` each have one row per individual, or a single row that all individuals
    share. With ``times`` start and finish of all tasks are returned; without ``priced`` node-seconds and cost
    are 0. If both are False and there are neither modes nor seconds, decoding is about twice as fast on
    machines that run one task at a time (see ``FastPath``).
    """
    plain = modes is None and seconds is None and not times and not priced
    if plain and (route := find_fast_path(instance, rule, order)) is not None:
        return _decode_fast_path(instance, route, order, bound)
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
    """Return genomes as arguments of the kernel, after checking the shapes of the arrays."""
    tasks, variables = len(instance), len(instance.graph.variables)
    bindings = check_rows("bound", bound, variables)
    orders = np.arange(tasks, dtype=np.uint32) if order is None else check_rows("order", order, tasks)
    few = len(instance.groups) * len(instance.machines) <= _MAX_CELLS
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
        raise InvalidInput(f"seconds is an array of shape {rows.shape}", rule=rule)
    wrong = ~((rows >= 0) & (rows < np.inf))
    if wrong.any():
        raise InvalidInput(f"seconds contains {rows[wrong][0]}", rule="must be finite and not negative")
    return rows


def _default_modes(instance: Instance) -> Indices:
    """Return a flat table (groups x machines) of the mode with the smallest node count.

    The number of all modes stands for a machine on which the group has no mode.
    """
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
    skylines = _count_skylines(problem, rule)
    makespan, node_seconds, cost = np.zeros(number), np.zeros(number), np.zeros(number)
    start, finish = np.zeros(rows * tasks.number), np.zeros(rows * tasks.number)
    m, resources = problem.machines.number, problem.machines.resources
    scratch = make_arrays(DecoderScratch, tasks.number, free=m, steps=m, taken=resources, least=resources)
    wrong = compilation.run_kernel(
        decode_kernel,
        (problem, rule, skylines, genomes, _lines(problem, skylines)),
        (scratch, makespan, node_seconds, cost, start, finish),
        work_s=number
        * (
            tasks.number * (_TASK_S + skylines * _LINE_S)
            + len(tasks.before) * _EDGE_S
            + skylines * m * _MACHINE_S
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


def _lines(problem: kernel.ProblemArrays, skylines: int) -> Skylines:
    machines, resources = problem.machines.number, problem.machines.resources
    steps = skylines * (machines + 2 * (problem.tasks.number + len(problem.busy_machine)))
    lines = skylines * machines
    return make_arrays(Skylines, steps, resources=resources, first=lines, last=lines, left=steps * resources)


def _invalid_genome_error(instance: Instance, genomes: Genomes, individual: int) -> Exception:
    def row(array: Indices, step: int, width: int) -> Indices:
        return array[individual * step : individual * step + width]

    tasks = len(instance)
    order = row(genomes.order, genomes.order_step, tasks)
    bound = row(genomes.bound, genomes.bound_step, len(instance.graph.variables))
    modes = row(genomes.mode, genomes.mode_step, tasks) if genomes.chosen else None
    return _explain_invalid_genome(instance, order, bound, modes)


class FastPath(NamedTuple):
    """The arguments of the fast decoder, which returns the makespans of bindings and nothing else.

    The fast decoder handles the problem of docs/papers/dynamic-grid.md, section 6. It applies under these
    conditions: all tasks are virtual tasks, or compute tasks whose seconds are work divided by machine speed;
    a machine runs either one task at a time or any number; every busy interval starts at time 0 and occupies
    a whole machine; all individuals have the same order of tasks. ``fixed``, ``files`` and ``latency`` are
    None if transfers take neither fixed seconds nor latency.
    """

    course: BindingProblem
    fixed: Floats | None
    files: Floats | None
    latency: Floats | None


_fast_path_cache: WeakKeyDictionary[Instance, dict[tuple[int, bytes], FastPath | None]] = WeakKeyDictionary()


def _count_skylines(problem: kernel.ProblemArrays, rule: int) -> int:
    """Return the number of skylines that the decoder needs per machine under a rule: 0, 1 or 2."""
    if rule not in (APPEND, INSERTION, EXCLUSIVE, UNLIMITED):
        raise InvalidInput(f"the decoder rule is {rule}", rule="must be from 0 (APPEND) to 3 (UNLIMITED)")
    busy, shared = len(problem.busy_machine) > 0, bool((problem.machines.form == kernel.SHARED).any())
    if rule == APPEND:
        return (2 if busy else 1) if shared else 0
    return int(rule == INSERTION or (rule == EXCLUSIVE and busy))


def find_fast_path(instance: Instance, rule: int, order: ArrayLike | None) -> FastPath | None:
    """Return the arguments of the fast decoder for a rule and an order; None if it does not apply."""
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
    course = select_fields(
        BindingProblem,
        machines,
        tasks=tasks.number,
        machines=machines.number,
        variable=tasks.variable[order],
        earliest=tasks.earliest[order],
        pointer=pointer,
        before=before,
        size=tasks.size[edge],
        alone=alone.astype(np.uint8),
        release=release,
        # Virtual tasks take 0 s, whatever their work.
        work=np.where(tasks.kind == kernel.COMPUTE, modes.work, 0.0)[order],
        row=modes.group[order] * np.uint32(machines.number),
        rate=rates.reshape(-1),
    )
    if tasks.fixed.any() or (tasks.files.any() and machines.latency.any()):
        return FastPath(course, tasks.fixed[edge], tasks.files[edge], machines.latency)
    return FastPath(course, None, None, None)


def _release(problem: kernel.ProblemArrays, rule: int) -> Floats | None:
    """Return the time from which each machine stays free of busy intervals; None if skylines are needed.

    Under the rules that fill no gaps, a machine of one node that is busy from time 0 to t without a break
    behaves like a machine whose first task ends at t.
    """
    machines = problem.machines
    release = np.zeros(machines.number)
    if _count_skylines(problem, rule) == 0:
        # Nothing is busy, or busy intervals delay no task.
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
    for interval in np.argsort(problem.busy_start, kind="stable").tolist():
        machine, start_s = problem.busy_machine[interval], problem.busy_start[interval]
        if problem.busy_seconds[interval] > 0.0:
            if start_s > release[machine]:
                return None
            release[machine] = max(release[machine], start_s + problem.busy_seconds[interval])
    return release


def _rates(instance: Instance, problem: kernel.ProblemArrays) -> Floats | None:
    """Return a table (groups x machines): the rate of the mode with the smallest count; -1 if there is none.

    The last row is for tasks without a group, which take 0 s anywhere. Return None if speed-ups differ from 1
    or the table would be too large.
    """
    modes = problem.modes
    if (modes.groups + 1) * len(instance.machines) > _MAX_CELLS:
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
    """Return pointers, predecessors and edge indices (CSR) of the tasks renumbered by ``order``.

    Return None if ``order`` is not a topological order of all tasks.
    """
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


def _decode_fast_path(
    instance: Instance, route: FastPath, order: ArrayLike | None, bound: ArrayLike
) -> DecodedPopulation:
    """Return the makespans of bindings (one row, or individuals x variables); node-seconds and cost are 0."""
    tasks, machines = route.course.tasks, route.course.machines
    bounds = check_rows("bound", bound, len(instance.graph.variables))
    number = count_individuals(bounds)
    makespan = np.zeros(number)
    violation = _first_pin_violation(instance, bounds)
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
    if (wrong := min(wrong, violation)) < number:
        turns = np.arange(tasks, dtype=np.uint32) if order is None else check_rows("order", order, tasks)
        raise _explain_invalid_genome(instance, turns, bounds[wrong] if bounds.ndim == 2 else bounds, None)
    nothing = np.zeros(number)
    return DecodedPopulation(
        makespan_s=makespan, node_seconds=nothing, cost=nothing, start_s=None, finish_s=None
    )


def _first_pin_violation(instance: Instance, bounds: Indices) -> int:
    """Return the first individual that violates a pin; the number of individuals if there is none."""
    rows = np.atleast_2d(bounds)
    if instance.pinned:
        kept = (rows[:, list(instance.pinned)] == list(instance.pinned.values())).all(axis=1)
        if not kept.all():
            return int(np.argmin(kept))
    return len(rows)
