"""HEFT for moldable tasks: node counts of a least parallel efficiency, then plans with earlier due dates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible, InvalidInput
from weft.instance.instance import Instance, ModeGroup
from weft.kernels.moldable_placement import place_tasks_by_due_date
from weft.kernels.problem import ProblemArrays
from weft.planners.cpa import plan_allotment, restrict_to_counts
from weft.planners.list_planner import make_rule, place_tasks, run_placement
from weft.planners.planner import BasePlanner, Plan, PlanRequest, Unsupported
from weft.planners.problem import compile_problem, restrict_modes, restrict_to_best_modes, split_by_modes
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.schedule.costs import relative_prices, schedule_cost
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

_SECOND_EFFICIENCY = 0.8
"""Least parallel efficiency of node counts in a second plan; the first uses the option ``efficiency``."""
_TOLERANCE = 0.05
"""In plain HEFT a task takes the fewest nodes with which it ends within this share of its earliest finish."""
_TIGHTER = (0.85, 0.92, 0.96, 0.98, 0.99)
"""Due dates as shares of the latest finishes; small shares come first, since their success saves steps."""
_LOOSER = (8.0, 4.0, 2.0, 1.4, 1.15)
_WEIGHTS = (8.0, 32.0, 128.0)
"""Weights of a plan's charge (nodes x seconds x price) against its makespan, used to build cheaper plans."""
_GAIN = 1e-3
"""Least relative improvement of a plan after which the same share of due dates is tried again."""
_TIGHTENED_PLANS = 2
"""Number of plans whose due dates are tightened, best plans first."""
_ROUNDING = 1e-9
"""Relative tolerance in comparisons with a limit or a least efficiency, for rounding errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeftMoldable(BasePlanner):
    """Places moldable tasks as HEFT does, with node counts chosen by parallel efficiency and due dates.

    The order is that of HEFT (H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002). In the first plan
    every task ends as early as possible with a node count of at least the given parallel efficiency. Further
    plans are plain HEFT, a plan with another least efficiency, and a plan with the node counts of CPA. Then
    the due dates of the best plans are tightened: every task gets a due date, a share of its latest finish in
    the plan. It takes the mode with the least node-seconds, weighted by machine speed, that ends by the due
    date, or else the mode that ends first. This is repeated from the new plan while plans improve. If cost
    counts, plans of cheap modes are added, due dates are first extended, and a mode is charged its price
    instead of its node-seconds. The best plan by limits and objective is returned.

    Deviations: only the order is published. With ``efficiency=0`` and a budget of one step the plan is that
    of HEFT with the node count that ends first.

    Complexity: that of HEFT with k modes per task, times 15 to 45 steps, or fewer if the budget is smaller.
    """

    name = "heft-moldable"
    title = "HEFT with node counts by efficiency and due dates, for moldable tasks"
    label = "HEFT for moldable tasks"

    efficiency: float = 0.5
    """Least parallel efficiency of node counts in the first plan, relative to the task's smallest count."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.efficiency <= 1.0:
            what = f"heft-moldable:efficiency={self.efficiency:g}"
            raise InvalidInput(what, rule="must be from 0 (any node count) to 1 (no loss)")

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Refuse budgets that a plan could exceed; support makespan, cost and weighted sums of both only."""
        if objective.name == "cost" or objective.has_alpha:
            return self.check(instance)
        return BasePlanner.supports(self, instance, objective)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best of several simple plans and of the plans built by tightening due dates."""
        instance, objective = request.instance, request.objective
        order = order_by_rank(upward_ranks(instance))
        moldable = bool(compile_problem(instance).modes.moldable.any())
        trials = _ScheduleTrials(request)
        for make in self._simple_plans(instance, order, moldable=moldable):
            trials.attempt(make)
        if objective.name == "cost" or objective.has_alpha or objective.max_cost is not None:
            prices = relative_prices(instance) if objective.has_alpha else instance.price_per_node_s
            priced = _with_prices(instance, prices)
            for make in _cheap_plans(trials, priced, order):
                trials.attempt(make)
            # Without a deadline no plan is cheaper than the one of the cheapest modes.
            if objective.name != "cost" or objective.deadline_s is not None:
                _tighten_best(trials, priced, order, (*_LOOSER, *_TIGHTER))
        if objective.is_makespan and moldable:
            _tighten_best(trials, _with_prices(instance, _relative_speeds(instance)), order, _TIGHTER)
        return trials.plan()

    def _simple_plans(
        self, instance: Instance, order: Indices, *, moldable: bool
    ) -> Iterator[Callable[[], Schedule]]:
        """Yield functions without arguments, each of which builds one of the first plans."""
        if moldable:
            yield partial(_efficient_plan, instance, order, self.efficiency)
        yield partial(place_tasks, instance, order, rule=make_rule(factor=1.0 + _TOLERANCE))
        if moldable:
            yield partial(_cpa_plan, instance)
            yield partial(_efficient_plan, instance, order, _SECOND_EFFICIENCY)


