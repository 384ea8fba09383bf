"""The figures of S1's dynamic evaluation (spec s1 sections 13 and 15), from the measures of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.studies.reproduction import Band, Results, Row

__all__ = ["rows_of"]

_TABLES = {
    "LAPW1 genetic": "LAPW1 stage, genetic search",
    "DAG1 heft": "DAG1, one iteration, HEFT",
    "DAG1 genetic": "DAG1, one iteration, genetic search",
    "DAG2 heft": "DAG2, a larger problem, HEFT",
    "DG heft": "DG, three iterations, HEFT",
}
_PROTOTYPE = "LAPW1 genetic"
"""What the prototype behind the specification measured."""
_JUDGED = ("LAPW1", "DAG1")
"""Cases that A1.9 speaks of: one iteration, and the stage of it that the prototype measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """One measure of the perturbed cases."""

    measure: str
    title: str
    unit: str = ""
    digits: int = 2
    paper: str = ""
    prototype: str = ""
    band: Band | None = None
    accepts: str = ""
    everywhere: bool = True
    """Whether all cases have it; else not the LAPW1 stage."""


_FIGURES = (
    _Figure(measure="completed", title="all ways come to their end", digits=0, paper="yes"),
    _Figure(measure="predicted_s", title="first prediction", unit="s", digits=0, prototype="351 s"),
    _Figure(measure="static_over_predicted", title="without migration / predicted", prototype="2.45"),
    _Figure(
        measure="migration_over_predicted",
        title="with migration / predicted",
        paper="about 2",
        prototype="1.43",
        band=Band(least=1.2, most=2.5),
        accepts="A1.9",
    ),
    _Figure(measure="checkpoints_over_predicted", title="with restart files / predicted", prototype="1.23"),
    _Figure(
        measure="migration_gain",
        title="gain by migration",
        paper="about 2",
        prototype="1.71",
        band=Band(least=1.4),
        accepts="A1.9",
    ),
    _Figure(
        measure="checkpoints_gain",
        title="gain by migration with restart files",
        prototype="1.99",
        band=Band(least=1.4),
        accepts="A1.9",
    ),
    _Figure(
        measure="lost_gain", title="gain, completed tasks run again only if lost (ours)", everywhere=False
    ),
    _Figure(measure="migrations", title="migrations", digits=1, prototype="14"),
    _Figure(measure="replicated_percent", title="replicated work", unit="%", digits=1, prototype="9 %"),
    _Figure(
        measure="rescheduling_percent",
        title="rescheduling, share of what migrations cost",
        unit="%",
        digits=1,
        paper="< 10 %",
        band=Band(most=10.0),
        accepts="A1.9",
    ),
    _Figure(
        measure="falling_percent",
        title="events without violation at which the predicted rest falls",
        unit="%",
        digits=0,
        paper="all (DAG)",
    ),
    _Figure(measure="lazy_over_predicted", title="lazy / predicted", prototype="11.4"),
    _Figure(measure="lazy_over_migration", title="lazy / with migration", paper="1.25"),
)


def rows_of(results: Results) -> Sequence[Row]:
    """Give all tables."""
    rows = [row for cell in _TABLES if cell in results for row in _perturbed(results, cell)]
    return [*rows, *_loop(results), *_calm(results)]


def _perturbed(results: Results, cell: str) -> Iterator[Row]:
    for figure in _FIGURES:
        if not figure.everywhere and cell == _PROTOTYPE:
            continue
        found = results.summary(cell, figure.measure)
        judged = cell.startswith(_JUDGED)
        yield Row(
            table=f"{_TABLES[cell]}: perturbed machines",
            figure=figure.title,
            ours=found.mean,
            unit=figure.unit,
            digits=figure.digits,
            error=found.standard_error,
            runs=found.number,
            paper=figure.paper,
            prototype=figure.prototype if cell == _PROTOTYPE else "",
            band=figure.band if judged else None,
            accepts=figure.accepts if judged else "",
        )


def _loop(results: Results) -> Iterator[Row]:
    cell = "one violation"
    table = "DG, three iterations, HEFT: one machine in use is slowed once"
    demanded = (
        ("completed", "ends", Band(least=1.0, most=1.0), "yes", 0),
        ("iterations", "iterations done, the fewest", Band(least=3.0, most=3.0), "all", 0),
        (
            "iteration_spread",
            "predictions of one iteration, largest / smallest",
            Band(most=1.5),
            "constant",
            2,
        ),
    )
    for measure, figure, band, paper, digits in demanded:
        found = results.summary(cell, measure)
        yield Row(
            table=table,
            figure=figure,
            ours=found.most if measure == "iteration_spread" else found.least,
            digits=digits,
            runs=found.number,
            paper=paper,
            band=band,
            accepts="A1.10",
        )
    found = results.summary(cell, "migrations")
    yield Row(
        table=table, figure="migrations", ours=found.mean, error=found.standard_error, runs=found.number
    )


def _calm(results: Results) -> Iterator[Row]:
    cell = "calm"
    for case in ("LAPW1", "DAG1", "DAG2", "DG"):
        for way in ("checkpoints", "lazy"):
            found = results.summary(cell, f"{case}_{way}_over_static")
            judged = way != "lazy"
            yield Row(
                table="undisturbed, relative to the plan followed without migration",
                figure=f"{case} {way}",
                ours=found.mean,
                digits=3,
                runs=found.number,
                paper="" if judged else "3",
                band=Band(most=1.02) if judged else None,
                accepts="A1.9" if judged else "",
            )
