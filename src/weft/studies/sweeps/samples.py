"""``s4-samples``: how xDCP, M-S and pM-S compare with shuffle on regular graphs (Table II).

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids (spec s4 sections 7 and 9; A4.4, A4.8): pipelines, out-trees and in-trees, dense ones
and a combination, 30 draws of lengths and throughputs each.

Deviations: graphs are as wide as the specification says, which the paper does not; without ``full`` there are
fewer draws, so that chance may turn a small difference round: the standard error is printed beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, get_args

import numpy as np

from weft.studies.reproduction import Band, Cell, Measures, Results, Row
from weft.studies.sweeps.algorithms import ALGORITHMS, percents
from weft.studies.sweeps.table_rows import best_counts
from weft.workflow.generators.sample_graphs import SampleGraph, SampleName

__all__ = ["PROTOTYPE", "Samples"]

_DRAWS, _QUICK_DRAWS = 30, 10
_GRAPHS: tuple[SampleName, ...] = get_args(SampleName)
PROTOTYPE: dict[SampleName, tuple[float, float, float]] = {
    "ptg": (61.6, 65.0, 65.0),
    "otg-a": (64.2, 61.3, 61.3),
    "itg-a": (69.8, 60.3, 60.2),
    "otg-b": (65.9, 60.2, 60.2),
    "itg-b": (70.0, 59.1, 58.9),
    "dotg-a": (57.9, 53.5, 53.9),
    "ditg-a": (58.0, 52.8, 53.0),
    "dotg-b": (58.9, 59.6, 59.8),
    "ditg-b": (65.8, 56.6, 57.0),
    "ctg": (69.4, 66.9, 66.7),
}
_COMPARED: tuple[tuple[SampleName, SampleName, str, Band], ...] = (
    ("itg-a", "otg-a", "in-tree worse", Band(least=0.0)),
    ("itg-b", "otg-b", "in-tree worse", Band(least=0.0)),
    ("ditg-b", "dotg-b", "in-tree worse", Band(least=0.0)),
    ("ditg-a", "dotg-a", "equal", Band(least=-3.0, most=3.0)),
)
"""Of two graphs: how the percentage of xDCP on the first differs from that on the second."""
_ONE_PARENT: tuple[SampleName, ...] = ("ptg", "otg-a", "otg-b")
"""Graphs on which priorities change nothing: only what has ended gains priority."""


class Samples:
    """The regular graphs."""

    name: ClassVar[str] = "s4-samples"
    title: ClassVar[str] = "sweep workflows against shuffle on regular graphs (Ma, Buyya; S4 Table II)"

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give the graphs."""
        runs = _DRAWS if full else _QUICK_DRAWS
        return [Cell(name=graph, settings={"graph": graph}, runs=runs) for graph in _GRAPHS]

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:
        """Draw lengths and throughputs and measure all algorithms on the graph."""
        found = percents(SampleGraph(graph=cell.settings["graph"]).draw(rng))  # type: ignore[arg-type]
        return found | {"apart": abs(found["pM-S"] - found["M-S"])}

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:  # noqa: ARG002
        """Give ASE and BDT, the comparisons of the paper, and where priorities change nothing."""
        return [*_graphs(results), *_comparisons(results), *_equal(results)]


def _graphs(results: Results) -> Iterator[Row]:
    for graph in _GRAPHS:
        counts, _ = best_counts(results, graph)
        for name, known in zip(ALGORITHMS, PROTOTYPE[graph], strict=True):
            found = results.summary(graph, name)
            yield Row(
                table="length against shuffle (ASE), and on how many graphs the best (BDT)",
                figure=f"{graph}: {name}, best on {counts[name]}",
                ours=found.mean,
                unit="%",
                error=found.standard_error,
                runs=found.number,
                prototype=f"{known:g} %",
            )


def _comparisons(results: Results) -> Iterator[Row]:
    for first, second, said, band in _COMPARED:
        for place, name in enumerate(ALGORITHMS):
            found, other = results.summary(first, name), results.summary(second, name)
            judged = name == "xDCP"
            error = float(np.hypot(found.standard_error, other.standard_error))
            known = PROTOTYPE[first][place] - PROTOTYPE[second][place]
            yield Row(
                table="differences between graphs",
                figure=f"{first} less {second}: {name}",
                ours=found.mean - other.mean,
                unit="%",
                error=error,
                runs=found.number,
                paper=said,
                prototype=f"{known:+.1f} %",
                band=band if judged else None,
                accepts="A4.8" if judged else "",
            )


def _equal(results: Results) -> Iterator[Row]:
    for graph in _ONE_PARENT:
        found = results.summary(graph, "apart")
        yield Row(
            table="M-S and pM-S where every subtask has one parent",
            figure=f"{graph}: largest difference",
            ours=found.most,
            unit="%",
            digits=0,
            runs=found.number,
            paper="none",
            prototype="none",
            band=Band(least=0.0, most=0.0),
            accepts="A4.4",
        )
