"""Repetitions: the cells of a reproduction, each run as often as wanted, from where it was left.

Every run draws from a generator of its own, named by seed, reproduction, cell and number of the repetition.
So the rows are the same on every pool, in every order, and whether or not somebody ended it in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from weft.randomness import generator
from weft.search.pool import ALONE, Pool
from weft.studies.charts import Chart, Charting
from weft.studies.ledger import Ledger, Run
from weft.studies.reproduction import Cell, Measures, Reproduction, Results, Row

__all__ = ["Advance", "Reproduced", "reproduce"]


class Advance(NamedTuple):
    """How far it is, after each run."""

    done: int
    total: int
    """Runs, those taken over included."""
    work_done: float
    work_left: float
    """Without those taken over; ``Cell.work`` is the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """What came of it."""

    rows: Sequence[Row]
    runs: int
    taken_over: int
    """How many of the runs were made before."""
    charts: Sequence[Chart] = ()

    @property
    def outside(self) -> list[Row]:
        """List the figures that are not as demanded."""
        return [row for row in self.rows if row.within is False]


def reproduce(
    reproduction: Reproduction,
    ledger: Ledger,
    *,
    full: bool = False,
    runs: int | None = None,
    seed: int = 0,
    pool: Pool = ALONE,
    tell: Callable[[Advance], None] | None = None,
) -> Reproduced:
    """Make all runs that the ledger lacks; ``runs`` replaces the number that cells ask for."""
    cells = reproduction.cells(full=full)
    wanted = [(cell, number) for cell in cells for number in range(cell.runs if runs is None else runs)]
    known = ledger.known()
    missing = [(cell, number) for cell, number in wanted if (cell.name, number) not in known]
    taken_over = len(wanted) - len(missing)
    work_left = sum(cell.work for cell, _ in missing)
    work_done = 0.0
    with ledger:
        made = pool.map(partial(_measured, reproduction, seed), missing)
        for done, ((cell, number), measures) in enumerate(zip(missing, made, strict=True), start=1):
            known[cell.name, number] = measures
            ledger.add((cell.name, number), measures)
            work_done += cell.work
            if tell is not None:
                tell(Advance(taken_over + done, len(wanted), work_done, work_left - work_done))
    results = _results(wanted, known)
    return Reproduced(
        rows=reproduction.rows(results, full=full),
        runs=len(wanted),
        taken_over=taken_over,
        charts=reproduction.charts(results, full=full) if isinstance(reproduction, Charting) else (),
    )


def _measured(reproduction: Reproduction, seed: int, run: tuple[Cell, int]) -> Measures:
    cell, number = run
    return reproduction.run(cell, generator(seed, reproduction.name, cell.name, str(number)))


def _results(wanted: Sequence[tuple[Cell, int]], known: Mapping[Run, Measures]) -> Results:
    found: dict[str, list[Measures]] = {}
    for cell, number in wanted:
        found.setdefault(cell.name, []).append(known[cell.name, number])
    return Results(found)
