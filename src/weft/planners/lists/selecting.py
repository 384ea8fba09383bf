"""Selecting: let the selection kernel place the ready task that a rule prefers, and give the schedule."""

from __future__ import annotations

import numpy as np

from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels.choices import APPENDED, FINISH
from weft.kernels.lists.selection import LEAST, Ready, Wish
from weft.kernels.lists.selection import select as select_kernel
from weft.kernels.problem import CLASSES, COMPUTE, RELATED, TABLE, Problem
from weft.planners.lists.likeness import next_alike
from weft.planners.lists.placing import plain_seconds, rule_of, schedule_of, scratch_of
from weft.planners.lists.priorities import static_levels
from weft.planners.planner import Unsupported
from weft.planners.problem import problem_of
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["FRUGAL", "appending", "looks_at_all", "select"]

FRUGAL = 1.05
"""A moldable task gives up nodes as long as it ends within this factor of its earliest finish."""
_LOOKS = 4
"""How often a task is looked at before it is placed, about."""
_MOST_LOOKS = 3e8
"""So many take some minutes."""


def appending(instance: Instance) -> int:
    """Say where tasks are placed that do not look for gaps: behind all others of their machine.

    Not so where something else holds machines for a time: everything would wait until it is over.
    """
    return 0 if instance.busy else APPENDED


def looks_at_all(who: str, instance: Instance) -> Unsupported | None:
    """Refuse instances for which looking at every ready task before each placement takes many minutes.

    Tasks that are equally far from the end are taken to be ready together.
    """
    number = len(instance)
    nothing, unit = np.zeros(number), np.ones(number)
    first = np.ones(number + 1)
    first[next_alike(instance, nothing, np.arange(number, dtype=np.uint32))] = 0.0
    far = static_levels(instance, unit).astype(np.int64)
    looks = float(np.bincount(far) @ np.bincount(far, weights=first[:-1]))
    if looks <= _MOST_LOOKS:
        return None
    return Unsupported(reason=f"{who} would look at tasks {looks:.1g} times, at most {_MOST_LOOKS:.1g}")


def select(
    instance: Instance,
    *,
    criterion: int = FINISH,
    sense: int = LEAST,
    offset: Floats | None = None,
    rank: Indices | None = None,
) -> Schedule:
    """Place all tasks, always the ready one that is preferred (see ``Wish``); by default the first to end."""
    problem = problem_of(instance)
    number = problem.tasks.number
    offset = np.zeros(number) if offset is None else offset
    rank = np.arange(number, dtype=np.uint32) if rank is None else rank
    wish = Wish(
        criterion=criterion,
        sense=sense,
        offset=offset,
        rank=rank,
        following=next_alike(instance, offset, rank),
        paced=int(criterion != FINISH and not instance.busy and not _has_nothing_to_do(problem)),
    )
    # What starts as soon as possible takes the nodes that are free then.
    rule = rule_of(place=appending(instance), factor=FRUGAL if criterion == FINISH else 1.0)
    lines, arrivals, board = scratch_of(problem)
    stuck = forms.run(
        select_kernel,
        (problem, rule, wish, _nothing_ready(problem)),
        (lines, arrivals, board),
        work_s=_LOOKS * plain_seconds(problem),
    )
    return schedule_of(instance, board, stuck)


def _has_nothing_to_do(problem: Problem) -> bool:
    """Say whether some compute task may take no time, so that it starts on machines that are not free."""
    modes, compute = problem.modes, problem.tasks.kind == COMPUTE
    spent = {RELATED: modes.work[compute], CLASSES: modes.rate, TABLE: modes.cell}
    return not bool(spent[modes.layout].all())


def _nothing_ready(problem: Problem) -> Ready:
    number, machines = problem.tasks.number, problem.machines.number

    def indices() -> Indices:
        return np.zeros(number, dtype=np.uint32)

    return Ready(
        left=np.zeros(number, dtype=np.int64),
        queue=indices(),
        heap=indices(),
        due=indices(),
        equal=np.zeros(number),
        value=np.zeros(number),
        mode=indices(),
        start=np.zeros(number),
        other=indices(),
        seen=np.zeros(number, dtype=np.int64),
        seen_other=np.zeros(number, dtype=np.int64),
        seen_bound=indices(),
        taken=np.zeros(machines, dtype=np.int64),
    )