class _ScoredSchedule(NamedTuple):
    score: tuple[float, float]
    """Total relative excess of the limits, then the objective value; lower is better."""
    schedule: Schedule


class _ScheduleTrials:
    """The schedules that a planner has built so far within its budget."""

    def __init__(self, request: PlanRequest) -> None:
        self.instance = request.instance
        self.objective = request.objective
        self.budget = request.budget
        self.steps = 0
        self.found: list[_ScoredSchedule] = []
        """All schedules with their scores, in the order in which they were built."""

    def attempt(self, make: Callable[[], Schedule]) -> _ScoredSchedule | None:
        """Return the schedule built by ``make``; None if the budget is spent or no schedule is feasible.

        The first schedule is built even if the budget is spent; if ``make`` then raises Infeasible, so does
        this method.
        """
        if self.found and not self.budget.allows(self.steps):
            return None
        self.steps += 1
        try:
            schedule = make()
        except Infeasible:
            if not self.found:
                raise
            return None
        trial = _ScoredSchedule(score=self._score(schedule), schedule=schedule)
        self.found.append(trial)
        return trial

    @property
    def best(self) -> _ScoredSchedule:
        """Return the schedule with the lowest score; of equal scores the one built first."""
        return min(self.found, key=lambda trial: trial.score)

    def plan(self) -> Plan:
        """Return the best schedule as a plan."""
        spent = not self.budget.allows(self.steps)
        by_clock = spent and (self.budget.steps is None or self.steps < self.budget.steps)
        return Plan(schedule=self.best.schedule, steps=self.steps, cut=by_clock)

    def _score(self, schedule: Schedule) -> tuple[float, float]:
        objective, excess = self.objective, 0.0
        if objective.deadline_s is not None:
            excess += _excess(schedule.makespan_s, objective.deadline_s)
        if objective.max_cost is not None:
            excess += _excess(schedule_cost(schedule, self.instance), objective.max_cost)
        value = objective.value(schedule, self.instance)
        return excess, value if objective.sense == "minimise" else -value


def _excess(amount: float, limit: float) -> float:
    """Return the part of an amount above its limit, as a share of the amount; 0 if within the limit."""
    return 0.0 if amount <= limit * (1 + _ROUNDING) else 1.0 - limit / amount


def _relative_speeds(instance: Instance) -> Floats:
    """Return the speed of each machine relative to the fastest machine, averaged over the mode groups."""
    speed, groups = np.zeros(len(instance.machines)), np.zeros(len(instance.machines))
    for group in instance.groups:
        machine, first = np.unique(group.machine, return_index=True)
        seconds = sum(spent[:, first].sum(axis=0) for _, spent in group.chunks())
        groups[machine] += 1.0
        speed[machine] += np.divide(np.min(seconds), seconds, out=np.ones(len(first)), where=seconds > 0)
    return np.divide(speed, groups, out=np.ones(len(speed)), where=groups > 0)


def _with_prices(instance: Instance, prices: Floats) -> ProblemArrays:
    problem = compile_problem(instance)
    return problem._replace(machines=problem.machines._replace(price=prices))


def _efficient_plan(instance: Instance, order: Indices, least: float) -> Schedule:
    return place_tasks(instance, order, problem=restrict_to_efficient(instance, least))


def _cpa_plan(instance: Instance) -> Schedule:
    allotment = plan_allotment(instance)
    problem = restrict_to_counts(instance, allotment.counts)
    return place_tasks(instance, order_by_rank(allotment.bottom_s), problem=problem)


def _cheapest_plan(instance: Instance, order: Indices, prices: Floats) -> Schedule:
    return place_tasks(instance, order, problem=restrict_to_best_modes(instance, prices))


def _cheap_plans(
    trials: _ScheduleTrials, problem: ProblemArrays, order: Indices
) -> Iterator[Callable[[], Schedule]]:
    """Yield functions that build cheaper but longer plans, and one that builds the plan of least charge.

    The charge of a plan is the sum of nodes x seconds x price over all tasks.
    """
    instance, schedule, prices = trials.instance, trials.found[0].schedule, problem.machines.price
    node_s = (schedule.finish_s - schedule.start_s) * schedule.nodes
    charge = float((node_s * prices[schedule.machine]).sum())
    for weight in _WEIGHTS if charge > 0 else ():
        rule = make_rule(price_weight=weight * schedule.makespan_s / charge)
        yield partial(place_tasks, instance, order, rule=rule, problem=problem)
    yield partial(_cheapest_plan, instance, order, prices)


