"""Plan follower: every task runs on its planned machine, in the order of planned starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from weft.policies.orders import ByRank
from weft.policies.placement import ModePlacer, RankedPlacement, Sizing, place_by_rank
from weft.policies.policy import Place, PlanView, RunView, TaskOrder, View
from weft.records import dataclass

_OTHER_MACHINE = "the planned machine cannot run it now, or it failed there: earliest finish of the others"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFollower:
    """Sends each task to its planned machine as long as the plan is feasible.

    A plan is a preference with a check (docs/papers/unified.md, section 7, C6). A task is sent to its planned
    machine when it is ready, or earlier if some of its data can already move there. It is queued there by its
    planned start. If the machine is down or cannot run the task any more, or if the task failed there and can
    run elsewhere, the task runs where it finishes first; with ``strict`` the task waits for the planned
    machine, as papers on static plans assume. Tasks without a planned machine run where they finish first.

    A task with a rank is not sent early and not queued. When it is ready and machines are free, it starts on
    the free machine with the highest rank. Among equal ranks the planned machine is preferred. Planners take
    this into account (``planners/rank_binding``). A task whose abstract machine is already bound follows the
    plan, and so does every task with ``strict``.

    A task that was sent is not considered again. Tasks that wait for a machine that is down are skipped; of
    tasks with equal modes that no machine can run, one is tried per event. An event therefore costs O(sent
    tasks + kinds), whatever the number of machines.
    """

    name: ClassVar[str] = "plan"
    title: ClassVar[str] = "follow a plan; where it can no longer be followed, earliest finish"
    needs_plan: ClassVar[bool] = True
    order: ClassVar[TaskOrder] = ByRank()

    strict: bool = False
    """Whether a task waits for its planned machine even if the machine is down."""
    sizing: Sizing = "fastest"
    """The node count of tasks without a plan: the fastest, or the smallest that is at most 5 % slower."""

    def decide(self, view: View) -> Iterator[Place]:
        """Yield a placement for every task that can be sent; a run whose plan is not ready yet waits."""
        for run in list(view.runs):
            plan = run.plan
            if plan is not None:
                yield from self._sent(view, run, plan, early=False)
                yield from self._sent(view, run, plan, early=True)

    def _sent(self, view: View, run: RunView, plan: PlanView, *, early: bool) -> Iterator[Place]:
        turn = run.turn(early=early, strict=early or self.strict)
        while turn is not None and (task := turn.next()) is not None:
            ranked = None if self.strict else self._rank(view, run, plan, task, early)
            if ranked is not None and ranked.place is not None:
                turn.pass_by(task)
                yield ranked.place
            elif ranked is not None:
                (turn.let_wait if ranked.waits else turn.leave_out_kind)(task)
            elif (place := self._planned(view, run, plan, task, early)) is not None:
                turn.pass_by(task)
                yield place
            elif early or (self.strict and task in plan.planned_tasks):
                turn.leave_out(task)
            else:
                turn.leave_out_kind(task)

    def _rank(
        self, view: View, run: RunView, plan: PlanView, task: int, early: bool
    ) -> RankedPlacement | None:
        """Return the placement by a task's rank; None: the task has no rank, or is already bound."""
        if early:
            ranked = run.bound(task) is None and view.ranking(run, task) is not None
            return RankedPlacement(None, waits=False) if ranked else None
        return place_by_rank(view, run, task, self.sizing, planned=plan.planned_tasks.get(task))

    def _planned(self, view: View, run: RunView, plan: PlanView, task: int, early: bool) -> Place | None:
        if (line := plan.planned_tasks.get(task)) is not None:
            if (mode := view.mode(run, task, line.machine, line.count, again=self.strict)) is not None:
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
        if early or (place := ModePlacer(sizing=self.sizing, queue=True).place(view, run, task)) is None:
            return None
        return place if line is None else replace(place, reason=_OTHER_MACHINE)
