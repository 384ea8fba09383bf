"""``s2-local``: how soon the genetic search of S2 finds the best node counts, which are known (Table 1).

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (spec s2 sections 8, 10 and
12; A2.2, A2.3): the sum of all times is minimised, so every task is best on its own fastest count. Uniform
crossover 0.7, mutation 0.01, 5 % elitism; 20 runs.

Deviations: a run ends with the generation that finds the optimum, or after 1,000 generations (the paper does
not say when). Selections other than steady-state, the best one in the paper, have 5 runs without ``full``,
which also tries every population with every size and selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np

from weft.instance.instance import Instance
from weft.planners.queueing import run_queue, submission_order
from weft.schedule.metrics import measure
from weft.search.genetic import PRESETS
from weft.search.space import Floats, Points, Space, space_of
from weft.studies.moldable.local_rows import JUDGED, POPULATIONS, SELECTIONS, TABLE, local_cell, local_rows
from weft.studies.moldable.workflows import QUEUE, SIZES, dependent, local_counts
from weft.studies.reproduction import Cell, Measures, Results, Row, Value
from weft.studies.searches import searched

__all__ = ["Local"]

_RUNS, _OTHER_RUNS = 20, 5
_GENERATIONS = 1000
_ROUNDING = 1e-9


class Local:
    """The search for the fastest node counts."""

    name: ClassVar[str] = "s2-local"
    title: ClassVar[str] = "generations until the fastest node counts are found (Jaros, Jaros; S2 Table 1)"

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give sizes with selections, with the population of the table or with all."""
        cells = []
        for selection in SELECTIONS:
            for tasks in SIZES:
                own = TABLE[tasks].population
                for population in (own, *(other for other in POPULATIONS if full and other != own)):
                    runs = _RUNS if full or selection == JUDGED else _OTHER_RUNS
                    cells.append(_cell(selection, tasks, population, runs))
        return cells

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:
        """Search once."""
        settings = cell.settings
        task = _local(int(settings["tasks"]))
        search = replace(
            PRESETS["s2-recommended"],
            population=int(settings["population"]),
            generations=_GENERATIONS,
            selection=settings["selection"],  # type: ignore[arg-type]
        )
        found = searched(search, task.space, task.values, rng, task.optimum)
        counts = found.best + np.uint32(1)
        return {
            "success": float(found.value >= task.optimum),
            "fastest_counts": float((counts == task.fastest).all()),
            "generation_of_best": found.generation_of_best,
            "visited": found.visited,
            "idle_percent": _idle_percent(task, counts),
        }

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:
        """Give Table 1, first for the selection the tolerances are about, and the idle shares."""
        return local_rows(results, full=full)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """What is searched: per gene the seconds by node count, in the order of submission."""

    instance: Instance
    order: Points
    space: Space
    seconds: Floats
    """Genes x counts."""
    fastest: Points
    optimum: float
    """The value of the best point, less what rounding may take."""

    def values(self, points: Points) -> Floats:
        """Give minus the sum of the times."""
        found: Floats = -self.seconds[np.arange(points.shape[1]), points].sum(axis=1)
        return found


@cache
def _local(tasks: int) -> _Task:
    instance = dependent(tasks)
    order = submission_order(instance)
    modes = [instance.modes(task) for task in order.tolist()]
    sizes = [len(one.count) for one in modes]
    seconds = np.full((tasks, max(sizes)), np.inf)
    for gene, one in enumerate(modes):
        assert one.count.tolist() == list(range(1, len(one.count) + 1))
        seconds[gene, : len(one.count)] = one.seconds
    return _Task(
        instance=instance,
        order=order,
        space=space_of(sizes),
        seconds=seconds,
        fastest=local_counts(instance)[order],
        optimum=-float(seconds.min(axis=1).sum()) * (1.0 + _ROUNDING),
    )


def _idle_percent(task: _Task, counts: Points) -> float:
    by_task = np.empty_like(counts)
    by_task[task.order] = counts
    return 100.0 * measure(run_queue(task.instance, by_task, QUEUE), task.instance).idle_share


def _cell(selection: str, tasks: int, population: int, runs: int) -> Cell:
    settings: dict[str, Value] = {"selection": selection, "tasks": tasks, "population": population}
    # Slow selections take all generations; a generation costs a bit by itself.
    slow = 4.0 if selection == "roulette" else 1.0
    work = slow * (100.0 + population)
    return Cell(name=local_cell(selection, tasks, population), settings=settings, runs=runs, work=work)
