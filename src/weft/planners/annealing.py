"""Simulated annealing over bindings and node counts: the genes of ``genetic`` with another optimiser."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.instance.instance import Instance
from weft.planners.decoding import encode_schedule
from weft.planners.genetic import (
    DECODER_RULES,
    BindingEncoding,
    OccupancyName,
    check_bindings_support,
    fill_gaps,
)
from weft.planners.plan_search import plan_seeds, search_encoding
from weft.planners.planner import BasePlanner, Plan, PlanRequest, Unsupported
from weft.search import annealing as search
from weft.search.pool import INLINE_POOL


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnealingPlanner(BasePlanner):
    """Changes the binding or node count of one task at a time, with falling temperature.

    S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Science 220, 1983 (``weft.search.annealing``); R. Prodan, T.
    Fahringer, SAC 2005 name it as a method for their search engine (docs/papers/dynamic-grid.md, section 4).

    Deviations: the search starts from the plans of list planners, in the task order of the best of them.
    Complexity per individual as ``genetic``.
    """

    name = "annealing"
    title = "simulated annealing over machines and node counts (Kirkpatrick et al. 1983)"
    label = "annealing"
    anytime = True
    any_objective = True

    occupancy: OccupancyName = "append"
    """The rule by which a machine starts a task (``DECODER_RULES``); with "none" no task ever waits."""
    steps: int = 100_000
    """Number of evaluated schedules over which the temperature falls; at most the steps of the budget."""
    walkers: int = 16
    """Number of plans that are changed and evaluated together, each by its own annealing chain."""

    def __post_init__(self) -> None:
        self.require_at_least(1, "steps", "walkers")

    def check(self, instance: Instance) -> Unsupported | None:
        """Refuse instances with budgets that a plan could exceed, or with too many node counts."""
        return check_bindings_support(self.label, instance)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best plan found by annealing from the incumbent or from the plans of list planners."""
        seeds = plan_seeds(request)
        order = encode_schedule(request.instance, seeds.schedules[0]).order
        rule = DECODER_RULES[self.occupancy]
        encoding = BindingEncoding(request.instance, request.objective, rule=rule, order=order)
        budget = request.budget
        limit = self.steps if budget.steps is None else min(self.steps, budget.steps - seeds.steps)
        optimiser = search.SimulatedAnnealing(
            settings=search.AnnealingSettings(steps=max(1, limit), walkers=self.walkers)
        )
        # A generation is as small as the number of walkers, too small for a pool.
        inline = replace(request, pool=INLINE_POOL)
        return fill_gaps(request, search_encoding(inline, encoding, optimiser, by=self.name, seeds=seeds))
