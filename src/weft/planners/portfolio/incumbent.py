"""The incumbent: the best schedule and the best bound that anybody in a portfolio has found so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from weft.instance.instance import Instance
from weft.planners.aims import Worth, aim_of, worth_of
from weft.planners.planner import Plan, Progress
from weft.planners.stretch import CLOSED
from weft.schedule.costs import cheapest_cost
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule

__all__ = ["Incumbent"]


class Incumbent:
    """What is known of one instance under one objective."""

    def __init__(
        self, instance: Instance, objective: Objective, tell: Callable[[Progress], None] | None
    ) -> None:
        self._instance = instance
        self._objective = objective
        self._tell = tell
        self._cheapest: float | None = None
        self._found: tuple[Worth, Schedule] | None = None
        self._by = ""
        self._bound_by = ""
        self.bound_s = 0.0
        self.steps = 0

    @property
    def schedule(self) -> Schedule | None:
        """Give the best schedule so far, if there is one."""
        return None if self._found is None else self._found[1]

    def offer(self, plan: Plan, by: str) -> float:
        """Take what is better; give by which share plan or bound became better."""
        self.steps += plan.steps
        gain = max(self._shorter(plan.schedule, by), self._tighter(plan.bound_s, by))
        if gain > 0:
            self._report(by)
        return gain

    def raise_bound(self, bound_s: float, by: str) -> None:
        """Take a better bound of the makespan."""
        if self._tighter(bound_s, by) > 0:
            self._report(by)

    def _shorter(self, schedule: Schedule, by: str) -> float:
        worth = worth_of(self._instance, self._objective, schedule)
        before = self._found
        if before is not None and worth >= before[0]:
            return 0.0
        self._found, self._by = (worth, schedule), by
        if before is None:
            return 1.0
        return max(_share(old, new) for old, new in zip(before[0], worth, strict=True))

    def _tighter(self, bound_s: float, by: str) -> float:
        if bound_s <= self.bound_s:
            return 0.0
        gain = 1.0 - self.bound_s / bound_s
        self.bound_s, self._bound_by = bound_s, by
        return gain

    @property
    def is_settled(self) -> bool:
        """Say whether no schedule can be better, or none can keep the limits."""
        if self._found is None:
            return False
        worth, schedule = self._found
        objective = self._objective
        if worth.missed > 0:
            return self._is_hopeless()
        if objective.is_makespan:
            return schedule.makespan_s <= self.bound_s * (1.0 + CLOSED)
        return worth.value <= self._least_value() + CLOSED * abs(worth.value)

    def _is_hopeless(self) -> bool:
        objective = self._objective
        late = objective.deadline_s is not None and self.bound_s > objective.deadline_s * (1.0 + CLOSED)
        most = objective.max_cost
        return late or (most is not None and self._cheapest_cost() > most * (1.0 + CLOSED))

    def _least_value(self) -> float:
        """Give a number below which the objective cannot be; minus infinity where nothing is known."""
        instance, objective = self._instance, self._objective
        if objective.name == "local":
            return float(instance.shortest_s().sum())
        aim = aim_of(instance, objective)
        if aim is None or min(aim.per_second, aim.per_node_s, aim.per_price) < 0:
            return -math.inf
        return aim.value(self.bound_s, 0.0, self._cheapest_cost())

    def _cheapest_cost(self) -> float:
        if self._cheapest is None:
            self._cheapest = cheapest_cost(self._instance)
        return self._cheapest

    def relay(self, by: str, news: Progress) -> None:
        """Pass on what a planner tells while it searches, with what is known beside it."""
        if self._tell is not None and news.makespan_s > 0:
            bound_s = max(self.bound_s, news.bound_s)
            self._tell(replace(news, by=by, bound_s=bound_s, steps=self.steps + news.steps))

    def _report(self, by: str) -> None:
        if self._tell is None or self._found is None:
            return
        schedule = self._found[1]
        self._tell(
            Progress.of(
                schedule, self._instance, self._objective, by=by, steps=self.steps, bound_s=self.bound_s
            )
        )

    def plan(self, *, cut: bool, notes: tuple[str, ...]) -> Plan:
        """Give what was found as a plan."""
        assert self._found is not None
        return Plan(
            schedule=self._found[1],
            steps=self.steps,
            bound_s=self.bound_s,
            cut=cut,
            by=self._by,
            bound_by=self._bound_by,
            notes=notes,
        )


def _share(old: float, new: float) -> float:
    return (old - new) / abs(old) if old else old - new
