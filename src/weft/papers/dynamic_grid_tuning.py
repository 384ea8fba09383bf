"""``s1-tuning``: quality of the genetic search for WIEN2k-50, and the effect of its settings.

R. Prodan, T. Fahringer, SAC 2005 (docs/papers/dynamic-grid.md, sections 4, 11, 12 and 15; A1.3 to A1.5, A1.7,
A1.8). The experiments are the chosen settings, each of them changed alone, and with ``full`` the grid of
2,880 experiments with 30 runs each. A machine runs one task at a time. The reference time is the makespan of
all tasks assigned round robin to the 16 fast machines. The conditions on scaling and selection are
implemented here independently of ``weft.search`` and checked on random populations. Conditions that must hold
exactly are checked up to rounding errors.

Deviations: without ``full``, settings with a tolerance have 12 runs and the others 3; the chosen settings
have the 30 runs of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from weft.instance import compile_instance
from weft.instance.instance import Instance
from weft.papers.dynamic_grid import FAST_MACHINES, grid_testbed, wien2k
from weft.papers.reproduction import (
    JUDGED_BELOW,
    NO_FIGURE,
    ONLY_WORDS,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    Value,
    give_reasons,
    mean_row,
)
from weft.papers.statistics import improvement_percent, precision_percent, summarise
from weft.planners.decoding import EXCLUSIVE
from weft.planners.genetic import BindingEncoding, GeneticPlanner
from weft.planners.planner import PlanRequest
from weft.planners.tuning import TuningGrid, run_trial
from weft.schedule.objective import make_objective
from weft.search.genetic import PRESETS
from weft.search.operators import scale_fitness, select_by_remainder
from weft.search.space import Floats
from weft.workflow.unfold import unfold

TUNED = "tuned"
"""Name of the cell with the chosen settings."""
OPERATORS = "operators"
"""Name of the cell that tests scaling and selection alone."""

GRID: Mapping[str, tuple[Value, ...]] = {
    "population": (50, 100, 150, 200),
    "crossover_rate": (0.4, 0.6, 0.8, 1.0),
    "mutation_rate": (0.001, 0.01, 0.1),
    "generations": (100, 200, 300, 400, 500),
    "steady_share": (0.1, 0.2),
    "scaling": (1.0, 1.5, 2.0),
    "elitist": (False, True),
}
"""The values of each setting (docs/papers/dynamic-grid.md, section 12); the experiments are their Cartesian
product.
"""


@dataclass(frozen=True, slots=True)
class TuningFactor:
    """A setting that is varied alone."""

    setting: str
    paper: str
    prototype: Mapping[Value, float]
    """Precision of the prototype in percent, by tested value of the setting."""
    tuned: Value | None
    """The chosen value; None if it is not among the tested values."""
    titles: Mapping[Value, str] = field(default_factory=dict)
    """Labels of values, if different from the value itself."""

    @property
    def others(self) -> tuple[Value, ...]:
        """Return the tested values of the setting other than the chosen one."""
        return tuple(value for value in self.prototype if value != self.tuned)

    def cell(self, value: Value) -> str:
        """Return the name of the cell in which the setting has this value."""
        return TUNED if value == self.tuned else cell_name({self.setting: value})


FACTORS = (
    TuningFactor(
        "population", "50 too small, 200 good but slow", {50: 80.8, 100: 32.1, 150: 16.1, 200: 13.9}, 150
    ),
    TuningFactor(
        "generations", "more is better", {100: 104.6, 200: 46.1, 300: 27.5, 400: 19.2, 500: 16.1}, 500
    ),
    TuningFactor("steady_share", "20 % is good", {0.1: 18.3, 0.2: 16.1}, 0.2),
    TuningFactor("crossover_rate", "higher is faster", {0.4: 50.0, 0.6: 37.6, 0.8: 15.5, 1.0: 16.0}, None),
    TuningFactor(
        "mutation_rate",
        "must be low",
        {1e-5: 135.8, 1e-4: 84.1, 1e-3: 16.1, 3e-3: 14.4, 0.01: 19.5, 0.1: 154.4},
        1e-3,
    ),
    TuningFactor(
        "scaling",
        "crucial, up to 10 times better",
        {1.0: 60.3, 1.5: 15.4, 2.0: 16.1},
        2.0,
        titles={1.0: "off"},
    ),
    TuningFactor(
        "elitist",
        "33 % better on average",
        {False: 50.4, True: 16.1},
        True,
        titles={False: "no", True: "yes"},
    ),
)
"""The settings with the values tested by the prototype."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A value of a setting that must give worse plans than the chosen value."""

    setting: str
    value: Value
    times: float
    """Minimum ratio of the precision with this value to that of the chosen settings (A1.8)."""


