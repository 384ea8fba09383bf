"""Placing: let the placement kernel put the tasks of an instance one after another, and give the schedule.

Selecting: let the selection kernel place the ready task that a rule prefers, and give the schedule.
"""

from __future__ import annotations

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.arrivals import Arrivals
from weft.kernels.heft import place_earliest_finish
from weft.kernels.placement import APPENDED, FINISH, PartialSchedule, PlacementRule, place_in_order
from weft.kernels.problem import CLASSES, COMPUTE, RELATED, SHARED, TABLE, ProblemArrays
from weft.kernels.selection import LEAST, SelectionQueue, SelectionRule
from weft.kernels.selection import place_by_selection as select_kernel
from weft.kernels.timelines import INITIAL_GAPS, Gaps, Timelines
from weft.planners.planner import Unsupported
from weft.planners.problem import compile_problem
from weft.planners.ranks import link_equal_tasks, static_levels
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats, Indices

__all__ = [
    "FRUGAL",
    "append_rule",
    "check_evaluation_count",
    "estimate_python_s",
    "make_rule",
    "make_scratch",
    "place",
    "read_board",
    "select",
]


_TASK_S, _MODE_S = 8e-6, 0.35e-6
"""What one task and one mode of it take in plain Python, about."""


def place(
    instance: Instance,
    order: Indices,
    *,
    rule: PlacementRule | None = None,
    bound: Indices | None = None,
    problem: ProblemArrays | None = None,
) -> Schedule:
    """Place all tasks in an order in which predecessors come first.

    ``bound`` gives the machines of variables that are decided (the number of machines: not decided); pins
    count in any case. ``problem`` replaces that of the instance, where tasks may not take all their modes.
    """
    problem = compile_problem(instance) if problem is None else problem
    lines, arrivals, board = make_scratch(problem, bound)
    work_s = estimate_python_s(problem)
    rule = rule or make_rule()
    if _is_plain(problem, rule):
        stuck = compilation.run_kernel(
            place_earliest_finish, (problem, order), (lines, arrivals, board), work_s=work_s
        )
    else:
        stuck = compilation.run_kernel(
            place_in_order, (problem, rule, order), (lines, arrivals, board), work_s=work_s
        )
    return read_board(instance, board, stuck)


def _is_plain(problem: ProblemArrays, rule: PlacementRule) -> bool:
    """Say whether the fast kernel serves: earliest finish, one count per task, one task at a time."""
    finish_alone = not (rule.criterion or rule.place or rule.price_weight or rule.weighs or rule.counts)
    simple = problem.tasks.transfers == 0 and not (problem.machines.form == SHARED).any()
    return finish_alone and simple and not problem.modes.moldable.any()


def estimate_python_s(problem: ProblemArrays) -> float:
    """Estimate what placing all tasks once takes in plain Python."""
    tasks, modes = problem.tasks.number, problem.modes
    widths = np.diff(modes.first.astype(np.int64))
    looked_at = float(widths.mean()) if len(widths) else 0.0
    return tasks * (_TASK_S + _MODE_S * (looked_at + problem.machines.locations))


def make_rule(
    *,
    criterion: int = FINISH,
    place: int = 0,
    factor: float = 1.0,
    price_weight: float = 0.0,
    extra: Floats | None = None,
    only_count: Indices | None = None,
) -> PlacementRule:
    """Say how modes are chosen; by default the earliest finish, into gaps."""
    return PlacementRule(
        criterion=criterion,
        place=place,
        factor=factor,
        price_weight=price_weight,
        weighs=int(extra is not None),
        extra=np.zeros(0) if extra is None else extra.reshape(-1),
        counts=int(only_count is not None),
        only_count=np.zeros(0, dtype=np.uint32) if only_count is None else only_count,
    )


