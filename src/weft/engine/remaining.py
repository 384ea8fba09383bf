"""What remains of a run, as an instance that planners read, and the plan that comes back.

Before anything has started, that is the whole workflow. Later it is S1's static graph (spec s1 section 10):
tasks that have ended or run properly are left out, their machines are pinned, and what they hold is busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engine.state.plans import StoredPlan, stored_plan
from weft.engine.state.state import State
from weft.errors import Infeasible
from weft.planners.planner import Budget, Planner
from weft.schedule.objective import objective_named

if TYPE_CHECKING:
    import numpy as np

__all__ = ["plan_remaining"]


def plan_remaining(
    state: State, index: int, planner: Planner, *, steps: int, rng: np.random.Generator
) -> StoredPlan:
    """Plan what remains of a run."""
    run = state.runs[index]
    goal = objective_named("makespan")
    refusal = planner.supports(run.instance, goal)
    if refusal is not None:
        raise Infeasible(f"planner {planner.name!r} cannot plan {run.known.key!r}: {refusal.reason}")
    made = planner.plan(run.instance, objective=goal, budget=Budget(steps=steps), rng=rng)
    return stored_plan(made.schedule, run.known, planner=planner.name, steps=made.steps, offset_s=state.now)
