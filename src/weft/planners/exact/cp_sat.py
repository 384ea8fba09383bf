"""CP-SAT: an exact model of all plans, solved by OR-Tools, with a lower bound on the makespan."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.errors import Infeasible
from weft.instance.instance import Instance, find_exceeded
from weft.planners.decoding import encode_schedule
from weft.planners.evaluation import compute_bounds, evaluate_loss, linearise_objective
from weft.planners.exact.exact_instance import MAX_TERMS, compile_exact_instance, count_terms
from weft.planners.exact.plan_model import PlanModel, add_hints, read_schedule
from weft.planners.plan_search import plan_seeds
from weft.planners.planner import GAP_TOLERANCE, BasePlanner, Plan, PlanProgress, PlanRequest, Unsupported
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule

if TYPE_CHECKING:
    from weft.planners.exact.solver import Limits, Model, SolverResult, Value


STEPS_PER_DETERMINISTIC_SECOND = 20_000
"""Steps of a budget per deterministic second, CP-SAT's unit of work (a few seconds of processor time)."""
_DEFAULT_STEPS = 20_000
"""Number of steps if the budget limits neither steps nor time."""
_MIN_REST = 0.15
"""The solver is not called again if less time is left than this share of the time limit of its last call."""
_EARLY = 0.5
"""A call of the solver that ends before this share of its time limit counts as interrupted with Ctrl-C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpSat(BasePlanner):
    """Solves an exact model with CP-SAT until the plan is proven optimal or the budget is spent.

    L. Perron, F. Didier, S. Gay, The CP-SAT-LP Solver, CP 2023. The model (``plan_model``) has a start and an
    end per task, one machine per binding variable and one mode per task. Machines of one node run one task at
    a time; on other machines nodes and resources are counted. Data take time between hosts. If no transfer
    takes time, equivalent machines of one node are modelled as one machine of several nodes. The search
    starts from a known schedule if there is one, and every solution is decoded with the unrounded seconds.

    Deviations: only the solver is published. Seconds become integers (``exact_instance.TickGrid``): exact if
    they are decimal numbers, else rounded down, so that the bound holds. Complexity: exponential; instances
    whose model has more than ``MAX_TERMS`` literals and terms are refused.
    """

    name = "cp-sat"
    title = "exact model for CP-SAT (Perron et al. 2023), with a bound; small instances"
    label = "CP-SAT"
    anytime = True

    workers: int = 0
    """Number of threads if the budget has no steps (else 1); 0: as many as the pool has workers."""

    def __post_init__(self) -> None:
        self.require_at_least(0, "workers", note=" (as many as there are workers)")

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Refuse objectives that are not linear, and instances whose model would be too large."""
        if linearise_objective(instance, objective) is None:
            reason = f"CP-SAT supports objectives that are sums of time and cost, not {objective.name!r}"
            return Unsupported(reason=reason)
        if (terms := count_terms(instance)) > MAX_TERMS:
            reason = f"its model would have about {terms:,} terms, at most {MAX_TERMS:,} are allowed"
            return Unsupported(reason=f"the instance is too large for CP-SAT: {reason}")
        return None

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best plan found; the search starts from the incumbent or from plans of list planners.

        If the workflow has budgets that a plan could exceed and there is no incumbent, the search starts
        without a plan.
        """
        search = _ExactSearch(request, self.workers or request.pool.workers)
        if request.incumbent is None and request.instance.binding_budgets():
            return search.run(None, 0)
        seeds = plan_seeds(request)
        return search.run(seeds.schedules[0], seeds.steps)


class _ExactSearch:
    """One search: calls the solver, and keeps the best schedule and the best bound found so far."""

    def __init__(self, request: PlanRequest, workers: int) -> None:
        linear = linearise_objective(request.instance, request.objective)
        assert linear is not None, request.objective.name
        budget = request.budget
        unlimited = budget.left is None and budget.steps is None
        self.instance = request.instance
        self.objective = request.objective
        self.linear = linear
        self.budget = replace(budget, steps=_DEFAULT_STEPS) if unlimited else budget
        self.rng = request.rng
        # Only a search with one worker is deterministic.
        self.workers = workers if self.budget.steps is None else 1
        self.best: Schedule | None = None
        self.bound_s = 0.0
        self.steps = 0

    def run(self, start: Schedule | None, steps: int) -> Plan:
        """Return the best plan; ``start`` is a first schedule or None, built in ``steps`` steps."""
        self.best, self.steps = start, steps
        if self.linear.is_makespan:
            self.bound_s = compute_bounds(self.instance).best_s
        if self._is_closed() or (start is not None and not self.budget.allows(steps)):
            return self._plan(cut=False)
        try:
            proven = self._search(int(self.rng.integers(2**31)))
        except KeyboardInterrupt:
            if self.best is None:
                raise
            return replace(self._plan(cut=True), interrupted=True)
        if self.best is None:
            raise _no_plan_error(self.instance, proven=proven)
        return self._plan(cut=not proven and not self._has_spent_steps())

    def _search(self, seed: int) -> bool:
        """Call the solver until its result is proven or the budget is spent; return whether it is proven.

        A result is proven if the schedule is proven optimal, or if it is proven that no plan exists.
        """
        from weft.planners.exact.solver import Limits, Model

        built = self._build_model(Model())
        while True:
            limits = Limits(seed=seed, workers=self.workers, effort=self._effort(), clock_s=self._left_s())
            if self.best is not None:
                add_hints(built, self.best)
            result = built.model.solve(limits, lambda bound, value: self._accept(built, bound, value))
            self._count_steps(built, result)
            if result.proven or self._ends(limits, result):
                return result.proven

    def _build_model(self, model: Model) -> PlanModel:
        """Return the model of all plans.

        If only the makespan counts, the model has only plans that are no longer than the best plan.
        """
        linear, best = self.linear, self.best
        known_s = best.makespan_s if best is not None and linear.is_makespan else None
        # An objective that rewards used nodes may prefer a mode that is dominated otherwise.
        all_options = min(linear.per_node_s, linear.per_price) < 0
        case = compile_exact_instance(self.instance, all_options=all_options, known_s=known_s)
        grid = case.grid
        most = grid.begun(case.horizon_s) if grid.exact else grid.begun(case.horizon_s) + 1
        least = grid.ended(self.bound_s) if grid.exact else grid.begun(self.bound_s * (1 - GAP_TOLERANCE))
        return PlanModel(model, case, linear, least=min(least, most), most=most)

    def _effort(self) -> float | None:
        if self.budget.steps is None:
            return None
        return max(1, self.budget.steps - self.steps) / STEPS_PER_DETERMINISTIC_SECOND

    def _left_s(self) -> float | None:
        return None if self.budget.left is None else min(1e9, self.budget.left())

    def _has_spent_steps(self) -> bool:
        return self.budget.steps is not None and self.steps >= self.budget.steps

    def _ends(self, limits: Limits, result: SolverResult) -> bool:
        """Return whether steps or time are (nearly) used up, or Ctrl-C ended the solver."""
        left_s = self._left_s()
        if left_s is None or limits.clock_s is None or self._has_spent_steps():
            return True
        return result.taken_s < _EARLY * limits.clock_s or left_s < _MIN_REST * limits.clock_s

    def _accept(self, built: PlanModel, bound: float, value: Value) -> bool:
        """Keep and report a better solution that does not exceed the budgets; return whether to continue."""
        found = read_schedule(built, value)
        self._raise_bound(built, bound)
        if _keeps_budgets(self.instance, found) and self._is_better(found):
            self.best = found
            self._report()
        return self.budget.left is None or self.budget.left() > 0

    def _is_better(self, found: Schedule) -> bool:
        if self.best is None:
            return True
        new, old = (evaluate_loss(self.instance, self.objective, one) for one in (found, self.best))
        return new < old

    def _count_steps(self, built: PlanModel, result: SolverResult) -> None:
        """Count the steps of a call of the solver; if it found a solution, update and report the bound."""
        spent = max(1, math.ceil(result.effort * STEPS_PER_DETERMINISTIC_SECOND))
        left = spent if self.budget.steps is None else self.budget.steps - self.steps
        self.steps += max(1, min(spent, left))
        if result.found:
            self._raise_bound(built, result.bound)
            self._report()

    def _raise_bound(self, built: PlanModel, bound: float) -> None:
        if self.linear.is_makespan:
            self.bound_s = max(self.bound_s, built.case.grid.seconds(bound))

    def _report(self) -> None:
        if self.budget.on_progress is None or self.best is None:
            return
        bound_s = min(self.bound_s, self.best.makespan_s)
        self.budget.on_progress(
            PlanProgress.of(
                self.best, self.instance, self.objective, by="cp-sat", steps=self.steps, bound_s=bound_s
            )
        )

    def _is_closed(self) -> bool:
        best = self.best
        return (
            best is not None
            and self.linear.is_makespan
            and best.makespan_s <= self.bound_s * (1 + GAP_TOLERANCE)
        )

    def _plan(self, *, cut: bool) -> Plan:
        assert self.best is not None
        # Sums of the same seconds in another order differ by rounding: the bound may exceed the makespan.
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
    advice = "one may exist: give the planner more time (--plan-time)"
    return Infeasible(f"CP-SAT has found no plan that keeps within the budgets ({names}); {advice}")
