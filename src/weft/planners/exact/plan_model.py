"""The model: all plans of a case as variables and rules of an exact solver.

Every task has a start and an end, every binding variable exactly one place, every task exactly one of its
ways there; data (``movement``) and machines (``occupancy``) add their rules. Machines and tasks that are
alike are ordered (``alike``).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from weft.planners.aims import Aim
from weft.planners.exact.alike import like_tasks
from weft.planners.exact.case import Case
from weft.planners.exact.grids import whole_amounts
from weft.planners.exact.movement import Movement
from weft.planners.exact.occupancy import Occupancy

if TYPE_CHECKING:
    from weft.planners.exact.solver import Expression, Literal, Model

__all__ = ["PlanModel"]

_OBJECTIVE_BITS = 45
"""How fine an objective of several parts is counted."""
_ROUNDING = 1e-9
"""Share by which limits may be exceeded by rounding."""


class PlanModel:
    """The variables of a case, and its rules."""

    def __init__(self, model: Model, case: Case, aim: Aim, *, least: int, most: int) -> None:
        """Build the model of all plans that take from ``least`` to ``most`` ticks."""
        self.model = model
        self.case = case
        self.twins = like_tasks(case.instance)
        self.makespan = model.integer(least, most)
        self.placed = [self._places(found) for found in case.candidates]
        self.chosen = [self._choice(task) for task in range(len(case.ways))]
        self.start = [model.integer(earliest, most) for earliest in case.earliest]
        self.end = [self._end(task, most) for task in range(len(case.ways))]
        self._precede()
        Occupancy(model, case, self.chosen, self.start, self.end).add(self.makespan)
        self._order_alike()
        self._keep_budgets()
        self._aim(aim)

    def _places(self, candidates: tuple[int, ...]) -> dict[int, Literal]:
        if len(candidates) == 1:
            return {candidates[0]: self.model.always()}
        literals = {place: self.model.literal() for place in candidates}
        self.model.one_of(list(literals.values()))
        return literals

    def _choice(self, task: int) -> list[Literal]:
        """Give a literal per way; where a place has one way, it is that of the place."""
        ways, placed = self.case.ways[task], self.placed[int(self.case.instance.graph.variable[task])]
        if len(ways) == 1:
            return [self.model.always()]
        at: dict[int, list[int]] = {}
        for index, way in enumerate(ways):
            at.setdefault(way.place, []).append(index)
        found: list[Literal] = [placed[way.place] for way in ways]
        for place, indices in at.items():
            if len(indices) > 1:
                for index in indices:
                    found[index] = self.model.literal()
                self.model.one_of([~placed[place], *(found[index] for index in indices)])
        return found

    def _end(self, task: int, most: int) -> Expression:
        ticks = self.case.ticks[task]
        start = self.start[task]
        if task in self.case.transfers:
            return start if self.case.transfers[task] is None else self.model.integer(0, most)
        if len(set(ticks)) <= 1:
            return start + ticks[0] if ticks and ticks[0] else start
        end = self.model.integer(0, most)
        self.model.equal(end, start + self.model.total(self.chosen[task], ticks))
        return end

    def _precede(self) -> None:
        model, case = self.model, self.case
        movement = Movement(model, case, self.placed)
        for before, task, lag in case.edges:
            model.at_most(self.end[before], self.start[task])
            if lag is not None:
                movement.between(self.end[before], self.start[task], lag)
        for task, lag in case.transfers.items():
            if lag is not None:
                model.at_most(self.start[task], self.end[task])
                movement.between(self.start[task], self.end[task], lag)
        followed = {before for before, _, _ in case.edges}
        for task, end in enumerate(self.end):
            if task not in followed:
                model.at_most(end, self.makespan)

    def _order_alike(self) -> None:
        for task, other in self.twins:
            self.model.at_most(self.start[task], self.start[other])
        for places in self.case.places.alike:
            self._name_in_order(places)

    def _name_in_order(self, places: tuple[int, ...]) -> None:
        """Let a variable take a place only if one before it takes the place before it."""
        model = self.model
        used: dict[int, Literal] = {}
        for placed in self.placed:
            if places[0] not in placed:
                continue
            for before, place in pairwise(places):
                reached = used.get(before)
                model.some_of([~placed[place], *([] if reached is None else [reached])])
            for place in places:
                reached, now = used.get(place), model.literal()
                model.some_of([~now, placed[place], *([] if reached is None else [reached])])
                used[place] = now

    def _keep_budgets(self) -> None:
        case, graph = self.case, self.case.instance.graph
        for budget in range(len(graph.budget_names)):
            literals, consumed = [], []
            for task, ways in enumerate(case.ways):
                literals += self.chosen[task]
                consumed += [float(way.consumption[budget]) for way in ways]
            amounts, limit = whole_amounts(np.array(consumed), float(graph.budgets[budget]))
            self.model.at_most(self.model.total(literals, amounts.tolist()), limit)

    def _aim(self, aim: Aim) -> None:
        if np.isfinite(aim.max_cost):
            literals, cost = self._weighed(0.0, 1.0)
            amounts, limit = whole_amounts(np.array(cost), aim.max_cost)
            self.model.at_most(self.model.total(literals, amounts.tolist()), limit)
        if not aim.per_node_s and not aim.per_price:
            self.model.minimise(self.makespan)
            return
        if np.isfinite(aim.deadline_s):
            self.model.at_most(self.makespan, self.case.grid.begun(aim.deadline_s * (1 + _ROUNDING)))
        literals, weights = self._weighed(aim.per_node_s, aim.per_price)
        time = aim.per_second * self.case.grid.seconds(1)
        whole = abs(time) * self.case.grid.begun(self.case.horizon_s) + sum(map(abs, weights))
        scale = 2.0**_OBJECTIVE_BITS / whole if whole > 0 else 1.0
        scaled = [round(weight * scale) for weight in (time, *weights)]
        self.model.minimise(self.model.total([self.makespan, *literals], scaled))

    def _weighed(self, per_node_s: float, per_price: float) -> tuple[list[Literal], list[float]]:
        """Give the literals of all ways and what each adds to cost or objective."""
        literals: list[Literal] = []
        weights = []
        price = self.case.instance.price_per_node_s
        for task, ways in enumerate(self.case.ways):
            literals += self.chosen[task]
            for way in ways:
                rate = per_node_s + per_price * float(price[self.case.places.machines[way.place][0]])
                weights.append(rate * way.nodes * way.seconds)
        return literals, weights
