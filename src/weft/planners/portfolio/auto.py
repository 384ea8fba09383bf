"""``auto``, the default: a portfolio that gives the best plan in the time it gets, and how good it is.

List planners give a first plan at once. Where it is not as short as the lower bounds, ``weave`` searches on
from it, and ``cp-sat`` where its model is small enough; whoever finds a better plan or a better bound shares
it with the others. It ends when plan and bound meet, when the budget is spent, or with Ctrl-C, and gives the
best plan so far: never a worse one than any planner in it gave. A planner that breaks is left out, and the
plan says so in a note.

With a budget of steps the plan depends on seed, steps and islands alone.

Complexity: that of its list planners, then as long as the budget allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.errors import Infeasible, InvalidInput, Problem
from weft.instance.instance import Instance
from weft.planners import PLANNERS
from weft.planners.bounding import bounds_of
from weft.planners.exact.alike import moves_nothing
from weft.planners.exact.sizes import terms_of
from weft.planners.planner import Budget, Plan, Planner, Unsupported
from weft.planners.portfolio.first_plans import LISTS, first_plans, half_of
from weft.planners.portfolio.incumbent import Incumbent
from weft.planners.portfolio.rounds import Contender, Rounds
from weft.schedule.objective import Objective
from weft.schedule.schedule import Schedule
from weft.search.pool import ALONE, Pool

__all__ = ["Auto"]

_SEARCHES: tuple[tuple[str, bool, float, int], ...] = (
    ("weave", False, 0.1, 1),
    ("cp-sat", True, 0.8, 2_000),
)
"""Who searches; whether two of them would do the same; seconds and steps below which it is not worth it."""
_OTHERS: tuple[tuple[str, bool, float, int], ...] = (
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
        for name in [*(name for name, _ in LISTS), *(name for name, *_ in (*_SEARCHES, *_OTHERS))]:
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
        pool: Pool = ALONE,
    ) -> Plan:
        """Plan with the list planners, then search on from the best plan."""
        incumbent = Incumbent(instance, objective, budget.tell)
        try:
            first_plans(instance, objective, budget, rng, incumbent)
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
        bounds = bounds_of(instance)
        incumbent.raise_bound(bounds.best_s, bounds.argument)
        return self._searched(instance, objective, budget, rng, ALONE, incumbent)

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
        rounds = Rounds(instance, objective, budget, incumbent, _contenders(instance, objective))
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
    for group in (_SEARCHES, _OTHERS):
        found = [
            Contender(name=name, alone=alone, least_s=least_s, least_steps=least_steps)
            for name, alone, least_s, least_steps in group
            if name in PLANNERS and _planner(name).supports(instance, objective) is None
        ]
        if found:
            prompt = not moves_nothing(instance) and terms_of(instance) <= _PROMPT_TERMS
            return sorted(found, key=lambda one: one.alone, reverse=prompt)
    return []


def _first_search(
    instance: Instance, objective: Objective, budget: Budget, rng: np.random.Generator, incumbent: Incumbent
) -> None:
    """Let somebody who searches make the first plan: no list planner can."""
    infeasible: Infeasible | None = None
    for contender in _contenders(instance, objective):
        part = half_of(budget, incumbent.steps)
        try:
            made = _planner(contender.name).plan(instance, objective=objective, budget=part, rng=rng)
        except Infeasible as error:
            infeasible = error
            continue
        incumbent.offer(made, contender.name)
        bounds = bounds_of(instance)
        incumbent.raise_bound(bounds.best_s, bounds.argument)
        return
    if infeasible is not None:
        raise infeasible


def _out_of_time(budget: Budget, incumbent: Incumbent) -> bool:
    """Say whether the clock ended what was not at its end."""
    timed = budget.left is not None and budget.left() <= 0
    return timed and not incumbent.is_settled
