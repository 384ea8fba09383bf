"""``auto``, the default planner: returns the best plan of many planners, and a lower bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.errors import Infeasible
from weft.instance.instance import Instance, mark_untimed_tasks
from weft.planners import PLANNERS
from weft.planners.evaluation import compute_bounds
from weft.planners.planner import (
    BasePlanner,
    Budget,
    ClockSlice,
    Plan,
    Planner,
    PlanRequest,
    Unsupported,
    supported_objective,
)
from weft.planners.portfolio import Contender, Incumbent, PortfolioSearch
from weft.planners.problem import compile_problem
from weft.schedule.objective import Objective
from weft.workflow.task_graph import COMPUTE

_ANY = 2**62
LIST_PLANNERS: tuple[tuple[str, int], ...] = (
    ("heft", _ANY),
    ("heft-moldable", _ANY),
    ("cheapest", _ANY),
    ("local-optimum", 1_000_000),
    ("xdcp", 20_000),
    ("cpop", 20_000),
    ("peft", 20_000),
    ("dls", 20_000),
    ("hlfet", 20_000),
    ("mct", 20_000),
    ("maxmin", 20_000),
    ("minmin", 20_000),
    ("sufferage", 20_000),
    ("etf", 20_000),
    ("cpa", 5_000),
    ("lookahead", 4_000),
)
"""List planners in the order of their use, each with the largest number of modes that it is used for.

The number counts the modes of all tasks of an instance. A planner is not used for instances with more modes.
"""
_MAIN_SEARCHES: tuple[tuple[str, bool, float, int], ...] = (
    ("weave", False, 0.1, 1),
    ("cp-sat", True, 0.8, 2_000),
)
"""Anytime planners: name, whether at most one copy runs at a time, least seconds and least steps to start.

