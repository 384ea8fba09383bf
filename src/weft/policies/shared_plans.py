"""Shared plans: every workflow follows a plan of its own; whose turn it is, an order of workflows says.

The layers of unified section 5: between workflows one of the priorities of S5 (``inter.py``), inside a
workflow the planned starts, node counts as planned, and the planned machine if it is up and free. Plans of
several workflows do not know each other's future: a task whose planned machine is taken goes to the free
machine where it ends first if it ends earlier there, else it waits for its turn. What is not in a plan goes
where it ends first.

Deviations: none from a paper, for none combines these. Ties go to the workflow that came first, then to the
earlier planned start, then to the lower index.

Where a task rather waits for its planned machine, all of the same modes and seconds that are planned there
do. Where this does not follow (data that move, abstract machines, resources, machines of several nodes, more
than 64 kinds by seconds) the first 16 that rather wait are looked at, of tasks with the same modes that are
planned on the same machine; the others wait with them. When tasks of more than 64 such classes of one
workflow rather wait, the others do so unseen: only those are looked at that are planned on a machine that is
free, on one that cannot be used, or not at all. So an event costs O(active workflows + kinds + tasks that
go), however many machines are planned on. To this comes what ``inter`` costs (``inter.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

from weft.policies.orders import ByRank
from weft.policies.placement import ModePlacer, Sizing, send_transfers
from weft.policies.policy import Place, RunView, TaskCursor, TaskOrder, View
from weft.policies.rounds import PRIORITIES, WORKFLOW_PRIORITIES, Inter, Rounds, Urgency

__all__ = ["SharedPlans"]

_MOST_WAITING = 64
"""Classes of tasks of one workflow that may rather wait in one event before the others do so unseen. There
are as many classes as kinds x machines; and where the tasks of so many, which are to start earlier, rather
wait than go to what is free, it is little worth to those behind them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlans:
    """Plans for each, turns for all."""

    name: ClassVar[str] = "shared-plans"
    title: ClassVar[str] = "each workflow follows its own plan, the most urgent workflow first"
    needs_plan: ClassVar[bool] = True
    order: ClassVar[TaskOrder] = ByRank()

    inter: Inter = "foft"
    """The priority of workflows: that of the policy of this name."""
    rounds: Rounds = "workflows"
    """Who is collected in a round: all ready tasks, or the first of each workflow."""
    sizing: Sizing = "fastest"
    """The node count where the plan says none: the fastest that is free, or the smallest within 5 % of it."""

    def decide(self, view: View) -> Iterator[Place]:
        """Hand out machines while some are free; a run that has no plan yet waits for it."""
        yield from send_transfers(view)
        if not view.any_free:
            return
        # Among all ready tasks the most urgent is next, also of one workflow, if they are told apart by rank.
        by_rank = self.rounds == "tasks" and self.inter not in WORKFLOW_PRIORITIES
        asking = [
            (run, turn)
            for run in view.runs
            if run.plan is not None and run.ready and (turn := run.turn(by_rank=by_rank)) is not None
        ]
        yield from (self._by_workflows if self.rounds == "workflows" else self._by_tasks)(view, asking)

    def _by_tasks(self, view: View, asking: list[tuple[RunView, TaskCursor]]) -> Iterator[Place]:
        """Merge the ready tasks of all runs, the most urgent first."""
        worth = self._worth(view)
        heap: list[tuple[float, int, int]] = []

        def offer(at: int) -> None:
            run, turn = asking[at]
            task = turn.next()
            if task is not None:
                heappush(heap, (-worth(run, task), at, task))

        for at in range(len(asking)):  # runs stand by arrival, so the position breaks ties
            offer(at)
        while heap:
            _, at, task = heappop(heap)
            place = self._placed(view, *asking[at], task)
            if place is not None:
                yield place
                if not view.any_free:
                    return
            offer(at)

    def _worth(self, view: View) -> Urgency:
        """Give the priority at this moment; if all tasks of a workflow share it, it is worked out once."""
        worth = PRIORITIES[self.inter](view)
        if self.inter not in WORKFLOW_PRIORITIES:
            return worth
        found: dict[int, float] = {}

        def once(run: RunView, task: int) -> float:
            if run.index not in found:
                found[run.index] = worth(run, task)
            return found[run.index]

        return once

    def _by_workflows(self, view: View, asking: list[tuple[RunView, TaskCursor]]) -> Iterator[Place]:
        """Give every run one task per round, until a round gives nothing."""
        while asking:
            placed = set()
            for run, turn in self._sorted(view, asking):
                place = self._first_placed(view, run, turn)
                if place is not None:
                    yield place
                    placed.add(run.index)
                    if not view.any_free:
                        return
            # Who could place nothing will not in this event: machines only fill.
            asking = [each for each in asking if each[0].index in placed and each[1].next() is not None]

    def _sorted(
        self, view: View, asking: list[tuple[RunView, TaskCursor]]
    ) -> list[tuple[RunView, TaskCursor]]:
        """Put the most urgent workflow first; each is judged by the first task it has not tried yet."""
        worth = PRIORITIES[self.inter](view)
        urgency = {run.index: -worth(run, head) for run, turn in asking if (head := turn.head()) is not None}
        return sorted(
            (each for each in asking if each[0].index in urgency), key=lambda each: urgency[each[0].index]
        )

    def _first_placed(self, view: View, run: RunView, turn: TaskCursor) -> Place | None:
        """Place the first task that finds a machine, and pass it and those before it."""
        while (task := turn.next()) is not None:
            place = self._placed(view, run, turn, task)
            if place is not None:
                return place
        return None

    def _placed(self, view: View, run: RunView, turn: TaskCursor, task: int) -> Place | None:
        """Place a task, and go on behind it; None: it waits."""
        place, nobody = self._place(view, run, task, turn.hurried)
        if place is not None:
            turn.pass_by(task)
        elif nobody and (turn.even or turn.hurried):
            turn.leave_out_kind(task)
        elif nobody or (turn.alike and self._waits_alone(view, run, task)):
            turn.leave_out(task)
        else:
            turn.let_wait(task)
        if turn.waiting > _MOST_WAITING and not turn.hurried:
            turn.hurry(lambda machine: view.machines[machine].up and view.machines[machine].free_nodes > 0)
        return place

    def _waits_alone(self, view: View, run: RunView, task: int) -> bool:
        """Say whether nothing can come before a task that waits for its planned machine in this event."""
        line = None if run.plan is None else run.plan.line.get(task)
        return line is not None and view.machines[line.machine].nodes == 1

    def _place(self, view: View, run: RunView, task: int, hurried: bool) -> tuple[Place | None, bool]:
        """Choose the planned machine, or a free one where the task ends earlier; None: it waits.

        In a hurry only who cannot use the planned machine goes elsewhere. With it comes whether nothing that
        is free can take the task, nor any other of its class.
        """
        elsewhere = ModePlacer(sizing=self.sizing)
        line = None if run.plan is None else run.plan.line.get(task)
        planned = None if line is None else view.mode(run, task, line.machine, line.count)
        if line is None or planned is None:
            place = elsewhere.place(view, run, task)
            return place, place is None
        if view.mode(run, task, line.machine, line.count, free=True) is not None:
            reason = "planned"
            return Place(
                run=run.index, task=task, machine=line.machine, count=line.count, reason=reason
            ), False
        if hurried:
            return None, False
        place = elsewhere.place(view, run, task)
        if place is None:
            return None, True
        found = view.mode(run, task, place.machine, place.count)
        return (place if found is not None and found.finish_s < planned.finish_s else None), False
