"""Simulated annealing over bindings and node counts, with the encoding of ``weft.planners.genetic``."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from weft.instance.instance import Instance
from weft.planners.decoding import encode_schedule
from weft.planners.genetic import (
    DECODER_RULES,
    BindingEncoding,
    OccupancyName,
    check_bindings_support,
    fill_gaps,
)
from weft.planners.plan_search import PreparedSearch, plan_seeds, run_search
from weft.planners.planner import BasePlanner, Plan, PlanRequest, Unsupported
from weft.search import annealing as search
from weft.search.pool import INLINE_POOL


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnealingPlanner(BasePlanner):
    """Changes the binding or node count of one task at a time, with falling temperature.

    S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, Science 220, 1983 (``weft.search.annealing``); R. Prodan, T.
    Fahringer, SAC 2005 name annealing as a method for their search engine (docs/papers/dynamic-grid.md,
    section 4).

    Deviations: the search starts from the plans of list planners. All plans are decoded in the task order of
    the best of these plans. The complexity per evaluated plan is that of ``genetic``.
    """

    name = "annealing"
    title = "simulated annealing over machines and node counts (Kirkpatrick et al. 1983)"
    label = "annealing"
    anytime = True
    any_objective = True

    occupancy: OccupancyName = "append"
    """The rule by which a machine starts a task (``DECODER_RULES``); "none": tasks never wait for nodes."""
    steps: int = 100_000
    """Number of evaluated schedules over which the temperature falls; at most the steps of the budget."""
    walkers: int = 16
    """Number of plans that are changed and evaluated together, each by its own annealing chain."""

    coolings: int = 5
    """Number of coolings, each twice as long as the one before."""
    hot: float = 1.5
    """First temperature, as a multiple of the mean absolute change of the value in the first moves."""
    milder: float = 0.33
    """First temperature of a cooling, as a share of the first temperature of the cooling before."""
    cold: float = 0.01
    """Last temperature of a cooling, as a share of the first temperature of the same cooling."""

    def __post_init__(self) -> None:
        self.require_at_least(1, "steps", "walkers", "coolings")
        _ = self.settings  # refuses temperatures that are not above 0

    @property
    def settings(self) -> search.AnnealingSettings:
        """Return the fields of this planner that are settings of ``weft.search.annealing``."""
        names = [field.name for field in fields(search.AnnealingSettings)]
        return search.AnnealingSettings(**{name: getattr(self, name) for name in names})

    def check(self, instance: Instance) -> Unsupported | None:
        """Refuse instances with budgets that a plan could exceed, or with too many node counts."""
        return check_bindings_support(self.label, instance)

    def prepare(self, request: PlanRequest) -> PreparedSearch:
        """Return the search, which starts from the incumbent or else from the plans of list planners."""
        seeds = plan_seeds(request)
        order = encode_schedule(request.instance, seeds.schedules[0]).order
        rule = DECODER_RULES[self.occupancy]
        encoding = BindingEncoding(request.instance, request.objective, rule=rule, order=order)
        budget = request.budget
        limit = self.steps if budget.steps is None else min(self.steps, budget.steps - seeds.steps)
        optimiser = search.SimulatedAnnealing(settings=replace(self.settings, steps=max(1, limit)))
        return PreparedSearch(encoding, optimiser, seeds)

    def plan(self, request: PlanRequest) -> Plan:
        """Return the best plan found by annealing from the incumbent or from the plans of list planners."""
        # A generation is as small as the number of walkers, too small for a pool.
        inline = replace(request, pool=INLINE_POOL)
        return fill_gaps(request, run_search(inline, self.prepare(request), by=self.name))
