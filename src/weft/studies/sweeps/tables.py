"""``s4-tables``: how xDCP, M-S and pM-S compare with shuffle as one factor after the other varies (Table I).

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids (spec s4 sections 6 and 9; A4.5 to A4.7): random graphs of 512 subtasks, 30 at each
point of five sweeps.

Deviations: without ``full`` only the ends of the sweeps are run, about which the specification makes demands,
with fewer graphs, so that chance may turn a small difference round: the standard error is printed beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from weft.studies.reproduction import Cell, Measures, Results, Row
from weft.studies.sweeps.algorithms import percents
from weft.studies.sweeps.factors import DEFAULTS, FACTORS, point_name, random_sweeps
from weft.studies.sweeps.table_rows import table_rows

__all__ = ["Tables"]

_GRAPHS, _QUICK_GRAPHS, _QUICK_DEFAULTS = 30, 8, 16


class Tables:
    """The five sweeps."""

    name: ClassVar[str] = "s4-tables"
    title: ClassVar[str] = "sweep workflows against shuffle as factors vary (Ma, Buyya; S4 Table I)"

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give the defaults and the points of the sweeps: all, or the two at each end."""
        runs = _GRAPHS if full else _QUICK_DEFAULTS
        cells = [Cell(name=DEFAULTS, settings={"parameter": "", "value": 0.0}, runs=runs)]
        for factor in FACTORS:
            cells += [
                Cell(
                    name=point_name(factor, point),
                    settings={"parameter": factor.parameter, "value": point},
                    runs=_GRAPHS if full else _QUICK_GRAPHS,
                )
                for point in (factor.points if full else factor.ends)
            ]
        return cells

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:
        """Draw one graph and measure all algorithms on it."""
        kind = random_sweeps(str(cell.settings["parameter"]), float(cell.settings["value"]))
        return percents(kind.draw(rng))

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:
        """Give ASE and BDT, and whether they change as the paper says."""
        return table_rows(results, full=full)
