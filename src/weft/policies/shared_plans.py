"""Shared plans: every workflow follows its own plan, and a priority decides between workflows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

from weft.policies.orders import ByRank
from weft.policies.placement import ModePlacer, Sizing, place_by_rank, send_transfers
from weft.policies.policy import Place, RunView, TaskCursor, TaskOrder, View
from weft.policies.rounds import PRIORITIES, WORKFLOW_PRIORITIES, Inter, Rounds, Urgency

_MOST_WAITING = 64
"""Number of waiting classes of a workflow above which tasks planned on busy machines are skipped.

There are up to kinds x machines classes. If so many tasks with earlier starts wait for their planned
machines, trying later tasks gains little.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPlans:
    """Follows one plan per workflow, and uses a priority between workflows.

    The layers of docs/papers/unified.md, section 5: between workflows a priority of ``rounds.py``, within a
    workflow the planned starts, planned node counts, and the planned machine if it is up and free. The plans
    of several workflows ignore each other. If its planned machine is occupied, a task runs on the free
    machine where it finishes first if it finishes earlier there than on the planned machine; otherwise it
    waits. Tasks without a plan run where they finish first, and tasks with a rank on the free machine with
    the highest rank. No paper combines these choices. Ties: earlier arrival of the workflow, then earlier
    planned start, then lower index.

    If a task waits for its planned machine, all tasks of its class (equal modes and seconds, same planned
    machine) wait. Tasks of a class may still finish at different times because of data, abstract machines,
    resources, multi-node machines, or more than 64 kinds; then 16 tasks of a class are tried before the
    others are left out. If more than 64 classes of a workflow wait, only tasks without a plan and tasks whose
    planned machine is free or unusable are tried. An event therefore costs O(active workflows + kinds + sent
    tasks), whatever the number of machines, plus the cost of the priority.
    """

    name: ClassVar[str] = "shared-plans"
    title: ClassVar[str] = "each workflow follows its own plan, the most urgent workflow first"
    needs_plan: ClassVar[bool] = True
    order: ClassVar[TaskOrder] = ByRank()

    inter: Inter = "foft"
    """The priority between workflows, named after the policy that uses it (``PRIORITIES``)."""
    rounds: Rounds = "workflows"
    """The tasks considered in a round: all ready tasks, or the first ready task of each workflow."""
    sizing: Sizing = "fastest"
    """The node count of unplanned tasks: the fastest free count, or the smallest one at most 5 % slower."""

    def decide(self, view: View) -> Iterator[Place]:
        """Yield placements while machines are free; a run whose plan is not ready yet waits."""
        yield from send_transfers(view)
        if not view.any_free:
            return
        # If priorities depend on the rank, tasks of one workflow are considered by rank, too.
        by_rank = self.rounds == "tasks" and self.inter not in WORKFLOW_PRIORITIES
        active = [
            (run, turn)
            for run in view.runs
            if run.plan is not None and run.ready and (turn := run.turn(by_rank=by_rank)) is not None
        ]
        yield from (self._by_workflows if self.rounds == "workflows" else self._by_tasks)(view, active)

    def _by_tasks(self, view: View, active: list[tuple[RunView, TaskCursor]]) -> Iterator[Place]:
        """Yield placements of the ready tasks of all runs, merged by priority."""
        priority = self._priority(view)
        heap: list[tuple[float, int, int]] = []

        def offer(at: int) -> None:
            run, turn = active[at]
            if (task := turn.next()) is not None:
                heappush(heap, (-priority(run, task), at, task))

        for at in range(len(active)):  # runs are sorted by arrival, so the position breaks ties
            offer(at)
        while heap:
            _, at, task = heappop(heap)
            if (place := self._placed(view, *active[at], task)) is not None:
                yield place
                if not view.any_free:
                    return
            offer(at)

    def _priority(self, view: View) -> Urgency:
        """Return the priority function for a view.

        If priorities are equal for all tasks of a workflow, they are cached per run.
        """
        priority = PRIORITIES[self.inter](view)
        if self.inter not in WORKFLOW_PRIORITIES:
            return priority
        found: dict[int, float] = {}

        def once(run: RunView, task: int) -> float:
            if run.index not in found:
                found[run.index] = priority(run, task)
            return found[run.index]

        return once

    def _by_workflows(self, view: View, active: list[tuple[RunView, TaskCursor]]) -> Iterator[Place]:
        """Yield placements in rounds of one task per run, until a round places no task."""
        while active:
            placed = set()
            for run, turn in self._sorted(view, active):
                if (place := self._first_placed(view, run, turn)) is not None:
                    yield place
                    placed.add(run.index)
                    if not view.any_free:
                        return
            # A run that placed nothing in this round cannot place anything later: machines only fill up.
            active = [each for each in active if each[0].index in placed and each[1].next() is not None]

    def _sorted(
        self, view: View, active: list[tuple[RunView, TaskCursor]]
    ) -> list[tuple[RunView, TaskCursor]]:
        """Return the workflows by descending priority of their first task that was not passed yet."""
        priority = PRIORITIES[self.inter](view)
        urgency = {
            run.index: -priority(run, head) for run, turn in active if (head := turn.head()) is not None
        }
        return sorted(
            (each for each in active if each[0].index in urgency), key=lambda each: urgency[each[0].index]
        )

    def _first_placed(self, view: View, run: RunView, turn: TaskCursor) -> Place | None:
        """Return the placement of the first task that can be placed, and advance past it; None: no task."""
        while (task := turn.next()) is not None:
            if (place := self._placed(view, run, turn, task)) is not None:
                return place
        return None

    def _placed(self, view: View, run: RunView, turn: TaskCursor, task: int) -> Place | None:
        """Return the placement of a task, and advance past the task; None: the task waits."""
        place, impossible = self._place(view, run, task, turn.hurried)
        if place is not None:
            turn.pass_by(task)
        elif impossible and (turn.even or turn.hurried):
            turn.leave_out_kind(task)
        elif impossible or (turn.alike and self._class_waits(view, run, task)):
            turn.leave_out(task)
        else:
            turn.let_wait(task)
        if turn.waiting > _MOST_WAITING and not turn.hurried:
            turn.hurry(lambda machine: view.machines[machine].up and view.machines[machine].free_nodes > 0)
        return place

    def _class_waits(self, view: View, run: RunView, task: int) -> bool:
        """Return whether all tasks of the same class as a waiting task must also wait in this event."""
        line = None if run.plan is None else run.plan.planned_tasks.get(task)
        return line is not None and view.machines[line.machine].nodes == 1

    def _place(self, view: View, run: RunView, task: int, hurried: bool) -> tuple[Place | None, bool]:
        """Return the placement of a task, or None if it waits, and whether no free machine can run its class.

        The task runs on its planned machine if that machine is free. Otherwise it runs on another free
        machine if it finishes earlier there than on the planned machine. If ``hurried`` is true, other
        machines are considered only if the planned machine cannot be used.
        """
        elsewhere = ModePlacer(sizing=self.sizing)
        line = None if run.plan is None else run.plan.planned_tasks.get(task)
        if (ranked := place_by_rank(view, run, task, self.sizing, planned=line)) is not None:
            return ranked.place, ranked.place is None
        planned = None if line is None else view.mode(run, task, line.machine, line.count, again=False)
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
        if (place := elsewhere.place(view, run, task)) is None:
            return None, True
        found = view.mode(run, task, place.machine, place.count)
        return (place if found is not None and found.finish_s < planned.finish_s else None), False
