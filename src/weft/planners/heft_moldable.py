"""Due dates: when tasks must end so that those behind them can start when they do; placement by them.

Parallel efficiency: how well a task uses its nodes, and the problem without modes that use them badly.

The efficiency of a count R on a machine is r t(r) / (R t(R)), where r is the smallest count allowed there; so
some mode is left on every machine. The smallest count has efficiency 1.

Trials: schedules that a planner tries within its budget, judged by the objective and its limits.

HEFT for moldable tasks: node counts that use their nodes well, and due dates that are tightened.

The order is HEFT's (H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002). The first plan lets every
task end as early as it can with a node count of at least some parallel efficiency. Others follow: HEFT as
it is, other efficiencies, and the node counts of CPA. The best of them are then *squeezed*: every task gets
a due date, a share of how late it could end in that plan, and takes the mode of least node-seconds that
ends in time (else the one that ends first); while that makes the plan better it is done again, from the new
plan on. Where cost counts, due dates are first stretched, and the cheapest modes are tried; a mode is then
charged its price, not its node-seconds. The best plan by the objective is returned, first of all one that
keeps deadline and maximal cost.

Deviations: all of this is ours but the order. With ``efficiency=0`` and a budget of one step, it is HEFT
with the node count that ends first.

Complexity: that of HEFT with k modes per task for each step; 15 to 45 steps, fewer where the budget says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import Infeasible, InvalidInput, Problem
from weft.instance.instance import Instance, ModeGroup
from weft.kernels import compilation
from weft.kernels.moldable_placement import place_tasks_by_due_date
from weft.kernels.problem import ProblemArrays
from weft.kernels.problem import ProblemArrays as Arrays
from weft.planners.cpa import plan_allotment, restrict_to_counts
from weft.planners.list_planner import estimate_python_s, make_rule, make_scratch, place, read_board
from weft.planners.planner import Budget, Plan, Unsupported, check_makespan_only, check_no_budgets
from weft.planners.problem import compile_problem, restrict_modes, restrict_to_best_modes, split_by_modes
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.schedule.costs import relative_prices, schedule_cost
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import INLINE_POOL, Pool
from weft.workflow.task_graph import COMPUTE, TRANSFER, Floats, Indices

__all__ = [
    "HeftMoldable",
    "ScheduleTrials",
    "ScoredSchedule",
    "latest_finish_s",
    "restrict_to_efficient",
    "schedule_by_due_date",
]


def schedule_by_due_date(
    instance: Instance, problem: ProblemArrays, order: Indices, due_s: Floats
) -> Schedule:
    """Place tasks in the mode of least charge that ends by their due date, else in the one that ends first.

    A mode is charged its node-seconds times the price of its machine in ``problem``.
    """
    lines, arrivals, board = make_scratch(problem)
    stuck = compilation.run_kernel(
        place_tasks_by_due_date,
        (problem, due_s, order),
        (lines, arrivals, board),
        work_s=estimate_python_s(problem),
    )
    return read_board(instance, board, stuck)


def latest_finish_s(schedule: Schedule, instance: Instance) -> Floats:
    """Give per task how late it could end with all compute tasks behind it where and when they are."""
    graph = instance.graph
    latest = np.full(len(graph), schedule.makespan_s)
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    moving = _edge_seconds(schedule, instance, target)
    # Transfers and virtual tasks start when they can; how late they could is known from the last one on.
    start = schedule.start_s.copy()
    for task in np.flatnonzero(graph.kind != COMPUTE)[::-1].tolist():
        behind = slice(int(graph.successor_pointer[task]), int(graph.successor_pointer[task + 1]))
        after, edges = graph.successor[behind], graph.successor_edge[behind]
        end = float((start[after] - moving[edges]).min(initial=schedule.makespan_s))
        start[task] = end - float(schedule.finish_s[task] - schedule.start_s[task])
    np.minimum.at(latest, graph.predecessor, start[target] - moving)
    return latest


def _edge_seconds(schedule: Schedule, instance: Instance, target: NDArray[np.integer]) -> Floats:
    """Give how long the data of every edge take between the machines of a schedule."""
    graph, network = instance.graph, instance.network
    if len(network.host) == 1:
        return np.zeros(graph.edge_count)
    bound = np.zeros(len(graph.variables) + 1, dtype=np.int64)
    bound[graph.variable] = schedule.machine
    # A transfer reads where it starts from.
    here = np.where(graph.kind == TRANSFER, bound[graph.source_variable], schedule.machine)[target]
    there = schedule.machine[graph.predecessor]
    link = network.location[there], network.location[here]
    seconds = graph.edge_seconds + graph.edge_files * network.latency_s[link]
    seconds = seconds + graph.edge_bytes * network.inverse_bandwidth[link]
    return np.where(network.host[there] == network.host[here], 0.0, seconds)


_EFFICIENCY_ROUNDING = 1e-9
"""Share by which an efficiency may fall short: tasks that scale alike must not differ by rounding."""


def restrict_to_efficient(instance: Instance, least: float) -> ProblemArrays:
    """Give the problem in which tasks keep the modes of at least this efficiency."""
    parts = []
    for index, group in enumerate(instance.groups):
        for tasks, seconds in group.chunks():
            parts.extend(
                split_by_modes(
                    index, tasks, _efficiency(group, seconds) >= least * (1 - _EFFICIENCY_ROUNDING)
                )
            )
    return restrict_modes(compile_problem(instance), parts)


def _efficiency(group: ModeGroup, seconds: Floats) -> Floats:
    """Give tasks x modes."""
    _, first, number = np.unique(group.machine, return_index=True, return_inverse=True)
    taken = seconds * group.count
    smallest = taken[:, first][:, number]
    # A task of no seconds uses any count equally well.
    return np.divide(smallest, taken, out=np.ones_like(taken), where=taken > 0)


_ROUNDING = 1e-9
"""Share by which a sum may exceed a limit that it equals."""


class ScoredSchedule(NamedTuple):
    """A schedule and how good it is."""

    badness: tuple[float, float]
    """By how much limits are exceeded, then the objective's value; the lower, the better."""
    schedule: Schedule


