"""Table 1 of S2, and what the search for the fastest node counts gave (spec s2 sections 8, 10 and 12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.studies.moldable.workflows import shape_of
from weft.studies.reproduction import Band, Results, Row
from weft.studies.statistics import share_percent

__all__ = ["JUDGED", "POPULATIONS", "SELECTIONS", "TABLE", "Published", "local_cell", "local_rows"]

POPULATIONS = (25, 50, 100, 150)
JUDGED = "steady-state"
"""The selection that the tolerances are about."""
SELECTIONS = (JUDGED, "rank", "tournament", "roulette")
_IDLE = {15: (53.0, "51.9 %"), 16: (50.0, "49.8 %")}
"""Idle shares by size: the paper's in percent, and the prototype's."""


class Published(NamedTuple):
    """A line of Table 1, and what the prototype measured."""

    population: int
    generations: str
    """The median; where it is a range, that of the selections."""
    most_generations: int
    """Its end: which selection had which is not known."""
    success: str
    prototype: int
    """Its median of generations."""


TABLE = {
    7: Published(25, "180", 180, "100 %", 253),
    8: Published(25, "220 to 250", 250, "100 %", 355),
    15: Published(50, "120 to 200", 200, "100 %", 194),
    16: Published(50, "180 to 200", 200, "100 %", 284),
    31: Published(100, "100", 100, "100 %", 161),
    32: Published(100, "190", 190, "90 to 95 %", 258),
    63: Published(100, "215", 215, "100 %", 301),
    64: Published(150, "260", 260, "90 to 95 %", 350),
}
"""By size."""


def local_cell(selection: str, tasks: int, population: int) -> str:
    """Name a cell."""
    return f"{selection} tasks={tasks} population={population}"


def local_rows(results: Results, *, full: bool) -> list[Row]:
    """Give Table 1, first for the selection the tolerances are about, and the idle shares."""
    rows = _judged_rows(results) + _idle_rows(results)
    for selection in SELECTIONS:
        rows += _plain_rows(results, selection, full=full)
    return rows


def _judged_rows(results: Results) -> list[Row]:
    successes, medians, cells = [], [], []
    for tasks, line in TABLE.items():
        name = local_cell(JUDGED, tasks, line.population)
        cells.append(name)
        generations = results.summary(name, "generation_of_best")
        figure = f"{shape_of(tasks)}, {line.population} individuals"
        successes.append(
            Row(
                table=f"{JUDGED} selection: runs that find the optimum",
                figure=figure,
                ours=share_percent(results.of(name, "success")),
                unit="%",
                digits=0,
                runs=generations.number,
                paper=line.success,
                prototype="100 %",
                band=Band(least=90.0),
                accepts="A2.2",
            )
        )
        medians.append(
            Row(
                table=f"{JUDGED} selection: median generation of the best",
                figure=figure,
                ours=generations.median,
                runs=generations.number,
                paper=line.generations,
                prototype=str(line.prototype),
                band=Band(most=2.0 * line.most_generations),
                accepts="A2.2",
            )
        )
    return [*successes, *medians, _counts_row(results, cells)]


def _counts_row(results: Results, cells: Sequence[str]) -> Row:
    """Say in how many successful runs simulations have 35 nodes and processing tasks 2."""
    pairs = [
        zip(results.of(cell, "success"), results.of(cell, "fastest_counts"), strict=True) for cell in cells
    ]
    right = [counts for pair in pairs for success, counts in pair if success]
    return Row(
        table=f"{JUDGED} selection: node counts",
        figure="optimal runs with 35 nodes per simulation, 2 per processing",
        ours=share_percent(right) if right else 0.0,
        unit="%",
        digits=0,
        runs=len(right),
        paper="always",
        prototype="100 %",
        band=Band(least=100.0),
        accepts="A2.2",
    )


def _idle_rows(results: Results) -> list[Row]:
    rows = []
    for tasks, (paper, prototype) in _IDLE.items():
        found = results.summary(local_cell(JUDGED, tasks, TABLE[tasks].population), "idle_percent")
        rows.append(
            Row(
                table="idle nodes with the counts found",
                figure=f"{shape_of(tasks)}, median",
                ours=found.median,
                unit="%",
                runs=found.number,
                paper=f"{paper:.1f} %",
                prototype=prototype,
                band=Band(least=paper - 3.0, most=paper + 3.0),
                accepts="A2.3",
            )
        )
    return rows


def _plain_rows(results: Results, selection: str, *, full: bool) -> list[Row]:
    """Give generations and success of a selection, of which nothing is demanded."""
    rows = []
    for tasks, line in TABLE.items():
        for population in POPULATIONS if full else (line.population,):
            published = population == line.population
            if selection == JUDGED and published:
                continue
            name = local_cell(selection, tasks, population)
            generations = results.summary(name, "generation_of_best")
            success = share_percent(results.of(name, "success"))
            rows.append(
                Row(
                    table=f"{selection} selection: median generation of the best",
                    figure=f"{shape_of(tasks)}, {population} individuals ({success:.0f} % optimal)",
                    ours=generations.median,
                    runs=generations.number,
                    paper=line.generations if published else "",
                )
            )
    return rows
