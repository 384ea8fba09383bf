"""``s1-tuning``: how well the genetic search of S1 schedules WIEN2k-50, and which settings it needs.

R. Prodan, T. Fahringer, SAC 2005 (spec s1 sections 4, 11 and 12; A1.3 to A1.5, A1.7, A1.8): the chosen
settings, each of them changed alone, and with ``full`` the grid of 2,880 experiments with 30 runs each. One
task at a time runs on a machine. The known good time is that of all tasks in turn on the 16 fast machines.

Deviations: without ``full`` the settings that the tolerances are about have 12 runs, the others 3; the runs
of the chosen settings are 30 as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from typing import Any, ClassVar

import numpy as np

from weft.instance import compile_instance
from weft.planners.decoding import EXCLUSIVE
from weft.planners.searches.bindings import Bindings
from weft.schedule.objective import objective_named
from weft.search.genetic import PRESETS, Settings
from weft.studies.dynamic_grid.factors import FACTORS, GRID, OPERATORS, TRENDS, VARIANTS, cell_name
from weft.studies.dynamic_grid.operators import operator_measures
from weft.studies.dynamic_grid.testbed import FAST_MACHINES, grid_testbed
from weft.studies.dynamic_grid.tuning_rows import rows_of
from weft.studies.dynamic_grid.wien2k import wien2k
from weft.studies.reproduction import Cell, Measures, Results, Row, Value
from weft.studies.searches import searched
from weft.studies.statistics import improvement_percent, precision_percent
from weft.workflow.unfolding.unfold import unfold

__all__ = ["Tuning", "grid_cells", "reference_s"]

_RUNS = 30
"""Of every experiment in the paper."""
_JUDGED_RUNS, _OTHER_RUNS = 12, 3
"""Of settings with and without a tolerance, where a minute must do."""
_SEPARATE = "separate_genes"
"""The setting that is not one of the search: LAPW2 has machines of its own."""


class Tuning:
    """The tuning experiment."""

    name: ClassVar[str] = "s1-tuning"
    title: ClassVar[str] = "settings of the genetic search for WIEN2k (Prodan, Fahringer 2005; S1 section 12)"

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give the chosen settings, each changed alone, other variants, and the grid."""
        judged = {(trend.setting, trend.value) for trend in TRENDS}
        cells = [Cell(name=OPERATORS, runs=1, work=0.0), _cell({}, _RUNS)]
        for factor in FACTORS:
            for value in factor.others:
                quick = _JUDGED_RUNS if (factor.setting, value) in judged else _OTHER_RUNS
                cells.append(_cell({factor.setting: value}, _RUNS if full else quick))
        cells += [_cell(settings, _RUNS if full else _OTHER_RUNS) for settings in VARIANTS]
        if full:
            cells += grid_cells()
        return cells

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:
        """Search once."""
        if cell.name == OPERATORS:
            return operator_measures(rng)
        shared = not cell.settings.get(_SEPARATE, False)
        bindings = _bindings(shared=shared)
        found = searched(_settings(cell.settings), bindings.space, bindings.values, rng)
        return {
            "best_s": -found.value,
            "precision_percent": precision_percent(-found.value, reference_s()),
            "improvement_percent": improvement_percent(-found.first_best, -found.value),
            "visited": found.visited,
            "generation_of_best": found.generation_of_best,
        }

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:
        """Give the tables of S1 section 12."""
        return rows_of(results, [cell.name for cell in grid_cells()], reference_s(), full=full)


def grid_cells() -> list[Cell]:
    """Give the experiments of the paper's grid."""
    return [_cell(dict(zip(GRID, values, strict=True)), _RUNS) for values in product(*GRID.values())]


@cache
def reference_s() -> float:
    """Give the time of all tasks in turn on the fast machines, S1's measure of a good plan."""
    bindings = _bindings(shared=True)
    in_turn = np.arange(bindings.space.genes, dtype=np.uint32) % FAST_MACHINES
    return -float(bindings.values(in_turn[None].astype(np.uint32))[0])


@cache
def _bindings(*, shared: bool) -> Bindings:
    instance = compile_instance(unfold(wien2k(shared=shared)), grid_testbed())
    return Bindings(instance, objective_named("makespan"), rule=EXCLUSIVE)


def _settings(changed: Mapping[str, Value]) -> Settings:
    given: dict[str, Any] = {name: value for name, value in changed.items() if name != _SEPARATE}
    return replace(PRESETS["s1-tuned"], **given)


def _cell(changed: dict[str, Value], runs: int) -> Cell:
    every = asdict(_settings(changed))
    work = float(every["population"]) * every["generations"]
    return Cell(name=cell_name(changed), settings=changed, runs=runs, work=work)
