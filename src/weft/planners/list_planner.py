"""Base class of the list planners, and functions that place tasks one after another with the kernels.

``place_tasks`` takes the tasks in a given order. ``select_tasks`` chooses the next task among all ready ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.kernels import compilation
from weft.kernels.arrivals import Arrivals
from weft.kernels.heft import place_earliest_finish
from weft.kernels.placement import APPENDED, FINISH, PartialSchedule, PlacementRule, Workspace, place_in_order
from weft.kernels.problem import CLASSES, COMPUTE, RELATED, SHARED, TABLE, ProblemArrays, make_arrays
from weft.kernels.selection import LEAST, SelectionQueue, SelectionRule, place_by_selection
from weft.kernels.timelines import INITIAL_GAPS, Gaps, Timelines
from weft.planners.planner import BasePlanner, Plan, PlanRequest, Unsupported
from weft.planners.problem import compile_problem, make_schedule
from weft.planners.ranks import link_equal_tasks, static_levels
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats, Indices

FRUGAL = 1.05
"""A moldable task takes the fewest nodes with which it ends within this factor of its earliest finish."""
_TASK_S, _MODE_S = 8e-6, 0.35e-6
"""Approximate seconds per task and per mode of a task in plain Python."""
_EVALUATIONS_PER_TASK = 4
"""Approximate number of evaluations of a task before it is placed."""
_MAX_EVALUATIONS = 3e8
"""Largest number of task evaluations; they take a few minutes."""


class ListPlanner(BasePlanner, ABC):
    """Base of planners that build one schedule, task by task, without a search.

    A subclass defines ``name``, ``title``, ``label`` and ``schedule``. If it needs random numbers, it
    overrides ``plan`` instead.

    Deviations from the papers that hold for all list planners: communication is averaged over pairs of
    *different* machines. Tasks of one abstract machine go to the machine of the first of them that is placed.
    An explicit transfer is placed together with the first task at its destination. Ties go to the lower index
    of task and machine. Heuristics without insertion use gaps if machines have busy intervals.

    Complexities are given for v tasks, e edges, d predecessors per task, l network locations, k evaluated
    modes per task, g gaps per machine, and s evaluations of ready tasks: at least v, usually a few per task,
    in the worst case v times the number of ready tasks.
    """

    def plan(self, request: PlanRequest) -> Plan:
        """Return the schedule of the heuristic as a plan of one step; budget and incumbent are ignored."""
        return Plan(schedule=self.schedule(request.instance), steps=1)

    @abstractmethod
    def schedule(self, instance: Instance) -> Schedule:
        """Return the schedule that the heuristic builds for an instance."""


def index_order(instance: Instance) -> Indices:
    """Return the indices of all tasks in ascending order, which is a topological order."""
    return np.arange(len(instance), dtype=np.uint32)


def place_tasks(
    instance: Instance,
    order: Indices,
    *,
    rule: PlacementRule | None = None,
    bound: Indices | None = None,
    problem: ProblemArrays | None = None,
) -> Schedule:
    """Return the schedule built by placing all tasks in a given topological order.

    Without a rule every task is placed where it finishes first, gaps included. ``bound`` gives the machine of
    each binding variable, or ``len(machines)`` if it is not yet bound; pinned variables keep their machine.
    ``problem`` replaces the arrays of the instance, for example with fewer modes.
    """
    problem = compile_problem(instance) if problem is None else problem
    rule = rule or make_rule()
    if _is_simple(problem, rule):
        return run_placement(instance, place_earliest_finish, (problem, order), bound=bound)
    return run_placement(instance, place_in_order, (problem, rule, order), bound=bound)


def run_placement(
    instance: Instance,
    kernel: Any,
    inputs: tuple[Any, ...],
    *,
    bound: Indices | None = None,
    work_s: float | None = None,
) -> Schedule:
    """Run a placement kernel and return its schedule.

    The first input is the ``ProblemArrays``. ``work_s`` is the estimated time of the kernel in plain Python;
    the default is the time to place every task once. Raises Infeasible if a task can never be placed.
    """
    problem: ProblemArrays = inputs[0]
    workspace = make_workspace(problem, bound)
    seconds = estimate_python_s(problem) if work_s is None else work_s
    stuck = compilation.run_kernel(kernel, inputs, (workspace,), work_s=seconds)
    return read_schedule(instance, workspace.schedule, stuck)


def _is_simple(problem: ProblemArrays, rule: PlacementRule) -> bool:
    """Return whether the fast kernel applies.

    It requires that tasks are placed by earliest finish and have one node count each, that no machine runs
    several tasks at a time with counted nodes, and that there are no transfer tasks.
    """
    finish_only = not (rule.criterion or rule.place or rule.price_weight or rule.weighs or rule.counts)
    serial = problem.tasks.transfers == 0 and not (problem.machines.form == SHARED).any()
    return finish_only and serial and not problem.modes.moldable.any()


def estimate_python_s(problem: ProblemArrays) -> float:
    """Return an estimate of the seconds that placing all tasks once takes in plain Python."""
    tasks, modes = problem.tasks.number, problem.modes
    widths = np.diff(modes.first.astype(np.int64))
    mean_modes = float(widths.mean()) if len(widths) else 0.0
    return tasks * (_TASK_S + _MODE_S * (mean_modes + problem.machines.locations))


def make_rule(
    *,
    criterion: int = FINISH,
    place: int = 0,
    factor: float = 1.0,
    price_weight: float = 0.0,
    extra: Floats | None = None,
    only_count: Indices | None = None,
) -> PlacementRule:
    """Return the rule by which kernels choose the mode of a task.

    By default a task gets the mode in which it ends first; gaps between placed tasks are used.
    """
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


def make_workspace(problem: ProblemArrays, bound: Indices | None = None) -> Workspace:
    """Return the arrays of one placement; the kernels initialise all of them except the bindings."""
    tasks, machines, modes = problem.tasks, problem.machines, problem.modes
    n, m, places = tasks.number, machines.number, machines.locations
    intervals = n + len(problem.busy_machine)
    # An interval adds at most two steps.
    steps = m + 2 * intervals + 2 if (machines.form == SHARED).any() else m
    widest = int(np.diff(modes.first.astype(np.int64)).max(initial=0))
    degree = int(np.diff(tasks.pointer.astype(np.int64)).max(initial=0))
    bindings = tasks.pinned.copy()
    if bound is not None:
        free = bindings == m
        bindings[free] = bound[free]
    # An interval adds at most one gap. A full list of gaps is copied to one of twice its length: the lists in
    # use are at least half full, and the abandoned lists together are no longer than those in use.
    positions = INITIAL_GAPS * m + 4 * intervals
    timelines = make_arrays(
        Timelines,
        steps,
        no_step=steps,
        used=2,
        free_from=m,
        gaps=make_arrays(Gaps, m, used=1, start=positions, end=positions, widest=positions),
        last_step=m,
        near_step=m,
        step_amount=steps * machines.resources,
    )
    hosts = machines.hosts
    arrivals = make_arrays(Arrivals, places, home=degree + 1, is_home=hosts, at_home=hosts, turn=1)
    schedule = make_arrays(
        PartialSchedule,
        n,
        bound=bindings,
        waiting=tasks.variables,
        departure=n if tasks.transfers else 0,
        mode_start=widest,
        mode_finish=widest,
    )
    return Workspace(timelines, arrivals, schedule)


def read_schedule(instance: Instance, board: PartialSchedule, stuck: int) -> Schedule:
    """Return the schedule that a kernel has built; raise Infeasible if task ``stuck`` was not placed."""
    if stuck < len(instance):
        name = instance.graph.names[stuck]
        advice = "check the work of the tasks, the speeds and the bandwidths"
        raise Infeasible(f"{name} cannot end at a finite time on any machine that can run it; {advice}")
    nodes = board.nodes.astype(np.uint32)
    return make_schedule(
        instance, machine=board.machine, nodes=nodes, start_s=board.start, finish_s=board.finish
    )


def append_rule(instance: Instance) -> int:
    """Return the placement rule of heuristics without insertion.

    Under this rule a task starts after all other tasks of its machine. If machines have busy intervals, the
    rule that uses gaps is returned instead; otherwise every task would wait until the last busy interval has
    ended.
    """
    return 0 if instance.busy else APPENDED


def check_evaluation_count(label: str, instance: Instance) -> Unsupported | None:
    """Return a refusal if evaluating all ready tasks before each placement takes many minutes, else None.

    Tasks at the same level are assumed to be ready together; of equal tasks only one is evaluated.
    """
    number = len(instance)
    first = np.ones(number + 1)
    first[link_equal_tasks(instance, np.zeros(number), index_order(instance))] = 0.0
    level = static_levels(instance, np.ones(number)).astype(np.int64)
    evaluations = float(np.bincount(level) @ np.bincount(level, weights=first[:-1]))
    if evaluations <= _MAX_EVALUATIONS:
        return None
    most = f"at most {_MAX_EVALUATIONS:.1g} evaluations are allowed"
    return Unsupported(reason=f"{label} would need {evaluations:.1g} evaluations of tasks; {most}")


def select_tasks(
    instance: Instance,
    *,
    criterion: int = FINISH,
    sense: int = LEAST,
    offset: Floats | None = None,
    rank: Indices | None = None,
) -> Schedule:
    """Return the schedule built by repeatedly placing the best ready task.

    By default the best task is the one with the earliest finish. If ``sense`` is LEAST, the ``offset`` of a
    task is subtracted from its criterion (start or finish). Among equally good tasks the one with the lower
    ``rank`` is placed; the default rank is the index.
    """
    problem = compile_problem(instance)
    offset = np.zeros(problem.tasks.number) if offset is None else offset
    rank = index_order(instance) if rank is None else rank
    selection = SelectionRule(
        criterion=criterion,
        sense=sense,
        offset=offset,
        rank=rank,
        following=link_equal_tasks(instance, offset, rank),
        paced=int(criterion != FINISH and not instance.busy and not _may_take_no_time(problem)),
    )
    # If the start counts, a task takes the nodes that are free at that time.
    rule = make_rule(place=append_rule(instance), factor=FRUGAL if criterion == FINISH else 1.0)
    ready = make_arrays(SelectionQueue, problem.tasks.number, taken=problem.machines.number)
    return run_placement(
        instance,
        place_by_selection,
        (problem, rule, selection, ready),
        work_s=_EVALUATIONS_PER_TASK * estimate_python_s(problem),
    )


def _may_take_no_time(problem: ProblemArrays) -> bool:
    """Return whether some compute task may take 0 s, so that it can start on a machine that is not free."""
    modes, compute = problem.modes, problem.tasks.kind == COMPUTE
    spent = {RELATED: modes.work[compute], CLASSES: modes.rate, TABLE: modes.cell}
    return not bool(spent[modes.layout].all())