class ScheduleTrials:
    """What was tried so far."""

    def __init__(self, instance: Instance, objective: Objective, budget: Budget) -> None:
        self.instance = instance
        self.objective = objective
        self.budget = budget
        self.steps = 0
        self.found: list[ScoredSchedule] = []
        """In the order in which they were made."""

    def attempt(self, make: Callable[[], Schedule]) -> ScoredSchedule | None:
        """Make a schedule, at least the first; None: the budget is spent, or this one fits nowhere."""
        if self.found and not self.budget.allows(self.steps):
            return None
        self.steps += 1
        try:
            schedule = make()
        except Infeasible:
            if not self.found:
                raise
            return None
        trial = ScoredSchedule(badness=self._badness(schedule), schedule=schedule)
        self.found.append(trial)
        return trial

    @property
    def best(self) -> ScoredSchedule:
        """Give the best trial, the earliest if several."""
        return min(self.found, key=lambda trial: trial.badness)

    def plan(self) -> Plan:
        """Give the best schedule as a plan."""
        spent = not self.budget.allows(self.steps)
        by_clock = spent and (self.budget.steps is None or self.steps < self.budget.steps)
        return Plan(schedule=self.best.schedule, steps=self.steps, cut=by_clock)

    def _badness(self, schedule: Schedule) -> tuple[float, float]:
        objective, excess = self.objective, 0.0
        if objective.deadline_s is not None:
            excess += _excess(schedule.makespan_s, objective.deadline_s)
        if objective.max_cost is not None:
            excess += _excess(schedule_cost(schedule, self.instance), objective.max_cost)
        value = objective.value(schedule, self.instance)
        return excess, value if objective.sense == "minimise" else -value


def _excess(amount: float, limit: float) -> float:
    """Give which share of an amount is too much."""
    return 0.0 if amount <= limit * (1 + _ROUNDING) else 1.0 - limit / amount


