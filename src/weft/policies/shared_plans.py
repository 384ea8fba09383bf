"""Shared plans: every workflow follows a plan of its own; whose turn it is, an order of workflows says.

The layers of unified section 5: between workflows one of the priorities of S5 (``inter.py``), inside a
workflow the planned starts, node counts as planned, and the planned machine if it is up and free. Plans of
several workflows do not know each other's future: a task whose planned machine is taken goes to the free
machine where it ends first if it ends earlier there, else it waits for its turn. What is not in a plan goes
where it ends first.

Deviations: none from a paper, for none combines these. Ties go to the workflow that came first, then to the
earlier planned start, then to the lower index. O(ready tasks) per event.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from weft.policies.inter import PRIORITIES, Inter
from weft.policies.moving import moves
from weft.policies.orders import ByRank
from weft.policies.placement import Placing
from weft.policies.policy import Order, Place, RunView, View
from weft.policies.rounds import Rounds
from weft.policies.sizing import Sizing

__all__ = ["SharedPlans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlans:
    """Plans for each, turns for all."""

    name: ClassVar[str] = "shared-plans"
    title: ClassVar[str] = "each workflow follows its own plan, the most urgent workflow first"
    needs_plan: ClassVar[bool] = True
    order: ClassVar[Order] = ByRank()

    inter: Inter = "foft"
    """The priority of workflows: that of the policy of this name."""
    rounds: Rounds = "workflows"
    """Who is collected in a round: all ready tasks, or the first of each workflow."""
    sizing: Sizing = "fastest"
    """The node count where the plan says none: the fastest that is free, or the smallest within 5 % of it."""

    def decide(self, view: View) -> Iterator[Place]:
        """Hand out machines while some are free; a run that has no plan yet waits for it."""
        yield from moves(view)
        if not view.any_free:
            return
        asking = [(run, _by_plan(run)) for run in view.runs if run.plan is not None and len(run.ready)]
        if self.rounds == "tasks":
            yield from self._by_tasks(view, asking)
        else:
            yield from self._by_workflows(view, asking)

    def _by_tasks(self, view: View, asking: list[tuple[RunView, list[int]]]) -> Iterator[Place]:
        """Go through all ready tasks, the most urgent first."""
        worth = PRIORITIES[self.inter](view)
        everybody = [(run, task) for run, tasks in asking for task in tasks]
        for run, task in sorted(everybody, key=lambda each: -worth(*each)):
            place = self._place(view, run, task)
            if place is not None:
                yield place
                if not view.any_free:
                    return

    def _by_workflows(self, view: View, asking: list[tuple[RunView, list[int]]]) -> Iterator[Place]:
        """Give every run one task per round, until a round gives nothing."""
        while asking:
            worth = PRIORITIES[self.inter](view)
            turn = sorted(asking, key=lambda each: -worth(each[0], each[1][0]))
            placed = set()
            for run, tasks in turn:
                place = self._first_placed(view, run, tasks)
                if place is not None:
                    yield place
                    placed.add(run.index)
                    if not view.any_free:
                        return
            # Who could place nothing will not in this event: machines only fill.
            asking = [(run, tasks) for run, tasks in asking if run.index in placed and tasks]

    def _first_placed(self, view: View, run: RunView, tasks: list[int]) -> Place | None:
        """Place the first task that finds a machine, and take it and those before it off the list."""
        while tasks:
            place = self._place(view, run, tasks.pop(0))
            if place is not None:
                return place
        return None

    def _place(self, view: View, run: RunView, task: int) -> Place | None:
        """Choose the planned machine, or a free one where the task ends earlier; None: it waits."""
        elsewhere = Placing(sizing=self.sizing)
        line = None if run.plan is None else run.plan.line.get(task)
        planned = None if line is None else view.mode(run, task, line.machine, line.count)
        if line is None or planned is None:
            return elsewhere.place(view, run, task)
        if view.mode(run, task, line.machine, line.count, free=True) is not None:
            return Place(run=run.index, task=task, machine=line.machine, count=line.count, reason="planned")
        place = elsewhere.place(view, run, task)
        if place is None:
            return None
        found = view.mode(run, task, place.machine, place.count)
        return place if found is not None and found.finish_s < planned.finish_s else None


def _by_plan(run: RunView) -> list[int]:
    """List the ready tasks by planned start; those that are not planned come last."""
    line = {} if run.plan is None else run.plan.line
    return sorted(run.ready, key=lambda task: (line[task].start_s if task in line else inf, task))
