"""The search on machines that serve one task at a time: orders and machines of all tasks, annealed together.

The loop over moves is ``weft.kernels.searches.single_annealing``; here are cooling, batches and budget. Heat
is measured in mean seconds of a task and of its data. It falls geometrically over a cycle; each cycle begins
with the best plan so far and is longer than the one before. One that has found nothing is followed by a
hotter one. Cooling goes by steps, or by the share of time used where only a clock is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels.searches.single_annealing import WORDS, anneal_singly
from weft.kernels.searches.single_state import Field, State, Terms
from weft.planners.aims import Aim
from weft.planners.decoding import APPEND, INSERTION, decode
from weft.planners.genomes import genome_of
from weft.planners.planner import Budget, Plan, Progress
from weft.planners.weaving.single_field import field_of, state_of, terms_of
from weft.schedule.costs import cost_of
from weft.schedule.schedule import Schedule

__all__ = ["search_single"]

_HEATS, _COLD = (0.15, 0.6, 2.4), 0.015
"""Heats at the begin of a cycle, and that at its end, in mean seconds of a task and of its data."""
_CYCLE, _GROWTH = 500, 4.0
"""Steps per task in the first cycle, and how many times longer each is than the one before."""
_SHORTEST = 1.0 / 64
"""Share of the budget that a cycle takes at least."""
_STEP_S = 12e-6
"""What a step takes in plain Python, about."""
_BATCH = 50_000
"""Steps between two looks at the budget, where steps are counted."""
_FIRST_BATCH, _BATCH_S = 500, 0.04
"""Where a clock counts: steps of the first batch, and what the others shall take."""
_VARIATES = 2048
_ROUNDING = 1e-9


def search_single(
    instance: Instance,
    aim: Aim,
    start: Schedule,
    budget: Budget,
    rng: np.random.Generator,
    *,
    by: str = "weave",
) -> Plan:
    """Give a plan that is not worse than the one to start from."""
    if len(instance) == 0 or not budget.allows(0):
        return Plan(schedule=start, steps=0)
    search = _Search(instance=instance, aim=aim, start=start, budget=budget, rng=rng, by=by)
    cut = search.run()
    return Plan(schedule=search.schedule(), steps=max(1, search.steps), cut=cut)


def _quantiles() -> NDArray[np.float64]:
    """Give exponential variates, each as likely as the others."""
    return np.array([-math.log((index + 0.5) / _VARIATES) for index in range(_VARIATES)])


class _Cycle(NamedTuple):
    """A stretch of cooling; times are shares of the budget."""

    begin: float
    end: float
    hot: float

    def at(self, share: float) -> float:
        """Give the heat."""
        done = (share - self.begin) / (self.end - self.begin)
        return float(self.hot * (_COLD / self.hot) ** done)

    def cooling(self, share: float) -> float:
        """Give the factor by which the heat falls within a share of the budget."""
        return float((_COLD / self.hot) ** (share / (self.end - self.begin)))


@dataclass(slots=True, kw_only=True)
class _Search:
    """One search: where it is, and the best it has found."""

    instance: Instance
    aim: Aim
    start: Schedule
    budget: Budget
    rng: np.random.Generator
    by: str
    steps: int = 0
    ground: Field = field(init=False)
    terms: Terms = field(init=False)
    state: State = field(init=False)
    heat: float = field(init=False)
    """That of one mean second."""
    variates: NDArray[np.float64] = field(init=False)
    told: tuple[float, float] = field(init=False)
    """What the last schedule was worth that somebody heard of."""

    def __post_init__(self) -> None:
        self.told = self._worth(self.start)
        value = self.told[1]
        self.ground = field_of(self.instance)
        self.terms = terms_of(self.instance, self.aim, abs(value) or 1.0)
        self.state = state_of(self.ground, genome_of(self.instance, self.start))
        self.heat = _scale(self.ground, self.terms)
        self.variates = _quantiles()

    def run(self) -> bool:
        """Search until the budget is spent; say whether the clock ended it."""
        try:
            if self.budget.steps is None:
                self._by_clock()
            else:
                self._by_steps(self.budget.steps)
        except KeyboardInterrupt:
            return True
        return self.budget.steps is None or self.steps < self.budget.steps

    def _by_steps(self, most: int) -> None:
        plain_s = most * _STEP_S
        for cycle in self._cycles(most):
            while self.budget.allows(self.steps) and self.steps < (last := round(cycle.end * most)):
                number = min(_BATCH, last - self.steps)
                self._batch(number, cycle.at(self.steps / most), cycle.cooling(1.0 / most), plain_s)
                plain_s = 0.0

    def _by_clock(self) -> None:
        left = self.budget.left
        assert left is not None
        # The first batch may have to wait for machine code, which is no reason to cool down.
        self._batch(_FIRST_BATCH, _HEATS[0], 1.0, left())
        whole = before = left()
        if whole <= 0:
            return
        self._batch(_FIRST_BATCH, _HEATS[0], 1.0, 0.0)
        number, now = _FIRST_BATCH, left()
        for cycle in self._cycles(number * whole / max(1e-6, before - now)):
            while now > 0 and 1.0 - now / whole < cycle.end:
                number = int(number * min(4.0, max(0.25, _BATCH_S / max(1e-6, before - now)))) + 1
                before, share = now, min(1.0, _BATCH_S / whole) / number
                self._batch(number, cycle.at(1.0 - now / whole), cycle.cooling(share), 0.0)
                now = left()

    def _cycles(self, steps: float) -> Iterator[_Cycle]:
        """Give cycles, one after the other, that fill the budget, which allows about so many steps."""
        length = max(_SHORTEST, min(1.0, _CYCLE * self.ground.tasks / steps))
        begin, level = 0.0, 0
        while begin < 1.0:
            # What would be left for too short a cycle belongs to this one.
            end = begin + length if begin + 2.0 * length <= 1.0 else 1.0
            known = float(self.state.total[3])
            yield _Cycle(begin, end, _HEATS[level])
            if not float(self.state.total[3]) < known:
                level = (level + 1) % len(_HEATS)
            self.state.order[:] = self.state.best_order
            self.state.machine[:] = self.state.best_machine
            begin, length = end, _GROWTH * length

    def _batch(self, number: int, heat: float, cooling: float, plain_s: float) -> None:
        known = float(self.state.total[3])
        words = np.frombuffer(self.rng.bytes(8 * WORDS * number), dtype="<i8") & np.int64(2**63 - 1)
        forms.run(
            anneal_singly,
            (self.ground, self.terms, number, heat * self.heat, cooling, words, self.variates),
            (self.state,),
            work_s=plain_s,
        )
        self.steps += number
        if self.budget.tell is not None and self.state.total[3] < known:
            self._tell(self.budget)

    def _tell(self, budget: Budget) -> None:
        assert budget.tell is not None
        schedule = self._decoded(APPEND)
        worth = self._worth(schedule)
        if worth < self.told:
            self.told = worth
            budget.tell(
                Progress(
                    by=self.by,
                    value=worth[1],
                    makespan_s=schedule.makespan_s,
                    bound_s=0.0,
                    steps=self.steps,
                )
            )

    def schedule(self) -> Schedule:
        """Give the best schedule; among equals the one to start from, else the one without gaps filled."""
        found = [self.start, self._decoded(APPEND), self._decoded(INSERTION)]
        return min(found, key=self._worth)

    def _decoded(self, rule: int) -> Schedule:
        bound = np.zeros(len(self.instance.graph.variables), dtype=np.uint32)
        bound[self.ground.variable] = self.state.best_machine
        return decode(self.instance, self.state.best_order, bound, rule=rule)

    def _worth(self, schedule: Schedule) -> tuple[float, float]:
        """Say what a schedule is worth as ``aims.worth_of`` does, by an aim; the smaller is better."""
        aim, makespan_s = self.aim, schedule.makespan_s
        cost = cost_of(schedule, self.instance)
        node_s = float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
        missed = 0.0
        for amount, limit in ((makespan_s, aim.deadline_s), (cost, aim.max_cost)):
            if amount > limit * (1.0 + _ROUNDING):
                missed += (amount - limit) / limit if limit > 0 else amount
        return missed, aim.value(makespan_s, node_s, cost)


def _scale(ground: Field, terms: Terms) -> float:
    """Give what a mean second of tasks and data is worth, and how much weights of one task differ."""
    seconds = _mean(ground.seconds) + _mean(ground.size) * _mean(ground.inverse)
    if ground.fixed is not None and ground.files is not None and ground.latency is not None:
        seconds += _mean(ground.fixed) + _mean(ground.files) * _mean(ground.latency)
    scale = seconds * terms.per_second
    if terms.weighed:
        scale += 0.25 * float(np.abs(terms.weight).mean())
    return scale or 1.0


def _mean(numbers: NDArray[np.float64]) -> float:
    return float(numbers.mean()) if len(numbers) else 0.0
