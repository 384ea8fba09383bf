"""The first plans of a portfolio: list planners, quick ones first, as long as they are quick.

``auto``, the default: a portfolio that gives the best plan in the time it gets, and how good it is.

List planners give a first plan at once. Where it is not as short as the lower bounds, ``weave`` searches on
from it, and ``cp-sat`` where its model is small enough; whoever finds a better plan or a better bound shares
it with the others. It ends when plan and bound meet, when the budget is spent, or with Ctrl-C, and gives the
best plan so far: never a worse one than any planner in it gave. A planner that breaks is left out, and the
plan says so in a note.

With a budget of steps the plan depends on seed, steps and islands alone.

Complexity: that of its list planners, then as long as the budget allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from weft.errors import Infeasible, InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners import PLANNERS
from weft.planners.evaluation import compute_bounds
from weft.planners.exact.exact_instance import count_terms, is_communication_free
from weft.planners.plan_search import supported_objective
from weft.planners.planner import Budget, ClockSlice, Plan, Planner, Unsupported
from weft.planners.portfolio import Contender, Incumbent, PortfolioSearch
from weft.planners.problem import compile_problem
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import INLINE_POOL, Pool

__all__ = ["LIST_PLANNERS", "Auto", "half_budget", "run_list_planners"]


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
"""Planners, and the number of modes of all tasks up to which each is quick."""
_MOST_MODES = 5_000_000
"""Up to so many modes bounds are computed at once: above, it takes seconds that a search can use."""
_SHARE = 0.25
"""Share of the time after which nothing but a search begins."""


def run_list_planners(
    instance: Instance, objective: Objective, budget: Budget, rng: np.random.Generator, incumbent: Incumbent
) -> None:
    """Let list planners plan, and compute the bounds. Raises Infeasible where all of them do."""
    modes = sum(len(group.tasks) * len(group.machine) for group in instance.groups)
    latest_s = None if budget.left is None else (1.0 - _SHARE) * budget.left()
    infeasible: Infeasible | None = None
    for name, most in LIST_PLANNERS:
        if incumbent.schedule is not None and (incumbent.is_settled or _is_late(budget, latest_s)):
            return
        if modes > most or not _adds_something(name, instance, objective):
            continue
        planner: Planner = PLANNERS.load(name)()
        aim = supported_objective(planner, instance, objective)
        if aim is None or not (incumbent.schedule is None or budget.allows(incumbent.steps)):
            continue
        try:
            # Times larger than numbers can be are refused below, whatever arithmetic says of them.
            with np.errstate(over="ignore", invalid="ignore"):
                made = planner.plan(
                    instance, objective=aim, budget=half_budget(budget, incumbent.steps), rng=rng
                )
        except Infeasible as error:
            infeasible = infeasible or error
            continue
        if not np.isfinite(made.schedule.finish_s).all():
            raise Infeasible("the times of this plan are larger than numbers can be")
        incumbent.offer(_unproven(made), name)
        if incumbent.bound_s == 0 and modes <= _MOST_MODES:
            bounds = compute_bounds(instance)
            incumbent.raise_bound(bounds.best_s, bounds.argument)
    if incumbent.schedule is None and infeasible is not None:
        raise infeasible


def _adds_something(name: str, instance: Instance, objective: Objective) -> bool:
    """Leave out those whose plan another one has made already."""
    moldable = bool(compile_problem(instance).modes.moldable.any())
    costs = not objective.is_makespan or objective.max_cost is not None
    if name in ("heft-moldable", "cpa"):
        return moldable or costs
    return name != "cheapest" or costs


def _is_late(budget: Budget, latest_s: float | None) -> bool:
    return latest_s is not None and budget.left is not None and budget.left() < latest_s


def half_budget(budget: Budget, taken: int) -> Budget:
    """Give half of what is left of a budget: whoever comes first leaves something for the others."""
    steps = None if budget.steps is None else max(1, (budget.steps - taken) // 2)
    if budget.left is None:
        return Budget(steps=steps)
    stretch = ClockSlice(left=budget.left, until_s=budget.left() / 2.0)
    return Budget(steps=steps, left=stretch.remaining_s)


def _unproven(plan: Plan) -> Plan:
    """Leave the steps and the schedule: a first plan proves nothing that the bounds do not."""
    return replace(plan, bound_s=0.0) if plan.bound_s else plan


_MAIN_SEARCHES: tuple[tuple[str, bool, float, int], ...] = (
    ("weave", False, 0.1, 1),
    ("cp-sat", True, 0.8, 2_000),
)
"""Who searches; whether two of them would do the same; seconds and steps below which it is not worth it."""
_FALLBACK_SEARCHES: tuple[tuple[str, bool, float, int], ...] = (
    ("moldable-genetic", False, 0.1, 10),
    ("genetic", False, 0.1, 10),
    ("annealing", False, 0.1, 10),
)
"""Who searches where none of those above serves the objective."""

_PROMPT_TERMS = 500
"""Up to this size (some dozen tasks) an exact model is solved within a second."""
_INTERRUPTED = "the search was interrupted: this is the best plan until then"


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """The portfolio."""

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "the best of list planners, search and CP-SAT within --plan-time, with a bound"

    islands: int = 0
    """Searches side by side, which exchange what they find; 0: as many as there are workers."""

    def __post_init__(self) -> None:
        if self.islands < 0:
            what = f"auto:islands={self.islands}"
            raise InvalidInput(Problem(what=what, rule="must be at least 0 (as many as there are workers)"))

    def supports(self, instance: Instance, objective: Objective) -> Unsupported | None:
        """Serve what any planner of the portfolio serves."""
        refusals = []
        for name in [
            *(name for name, _ in LIST_PLANNERS),
            *(name for name, *_ in (*_MAIN_SEARCHES, *_FALLBACK_SEARCHES)),
        ]:
            refusal = _planner(name).supports(instance, objective) if name in PLANNERS else None
            if refusal is None and name in PLANNERS:
                return None
            refusals += [] if refusal is None else [refusal]
        return refusals[0]

    def plan(
        self,
        instance: Instance,
        *,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool = INLINE_POOL,
    ) -> Plan:
        """Plan with the list planners, then search on from the best plan."""
        incumbent = Incumbent(instance, objective, budget.tell)
        try:
            run_list_planners(instance, objective, budget, rng, incumbent)
            if incumbent.schedule is None:
                _first_search(instance, objective, budget, rng, incumbent)
        except KeyboardInterrupt:
            if incumbent.schedule is None:
                raise
            return incumbent.plan(cut=True, notes=(_INTERRUPTED,))
        return self._searched(instance, objective, budget, rng, pool, incumbent)

    def improve(
        self,
        instance: Instance,
        *,
        objective: Objective,
        start: Schedule,
        budget: Budget,
        rng: np.random.Generator,
    ) -> Plan:
        """Search on from a plan that is known."""
        incumbent = Incumbent(instance, objective, budget.tell)
        incumbent.offer(Plan(schedule=start, steps=0), "start")
        bounds = compute_bounds(instance)
        incumbent.raise_bound(bounds.best_s, bounds.argument)
        return self._searched(instance, objective, budget, rng, INLINE_POOL, incumbent)

    def _searched(
        self,
        instance: Instance,
        objective: Objective,
        budget: Budget,
        rng: np.random.Generator,
        pool: Pool,
        incumbent: Incumbent,
    ) -> Plan:
        if incumbent.is_settled or not budget.allows(incumbent.steps):
            return incumbent.plan(cut=_out_of_time(budget, incumbent), notes=())
        rounds = PortfolioSearch(instance, objective, budget, incumbent, _contenders(instance, objective))
        try:
            rounds.run(self.islands or pool.workers, pool, rng)
        except KeyboardInterrupt:
            rounds.interrupted = True
        notes = (*rounds.notes, *([_INTERRUPTED] if rounds.interrupted else []))
        cut = rounds.interrupted or rounds.broken or _out_of_time(budget, incumbent)
        return incumbent.plan(cut=cut, notes=notes)


def _planner(name: str) -> Planner:
    planner: Planner = PLANNERS.load(name)()
    return planner


def _contenders(instance: Instance, objective: Objective) -> list[Contender]:
    """Choose those who can search, in the order of their turns: the strong ones, else the others.

    Where data move, bounds alone hardly ever meet the best plan: it takes a proof. A model so small that it
    is proven as soon as it is loaded comes first.
    """
    for group in (_MAIN_SEARCHES, _FALLBACK_SEARCHES):
        found = [
            Contender(name=name, alone=alone, least_s=least_s, least_steps=least_steps)
            for name, alone, least_s, least_steps in group
            if name in PLANNERS and _planner(name).supports(instance, objective) is None
        ]
        if found:
            prompt = not is_communication_free(instance) and count_terms(instance) <= _PROMPT_TERMS
            return sorted(found, key=lambda one: one.alone, reverse=prompt)
    return []


def _first_search(
    instance: Instance, objective: Objective, budget: Budget, rng: np.random.Generator, incumbent: Incumbent
) -> None:
    """Let somebody who searches make the first plan: no list planner can."""
    infeasible: Infeasible | None = None
    for contender in _contenders(instance, objective):
        part = half_budget(budget, incumbent.steps)
        try:
            made = _planner(contender.name).plan(instance, objective=objective, budget=part, rng=rng)
        except Infeasible as error:
            infeasible = error
            continue
        incumbent.offer(made, contender.name)
        bounds = compute_bounds(instance)
        incumbent.raise_bound(bounds.best_s, bounds.argument)
        return
    if infeasible is not None:
        raise infeasible


def _out_of_time(budget: Budget, incumbent: Incumbent) -> bool:
    """Say whether the clock ended what was not at its end."""
    timed = budget.left is not None and budget.left() <= 0
    return timed and not incumbent.is_settled
