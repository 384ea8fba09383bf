"""Following a plan: every task goes where the plan says, in the order of the planned starts.

A plan is a preference with a check (unified section 7, C6): a task is sent to its planned machine as soon as
it is ready, or earlier if some of its data can already move there, and takes its place in the machine's queue
by its planned start. If the machine is down or can no longer run it, the task goes where it ends first;
``strict`` waits for the planned machine, for ever if need be, as the papers of static plans do. What is not
in the plan, because it came later, goes where it ends first.

Tasks go at once and are not looked at again. Those whose planned machine is down are not looked at while they
have to wait for it; of those that nothing that is up can run one is asked for at every event for all that can
run in the same modes. So an event costs O(tasks that go + kinds), however many machines are planned on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.orders import ByRank
from weft.policies.placement import ModePlacer, Sizing
from weft.policies.policy import Place, PlanView, RunView, TaskOrder, View

__all__ = ["PlanFollower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFollower:
    """Does what was planned, as long as it can be done."""

    name: ClassVar[str] = "plan"
    title: ClassVar[str] = "follow a plan; where it can no longer be followed, earliest finish"
    needs_plan: ClassVar[bool] = True
    order: ClassVar[TaskOrder] = ByRank()

    strict: bool = False
    """Whether a task waits for its planned machine even if that is down."""
    sizing: Sizing = "fastest"
    """The node count where the plan says none: the fastest, or the smallest within 5 % of it."""

    def decide(self, view: View) -> Iterator[Place]:
        """Send every task that may go; a run that has no plan yet waits for it."""
        for run in list(view.runs):
            plan = run.plan
            if plan is not None:
                yield from self._sent(view, run, plan, early=False)
                yield from self._sent(view, run, plan, early=True)

    def _sent(self, view: View, run: RunView, plan: PlanView, *, early: bool) -> Iterator[Place]:
        turn = run.turn(early=early, strict=early or self.strict)
        while turn is not None and (task := turn.next()) is not None:
            place = self._planned(view, run, plan, task, early)
            if place is not None:
                turn.pass_by(task)
                yield place
            elif early or (self.strict and task in plan.line):
                turn.leave_out(task)
            else:
                turn.leave_out_kind(task)

    def _planned(self, view: View, run: RunView, plan: PlanView, task: int, early: bool) -> Place | None:
        line = plan.line.get(task)
        if line is not None:
            mode = view.mode(run, task, line.machine, line.count)
            if mode is not None:
                return Place(
                    run=run.index,
                    task=task,
                    machine=line.machine,
                    count=line.count,
                    queue=mode.nodes > 0,
                    order=line.start_s,
                    reason="planned",
                )
            if self.strict:
                return None
        return None if early else ModePlacer(sizing=self.sizing, queue=True).place(view, run, task)
