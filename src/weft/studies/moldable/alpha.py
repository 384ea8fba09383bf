"""``s2-alpha``: what plans cost and how long they take when time and cost are weighed by alpha.

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (spec s2 sections 4, 8, 10
and 12; A2.4 to A2.6, A2.9): paying for nodes in use (on-demand) and for the whole cluster (static, in our
reading and as printed), compared with every task on its fastest node count; medians of 20 runs.

Deviations: all runs have the settings the paper recommends in the end, 50 individuals and 500 generations;
``full`` adds all workflows and alphas with the settings of Table 2, on demand, and 1,000 generations. Time is
that of the processor, which does not depend on what else runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.searches.counts import Counts
from weft.schedule.metrics import measure
from weft.schedule.objective import objective_named
from weft.search.genetic import Settings
from weft.studies.moldable.alpha_cells import Case, cells_of
from weft.studies.moldable.alpha_rows import alpha_rows
from weft.studies.moldable.workflows import QUEUE, dependent, independent, local_metrics
from weft.studies.reproduction import Cell, Measures, Results, Row
from weft.studies.searches import searched

__all__ = ["Alpha"]


class Alpha:
    """The weighing of time and cost."""

    name: ClassVar[str] = "s2-alpha"
    title: ClassVar[str] = "time against cost and idle nodes by alpha (Jaros, Jaros; S2 section 10, Table 2)"

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give what the tolerances are about; with ``full`` Table 2 too."""
        return cells_of(full=full)

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:
        """Search once."""
        given: dict[str, Any] = dict(cell.settings)
        case = Case(**given)
        instance = _instance(case)
        counts = _counts(instance, case.objective, case.alpha)
        counts.values(counts.space.draw(rng, 1))  # compiled or loaded before time is taken
        begun_s = time.process_time()
        found = searched(_settings(case), counts.space, counts.values, rng)
        taken_s = time.process_time() - begun_s
        plan, local = measure(counts.schedule(found.best), instance), local_metrics(instance)
        return {
            "makespan_s": plan.makespan_s,
            "makespan_percent": 100.0 * (plan.makespan_s / local.makespan_s - 1.0),
            "node_seconds": plan.node_seconds,
            "cost_percent": 100.0 * (plan.node_seconds / local.node_seconds - 1.0),
            "idle_percent": 100.0 * plan.idle_share,
            "evaluations_to_best": case.population * (found.generation_of_best + 1),
            "visited": found.visited,
            "cpu_s": taken_s,
        }

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:
        """Give the figures of S2 section 10, and Table 2."""
        return alpha_rows(results, full=full)


def _instance(case: Case) -> Instance:
    if case.dependent:
        return dependent(case.tasks, perturbed=case.perturbed)
    return independent(case.tasks)


@cache
def _counts(instance: Instance, objective: str, alpha: float) -> Counts:
    return Counts(instance, objective_named(objective, alpha), queue=QUEUE)


def _settings(case: Case) -> Settings:
    return Settings(
        population=case.population,
        generations=case.generations,
        selection=case.selection,
        mutation_rate=case.mutation_rate,
    )
