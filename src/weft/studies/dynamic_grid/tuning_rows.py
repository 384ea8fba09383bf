"""The tables of S1's tuning experiment (spec s1 section 12), from the measures of all runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from weft.studies.dynamic_grid.factors import FACTORS, GRID, TRENDS, TUNED, VARIANTS, Factor, cell_name
from weft.studies.dynamic_grid.operators import operator_rows
from weft.studies.reproduction import Band, Results, Row, Value
from weft.studies.statistics import summary

__all__ = ["rows_of"]

_P = "precision_percent"
_EXPERIMENTS = 2880
_REFERENCE_S = 387.013376
_TUNED_PROTOTYPE = 16.1
"""The precision of the chosen settings where the prototype changed one of them alone."""
_SETTINGS = {
    "population": "population",
    "generations": "generations at most",
    "steady_share": "steady share",
    "crossover_rate": "crossover rate",
    "mutation_rate": "mutation rate",
    "scaling": "scaling",
    "elitist": "elitist",
}


def rows_of(results: Results, grid: Sequence[str], reference_s: float, *, full: bool) -> list[Row]:
    """Give all tables; with ``full`` those of the grid too."""
    rows = [*_given(len(grid), reference_s), *operator_rows(results), *_tuned(results)]
    for factor in FACTORS:
        rows += _one_factor(results, factor)
    rows += [*_trends(results), *_variants(results)]
    return [*rows, *_whole_grid(results, grid)] if full else rows


def _given(experiments: int, reference_s: float) -> list[Row]:
    table = "the experiment"
    near = _REFERENCE_S * 1e-6
    return [
        Row(
            table=table,
            figure="experiments of the grid",
            ours=experiments,
            digits=0,
            paper="2,880",
            prototype="2,880",
            band=Band(least=_EXPERIMENTS, most=_EXPERIMENTS),
            accepts="A1.3",
        ),
        Row(
            table=table,
            figure="T_o: in turn on the 16 fast machines",
            ours=reference_s,
            unit="s",
            prototype="387.0 s",
            band=Band(least=_REFERENCE_S - near, most=_REFERENCE_S + near),
            accepts="A1.6",
        ),
    ]


def _tuned(results: Results) -> list[Row]:
    figures = (
        (_P, "mean precision P", "%", "25 % (conclusion 23 %)", "16.8 %", Band(most=30.0)),
        ("improvement_percent", "mean improvement I", "%", "700 %", "637 %", Band(least=500.0, most=900.0)),
        ("visited", "mean visited points", "", "50,000", "74,000", Band(most=75_150.0)),
        ("generation_of_best", "mean generation of the best", "", "", "", None),
    )
    rows = []
    for measure, figure, unit, paper, prototype, band in figures:
        found = results.summary(TUNED, measure)
        rows.append(
            Row(
                table="chosen settings",
                figure=figure,
                ours=found.mean,
                unit=unit,
                digits=1 if unit and found.mean < 100 else 0,
                error=found.standard_error,
                runs=found.number,
                paper=paper,
                prototype=prototype,
                band=band,
                accepts="" if band is None else "A1.7",
            )
        )
    return rows


def _one_factor(results: Results, factor: Factor) -> list[Row]:
    rows = [
        _mean(results.of(factor.cell(value), _P), _named(factor, value), f"{prototype:.1f} %")
        for value, prototype in factor.prototype.items()
    ]
    return _under(f"P, {_SETTINGS[factor.setting]} alone changed", factor.paper, rows)


def _named(factor: Factor, value: Value) -> str:
    return f"{_SETTINGS[factor.setting]} {factor.titles.get(value, value)}"


def _mean(values: Sequence[float], figure: str, prototype: str = "") -> Row:
    found = summary(values)
    return Row(
        table="",
        figure=figure,
        ours=found.mean,
        unit="%",
        error=found.standard_error,
        runs=found.number,
        prototype=prototype,
    )


def _under(table: str, paper: str, rows: Sequence[Row]) -> list[Row]:
    """Put rows under a heading; the first says what the paper found."""
    return [replace(row, table=table, paper="" if index else paper) for index, row in enumerate(rows)]


def _trends(results: Results) -> list[Row]:
    tuned = results.summary(TUNED, _P)
    known = {factor.setting: factor for factor in FACTORS}
    rows = []
    for trend in TRENDS:
        factor = known[trend.setting]
        found = results.summary(factor.cell(trend.value), _P)
        prototype = factor.prototype[trend.value] / _TUNED_PROTOTYPE
        rows.append(
            Row(
                table="P in times of that of the chosen settings",
                figure=_named(factor, trend.value),
                ours=_times(found.mean, tuned.mean),
                runs=min(found.number, tuned.number),
                prototype=f"{prototype:.1f}",
                band=Band(least=trend.times),
                accepts="A1.8",
            )
        )
    return rows


def _times(value: float, base: float) -> float:
    """Divide; where the chosen settings beat the known good time, anything that does not is beyond count."""
    return value / base if base > 0 else math.inf if value > 0 else 1.0


def _variants(results: Results) -> list[Row]:
    large, unscaled, separate = (cell_name(changed) for changed in VARIANTS)
    base, other = results.summary(large, _P), results.summary(unscaled, _P)
    times = Row(
        table="",
        figure="scaling off in times of on",
        ours=_times(other.mean, base.mean),
        runs=other.number,
        paper="up to 10",
        prototype="9",
    )
    rows = [
        _mean(results.of(large, _P), "Const 10 times the first generation", "15.3 %"),
        _mean(results.of(unscaled, _P), "the same, scaling off", "138.5 %"),
        times,
        _mean(results.of(separate, _P), "106 genes", "53 to 60 %"),
    ]
    return [replace(row, table="P of variants") for row in rows]


def _whole_grid(results: Results, grid: Sequence[str]) -> list[Row]:
    """Give the mean over all experiments that share a value, and the best experiment."""
    parts = {name: name.split(" ") for name in grid}
    rows: list[Row] = []
    for factor in FACTORS:
        means = []
        for value in GRID[factor.setting]:
            key = cell_name({factor.setting: value})
            values = [one for name in grid if key in parts[name] for one in results.of(name, _P)]
            means.append(_mean(values, _named(factor, value)))
        rows += _under(f"P, mean of the grid by {_SETTINGS[factor.setting]}", factor.paper, means)
    best = min(grid, key=lambda name: (results.summary(name, _P).mean, name))
    return [*rows, replace(_mean(results.of(best, _P), best), table="P, best experiment of the grid")]