TRENDS = (
    Trend("population", 50, 1.5),
    Trend("generations", 100, 2.0),
    Trend("mutation_rate", 0.1, 3.0),
    Trend("mutation_rate", 1e-5, 3.0),
    Trend("scaling", 1.0, 2.0),
    Trend("elitist", False, 1.5),
)

VARIANTS: tuple[dict[str, Value], ...] = (
    {"const_factor": 10.0},
    {"const_factor": 10.0, "scaling": 1.0},
    {"separate_genes": True},
)
"""Other variants of the prototype: a larger Const with and without scaling; 106 genes instead of 56."""


def cell_name(changed: Mapping[str, Value]) -> str:
    """Return the name of the cell with these settings changed."""
    return " ".join(f"{setting}={value}" for setting, value in changed.items()) or TUNED


_TRIALS, _POPULATION = 200, 150
_FACTORS = (1.5, 2.0)
_ROUNDING = 1e-12
"""Relative deviation that counts as rounding."""


def measure_operators(rng: np.random.Generator) -> Measures:
    """Return the largest deviations of scaling and selection from their conditions, on random populations."""
    found = {
        "best_deviation": 0.0, "mean_deviation": 0.0, "worst_deviation": 0.0, "parents_deviation": 0.0,
        "copies_missing": 0.0, "usual": 0.0, "other": 0.0,
    }  # fmt: skip
    for trial in range(_TRIALS):
        # Powers create populations with few outstanding or few very bad individuals, so that both branches of
        # the scaling are tested.
        powers = rng.random(_POPULATION) ** (1 + trial // 2 % 8)
        fitness = 1.0 - powers if trial % 2 else powers
        for factor in _FACTORS:
            after = scale_fitness(fitness, factor)
            mean = float(fitness.mean())
            usual = fitness.min() > (factor * mean - fitness.max()) / (factor - 1.0)
            if usual:
                _record_largest(found, "best_deviation", abs(float(after.max()) - factor * mean) / mean)
            else:
                _record_largest(found, "worst_deviation", abs(float(after.min())) / mean)
            _record_largest(found, "mean_deviation", abs(float(after.mean()) - mean) / mean)
            found["usual" if usual else "other"] += 1
            _check_copies(found, after, rng)
    return found


def _record_largest(found: dict[str, float], name: str, deviation: float) -> None:
    found[name] = max(found[name], deviation)


def _check_copies(found: dict[str, float], fitness: Floats, rng: np.random.Generator) -> None:
    parents = select_by_remainder(fitness, _POPULATION, rng)
    copies = np.bincount(parents, minlength=_POPULATION)
    whole = np.floor(fitness / fitness.mean() * (1.0 - _ROUNDING))
    _record_largest(found, "parents_deviation", abs(int(copies.sum()) - _POPULATION))
    _record_largest(found, "copies_missing", float((whole - copies).max()))


def operator_rows(results: Results) -> Sequence[ResultRow]:
    """Return the rows with the deviations of scaling and selection, which must be zero."""
    near, zero = ToleranceBand(most=_ROUNDING), ToleranceBand(most=0.0)
    figures = (
        ("best_deviation", "scaling: best less factor times average", near, "A1.4"),
        ("mean_deviation", "scaling: average less unscaled average", near, "A1.4"),
        ("worst_deviation", "scaling, other branch: worst less 0", near, "A1.4"),
        ("parents_deviation", "selection: parents less population size", zero, "A1.5"),
        ("copies_missing", "selection: copies missing of the integer part", zero, "A1.5"),
    )
    table = "operators (largest deviation on random populations)"
    runs = int(sum(sum(results.of(OPERATORS, branch)) for branch in ("usual", "other")))
    rows = []
    for measure, title, band, accepts in figures:
        figure = Figure(measure, title, "", "none", "none", band, accepts)
        ours = results.summary(OPERATORS, measure).most
        rows.append(ResultRow(table=table, ours=ours, runs=runs, **figure.fields()))
    return rows


_P = "precision_percent"
_EXPERIMENTS = 2880
_REFERENCE_S = 387.013376
_TUNED_PROTOTYPE = 16.1
"""Precision of the chosen settings in percent, from the prototype's tests of single settings."""
_GREAT = ToleranceBand(least=500.0, most=900.0)
_TUNED_FIGURES = (
    Figure(_P, "mean precision P", "%", "25 % (conclusion 23 %)", "16.8 %", ToleranceBand(most=30.0), "A1.7"),
    Figure("improvement_percent", "mean improvement I", "%", "700 %", "637 %", _GREAT, "A1.7"),
    Figure("visited", "mean visited points", "", "50,000", "74,000", ToleranceBand(most=75_150.0), "A1.7"),
    Figure("generation_of_best", "mean generation of the best"),
)
_SETTINGS = {
    "population": "population",
    "generations": "generations at most",
    "steady_share": "steady share",
    "crossover_rate": "crossover rate",
    "mutation_rate": "mutation rate",
    "scaling": "scaling",
    "elitist": "elitist",
}


def _experiment_rows(experiments: int, reference_s: float) -> list[ResultRow]:
    near = _REFERENCE_S * 1e-6
    all_run = ToleranceBand.exactly(_EXPERIMENTS)
    close = ToleranceBand(least=_REFERENCE_S - near, most=_REFERENCE_S + near)
    figures = (
        (experiments, Figure("", "experiments of the grid", "", "2,880", "2,880", all_run, "A1.3")),
        (reference_s, Figure("", "T_o: in turn on the 16 fast machines", "s", "", "387.0 s", close, "A1.6")),
    )
    return [ResultRow(table="the experiment", ours=ours, **figure.fields()) for ours, figure in figures]


def _tuned_rows(results: Results) -> list[ResultRow]:
    rows = []
    for figure in _TUNED_FIGURES:
        found = results.summary(TUNED, figure.measure)
        row = mean_row(found, table="chosen settings", **figure.fields())
        rows.append(replace(row, digits=0) if found.mean >= 100 else row)
    return rows


def _factor_rows(results: Results, factor: TuningFactor) -> list[ResultRow]:
    rows = [
        _mean_row(results.of(factor.cell(value), _P), _label(factor, value), f"{prototype:.1f} %")
        for value, prototype in factor.prototype.items()
    ]
    return _with_heading(f"P, {_SETTINGS[factor.setting]} alone changed", factor.paper, rows)


def _label(factor: TuningFactor, value: Value) -> str:
    return f"{_SETTINGS[factor.setting]} {factor.titles.get(value, value)}"


def _mean_row(values: Sequence[float], figure: str, prototype: str = "") -> ResultRow:
    return mean_row(summarise(values), table="", figure=figure, unit="%", prototype=prototype)


def _with_heading(table: str, paper: str, rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows with a table heading; only the first row gets the paper's statement."""
    return [replace(row, table=table, paper="" if index else paper) for index, row in enumerate(rows)]


def _trend_rows(results: Results) -> list[ResultRow]:
    tuned = results.summary(TUNED, _P)
    known = {factor.setting: factor for factor in FACTORS}
    rows = []
    for trend in TRENDS:
        factor = known[trend.setting]
        found = results.summary(factor.cell(trend.value), _P)
        prototype = factor.prototype[trend.value] / _TUNED_PROTOTYPE
        label, band = _label(factor, trend.value), ToleranceBand(least=trend.times)
        figure = Figure(_P, label, "", "", f"{prototype:.1f}", band, "A1.8", digits=1)
        ours, runs = _ratio(found.mean, tuned.mean), min(found.number, tuned.number)
        table = "P relative to that of the chosen settings"
        rows.append(ResultRow(table=table, ours=ours, runs=runs, **figure.fields()))
    return rows


def _ratio(value: float, base: float) -> float:
    """Return value / base; if the base is not positive, infinity for a positive value and 1 for any other."""
    return value / base if base > 0 else math.inf if value > 0 else 1.0


def _variant_rows(results: Results) -> list[ResultRow]:
    large, unscaled, separate = (cell_name(changed) for changed in VARIANTS)
    base, other = results.summary(large, _P), results.summary(unscaled, _P)
    figure = Figure(_P, "P without scaling / with scaling", "", "up to 10", "9", digits=1)
    ratio = _ratio(other.mean, base.mean)
    times = ResultRow(table="", ours=ratio, runs=other.number, **figure.fields())
    rows = [
        _mean_row(results.of(large, _P), "Const 10 times the first generation", "15.3 %"),
        _mean_row(results.of(unscaled, _P), "the same, scaling off", "138.5 %"),
        times,
        _mean_row(results.of(separate, _P), "106 genes", "53 to 60 %"),
    ]
    return [replace(row, table="P of variants") for row in rows]


def _grid_rows(results: Results, grid: Sequence[str]) -> list[ResultRow]:
    """Return rows with the mean of all experiments for each value of a setting, and the best experiment."""
    parts = {name: name.split(" ") for name in grid}
    rows: list[ResultRow] = []
    for factor in FACTORS:
        means = []
        for value in GRID[factor.setting]:
            key = cell_name({factor.setting: value})
            values = [one for name in grid if key in parts[name] for one in results.of(name, _P)]
            means.append(_mean_row(values, _label(factor, value)))
        rows += _with_heading(f"P, mean of the grid by {_SETTINGS[factor.setting]}", factor.paper, means)
    best = min(grid, key=lambda name: (results.summary(name, _P).mean, name))
    return [*rows, replace(_mean_row(results.of(best, _P), best), table="P, best experiment of the grid")]


_REASONS = {
    "chosen settings": NO_FIGURE,
    "P, steady share alone": ONLY_WORDS,
    "P, crossover rate alone": ONLY_WORDS,
    "P, mean of the grid": ONLY_WORDS,
    "P, best experiment": NO_FIGURE,
    "P, ": JUDGED_BELOW,
}
_RUNS = 30
"""Runs of every experiment in the paper."""
_JUDGED_RUNS, _OTHER_RUNS = 12, 3
"""Number of runs without ``full``, of settings with and without a tolerance."""
_SEPARATE = "separate_genes"
"""Key that is not a setting of the search: whether LAPW2 has binding variables of its own."""


class TuningStudy:
    """The experiment that varies the settings of the genetic search."""

    name: ClassVar[str] = "s1-tuning"
    title: ClassVar[str] = (
        "settings of the genetic search for WIEN2k (Prodan, Fahringer 2005; dynamic-grid, section 12)"
    )

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Return cells: the chosen settings, each changed alone, variants and, if ``full``, the grid."""
        judged = {(trend.setting, trend.value) for trend in TRENDS}
        cells = [ExperimentCell(name=OPERATORS, runs=1, work=0.0), _make_cell({}, _RUNS)]
        for factor in FACTORS:
            for value in factor.others:
                quick = _JUDGED_RUNS if (factor.setting, value) in judged else _OTHER_RUNS
                cells.append(_make_cell({factor.setting: value}, _RUNS if full else quick))
        cells += [_make_cell(settings, _RUNS if full else _OTHER_RUNS) for settings in VARIANTS]
        if full:
            cells += grid_cells()
        return cells

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Run one search and return its measures."""
        if cell.name == OPERATORS:
            return measure_operators(rng)
        instance = _instance(shared=not cell.settings.get(_SEPARATE, False))
        request = PlanRequest(instance=instance, objective=make_objective("makespan"), rng=rng)
        found = run_trial(_planner(cell.settings), request)
        return {
            "best_s": found.value,
            "precision_percent": precision_percent(found.value, reference_s()),
            "improvement_percent": improvement_percent(found.first_value, found.value),
            "visited": found.visited,
            "generation_of_best": found.generation_of_best,
        }

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:
        """Return the tables of docs/papers/dynamic-grid.md, section 12."""
        grid = [cell.name for cell in grid_cells()]
        rows = [*_experiment_rows(len(grid), reference_s()), *operator_rows(results), *_tuned_rows(results)]
        for factor in FACTORS:
            rows += _factor_rows(results, factor)
        rows += [*_trend_rows(results), *_variant_rows(results)]
        rows += _grid_rows(results, grid) if full else []
        return give_reasons(rows, ONLY_WORDS, _REASONS)


def grid_cells() -> list[ExperimentCell]:
    """Return the experiments of the paper's grid."""
    return [_make_cell(options, _RUNS) for options in TuningGrid(options=GRID).experiments()]


@cache
def reference_s() -> float:
    """Return the paper's reference: the makespan of all tasks assigned round robin to the fast machines."""
    bindings = BindingEncoding(_instance(shared=True), make_objective("makespan"), rule=EXCLUSIVE)
    in_turn = np.arange(bindings.space.genes, dtype=np.uint32) % FAST_MACHINES
    return -float(bindings.values(in_turn[None].astype(np.uint32))[0])


@cache
def _instance(*, shared: bool) -> Instance:
    return compile_instance(unfold(wien2k(shared=shared)), grid_testbed())


def _planner(changed: Mapping[str, Value]) -> GeneticPlanner:
    """Return the planner that a user would name ``genetic:preset=s1-tuned,occupancy=exclusive,...``."""
    given: dict[str, Any] = {name: value for name, value in changed.items() if name != _SEPARATE}
    return GeneticPlanner(preset="s1-tuned", occupancy="exclusive", **given)


def _make_cell(changed: dict[str, Value], runs: int) -> ExperimentCell:
    settings = _planner(changed).settings(PRESETS["s1-tuned"], genes=1)
    work = float(settings.population) * settings.generations
    return ExperimentCell(name=cell_name(changed), settings=changed, runs=runs, work=work)
