"""An attempt: from what is known to what the solver finds within the budget.

CP-SAT: an exact model of all plans, searched by OR-Tools, with a bound of the makespan.

L. Perron, F. Didier, S. Gay, The CP-SAT-LP Solver, CP 2023. The model (``plan_model``): a start and an end
per task, one place per binding variable, one mode per task; machines of one node serve tasks in turn, of
others nodes and resources are counted; data take time between hosts; like machines without communication
count as one. It starts from a schedule that is known, and what it finds is decoded with the true seconds.

Deviations: ours but the solver. Seconds become whole numbers (``grids``): exact where they are decimal, else
rounded down, so that the bound holds. Complexity: exponential; instances with a model of more than
``MAX_TERMS`` literals and terms are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from weft.errors import Infeasible, InvalidInput, Problem
from weft.instance.instance import Instance, find_exceeded
from weft.planners.evaluation import compute_bounds, evaluate_loss, linearise_objective
from weft.planners.exact.exact_instance import MAX_TERMS, compile_exact_instance, count_terms
from weft.planners.exact.plan_model import PlanModel, add_hints, read_schedule
from weft.planners.genome import encode_schedule
from weft.planners.plan_search import plan_seeds
from weft.planners.planner import GAP_TOLERANCE, Budget, Plan, PlanProgress, Unsupported
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import INLINE_POOL, Pool

if TYPE_CHECKING:
    from weft.planners.exact.solver import Limits, Model, SolverResult, Value

__all__ = ["STEPS_PER_DETERMINISTIC_SECOND", "CpSat", "ExactSearch"]


STEPS_PER_DETERMINISTIC_SECOND = 20_000
"""CP-SAT counts its work in deterministic seconds, each some seconds of a processor: so many steps."""
_DEFAULT_STEPS = 20_000
"""What is taken where the budget says nothing."""
_REST = 0.15
"""Share of the time that may be left unused: the solver ends early if it cannot foresee what comes next."""
_EARLY = 0.5
"""Whoever ends before this share of the time was interrupted."""


class ExactSearch:
    """One search: the best that is known, and what is asked of the solver."""

    def __init__(self, instance: Instance, objective: Objective, budget: Budget, workers: int) -> None:
        aim = linearise_objective(instance, objective)
        assert aim is not None, objective.name
        unlimited = budget.left is None and budget.steps is None
        self.instance = instance
        self.objective = objective
        self.aim = aim
        self.budget = replace(budget, steps=_DEFAULT_STEPS) if unlimited else budget
        # Only one worker searches the same way every time.
        self.workers = workers if self.budget.steps is None else 1
        self.best: Schedule | None = None
        self.bound_s = 0.0
        self.steps = 0

    def run(self, start: Schedule | None, steps: int, rng: np.random.Generator) -> Plan:
        """Search from a schedule, for which some steps were taken, or from nothing."""
        self.best, self.steps = start, steps
        if self.aim.is_makespan:
            self.bound_s = compute_bounds(self.instance).best_s
        if self._is_closed() or (start is not None and not self.budget.allows(steps)):
            return self._plan(cut=False)
        try:
            proven = self._search(int(rng.integers(2**31)))
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return self._plan(cut=True)
        if self.best is None:
            raise _no_plan_error(self.instance, proven=proven)
        return self._plan(cut=not proven and not self._has_spent_steps())

    def _search(self, seed: int) -> bool:
        """Ask the solver, again while time is left; say whether nothing better can exist."""
        from weft.planners.exact.solver import Limits, Model

        built = self._model(Model())
        while True:
            limits = Limits(seed=seed, workers=self.workers, effort=self._effort(), clock_s=self._left_s())
            if self.best is not None:
                add_hints(built, self.best)
            answer = built.model.solve(limits, lambda bound, value: self._hear(built, bound, value))
            self._count(built, answer)
            if answer.proven or self._ends(limits, answer):
                return answer.proven

    def _model(self, model: Model) -> PlanModel:
        """Build the model of all plans that are not longer than the best, if that is what counts."""
        aim, best = self.aim, self.best
        known_s = best.makespan_s if best is not None and aim.is_makespan else None
        # Whoever is paid for taking nodes may prefer a mode that is worse otherwise.
        all_ways = min(aim.per_node_s, aim.per_price) < 0
        case = compile_exact_instance(self.instance, all_ways=all_ways, known_s=known_s)
        grid = case.grid
        most = grid.begun(case.horizon_s) if grid.exact else grid.begun(case.horizon_s) + 1
        least = grid.ended(self.bound_s) if grid.exact else grid.begun(self.bound_s * (1 - GAP_TOLERANCE))
        return PlanModel(model, case, aim, least=min(least, most), most=most)

    def _effort(self) -> float | None:
        if self.budget.steps is None:
            return None
        return max(1, self.budget.steps - self.steps) / STEPS_PER_DETERMINISTIC_SECOND

    def _left_s(self) -> float | None:
        return None if self.budget.left is None else min(1e9, self.budget.left())

    def _has_spent_steps(self) -> bool:
        return self.budget.steps is not None and self.steps >= self.budget.steps

    def _ends(self, limits: Limits, answer: SolverResult) -> bool:
        """Say whether the budget is spent, or somebody wants the plan now."""
        left_s = self._left_s()
        if left_s is None or limits.clock_s is None or self._has_spent_steps():
            return True
        return answer.taken_s < _EARLY * limits.clock_s or left_s < _REST * limits.clock_s

    def _hear(self, built: PlanModel, bound: float, value: Value) -> bool:
        """Keep a solution if it is better, tell of it, and say whether to search on."""
        found = read_schedule(built, value)
        self._raise_bound(built, bound)
        if _keeps_budgets(self.instance, found) and self._is_better(found):
            self.best = found
            self._tell()
        return self.budget.left is None or self.budget.left() > 0

    def _is_better(self, found: Schedule) -> bool:
        if self.best is None:
            return True
        worth, known = (evaluate_loss(self.instance, self.objective, one) for one in (found, self.best))
        return worth < known

    def _count(self, built: PlanModel, answer: SolverResult) -> None:
        """Count the steps of a search, and take what it has proven."""
        spent = max(1, math.ceil(answer.effort * STEPS_PER_DETERMINISTIC_SECOND))
        left = spent if self.budget.steps is None else self.budget.steps - self.steps
        self.steps += max(1, min(spent, left))
        if answer.found:
            self._raise_bound(built, answer.bound)
            self._tell()

    def _raise_bound(self, built: PlanModel, bound: float) -> None:
        if self.aim.is_makespan:
            self.bound_s = max(self.bound_s, built.case.grid.seconds(bound))

    def _tell(self) -> None:
        if self.budget.tell is None or self.best is None:
            return
        bound_s = min(self.bound_s, self.best.makespan_s)
        self.budget.tell(
            PlanProgress.of(
                self.best, self.instance, self.objective, by="cp-sat", steps=self.steps, bound_s=bound_s
            )
        )

    def _is_closed(self) -> bool:
        best = self.best
        return (
            best is not None
            and self.aim.is_makespan
            and best.makespan_s <= self.bound_s * (1 + GAP_TOLERANCE)
        )

    def _plan(self, *, cut: bool) -> Plan:
        assert self.best is not None
        # Sums of the same seconds in another order: the bound may be above the plan by rounding alone.
        bound_s = min(self.bound_s, self.best.makespan_s)
        return Plan(schedule=self.best, steps=max(1, self.steps), bound_s=bound_s, cut=cut)


def _keeps_budgets(instance: Instance, schedule: Schedule) -> bool:
    graph = instance.graph
    if not graph.budget_names:
        return True
    consumed, modes = graph.consumption.copy(), encode_schedule(instance, schedule).modes
    for group in instance.groups:
        if group.consumption is not None:
            consumed[group.tasks] = group.consumption[modes[group.tasks]]
    return not find_exceeded(graph, consumed.sum(axis=0)).any()


def _no_plan_error(instance: Instance, *, proven: bool) -> Infeasible:
    names = ", ".join(instance.binding_budgets())
    if proven:
        return Infeasible(f"no plan keeps within the budgets ({names}): CP-SAT has proven it")
    advice = "this is no proof that there is none: give it more time (--plan-time)"
    return Infeasible(f"CP-SAT has found no plan that keeps within the budgets ({names}); {advice}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpSat:
    """Searches until no better plan can exist, or the budget is spent."""

    name: ClassVar[str] = "cp-sat"
    title: ClassVar[str] = "exact model for CP-SAT (Perron et al. 2023), with a bound; small instances"

    workers: int = 0
    """Threads that search where a clock ends the search; 0: as many as there are workers."""

    def __post_init__(self) -> None:
        if self.workers < 0:
            what = f"cp-sat:workers={self.workers}"
            raise InvalidInput(Problem(what=what, rule="must be at least 0 (as many as there are workers)"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve what is a sum of makespan, node-seconds and price, with budgets, where the model is small."""
        if linearise_objective(instance, objective) is None:
            return Unsupported(reason=f"CP-SAT serves sums of time and cost, not the {objective.name}")
        terms = count_terms(instance)
        if terms > MAX_TERMS:
            reason = f"its model would have some {terms:,} terms, more than {MAX_TERMS:,}"
            return Unsupported(reason=f"this is too large for CP-SAT: {reason}")
        return None

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,
    ) -> Plan:
        """Search from the best plan of the list planners; from nothing where budgets have to be kept."""
        workers = self.workers or pool.workers
        if instance.binding_budgets():
            return ExactSearch(instance, objective, budget, workers).run(None, 0, rng)
        seeds = plan_seeds(instance, objective, budget, rng)
        return ExactSearch(instance, objective, budget, workers).run(seeds.schedules[0], seeds.steps, rng)

    def improve(
        self,
        instance: Instance,
        *,
        objective: Objective,
        start: Schedule,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Plan:
        """Search from a plan that is known."""
        return ExactSearch(instance, objective, budget, self.workers or 1).run(start, 0, rng)
