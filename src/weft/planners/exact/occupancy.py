"""Occupancy: what machines have, in an exact model.

Machines of one node serve their tasks in turn; of others, nodes and every resource that can run short are
counted. What is busy beforehand takes its part. Beside the rules themselves stand rows that follow from them
and help: the node-time of all tasks at a place fits into the makespan (the energy cut).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from weft.planners.exact.case import Case
from weft.planners.exact.grids import whole_amounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.planners.exact.solver import Expression, Interval, Literal, Model

__all__ = ["Occupancy"]

_Stay = tuple[int, int, "Interval"]
"""Task, way and when."""


class Occupancy:
    """Adds rules for machines to a model in which tasks have ways, starts and ends."""

    def __init__(
        self,
        model: Model,
        case: Case,
        chosen: Sequence[Sequence[Literal]],
        start: Sequence[Expression],
        end: Sequence[Expression],
    ) -> None:
        self.model = model
        self.case = case
        self.chosen = chosen
        self.stays: list[list[_Stay]] = [[] for _ in case.places.machines]
        for task, ways in enumerate(case.ways):
            for index, way in enumerate(ways):
                if not case.ticks[task][index]:
                    continue  # what takes no time is in nobody's way
                when = chosen[task][index] if len(ways) > 1 else None
                stay = model.interval(start[task], case.ticks[task][index], end[task], when)
                self.stays[way.place].append((task, index, stay))

    def add(self, makespan: Expression) -> None:
        """Add the rules of all places."""
        instance, places = self.case.instance, self.case.places
        for place, machines in enumerate(places.machines):
            if instance.unlimited[machines[0]] or not self.stays[place]:
                continue
            self._nodes(place, makespan)
            for resource in range(instance.amounts.shape[1]):
                self._amounts(place, resource)

    def _nodes(self, place: int, makespan: Expression) -> None:
        case, capacity = self.case, self.case.places.capacity[place]
        taken = [case.ways[task][index].nodes for task, index, _ in self.stays[place]]
        held = self._held(place, [(held.nodes, capacity) for held in case.instance.busy])
        intervals = [stay for _, _, stay in self.stays[place]] + [stay for stay, _ in held]
        if capacity == 1:
            self.model.in_turn(intervals)
        elif self._short(place, taken, capacity) or held:
            self.model.together(intervals, [*taken, *(amount for _, amount in held)], capacity)
        else:
            return
        area = self.area(place)
        self.model.at_most(area, makespan * capacity)

    def area(self, place: int) -> Expression:
        """Give the node-time of all tasks at a place."""
        case, literals, areas = self.case, [], []
        for task, index, _ in self.stays[place]:
            literals.append(self.chosen[task][index])
            areas.append(case.ways[task][index].nodes * case.ticks[task][index])
        return self.model.total(literals, areas)

    def _amounts(self, place: int, resource: int) -> None:
        """Count one resource, where it can run short."""
        case = self.case
        machine = case.places.machines[place][0]
        total = float(case.instance.amounts[machine, resource])
        busy = [held.amounts[resource] if held.amounts else 0.0 for held in case.instance.busy]
        if not np.isfinite(total) or (case.places.capacity[place] == 1 and not any(busy)):
            return  # one node, one task: its amounts were compared with the totals beforehand
        stays = self.stays[place]
        demands = [float(case.ways[task][index].demand[resource]) for task, index, _ in stays]
        amounts, limit = whole_amounts(np.array([*demands, *busy]), total)
        taken = amounts[: len(stays)].tolist()
        held = self._held(place, [(amount, limit) for amount in amounts[len(stays) :].tolist()])
        used = [(stay[2], amount) for stay, amount in zip(stays, taken, strict=True) if amount]
        if used and (self._short(place, taken, limit) or held):
            used += held
            self.model.together([stay for stay, _ in used], [amount for _, amount in used], limit)

    def _short(self, place: int, taken: list[int], limit: int) -> bool:
        """Say whether all tasks at once could take more than there is."""
        most: dict[int, int] = {}
        for (task, _, _), amount in zip(self.stays[place], taken, strict=True):
            most[task] = max(most.get(task, 0), amount)
        return sum(most.values()) > limit

    def _held(self, place: int, amounts: list[tuple[int, int]]) -> list[tuple[Interval, int]]:
        """Give what is busy at a place, stretch by stretch, never more than there is."""
        case, events = self.case, []
        machines = case.places.machines[place]
        for held, (amount, limit) in zip(case.instance.busy, amounts, strict=True):
            first, last = case.grid.tick(max(0.0, held.start_s)), case.grid.tick(max(0.0, held.finish_s))
            if held.machine in machines and amount and first < last:
                events += [(first, amount, limit), (last, -amount, limit)]
        moments = sorted({moment for moment, _, _ in events})
        found = []
        for first, last in pairwise(moments):
            taken = sum(amount for moment, amount, _ in events if moment <= first)
            if taken:
                most = min(taken, events[0][2])
                found.append((self.model.interval(first, last - first, last), most))
        return found
