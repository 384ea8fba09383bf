"""What the weighing of time and cost gave, beside S2's figures (spec s2 sections 8, 10 and 12)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from weft.studies.moldable.alpha_cells import (
    ALPHAS,
    INDEPENDENT,
    Case,
    compared_cases,
    sweep_cases,
    table_case,
    timed_case,
    used,
)
from weft.studies.moldable.workflows import SIZES, shape_of
from weft.studies.reproduction import Band, Results, Row

__all__ = ["alpha_rows"]

_MOST_CPU_S = 120.0
_ROUNDING = 1e-9


class _Figure(NamedTuple):
    """A published change against the local optimum, and what is demanded."""

    measure: str
    title: str
    paper: str
    prototype: str
    band: Band | None


_SHORTER, _IDLE = Band(least=-55.0, most=-19.0), Band(most=39.0)
_COST = Band(least=-45.0, most=-33.0)
_MAKESPAN, _SPENT, _UNUSED = (
    ("makespan_percent", "makespan against local"),
    ("cost_percent", "cost against local"),
    ("idle_percent", "idle nodes"),
)
_FIGURES = {
    ("on-demand", 15): (
        _Figure(*_SPENT, "-37 %", "-39 %", _COST),
        _Figure(*_MAKESPAN, "-30 %", "-8 %", Band(least=-35.0, most=10.0)),
        _Figure(*_UNUSED, "58 %", "69 %", None),
    ),
    ("on-demand", 16): (
        _Figure(*_SPENT, "-40 %", "-41 %", _COST),
        _Figure(*_MAKESPAN, "+37 %", "+5 %", Band(least=-10.0, most=40.0)),
        _Figure(*_UNUSED, "81 %", "75 %", None),
    ),
    ("static", 15): (
        _Figure(*_MAKESPAN, "-34 %", "-47 %", _SHORTER),
        _Figure(*_UNUSED, "30.8 %", "27.2 %", _IDLE),
        _Figure(*_SPENT, "", "-20 %", None),
    ),
    ("static", 16): (
        _Figure(*_MAKESPAN, "-19 %", "-50 %", _SHORTER),
        _Figure(*_UNUSED, "38.2 or 37.7 %", "20.3 %", _IDLE),
        _Figure(*_SPENT, "", "-20 %", None),
    ),
    ("static-literal", 15): (
        _Figure(*_MAKESPAN, "-34 %", "-46 %", _SHORTER),
        _Figure(*_UNUSED, "30.8 %", "25.8 %", _IDLE),
        _Figure(*_SPENT, "", "-17 %", None),
    ),
    ("static-literal", 16): (
        _Figure(*_MAKESPAN, "-19 %", "-47 %", _SHORTER),
        _Figure(*_UNUSED, "38.2 or 37.7 %", "17.2 %", _IDLE),
        _Figure(*_SPENT, "", "-12 %", None),
    ),
}
"""By objective and size, alpha 0.5; the prototype's are of its best run where it names no medians."""
_SWEEP = {0.95: ("904 s", "37,988"), 0.05: ("5,402 s", "33,345")}
"""By alpha: the prototype's makespan and node-seconds."""


def alpha_rows(results: Results, *, full: bool) -> list[Row]:
    """Give all tables."""
    rows = [*_compared(results), *_sweep(results), *_timed(results)]
    return [*rows, *_table(results), *_independent(results)] if full else rows


def _compared(results: Results) -> list[Row]:
    rows = []
    for case in compared_cases():
        for figure in _FIGURES[case.objective, case.tasks]:
            demanded = "A2.4" if case.objective == "on-demand" else "A2.5"
            rows.append(
                Row(
                    table=f"{case.objective}, alpha 0.5, medians",
                    figure=f"{shape_of(case.tasks)}: {figure.title}",
                    ours=results.summary(case.name, figure.measure).median,
                    unit="%",
                    runs=len(results.of(case.name, figure.measure)),
                    paper=figure.paper,
                    prototype=figure.prototype,
                    band=figure.band,
                    accepts=demanded if figure.band is not None else "",
                )
            )
    return rows


def _sweep(results: Results) -> list[Row]:
    cases = sweep_cases()
    measures = (("makespan_s", "makespan", "s"), ("node_seconds", "cost in node-seconds", ""))
    rows, medians = [], []
    for place, (measure, title, unit) in enumerate(measures):
        found = [results.summary(case.name, measure) for case in cases]
        medians.append([one.median for one in found])
        rows += [
            Row(
                table="on-demand, barrier-16 with varying times, medians by alpha",
                figure=f"{title}, alpha {case.alpha:g}",
                ours=one.median,
                unit=unit,
                digits=0,
                runs=one.number,
                prototype=_SWEEP[case.alpha][place] if case.alpha in _SWEEP else "",
            )
            for case, one in zip(cases, found, strict=True)
        ]
    times, costs = medians
    wrong = (
        ("steps of falling alpha with a shorter makespan", _falls(times)),
        ("steps of falling alpha with a higher cost", _falls([-cost for cost in costs])),
    )
    return rows + [
        Row(
            table="on-demand, barrier-16 with varying times, medians by alpha",
            figure=figure,
            ours=steps,
            digits=0,
            runs=min(len(results.of(case.name, "makespan_s")) for case in cases),
            paper="none",
            prototype="none",
            band=Band(most=0.0),
            accepts="A2.6",
        )
        for figure, steps in wrong
    ]


def _falls(values: Sequence[float]) -> int:
    return sum(after < before - _ROUNDING * abs(before) for before, after in pairwise(values))


def _timed(results: Results) -> list[Row]:
    case = timed_case()
    found = results.summary(case.name, "cpu_s")
    table = "processor time, barrier-64, 50 individuals, 500 generations (differs from run to run)"
    return [
        Row(
            table=table,
            figure="whole search, mean",
            ours=found.mean,
            unit="s",
            digits=2,
            runs=found.number,
            paper="about 60 s",
            band=Band(most=_MOST_CPU_S),
            accepts="A2.9",
        ),
        Row(
            table=table,
            figure="one generation, mean",
            ours=found.mean / case.generations * 1e3,
            unit="ms",
            digits=2,
            runs=found.number,
            paper="120 ms",
        ),
    ]


def _table(results: Results) -> list[Row]:
    """Give Table 2: evaluations until the best was found."""
    rows = []
    for alpha in ALPHAS:
        for tasks in SIZES:
            case = table_case(alpha, tasks)
            found = results.summary(case.name, "evaluations_to_best")
            rows.append(
                Row(
                    table=f"on-demand, alpha {alpha:g}: median evaluations until the best",
                    figure=f"{shape_of(tasks)}, {case.population} individuals, {case.selection}",
                    ours=found.median,
                    digits=0,
                    runs=found.number,
                    paper=used(alpha, tasks).evaluations,
                )
            )
            rows += _times_and_costs(results, case, shape_of(tasks))
    return rows


def _independent(results: Results) -> list[Row]:
    rows = []
    for tasks in INDEPENDENT:
        for alpha in ALPHAS:
            case = table_case(alpha, tasks, dependent=False)
            rows += _times_and_costs(results, case, f"independent-{tasks}")
    return rows


def _times_and_costs(results: Results, case: Case, shape: str) -> list[Row]:
    """Give the medians of a case, of which nothing is demanded."""
    return [
        Row(
            table=f"{case.objective}, alpha {case.alpha:g}: {title}, medians",
            figure=shape,
            ours=results.summary(case.name, measure).median,
            unit="%",
            runs=len(results.of(case.name, measure)),
        )
        for measure, title in (_MAKESPAN, _SPENT)
    ]