def make_scratch(
    problem: ProblemArrays, bound: Indices | None = None
) -> tuple[Timelines, Arrivals, PartialSchedule]:
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
    lines = Timelines(
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
    board = PartialSchedule(
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
    positions = INITIAL_GAPS * machines + 4 * stretches
    return Gaps(
        base=np.zeros(machines, dtype=np.int64),
        count=np.zeros(machines, dtype=np.int64),
        capacity=np.zeros(machines, dtype=np.int64),
        reach=np.zeros(machines),
        hint=np.zeros(machines, dtype=np.int64),
        used=np.zeros(1, dtype=np.int64),
        start=np.empty(positions),
        end=np.empty(positions),
        widest=np.empty(positions),
    )


def _indices(number: int) -> Indices:
    return np.zeros(number, dtype=np.uint32)


def read_board(instance: Instance, board: PartialSchedule, stuck: int) -> Schedule:
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


FRUGAL = 1.05
"""A moldable task gives up nodes as long as it ends within this factor of its earliest finish."""
_EVALUATIONS_PER_TASK = 4
"""How often a task is looked at before it is placed, about."""
_MAX_EVALUATIONS = 3e8
"""So many take some minutes."""


def append_rule(instance: Instance) -> int:
    """Say where tasks are placed that do not look for gaps: behind all others of their machine.

    Not so where something else holds machines for a time: everything would wait until it is over.
    """
    return 0 if instance.busy else APPENDED


def check_evaluation_count(who: str, instance: Instance) -> Unsupported | None:
    """Refuse instances for which looking at every ready task before each placement takes many minutes.

    Tasks that are equally far from the end are taken to be ready together.
    """
    number = len(instance)
    nothing, unit = np.zeros(number), np.ones(number)
    first = np.ones(number + 1)
    first[link_equal_tasks(instance, nothing, np.arange(number, dtype=np.uint32))] = 0.0
    far = static_levels(instance, unit).astype(np.int64)
    looks = float(np.bincount(far) @ np.bincount(far, weights=first[:-1]))
    if looks <= _MAX_EVALUATIONS:
        return None
    return Unsupported(reason=f"{who} would look at tasks {looks:.1g} times, at most {_MAX_EVALUATIONS:.1g}")


def select(
    instance: Instance,
    *,
    criterion: int = FINISH,
    sense: int = LEAST,
    offset: Floats | None = None,
    rank: Indices | None = None,
) -> Schedule:
    """Place all tasks, always the ready one that is preferred (see ``SelectionRule``); by default the
    first to end.
    """
    problem = compile_problem(instance)
    number = problem.tasks.number
    offset = np.zeros(number) if offset is None else offset
    rank = np.arange(number, dtype=np.uint32) if rank is None else rank
    wish = SelectionRule(
        criterion=criterion,
        sense=sense,
        offset=offset,
        rank=rank,
        following=link_equal_tasks(instance, offset, rank),
        paced=int(criterion != FINISH and not instance.busy and not _may_take_no_time(problem)),
    )
    # What starts as soon as possible takes the nodes that are free then.
    rule = make_rule(place=append_rule(instance), factor=FRUGAL if criterion == FINISH else 1.0)
    lines, arrivals, board = make_scratch(problem)
    stuck = compilation.run_kernel(
        select_kernel,
        (problem, rule, wish, _make_ready_state(problem)),
        (lines, arrivals, board),
        work_s=_EVALUATIONS_PER_TASK * estimate_python_s(problem),
    )
    return read_board(instance, board, stuck)


def _may_take_no_time(problem: ProblemArrays) -> bool:
    """Say whether some compute task may take no time, so that it starts on machines that are not free."""
    modes, compute = problem.modes, problem.tasks.kind == COMPUTE
    spent = {RELATED: modes.work[compute], CLASSES: modes.rate, TABLE: modes.cell}
    return not bool(spent[modes.layout].all())


def _make_ready_state(problem: ProblemArrays) -> SelectionQueue:
    number, machines = problem.tasks.number, problem.machines.number

    def indices() -> Indices:
        return np.zeros(number, dtype=np.uint32)

    return SelectionQueue(
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
