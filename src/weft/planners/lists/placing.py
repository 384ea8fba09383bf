"""Placing: let the placement kernel put the tasks of an instance one after another, and give the schedule."""

from __future__ import annotations

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels.arrivals import Arrivals
from weft.kernels.choices import FINISH, Rule
from weft.kernels.gaps import FIRST_ROOM, Gaps
from weft.kernels.heft import place_singly
from weft.kernels.placement import Board, place_in_order
from weft.kernels.problem import SHARED, Problem
from weft.kernels.timelines import Lines
from weft.planners.problem import problem_of
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["place", "plain_seconds", "rule_of", "schedule_of", "scratch_of"]

_TASK_S, _MODE_S = 8e-6, 0.35e-6
"""What one task and one mode of it take in plain Python, about."""


def place(
    instance: Instance,
    order: Indices,
    *,
    rule: Rule | None = None,
    bound: Indices | None = None,
    problem: Problem | None = None,
) -> Schedule:
    """Place all tasks in an order in which predecessors come first.

    ``bound`` gives the machines of variables that are decided (the number of machines: not decided); pins
    count in any case. ``problem`` replaces that of the instance, where tasks may not take all their modes.
    """
    problem = problem_of(instance) if problem is None else problem
    lines, arrivals, board = scratch_of(problem, bound)
    work_s = plain_seconds(problem)
    rule = rule or rule_of()
    if _is_plain(problem, rule):
        stuck = forms.run(place_singly, (problem, order), (lines, arrivals, board), work_s=work_s)
    else:
        stuck = forms.run(place_in_order, (problem, rule, order), (lines, arrivals, board), work_s=work_s)
    return schedule_of(instance, board, stuck)


def _is_plain(problem: Problem, rule: Rule) -> bool:
    """Say whether the fast kernel serves: earliest finish, one count per task, one task at a time."""
    finish_alone = not (rule.criterion or rule.place or rule.price_weight or rule.weighs or rule.counts)
    simple = problem.tasks.transfers == 0 and not (problem.machines.form == SHARED).any()
    return finish_alone and simple and not problem.modes.moldable.any()


def plain_seconds(problem: Problem) -> float:
    """Estimate what placing all tasks once takes in plain Python."""
    tasks, modes = problem.tasks.number, problem.modes
    widths = np.diff(modes.first.astype(np.int64))
    looked_at = float(widths.mean()) if len(widths) else 0.0
    return tasks * (_TASK_S + _MODE_S * (looked_at + problem.machines.locations))


def rule_of(
    *,
    criterion: int = FINISH,
    place: int = 0,
    factor: float = 1.0,
    price_weight: float = 0.0,
    extra: Floats | None = None,
    only_count: Indices | None = None,
) -> Rule:
    """Say how modes are chosen; by default the earliest finish, into gaps."""
    return Rule(
        criterion=criterion,
        place=place,
        factor=factor,
        price_weight=price_weight,
        weighs=int(extra is not None),
        extra=np.zeros(0) if extra is None else extra.reshape(-1),
        counts=int(only_count is not None),
        only_count=np.zeros(0, dtype=np.uint32) if only_count is None else only_count,
    )


def scratch_of(problem: Problem, bound: Indices | None = None) -> tuple[Lines, Arrivals, Board]:
    """Make the empty boards for one schedule; nothing in them needs to be initialised but the bindings."""
    tasks, machines, modes = problem.tasks, problem.machines, problem.modes
    n, m, places = tasks.number, machines.number, machines.locations
    stretches = n + len(problem.busy_machine)
    # A stretch adds two steps at most.
    steps = m + 2 * stretches + 2 if (machines.form == SHARED).any() else m
    widest = int(np.diff(modes.first.astype(np.int64)).max(initial=0))
    degree = int(np.diff(tasks.pointer.astype(np.int64)).max(initial=0))
    bindings = tasks.pinned.copy()
    if bound is not None:
        free = bindings == m
        bindings[free] = bound[free]
    lines = Lines(
        no_step=steps,
        used=np.zeros(2, dtype=np.int64),
        free_from=np.zeros(m),
        gaps=_no_gaps(m, stretches),
        last_step=_indices(m),
        near_step=_indices(m),
        step_time=np.zeros(steps),
        step_nodes=np.zeros(steps, dtype=np.int64),
        step_amount=np.zeros(steps * machines.resources),
        step_before=_indices(steps),
        step_after=_indices(steps),
    )
    arrivals = Arrivals(
        latest=np.zeros(places),
        second=np.zeros(places),
        sender=_indices(places),
        home=_indices(degree + 1),
        is_home=_indices(machines.hosts),
        at_home=np.zeros(machines.hosts),
        turn=_indices(1),
    )
    board = Board(
        machine=_indices(n),
        nodes=np.zeros(n, dtype=np.int64),
        start=np.zeros(n),
        finish=np.zeros(n),
        mode=_indices(n),
        bound=bindings,
        waiting=_indices(tasks.variables),
        next_waiting=_indices(n),
        departure=np.zeros(n if tasks.transfers else 0),
        mode_start=np.zeros(widest),
        mode_finish=np.zeros(widest),
    )
    return lines, arrivals, board


def _no_gaps(machines: int, stretches: int) -> Gaps:
    # A stretch makes one gap more at most; rooms left behind are together no longer than those in use, and
    # these are at least half full.
    positions = FIRST_ROOM * machines + 4 * stretches
    return Gaps(
        base=np.zeros(machines, dtype=np.int64),
        count=np.zeros(machines, dtype=np.int64),
        room=np.zeros(machines, dtype=np.int64),
        reach=np.zeros(machines),
        hint=np.zeros(machines, dtype=np.int64),
        used=np.zeros(1, dtype=np.int64),
        start=np.empty(positions),
        end=np.empty(positions),
        widest=np.empty(positions),
    )


def _indices(number: int) -> Indices:
    return np.zeros(number, dtype=np.uint32)


def schedule_of(instance: Instance, board: Board, stuck: int) -> Schedule:
    """Give the schedule on a board; Infeasible if a task was found that never fits."""
    if stuck < len(instance):
        name = instance.graph.names[stuck]
        raise Infeasible(f"{name} would never end on any machine that can run it")
    return Schedule(
        tasks=instance.graph.names,
        machines=tuple(machine.name for machine in instance.machines),
        machine=board.machine,
        nodes=board.nodes.astype(np.uint32),
        start_s=board.start,
        finish_s=board.finish,
    )
