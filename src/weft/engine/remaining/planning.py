"""Planning what remains of a run, and the plan that comes back.

Deviation from S1 (spec s1 section 8): a new plan that promises no earlier end than the one in force is not
taken. One that moves tasks that are too slow is taken if it promises no later end, with ``migrate: always``
even then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.engine.remaining.carrying import carried
from weft.engine.remaining.promises import Promise, bodies_of, promise_of
from weft.engine.remaining.remainder import Remainder, remainder_of
from weft.engine.state.known import Known
from weft.engine.state.plans import StoredPlan, stored_plan
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import TaskState
from weft.errors import Infeasible
from weft.instance.instance import Instance
from weft.planners.outlook import outlook_of
from weft.planners.planner import Budget, Plan, Planner
from weft.schedule.objective import objective_named
from weft.schedule.schedule import Schedule

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Question", "plan_remaining", "question_of"]

_ROUNDING = 1e-9
_UNTOUCHED = (TaskState.WAITING, TaskState.READY)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """What is to be planned, read off the state: planning it takes time, and the state goes on meanwhile."""

    known: Known
    instance: Instance
    offset_s: float
    """The engine's time when it was asked: a plan's times count from there."""
    remainder: Remainder | None = None
    """None: nothing has happened yet, all of it is planned."""
    old: Schedule | None = None
    """What is left of the plan in force; None: it must not stay."""

    def answered(self, planner: Planner, *, steps: int, rng: np.random.Generator) -> StoredPlan:
        """Plan it; Infeasible if nothing can be."""
        return self.kept(planner, self.planned(planner, Budget(steps=steps), rng))

    def planned(self, planner: Planner, budget: Budget, rng: np.random.Generator) -> Plan:
        """Plan it, without a look at the plan in force; Infeasible if nothing can be."""
        return _made(planner, self.instance, self.known, budget, rng)

    def kept(self, planner: Planner, made: Plan) -> StoredPlan:
        """Give the plan that is to be followed from now on: the new one, or what is left of the old."""
        remainder, old = self.remainder, self.old
        if remainder is None:
            return stored_plan(
                made.schedule, self.known, planner=planner.name, steps=made.steps, offset_s=self.offset_s
            )
        new = old is None or _better(made.schedule, old, moves=bool(remainder.moving))
        return stored_plan(
            made.schedule if new or old is None else old,
            self.known,
            planner=planner.name,
            steps=made.steps,
            offset_s=self.offset_s,
            tasks=remainder.tasks,
            running_until_s=remainder.running_until_s,
            moving=remainder.moving if new else (),
            again=remainder.again if new else (),
        )

    def promise(self, made: Plan, *, arrival_s: float, seed: int) -> Promise:
        """Say what a plan promises of a run that has not begun."""
        graph, loops = self.known.graph, self.known.graph.loops
        if self.remainder is not None:
            tasks = self.remainder.tasks
            loops = bodies_of(graph, [tasks.get(name, -1) for name in self.instance.graph.names])
        outlook = outlook_of(made.schedule, self.instance, seed=seed, loops=loops)
        waited_s = self.offset_s - arrival_s
        return promise_of(made.schedule, self.instance, outlook, loops=loops, waited_s=waited_s)


def question_of(state: State, index: int) -> Question:
    """Read off what remains of a run: before anything has happened all of it, later S1's static graph.

    Infeasible if nothing is left to be planned.
    """
    run = state.runs[index]
    if _untouched(state, run):
        return Question(known=run.known, instance=run.instance, offset_s=state.now)
    remainder = remainder_of(state, run)
    if not remainder.tasks:
        raise Infeasible(f"nothing of {run.known.key!r} is left to be planned")
    must = bool(remainder.moving) and state.settings.migrate == "always"
    return Question(
        known=run.known,
        instance=remainder.instance,
        offset_s=state.now,
        remainder=remainder,
        old=None if must else carried(state, run, remainder),
    )


def plan_remaining(
    state: State, index: int, planner: Planner, *, steps: int, rng: np.random.Generator
) -> StoredPlan:
    """Plan what remains of a run at once. The plan's times are on the engine's clock."""
    return question_of(state, index).answered(planner, steps=steps, rng=rng)


def _better(new: Schedule, old: Schedule, *, moves: bool) -> bool:
    """Say whether a plan is worth changing to; rounding alone is not."""
    slack = _ROUNDING * old.makespan_s
    return new.makespan_s <= old.makespan_s + slack if moves else new.makespan_s < old.makespan_s - slack


def _untouched(state: State, run: Run) -> bool:
    """Say whether a run has not begun and everything else is as its instance says."""
    return (
        not state.attempts
        and not state.machines.odd
        and not any(state.inquiries.is_ruled_out(machine.index) for machine in state.machines)
        and all(found in _UNTOUCHED for found in run.state)
        and all(body.iteration == 1 for body in run.loops.bodies)
    )


def _made(
    planner: Planner, instance: Instance, known: Known, budget: Budget, rng: np.random.Generator
) -> Plan:
    goal = objective_named("makespan")
    refusal = planner.supports(instance, goal)
    if refusal is not None:
        raise Infeasible(f"planner {planner.name!r} cannot plan {known.key!r}: {refusal.reason}")
    return planner.plan(instance, objective=goal, budget=budget, rng=rng)
