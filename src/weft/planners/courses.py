"""Courses: what decoding reads of an instance in the simplest case, that of S1 (spec s1 section 6).

All tasks are compute tasks whose seconds are work over the speed of a machine, or stand for data that are
somewhere; machines serve them one at a time, or any number at once; what is busy beforehand takes whole
machines from the begin on; and all individuals have one order. Then bindings give makespans very quickly.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels import problem as kernel
from weft.kernels.decoders.decoding import APPEND, EXCLUSIVE, INSERTION, UNLIMITED, Course, decode_in_turn
from weft.planners.genomes import Decoded, individuals_in, rows_of, step_of, wrong_genome
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["Route", "course_of", "lines_per_machine", "run_course"]

_TASK_S, _EDGE_S, _MACHINE_S = 0.6e-6, 0.25e-6, 0.03e-6
"""What a task, an edge and a machine take in plain Python, about."""
_MOST_CELLS = 4_000_000
"""Groups x machines up to which rates are kept in a table."""
_MOST_ORDERS = 4
"""How many orders of one instance are remembered."""


class Route(NamedTuple):
    """A course, and what data pay beside their size; None: nothing."""

    course: Course
    fixed: Floats | None
    files: Floats | None
    latency: Floats | None


_known: WeakKeyDictionary[Instance, dict[tuple[int, bytes], Route | None]] = WeakKeyDictionary()


def lines_per_machine(problem: kernel.Problem, rule: int) -> int:
    """Say how many lines each machine needs; none if all serve one task after the other, or any number."""
    if rule not in (APPEND, INSERTION, EXCLUSIVE, UNLIMITED):
        raise InvalidInput(Problem(what=f"rule {rule}", rule="must be a rule of the decoder"))
    busy, shared = len(problem.busy_machine) > 0, bool((problem.machines.form == kernel.SHARED).any())
    if rule == APPEND:
        return (2 if busy else 1) if shared else 0
    return int(rule == INSERTION or (rule == EXCLUSIVE and busy))


def course_of(instance: Instance, rule: int, order: ArrayLike | None) -> Route | None:
    """Give the course of an instance under a rule, in an order; None: it is not that simple."""
    turns = None if order is None else rows_of("order", order, len(instance))
    if turns is not None and turns.ndim > 1:
        return None
    routes = _known.setdefault(instance, {})
    key = (rule, b"" if turns is None else turns.tobytes())
    if key not in routes:
        if len(routes) >= _MOST_ORDERS:
            routes.clear()
        routes[key] = _make_route(instance, rule, turns)
    return routes[key]


def _make_route(instance: Instance, rule: int, turns: Indices | None) -> Route | None:
    problem = problem_of(instance)
    tasks, modes, machines = problem.tasks, problem.modes, problem.machines
    simple = modes.layout == kernel.RELATED and not bool((tasks.kind == kernel.TRANSFER).any())
    release = _release(problem, rule) if simple else None
    rates = None if release is None else _rates(instance, problem)
    order = np.arange(tasks.number, dtype=np.uint32) if turns is None else turns
    edges = _edges_in(tasks, order) if rates is not None else None
    if release is None or rates is None or edges is None:
        return None
    pointer, before, edge = edges
    alone = (machines.form != kernel.OPEN) & (rule != UNLIMITED)
    course = Course(
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
        return Route(course, tasks.fixed[edge], tasks.files[edge], machines.latency)
    return Route(course, None, None, None)


def _release(problem: kernel.Problem, rule: int) -> Floats | None:
    """Give when each machine is free for good; None: lines of what is free are needed.

    Under the rules that fill no gaps, a machine of one node that is busy without a break from 0 on is one
    whose first task ends then.
    """
    machines = problem.machines
    release = np.zeros(machines.number)
    if lines_per_machine(problem, rule) == 0:
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


def _rates(instance: Instance, problem: kernel.Problem) -> Floats | None:
    """Give groups x machines: the rate of the least count, below 0 for none; None: there is more to it.

    The last row is that of tasks without a group, which take no time anywhere.
    """
    modes = problem.modes
    if (modes.groups + 1) * len(instance.machines) > _MOST_CELLS:
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


def _edges_in(tasks: kernel.Tasks, order: Indices) -> tuple[Indices, Indices, NDArray[np.int64]] | None:
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


def run_course(instance: Instance, route: Route, order: ArrayLike | None, bound: ArrayLike) -> Decoded:
    """Give the makespans of bindings: one row, or individuals x variables."""
    tasks, machines = route.course.tasks, route.course.machines
    bounds = rows_of("bound", bound, len(instance.graph.variables))
    number = individuals_in(bounds)
    makespan = np.zeros(number)
    astray = _first_astray(instance, bounds)
    wrong = forms.run(
        decode_in_turn,
        (
            *route,
            number,
            bounds.reshape(-1),
            step_of(bounds),
            np.zeros(tasks, dtype=np.uint32),
            np.zeros(tasks, dtype=np.uint32),
            np.zeros(machines),
            np.zeros(tasks),
        ),
        (makespan,),
        work_s=number * (tasks * _TASK_S + len(route.course.before) * _EDGE_S + machines * _MACHINE_S),
    )
    wrong = min(wrong, astray)
    if wrong < number:
        turns = np.arange(tasks, dtype=np.uint32) if order is None else rows_of("order", order, tasks)
        raise wrong_genome(instance, turns, bounds[wrong] if bounds.ndim == 2 else bounds, None)
    nothing = np.zeros(number)
    return Decoded(makespan_s=makespan, node_seconds=nothing, cost=nothing, start_s=None, finish_s=None)


def _first_astray(instance: Instance, bounds: Indices) -> int:
    """Give the first individual that binds a pinned variable elsewhere; their number: none."""
    rows = np.atleast_2d(bounds)
    if instance.pinned:
        kept = (rows[:, list(instance.pinned)] == list(instance.pinned.values())).all(axis=1)
        if not kept.all():
            return int(np.argmin(kept))
    return len(rows)
