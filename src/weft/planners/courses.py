"""Courses: what decoding reads of an instance in the simplest case, that of S1 (spec s1 section 6).

All tasks are compute tasks whose seconds are work over the speed of a machine, and machines serve them one at
a time, or any number at once. Then a binding and an order give a makespan very quickly.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels import problem as kernel
from weft.kernels.decoding import APPEND, EXCLUSIVE, INSERTION, UNLIMITED, Course, decode_in_turn
from weft.planners.genomes import Decoded, individuals_in, rows_of, step_of, wrong_genome
from weft.planners.problem import problem_of
from weft.workflow.unfolding.task_graph import Floats

__all__ = ["Delayed", "course_of", "lines_per_machine", "run_course"]

_TASK_S, _EDGE_S = 1e-6, 0.3e-6
"""What a task and an edge take in plain Python, about."""
_MOST_CELLS = 4_000_000
"""Groups x machines up to which rates are kept in a table."""


class Delayed(NamedTuple):
    """A course, and what data pay beside their size; None: nothing."""

    course: Course
    fixed: Floats | None
    files: Floats | None
    latency: Floats | None


_known: WeakKeyDictionary[Instance, dict[int, Delayed | None]] = WeakKeyDictionary()


def lines_per_machine(problem: kernel.Problem, rule: int) -> int:
    """Say how many lines each machine needs; none if all serve one task after the other, or any number."""
    if rule not in (APPEND, INSERTION, EXCLUSIVE, UNLIMITED):
        raise InvalidInput(Problem(what=f"rule {rule}", rule="must be a rule of weft.kernels.decoding"))
    busy, shared = len(problem.busy_machine) > 0, bool((problem.machines.form == kernel.SHARED).any())
    if rule == APPEND:
        return (2 if busy else 1) if shared else 0
    return int(rule == INSERTION or (rule == EXCLUSIVE and busy))


def course_of(instance: Instance, rule: int) -> Delayed | None:
    """Give the course of an instance under a rule; None: it is not that simple. It is made once."""
    courses = _known.setdefault(instance, {})
    if rule not in courses:
        problem = problem_of(instance)
        simple = (
            problem.modes.layout == kernel.RELATED
            and bool((problem.tasks.kind == kernel.COMPUTE).all())
            and len(instance.groups) * len(instance.machines) <= _MOST_CELLS
            and lines_per_machine(problem, rule) == 0
        )
        rates = _rates(instance, problem) if simple else None
        courses[rule] = None if rates is None else _make_course(instance, problem, rule, rates)
    return courses[rule]


def _rates(instance: Instance, problem: kernel.Problem) -> Floats | None:
    """Give groups x machines: the rate of the least count, below 0 for none; None: there is more to it."""
    modes = problem.modes
    table = np.full((modes.groups, len(instance.machines)), -1.0)
    for row, group in enumerate(instance.groups):
        machine, first = np.unique(group.machine, return_index=True)
        mode = int(modes.first[row]) + first
        if (modes.gain[mode] != 1.0).any():
            return None
        table[row, machine] = modes.rate[mode]
    return None if instance.pinned else table


def _make_course(instance: Instance, problem: kernel.Problem, rule: int, rates: Floats) -> Delayed:
    tasks, machines = problem.tasks, problem.machines
    alone = (machines.form != kernel.OPEN) & (rule != UNLIMITED)
    course = Course(
        tasks=tasks.number,
        machines=machines.number,
        locations=machines.locations,
        variable=tasks.variable,
        earliest=tasks.earliest,
        pointer=tasks.pointer,
        before=tasks.before,
        size=tasks.size,
        host=machines.host,
        location=machines.location,
        inverse=machines.inverse,
        alone=alone.astype(np.uint8),
        work=problem.modes.work,
        row=problem.modes.group * np.uint32(len(instance.machines)),
        rate=rates.reshape(-1),
    )
    if tasks.fixed.any() or (tasks.files.any() and machines.latency.any()):
        return Delayed(course, tasks.fixed, tasks.files, machines.latency)
    return Delayed(course, None, None, None)


def run_course(instance: Instance, delayed: Delayed, order: ArrayLike | None, bound: ArrayLike) -> Decoded:
    """Give the makespans of bindings: one row, or individuals x variables; likewise the order of tasks."""
    tasks, machines = delayed.course.tasks, delayed.course.machines
    bounds = rows_of("bound", bound, len(instance.graph.variables))
    orders = np.arange(tasks, dtype=np.uint32) if order is None else rows_of("order", order, tasks)
    number = individuals_in(bounds, orders)
    steps = step_of(orders), step_of(bounds)
    makespan = np.zeros(number)
    wrong = forms.run(
        decode_in_turn,
        (
            *delayed,
            number,
            orders.reshape(-1),
            steps[0],
            bounds.reshape(-1),
            steps[1],
            np.zeros(tasks, dtype=np.uint8),
            np.zeros(tasks, dtype=np.uint32),
            np.zeros(tasks, dtype=np.uint32),
            np.zeros(machines),
            np.zeros(tasks),
        ),
        (makespan,),
        work_s=number * (tasks * _TASK_S + len(delayed.course.before) * _EDGE_S),
    )
    if wrong < number:
        found = [rows[wrong] if rows.ndim == 2 else rows for rows in (orders, bounds)]
        raise wrong_genome(instance, found[0], found[1], None)
    nothing = np.zeros(number)
    return Decoded(makespan_s=makespan, node_seconds=nothing, cost=nothing, start_s=None, finish_s=None)