def _tighten_best(
    trials: _ScheduleTrials, problem: ProblemArrays, order: Indices, shares: tuple[float, ...]
) -> None:
    """Build further plans by tightening the due dates of the best plans so far."""
    for start in sorted(trials.found, key=lambda trial: trial.score)[:_TIGHTENED_PLANS]:
        _tighten(trials, start, problem, order, (*_share_to_deadline(start, trials.objective), *shares))


def _share_to_deadline(start: _ScoredSchedule, objective: Objective) -> tuple[float, ...]:
    """Return (deadline / makespan,), the factor that moves due dates to the deadline; () if there is none."""
    makespan_s = start.schedule.makespan_s
    return () if objective.deadline_s is None or makespan_s <= 0 else (objective.deadline_s / makespan_s,)


def _tighten(
    trials: _ScheduleTrials,
    start: _ScoredSchedule,
    problem: ProblemArrays,
    order: Indices,
    shares: tuple[float, ...],
) -> None:
    """Build plans whose due dates are shares of the latest finishes in the best plan so far.

    A share is used again while plans improve.
    """
    instance, best = trials.instance, start
    latest_s = latest_finish_s(best.schedule, instance)
    for share in shares:
        repeat = True
        while repeat:
            made = trials.attempt(partial(schedule_by_due_date, instance, problem, order, share * latest_s))
            repeat = False
            if made is not None and made.score < best.score:
                repeat = _gains(made, best)
                best, latest_s = made, latest_finish_s(made.schedule, instance)


def _gains(made: _ScoredSchedule, before: _ScoredSchedule) -> bool:
    """Return whether ``made`` is so much better than ``before`` that the same share is tried again."""
    changes = zip(made.score, before.score, strict=True)
    return any(old - new > _GAIN * abs(old) for new, old in changes)


def schedule_by_due_date(
    instance: Instance, problem: ProblemArrays, order: Indices, due_s: Floats
) -> Schedule:
    """Place tasks in the mode of least charge that ends by their due date, else in the mode that ends first.

    A mode is charged its node-seconds times the price of its machine in ``problem``.
    """
    return run_placement(instance, place_tasks_by_due_date, (problem, due_s, order))


def latest_finish_s(schedule: Schedule, instance: Instance) -> Floats:
    """Return for each task the latest finish that delays neither a later compute task nor the makespan."""
    graph = instance.graph
    latest = np.full(len(graph), schedule.makespan_s)
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    transfer_s = _edge_seconds(schedule, instance, target)
    # Transfers and virtual tasks occupy no nodes: their latest start follows from their successors.
    start = schedule.start_s.copy()
    for task in np.flatnonzero(graph.kind != COMPUTE)[::-1].tolist():
        own = slice(int(graph.successor_pointer[task]), int(graph.successor_pointer[task + 1]))
        after, edges = graph.successor[own], graph.successor_edge[own]
        end = float((start[after] - transfer_s[edges]).min(initial=schedule.makespan_s))
        start[task] = end - float(schedule.finish_s[task] - schedule.start_s[task])
    np.minimum.at(latest, graph.predecessor, start[target] - transfer_s)
    return latest


def _edge_seconds(schedule: Schedule, instance: Instance, target: NDArray[np.integer]) -> Floats:
    """Return the transfer seconds of every edge between the machines of a schedule."""
    graph, network = instance.graph, instance.network
    if len(network.host) == 1:
        return np.zeros(graph.edge_count)
    bound = np.append(instance.bind_variables(schedule.machine), 0)  # the last: tasks without a source
    # A transfer reads its data at its source.
    here = np.where(graph.kind == TRANSFER, bound[graph.source_variable], schedule.machine)[target]
    there = schedule.machine[graph.predecessor]
    link = network.location[there], network.location[here]
    seconds = graph.edge_seconds + graph.edge_files * network.latency_s[link]
    seconds = seconds + graph.edge_bytes * network.inverse_bandwidth[link]
    return np.where(network.host[there] == network.host[here], 0.0, seconds)


def restrict_to_efficient(instance: Instance, least: float) -> ProblemArrays:
    """Return the problem in which tasks keep only the modes with at least this parallel efficiency.

    The efficiency of a count R on a machine is r t(r) / (R t(R)) for the smallest count r allowed there, so
    at least one mode per machine remains.
    """
    parts = []
    for index, group in enumerate(instance.groups):
        for tasks, seconds in group.chunks():
            kept = _efficiency(group, seconds) >= least * (1 - _ROUNDING)
            parts.extend(split_by_modes(index, tasks, kept))
    return restrict_modes(compile_problem(instance), parts)


def _efficiency(group: ModeGroup, seconds: Floats) -> Floats:
    _, first, number = np.unique(group.machine, return_index=True, return_inverse=True)
    taken = seconds * group.count
    smallest = taken[:, first][:, number]
    # A task of 0 s has efficiency 1 with every count.
    return np.divide(smallest, taken, out=np.ones_like(taken), where=taken > 0)
