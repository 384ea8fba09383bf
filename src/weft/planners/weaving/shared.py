"""The search on shared machines: moldable tasks, countable resources, budgets, several machines with data.

Annealing over orders, node counts and machines together (``weft.kernels.searches.shared_annealing``), in
cycles. Each cycle begins with the best plan so far and cools down from one of several heats; a heat that has
found something is kept, else the next is tried, and after all have failed cycles become twice as long. The
coldest comes first: list planners are good, and what they miss is mostly near.

Deviations: cooling goes by evaluations, so that the same seed and steps give the same plan; a cycle that
would take too large a share of the budget is hurried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.kernels import forms
from weft.kernels.searches.shared_annealing import DRAWS, Score, anneal
from weft.kernels.searches.shared_moves import State
from weft.planners.aims import Aim
from weft.planners.planner import Budget, Plan, Progress
from weft.planners.problem import problem_of
from weft.planners.weaving.shared_shop import Workshop, workshop_of
from weft.planners.weaving.shared_start import first_state, state_of
from weft.schedule.costs import cost_of
from weft.schedule.schedule import Schedule
from weft.workflow.unfolding.task_graph import COMPUTE, Floats

__all__ = ["search_shared"]

_COLDEST, _HEATS, _COOLING = 0.03, (1.0, 4.0, 16.0, 64.0), 0.15
"""Heat at the begin of a cycle, as a share of the objective: the coldest for one task (it is divided by their
number), the factors of the others, and the heat at the end as a share of that at the begin."""
_GAIN = 1e-3
"""Share by which a cycle must make the best plan better for another one of its kind to follow."""
_DRAGS = (1.0, 0.0)
"""Drags of moldable tasks: with it the search is quicker, without it nothing is left out."""
_CYCLE = 4000
"""Evaluations per task in the first cycle."""
_MOST_OF_BUDGET = 0.125
"""Share of the budget that a cycle may take."""
_PENALTY = 20.0
"""How many times the objective it costs to miss a limit by the whole of it."""
_TASK_S, _EDGE_S = 60e-9, 5e-9
"""What laying a task and looking at an edge take compiled, about."""
_PLAIN = 60.0
"""How many times longer that takes in plain Python."""
_BATCH_S = 0.03
_LEAST_BATCH = 16
_ROUNDING = 1e-9


def search_shared(
    instance: Instance,
    aim: Aim,
    start: Schedule | None,
    budget: Budget,
    rng: np.random.Generator,
    *,
    by: str = "weave",
) -> Plan:
    """Give a plan that is not worse than the one to start from, if there is one that keeps the budgets.

    Raises Infeasible if no plan is found that keeps them.
    """
    workshop = workshop_of(instance, aim)
    if workshop is None:
        return _unchanged(instance, start)
    state = first_state(instance, workshop) if start is None else state_of(instance, workshop, start)
    if start is not None and workshop.ways.budgets and _overused(workshop, state):
        start, state = None, first_state(instance, workshop)
    search = _Search(instance=instance, aim=aim, workshop=workshop, budget=budget, rng=rng, by=by)
    cut = search.run(state)
    if workshop.ways.budgets and _overused(workshop, search.best):
        raise Infeasible(
            f"no plan was found that keeps within {', '.join(instance.binding_budgets())}: "
            "this is no proof that there is none, more time may help"
        )
    found = search.schedule()
    if start is not None and _worth(instance, aim, start) <= _worth(instance, aim, found):
        found = start
    return Plan(schedule=found, steps=search.steps, cut=cut)


def _unchanged(instance: Instance, start: Schedule | None) -> Plan:
    if start is None or instance.binding_budgets():
        raise Infeasible(f"{len(instance)} tasks with all their modes are too many to keep within budgets")
    return Plan(schedule=start, steps=0)


def _overused(workshop: Workshop, state: State) -> bool:
    ways = workshop.ways
    chosen = state.way[state.way < ways.first[1:]]
    used = ways.use.reshape(-1, ways.budgets)[chosen].sum(axis=0)
    return bool((used > 1.0 + _ROUNDING).any())


def _worth(instance: Instance, aim: Aim, schedule: Schedule) -> tuple[float, float]:
    """Say what a schedule is worth as ``aims.worth_of`` does, by an aim; the smaller is better."""
    makespan_s, cost = schedule.makespan_s, cost_of(schedule, instance)
    node_s = float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
    missed = 0.0
    for amount, limit in ((makespan_s, aim.deadline_s), (cost, aim.max_cost)):
        if amount > limit * (1.0 + _ROUNDING):
            missed += (amount - limit) / limit if limit > 0 else amount
    return missed, aim.value(makespan_s, node_s, cost)


def _nothing_known() -> Score:
    return Score(*(np.full(1, math.inf) for _ in Score._fields))


class _Cycle(NamedTuple):
    """A stretch of cooling."""

    heat: float
    length: int
    first_step: int
    first_share: float

    def heat_at(self, step: int, share: float) -> float | None:
        """Give the heat; None: the cycle is over."""
        done = max((step - self.first_step) / self.length, (share - self.first_share) / _MOST_OF_BUDGET)
        return None if done >= 1.0 else float(self.heat * _COOLING**done)


@dataclass(slots=True, kw_only=True)
class _Search:
    """One search: where it is, and the best it has found."""

    instance: Instance
    aim: Aim
    workshop: Workshop
    budget: Budget
    rng: np.random.Generator
    by: str
    steps: int = 0
    state: State = field(init=False)
    best: State = field(init=False)
    score: Score = field(init=False)
    whole_s: float = math.inf
    """What the clock had left at the begin."""

    def run(self, state: State) -> bool:
        """Search from a state on until the budget is spent; say whether the clock ended it."""
        self.state, self.best = state, State(*(part.copy() for part in state))
        self._assess()
        shop, moves = self.workshop.shop, self.workshop.moves
        if shop.tasks == 0 or not (moves.shifts or moves.molds or moves.takes):
            return False
        try:
            if self.budget.left is not None:
                self.whole_s = max(self.budget.left(), 1e-9)
            self._cycles()
        except KeyboardInterrupt:
            return True
        return self.budget.steps is None or self.steps < self.budget.steps

    def _assess(self) -> None:
        """Find out what the state to start from is worth."""
        self.score = _nothing_known()
        self._lay(self.state, self.score)
        self.steps = 1
        scale = abs(float(self.score.value[0])) or 1.0
        goal = self.workshop.goal._replace(penalty=_PENALTY * scale)
        self.workshop = self.workshop._replace(goal=goal)

    @property
    def _evaluation_s(self) -> float:
        shop = self.workshop.shop
        return shop.tasks * _TASK_S + len(shop.before) * _EDGE_S

    def _share(self) -> float:
        """Give the share of the budget that is spent, of steps or time, whichever is more."""
        by_steps = self.steps / self.budget.steps if self.budget.steps else 0.0
        by_clock = 1.0 - self.budget.left() / self.whole_s if self.budget.left is not None else 0.0
        return max(by_steps, by_clock)

    def _cycles(self) -> None:
        coldest = _COLDEST / self.workshop.shop.tasks
        goal, length = self.workshop.goal, _CYCLE * self.workshop.shop.tasks
        kinds = list(product(_HEATS, _DRAGS if self.workshop.ways.drag.any() else (0.0,)))
        kind, failed = 0, 0
        while self.budget.allows(self.steps):
            known = self._worth()
            scale = abs(float(self.score.best_value[0])) or 1.0
            factor, drag = kinds[kind]
            heat = coldest * factor * scale
            self.workshop = self.workshop._replace(goal=goal._replace(drag=drag))
            self._cool(_Cycle(heat=heat, length=length, first_step=self.steps, first_share=self._share()))
            missed, value = self._worth()
            if missed < known[0] or value < known[1] - _GAIN * scale:
                failed = 0
                continue
            failed, kind = failed + 1, (kind + 1) % len(kinds)
            if failed % len(kinds) == 0:
                length *= 2

    def _worth(self) -> tuple[float, float]:
        return float(self.score.best_missed[0]), float(self.score.best_value[0])

    def _cool(self, cycle: _Cycle) -> None:
        """Go through a cycle, from the best state on."""
        for part, best in zip(self.state, self.best, strict=True):
            part[:] = best
        self.score.missed[0], self.score.value[0] = self._worth()
        batch = max(_LEAST_BATCH, min(int(_BATCH_S / self._evaluation_s), cycle.length // 50))
        while self.budget.allows(self.steps):
            heat = cycle.heat_at(self.steps, self._share())
            if heat is None:
                return
            if self.budget.steps is not None:
                # A hundredth, so that little budgets cool down as well; at least one.
                batch = max(1, min(batch, self.budget.steps - self.steps, 1 + self.budget.steps // 100))
            self._batch(heat, batch)

    def _batch(self, heat: float, number: int) -> None:
        known = self._worth()
        uniform, exponential = self.rng.random(DRAWS * number), self.rng.standard_exponential(number)
        self.steps += self._anneal(heat, uniform, exponential, (self.state, self.best, self.score))
        if self.budget.tell is not None and self._worth() < known:
            self._tell(self.budget)

    def _lay(self, state: State, score: Score) -> None:
        """Lay a state, and write down what it is worth."""
        self._anneal(0.0, np.zeros(DRAWS), np.zeros(1), (state, self.best, score), fresh=True)

    def _anneal(
        self,
        heat: float,
        uniform: Floats,
        exponential: Floats,
        states: tuple[State, State, Score],
        *,
        fresh: bool = False,
    ) -> int:
        shop, links, ways, _, goal, moves, layout, scratch = self.workshop
        number = len(exponential)
        spent: int = forms.run(
            anneal,
            (shop, links, ways, goal, moves, int(fresh), heat, number, uniform, exponential, scratch),
            (layout, *states),
            work_s=number * self._evaluation_s * _PLAIN,
        )
        return spent

    def _tell(self, budget: Budget) -> None:
        assert budget.tell is not None
        value, makespan_s = float(self.score.best_value[0]), self.schedule().makespan_s
        budget.tell(Progress(by=self.by, value=value, makespan_s=makespan_s, bound_s=0.0, steps=self.steps))

    def schedule(self) -> Schedule:
        """Lay the best state once more and give it as a schedule."""
        instance, layout = self.instance, self.workshop.layout
        # A copy is laid: where the search goes on does not depend on who looks.
        self._lay(State(*(part.copy() for part in self.best)), _nothing_known())
        compute = instance.graph.kind == COMPUTE
        modes = problem_of(instance).modes
        chosen = modes.first[modes.group[compute]] + self.workshop.mode[self.best.way[compute]]
        nodes = np.zeros(len(instance), dtype=np.uint32)
        nodes[compute] = modes.nodes[chosen]
        return Schedule(
            tasks=instance.graph.names,
            machines=tuple(machine.name for machine in instance.machines),
            machine=self.best.bound[instance.graph.variable],
            nodes=nodes,
            start_s=layout.start.copy(),
            finish_s=layout.finish.copy(),
        )