A planner is not started if fewer steps are left. The least seconds count only for planners of which at most
one copy runs.
"""
_FALLBACK_SEARCHES: tuple[tuple[str, bool, float, int], ...] = (
    ("moldable-genetic", False, 0.1, 10),
    ("genetic", False, 0.1, 10),
    ("annealing", False, 0.1, 10),
)
"""Anytime planners for objectives that none of the main searches supports."""
_MAX_BOUND_MODES = 5_000_000
"""Largest number of modes for which lower bounds are computed; with more modes this takes several seconds."""
_LIST_SHARE = 0.25
"""No list planner starts after this share of the planning time has passed, if there is a plan."""
_SMALL_TERMS = 500
"""Largest number of terms of an exact model that is usually solved within a second (a few dozen tasks)."""
_UNTIMED = "no task has an estimated time, so no better plan is searched for"
_INTERRUPTED = "the search was interrupted: this is the best plan so far"


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(BasePlanner):
    """The portfolio of list planners, searches and the exact planner.

    List planners build the first plans. If no plan is as short as the lower bound, ``weave`` continues from
    the best plan, and so does ``cp-sat`` if its model is small enough. Every better plan or bound is passed
    to the other searches. If no task has an estimated time, there is no search, because it would optimise
    placeholder durations. The search ends when the makespan equals the bound, when the budget is spent, or
    with Ctrl-C. The result is never worse than the plan of any planner that has run. A planner that fails is
    not called again, and a note of the plan says so.

    With a budget of steps the plan of an instance depends only on seed, steps and islands.

    Complexity: that of the list planners, then as long as the budget allows.
    """

    name = "auto"
    title = "the best of list planners, search and CP-SAT within --plan-time, with a bound"
    label = "auto"
    anytime = True

    islands: int = 0
    """Number of parallel searches that exchange their best plans; 0: the number of workers."""

    def __post_init__(self) -> None:
        self.require_at_least(0, "islands", note=" (as many as there are workers)")

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Return None if any planner of the portfolio supports the instance, else the first refusal."""
        refusals = []
        names = [name for name, _ in LIST_PLANNERS]
        names += [name for name, *_ in (*_MAIN_SEARCHES, *_FALLBACK_SEARCHES)]
        for name in names:
            refusal = _load(name).supports(instance, objective) if name in PLANNERS else None
            if refusal is None and name in PLANNERS:
                return None
            refusals += [] if refusal is None else [refusal]
        return refusals[0]

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best plan of searches that start from the incumbent or from plans of list planners."""
        incumbent = Incumbent(request.instance, request.objective, request.budget.on_progress)
        if request.incumbent is not None:
            incumbent.offer(Plan(schedule=request.incumbent, steps=0), "start")
            _raise_bound(request.instance, incumbent)
            return self._search(request, incumbent)
        try:
            run_list_planners(request, incumbent)
            if incumbent.schedule is None:
                _run_first_search(request, incumbent)
        except KeyboardInterrupt:
            if incumbent.schedule is None:
                raise
            return incumbent.plan(cut=True, notes=(_INTERRUPTED,))
        return self._search(request, incumbent)

    def _search(self, request: PlanRequest, incumbent: Incumbent) -> Plan:
        budget = request.budget
        if incumbent.is_settled or not budget.allows(incumbent.steps):
            return incumbent.plan(cut=_is_out_of_time(budget, incumbent), notes=())
        if mark_untimed_tasks(request.instance).sum() == (request.instance.graph.kind == COMPUTE).sum():
            return incumbent.plan(cut=False, notes=(_UNTIMED,))
        search = PortfolioSearch(request, incumbent, _contenders(request.instance, request.objective))
        try:
            search.run(self.islands or request.pool.workers)
        except KeyboardInterrupt:
            search.interrupted = True
        notes = (*search.notes, *([_INTERRUPTED] if search.interrupted else []))
        cut = search.interrupted or search.broken or _is_out_of_time(budget, incumbent)
        return incumbent.plan(cut=cut, notes=notes)


def run_list_planners(request: PlanRequest, incumbent: Incumbent) -> None:
    """Offer the incumbent the plans of all list planners that are fast enough, and raise its lower bound.

    Raises Infeasible if no list planner builds a plan and at least one of them has raised Infeasible, or if
    the times of a plan exceed the range of floating-point numbers.
    """
    instance, objective, budget = request.instance, request.objective, request.budget
    modes = sum(len(group.tasks) * len(group.machine) for group in instance.groups)
    latest_s = None if budget.left is None else (1.0 - _LIST_SHARE) * budget.left()
    infeasible: Infeasible | None = None
    for name, most in LIST_PLANNERS:
        if incumbent.schedule is not None and (incumbent.is_settled or _is_late(budget, latest_s)):
            return
        if modes > most or not _differs(name, instance, objective):
            continue
        planner = _load(name)
        goal = supported_objective(planner, instance, objective)
        if goal is None or not (incumbent.schedule is None or budget.allows(incumbent.steps)):
            continue
        half = _half_budget(budget, incumbent.steps)
        try:
            # Overflows are reported below as infeasible times.
            with np.errstate(over="ignore", invalid="ignore"):
                made = planner.plan(
                    PlanRequest(instance=instance, objective=goal, budget=half, rng=request.rng)
                )
        except Infeasible as error:
            infeasible = infeasible or error
            continue
        if not np.isfinite(made.schedule.finish_s).all():
            raise Infeasible("the times of this plan exceed the range of floating-point numbers")
        # The bounds computed below are at least as high as the bound of a list planner.
        incumbent.offer(replace(made, bound_s=0.0), name)
        if incumbent.bound_s == 0 and modes <= _MAX_BOUND_MODES:
            _raise_bound(instance, incumbent)
    if incumbent.schedule is None and infeasible is not None:
        raise infeasible


def _differs(name: str, instance: Instance, objective: Objective) -> bool:
    """Return whether a planner can build a plan that no planner before it in LIST_PLANNERS builds."""
    moldable = bool(compile_problem(instance).modes.moldable.any())
    costs = not objective.is_makespan or objective.max_cost is not None
    if name in ("heft-moldable", "cpa"):
        return moldable or costs
    return name != "cheapest" or costs


def _is_late(budget: Budget, latest_s: float | None) -> bool:
    return latest_s is not None and budget.left is not None and budget.left() < latest_s


def _half_budget(budget: Budget, taken: int) -> Budget:
    """Return half of the steps and of the time that remain after ``taken`` steps."""
    steps = None if budget.steps is None else max(1, (budget.steps - taken) // 2)
    if budget.left is None:
        return Budget(steps=steps)
    clock = ClockSlice(left=budget.left, until_s=budget.left() / 2.0)
    return Budget(steps=steps, left=clock.remaining_s)


def _load(name: str) -> Planner:
    planner: Planner = PLANNERS.load(name)()
    return planner


def _raise_bound(instance: Instance, incumbent: Incumbent) -> None:
    bounds = compute_bounds(instance)
    incumbent.raise_bound(bounds.best_s, bounds.argument)


def _contenders(instance: Instance, objective: Objective) -> list[Contender]:
    """Return the anytime planners that support the instance, in the order in which they are started.

    The fallback searches are returned only if no main search supports the instance. The exact planner comes
    first if transfers take time and its model is small enough to be solved at once: with transfers the lower
    bounds hardly ever equal the optimum, so that only the exact planner can prove that a plan is optimal.
    """
    from weft.planners.exact.exact_instance import count_terms, is_communication_free  # only for searches

    for group in (_MAIN_SEARCHES, _FALLBACK_SEARCHES):
        found = [
            Contender(name=name, alone=alone, least_s=least_s, least_steps=least_steps)
            for name, alone, least_s, least_steps in group
            if name in PLANNERS and _load(name).supports(instance, objective) is None
        ]
        if found:
            exact_first = not is_communication_free(instance) and count_terms(instance) <= _SMALL_TERMS
            return sorted(found, key=lambda one: one.alone, reverse=exact_first)
    return []


def _run_first_search(request: PlanRequest, incumbent: Incumbent) -> None:
    """Offer the incumbent the plan of the first anytime planner that finds a plan.

    This is needed if no list planner has built a plan.
    """
    infeasible: Infeasible | None = None
    for contender in _contenders(request.instance, request.objective):
        part = PlanRequest(
            instance=request.instance,
            objective=request.objective,
            budget=_half_budget(request.budget, incumbent.steps),
            rng=request.rng,
        )
        try:
            made = _load(contender.name).plan(part)
        except Infeasible as error:
            infeasible = error
            continue
        incumbent.offer(made, contender.name)
        _raise_bound(request.instance, incumbent)
        return
    if infeasible is not None:
        raise infeasible


def _is_out_of_time(budget: Budget, incumbent: Incumbent) -> bool:
    """Return whether the planning time is over and the plan is not proven optimal."""
    timed = budget.left is not None and budget.left() <= 0
    return timed and not incumbent.is_settled