_SECOND_EFFICIENCY = 0.8
"""Another efficiency that is tried."""
_TOLERANCE = 0.05
"""That of plain HEFT."""
_SQUEEZES = (0.85, 0.92, 0.96, 0.98, 0.99)
"""Shares of the time that was taken; a small one comes first, as it saves steps where it succeeds."""
_STRETCHES = (8.0, 4.0, 2.0, 1.4, 1.15)
_WEIGHTS = (8.0, 32.0, 128.0)
"""How much a plan's whole charge weighs against its whole time, in plans that weigh them task by task."""
_GAIN = 1e-3
"""Share by which a plan must become better for the same share to be tried again."""
_SQUEEZED = 2
"""How many plans are squeezed: the best two often differ in kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeftMoldable:
    """The list planner for tasks that can take several node counts."""

    name: ClassVar[str] = "heft-moldable"
    title: ClassVar[str] = "HEFT with node counts by efficiency and due dates, for moldable tasks"

    efficiency: float = 0.5
    """The parallel efficiency, against the smallest count, that node counts of the first plan must have."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.efficiency <= 1.0:
            what = f"heft-moldable:efficiency={self.efficiency:g}"
            raise InvalidInput(Problem(what=what, rule="must be from 0 (any node count) to 1 (no loss)"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve makespan, cost and what weighs them by alpha, where no budget has to be kept."""
        if objective.name == "cost" or objective.has_alpha:
            return check_no_budgets("HEFT for moldable tasks", instance)
        return check_makespan_only("HEFT for moldable tasks", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = INLINE_POOL,  # noqa: ARG002
    ) -> Plan:
        """Try simple plans, then tighten the best."""
        order = order_by_rank(upward_ranks(instance))
        moldable = bool(compile_problem(instance).modes.moldable.any())
        trials = ScheduleTrials(instance, objective, budget)
        for make in self._simple(instance, order, moldable=moldable):
            trials.attempt(make)
        if _counts_cost(objective):
            priced = _with_prices(instance, _price(instance, objective))
            for make in _frugal(trials, priced, order):
                trials.attempt(make)
            # Without a deadline no plan is cheaper than the one of the cheapest modes.
            if objective.name != "cost" or objective.deadline_s is not None:
                _tighten(trials, priced, order, (*_STRETCHES, *_SQUEEZES))
        if objective.is_makespan and moldable:
            _tighten(trials, _with_prices(instance, _relative_speeds(instance)), order, _SQUEEZES)
        return trials.plan()

    def _simple(
        self, instance: Instance, order: Indices, *, moldable: bool
    ) -> Iterator[Callable[[], Schedule]]:
        """Give the ways to make the first plans."""
        if moldable:
            yield partial(_efficient_plan, instance, order, self.efficiency)
        yield partial(place, instance, order, rule=make_rule(factor=1.0 + _TOLERANCE))
        if moldable:
            yield partial(_cpa_plan, instance)
            yield partial(_efficient_plan, instance, order, _SECOND_EFFICIENCY)


def _counts_cost(objective: Objective) -> bool:
    return objective.name == "cost" or objective.has_alpha or objective.max_cost is not None


def _price(instance: Instance, objective: Objective) -> Floats:
    """Give what a node-second costs on each machine, as the objective counts it."""
    return relative_prices(instance) if objective.has_alpha else instance.price_per_node_s


def _relative_speeds(instance: Instance) -> Floats:
    """Give how much gets done in a node-second of each machine: its speed, that of the fastest being 1."""
    pace, groups = np.zeros(len(instance.machines)), np.zeros(len(instance.machines))
    for group in instance.groups:
        machine, first = np.unique(group.machine, return_index=True)
        seconds = sum(spent[:, first].sum(axis=0) for _, spent in group.chunks())
        groups[machine] += 1.0
        pace[machine] += np.divide(np.min(seconds), seconds, out=np.ones(len(first)), where=seconds > 0)
    return np.divide(pace, groups, out=np.ones(len(pace)), where=groups > 0)


def _with_prices(instance: Instance, charge: Floats) -> Arrays:
    problem = compile_problem(instance)
    return problem._replace(machines=problem.machines._replace(price=charge))


def _efficient_plan(instance: Instance, order: Indices, least: float) -> Schedule:
    return place(instance, order, problem=restrict_to_efficient(instance, least))


def _cpa_plan(instance: Instance) -> Schedule:
    allotment = plan_allotment(instance)
    return place(
        instance, order_by_rank(allotment.bottom_s), problem=restrict_to_counts(instance, allotment.counts)
    )


def _cheapest_plan(instance: Instance, order: Indices, charge: Floats) -> Schedule:
    def weight(instance: Instance, group: ModeGroup) -> Floats:  # noqa: ARG001
        return charge[group.machine] * group.nodes

    return place(instance, order, problem=restrict_to_best_modes(instance, weight))


def _frugal(trials: ScheduleTrials, problem: Arrays, order: Indices) -> Iterator[Callable[[], Schedule]]:
    """Give the ways to make plans that weigh charges against time, and the one of least charge."""
    instance, schedule, charge = trials.instance, trials.found[0].schedule, problem.machines.price
    taken = (schedule.finish_s - schedule.start_s) * schedule.nodes
    charged = float((taken * charge[schedule.machine]).sum())
    for weight in _WEIGHTS if charged > 0 else ():
        rule = make_rule(price_weight=weight * schedule.makespan_s / charged)
        yield partial(place, instance, order, rule=rule, problem=problem)
    yield partial(_cheapest_plan, instance, order, charge)


def _tighten(trials: ScheduleTrials, problem: Arrays, order: Indices, shares: tuple[float, ...]) -> None:
    """Squeeze the best plans so far."""
    for start in sorted(trials.found, key=lambda trial: trial.badness)[:_SQUEEZED]:
        _squeeze(trials, start, problem, order, (*_to_deadline(start, trials.objective), *shares))


def _to_deadline(start: ScoredSchedule, objective: Objective) -> tuple[float, ...]:
    """Give the share that makes a plan as long as it may be, where that is said."""
    makespan_s = start.schedule.makespan_s
    return () if objective.deadline_s is None or makespan_s <= 0 else (objective.deadline_s / makespan_s,)


def _squeeze(
    trials: ScheduleTrials, start: ScoredSchedule, problem: Arrays, order: Indices, shares: tuple[float, ...]
) -> None:
    """Tighten a plan by one share after another, by the same again while it pays."""
    instance, best = trials.instance, start
    latest_s = latest_finish_s(best.schedule, instance)
    for share in shares:
        better = True
        while better:
            made = trials.attempt(partial(schedule_by_due_date, instance, problem, order, share * latest_s))
            better = False
            if made is not None and made.badness < best.badness:
                better = _gains(made, best)
                best, latest_s = made, latest_finish_s(made.schedule, instance)


def _gains(made: ScoredSchedule, before: ScoredSchedule) -> bool:
    """Say whether a better plan is so much better that the same should be tried again."""
    changes = zip(made.badness, before.badness, strict=True)
    return any(old - new > _GAIN * abs(old) for new, old in changes)
