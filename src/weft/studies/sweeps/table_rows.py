"""What the sweeps of table I gave, beside the paper's claims (spec s4 sections 6 and 9)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from weft.studies.reproduction import Band, Results, Row
from weft.studies.statistics import Summary
from weft.studies.sweeps.algorithms import ALGORITHMS, best_of
from weft.studies.sweeps.factors import DEFAULTS, FACTORS, Claim, Factor, point_name

__all__ = ["best_counts", "table_rows"]

_AT_DEFAULTS = {
    "xDCP": ("30.3 %", Band(least=28.0, most=35.0)),
    "M-S": ("", Band(least=32.0, most=38.0)),
    "pM-S": ("33.1 %", Band(least=30.0, most=36.0)),
}
_SAID = {"rises": "worse", "falls": "better", "stays": "no effect"}
_CHANCE = 2.0
"""A difference of so many standard errors is no effect: the specification names no limit."""
_NO_EFFECT_PERCENT = 2.0
"""A difference that is no effect even where few graphs vary little."""
_MOST_ALONE = Band(most=15.0 - 1e-9)
_BEST = (
    ("xDCP", "RSR", 0, Band(least=80.0 + 1e-9)),
    ("xDCP", "RRT", -1, Band(least=80.0 + 1e-9)),
    ("pM-S", "RSR", -1, Band(least=70.0 + 1e-9)),
)
"""Algorithm, factor, which of its points, and on how many percent of the graphs it must be the best."""


def table_rows(results: Results, *, full: bool) -> list[Row]:
    """Give all tables."""
    rows = list(_defaults(results))
    for factor in FACTORS:
        points = factor.points if full else factor.ends
        rows += [*_points(results, factor, points), *_directions(results, factor)]
    return [*rows, *_bests(results, full=full)]


def best_counts(results: Results, case: str) -> tuple[dict[str, int], int]:
    """Count the graphs on which each algorithm is the best, and those on which M-S alone is."""
    columns = {name: results.of(case, name) for name in ALGORITHMS}
    graphs = [dict(zip(columns, found, strict=True)) for found in zip(*columns.values(), strict=True)]
    bests = [best_of(graph) for graph in graphs]
    counts = {name: sum(name in best for best in bests) for name in ALGORITHMS}
    return counts, sum(best == ["M-S"] for best in bests)


def _defaults(results: Results) -> Iterator[Row]:
    means = {name: results.summary(DEFAULTS, name) for name in ALGORITHMS}
    table = "all factors at their defaults: length against shuffle (ASE)"
    for name, (prototype, band) in _AT_DEFAULTS.items():
        yield _ase(table, name, means[name], prototype=prototype, band=band, accepts="A4.6")
    yield Row(
        table=table,
        figure="pM-S less M-S",
        ours=means["pM-S"].mean - means["M-S"].mean,
        unit="%",
        runs=means["M-S"].number,
        paper="pM-S better",
        band=Band(most=0.0),
        accepts="A4.6",
    )


def _ase(table: str, figure: str, found: Summary, *, prototype: str, band: Band | None, accepts: str) -> Row:
    return Row(
        table=table,
        figure=figure,
        ours=found.mean,
        unit="%",
        error=found.standard_error,
        runs=found.number,
        prototype=prototype,
        band=band,
        accepts=accepts,
    )


def _points(results: Results, factor: Factor, points: Sequence[float]) -> Iterator[Row]:
    for point in points:
        case = point_name(factor, point)
        known = factor.prototype(point)
        counts, _ = best_counts(results, case)
        for name in ALGORITHMS:
            found = results.summary(case, name)
            yield _ase(
                f"{factor.name}: length against shuffle (ASE), and on how many graphs the best (BDT)",
                f"{point:g}: {name}, best on {counts[name]}",
                found,
                prototype=f"{known[name]:g} %" if name in known else "",
                band=Band(most=100.0 - 1e-9),
                accepts="A4.5",
            )


def _directions(results: Results, factor: Factor) -> Iterator[Row]:
    for name in ALGORITHMS:
        ends = [results.summary(point_name(factor, point), name) for point in factor.ends]
        low, second, third, high = (found.mean for found in ends)
        change = (third + high - low - second) / 2.0
        error = math.sqrt(sum(found.standard_error**2 for found in ends)) / 2.0
        claim = factor.claim(name)
        yield Row(
            table=f"{factor.name}: the two highest points less the two lowest",
            figure=name,
            ours=change,
            unit="%",
            error=error,
            digits=2,
            runs=sum(found.number for found in ends),
            paper=_SAID[claim],
            prototype=_difference(factor, name),
            band=_direction(claim, error),
            accepts="A4.5",
        )


def _difference(factor: Factor, name: str) -> str:
    place = ALGORITHMS.index(name)
    return f"{factor.highest[place] - factor.lowest[place]:+.1f} %"


def _direction(claim: Claim, error: float) -> Band:
    """Give the differences that are as claimed."""
    if claim == "stays":
        # One graph has no standard error.
        chance = 0.0 if math.isnan(error) else round(_CHANCE * error, 2)
        most = max(_NO_EFFECT_PERCENT, chance)
        return Band(least=-most, most=most)
    return Band(least=0.0) if claim == "rises" else Band(most=0.0)


def _bests(results: Results, *, full: bool) -> Iterator[Row]:
    cases = [
        point_name(factor, point) for factor in FACTORS for point in (factor.points if full else factor.ends)
    ]
    graphs = sum(len(results.of(case, "M-S")) for case in cases)
    alone = sum(best_counts(results, case)[1] for case in cases)
    table = "share of the graphs on which an algorithm is the best (BDT; ties count for all)"
    yield Row(
        table=table,
        figure="M-S alone, all sweeps",
        ours=100.0 * alone / graphs,
        unit="%",
        runs=graphs,
        paper="practically never",
        band=_MOST_ALONE,
        accepts="A4.7",
    )
    by_name = {factor.name: factor for factor in FACTORS}
    for name, of, place, band in _BEST:
        case = point_name(by_name[of], by_name[of].points[place])
        number = len(results.of(case, name))
        yield Row(
            table=table,
            figure=f"{name}, {case}",
            ours=100.0 * best_counts(results, case)[0][name] / number,
            unit="%",
            runs=number,
            prototype="90 %" if name == "pM-S" else "",
            band=band,
            accepts="A4.7",
        )
