"""HEFT for moldable tasks: node counts that use their nodes well, and due dates that are tightened.

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
from typing import ClassVar

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.instance.instance import Instance
from weft.instance.modes import ModeGroup
from weft.kernels.problem import Problem as Arrays
from weft.planners.least import least_modes
from weft.planners.lists.placing import place, rule_of
from weft.planners.lists.ranks import by_rank, upward_ranks
from weft.planners.moldable.allotments import allotted, with_counts
from weft.planners.moldable.due_dates import latest_finish_s, place_in_time
from weft.planners.moldable.efficiency import efficient
from weft.planners.moldable.trials import Trial, Trials
from weft.planners.planner import Budget, Plan, Unsupported, makespan_only, without_budgets
from weft.planners.problem import problem_of
from weft.schedule.costs import relative_prices
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import ALONE, Pool
from weft.workflow.unfolding.task_graph import Floats, Indices

__all__ = ["HeftMoldable"]

_EFFICIENT = 0.8
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
            return without_budgets("HEFT for moldable tasks", instance)
        return makespan_only("HEFT for moldable tasks", instance, objective)

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,  # noqa: ARG002
        pool: Pool = ALONE,  # noqa: ARG002
    ) -> Plan:
        """Try simple plans, then tighten the best."""
        order = by_rank(upward_ranks(instance))
        moldable = bool(problem_of(instance).modes.moldable.any())
        trials = Trials(instance, objective, budget)
        for make in self._simple(instance, order, moldable=moldable):
            trials.attempt(make)
        if _counts_cost(objective):
            priced = _charged(instance, _price(instance, objective))
            for make in _frugal(trials, priced, order):
                trials.attempt(make)
            # Without a deadline no plan is cheaper than the one of the cheapest modes.
            if objective.name != "cost" or objective.deadline_s is not None:
                _tighten(trials, priced, order, (*_STRETCHES, *_SQUEEZES))
        if objective.is_makespan and moldable:
            _tighten(trials, _charged(instance, _pace(instance)), order, _SQUEEZES)
        return trials.plan()

    def _simple(
        self, instance: Instance, order: Indices, *, moldable: bool
    ) -> Iterator[Callable[[], Schedule]]:
        """Give the ways to make the first plans."""
        if moldable:
            yield partial(_efficient_plan, instance, order, self.efficiency)
        yield partial(place, instance, order, rule=rule_of(factor=1.0 + _TOLERANCE))
        if moldable:
            yield partial(_cpa_plan, instance)
            yield partial(_efficient_plan, instance, order, _EFFICIENT)


def _counts_cost(objective: Objective) -> bool:
    return objective.name == "cost" or objective.has_alpha or objective.max_cost is not None


def _price(instance: Instance, objective: Objective) -> Floats:
    """Give what a node-second costs on each machine, as the objective counts it."""
    return relative_prices(instance) if objective.has_alpha else instance.price_per_node_s


def _pace(instance: Instance) -> Floats:
    """Give how much gets done in a node-second of each machine: its speed, that of the fastest being 1."""
    pace, groups = np.zeros(len(instance.machines)), np.zeros(len(instance.machines))
    for group in instance.groups:
        machine, first = np.unique(group.machine, return_index=True)
        seconds = sum(spent[:, first].sum(axis=0) for _, spent in group.chunks())
        groups[machine] += 1.0
        pace[machine] += np.divide(np.min(seconds), seconds, out=np.ones(len(first)), where=seconds > 0)
    return np.divide(pace, groups, out=np.ones(len(pace)), where=groups > 0)


def _charged(instance: Instance, charge: Floats) -> Arrays:
    problem = problem_of(instance)
    return problem._replace(machines=problem.machines._replace(price=charge))


def _efficient_plan(instance: Instance, order: Indices, least: float) -> Schedule:
    return place(instance, order, problem=efficient(instance, least))


def _cpa_plan(instance: Instance) -> Schedule:
    allotment = allotted(instance)
    return place(instance, by_rank(allotment.bottom_s), problem=with_counts(instance, allotment.counts))


def _cheapest_plan(instance: Instance, order: Indices, charge: Floats) -> Schedule:
    def weight(instance: Instance, group: ModeGroup) -> Floats:  # noqa: ARG001
        return charge[group.machine] * group.nodes

    return place(instance, order, problem=least_modes(instance, weight))


def _frugal(trials: Trials, problem: Arrays, order: Indices) -> Iterator[Callable[[], Schedule]]:
    """Give the ways to make plans that weigh charges against time, and the one of least charge."""
    instance, schedule, charge = trials.instance, trials.found[0].schedule, problem.machines.price
    taken = (schedule.finish_s - schedule.start_s) * schedule.nodes
    charged = float((taken * charge[schedule.machine]).sum())
    for weight in _WEIGHTS if charged > 0 else ():
        rule = rule_of(price_weight=weight * schedule.makespan_s / charged)
        yield partial(place, instance, order, rule=rule, problem=problem)
    yield partial(_cheapest_plan, instance, order, charge)


def _tighten(trials: Trials, problem: Arrays, order: Indices, shares: tuple[float, ...]) -> None:
    """Squeeze the best plans so far."""
    for start in sorted(trials.found, key=lambda trial: trial.badness)[:_SQUEEZED]:
        _squeeze(trials, start, problem, order, (*_to_deadline(start, trials.objective), *shares))


def _to_deadline(start: Trial, objective: Objective) -> tuple[float, ...]:
    """Give the share that makes a plan as long as it may be, where that is said."""
    makespan_s = start.schedule.makespan_s
    return () if objective.deadline_s is None or makespan_s <= 0 else (objective.deadline_s / makespan_s,)


def _squeeze(
    trials: Trials, start: Trial, problem: Arrays, order: Indices, shares: tuple[float, ...]
) -> None:
    """Tighten a plan by one share after another, by the same again while it pays."""
    instance, best = trials.instance, start
    latest_s = latest_finish_s(best.schedule, instance)
    for share in shares:
        better = True
        while better:
            made = trials.attempt(partial(place_in_time, instance, problem, order, share * latest_s))
            better = False
            if made is not None and made.badness < best.badness:
                better = _gains(made, best)
                best, latest_s = made, latest_finish_s(made.schedule, instance)


def _gains(made: Trial, before: Trial) -> bool:
    """Say whether a better plan is so much better that the same should be tried again."""
    changes = zip(made.badness, before.badness, strict=True)
    return any(old - new > _GAIN * abs(old) for new, old in changes)
