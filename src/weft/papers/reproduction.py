"""The contract of the registry of reproductions: read it first.

A reproduction runs an experiment of a paper again. Its cells are the settings it tries; every cell is run
some times, each time with random numbers of its own, and every run gives measures. Rows set the figures of
all runs beside those of the paper, and say which lie within the tolerance of the specification.

Charts: figures of a reproduction that are drawn, as data. ``weft.reports`` draws them.

A reproduction that has some gives them by a method ``charts``, beside what ``reproduction.py`` demands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from weft.papers.statistics import Summary, summarise

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Box",
    "Boxes",
    "Chart",
    "ChartedReproduction",
    "Curves",
    "ExperimentCell",
    "Measures",
    "Reproduction",
    "ResultRow",
    "Results",
    "ToleranceBand",
    "Value",
]


Value = int | float | str | bool
Measures = Mapping[str, float]
"""What one run gave, by name; the unit is in the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCell:
    """One point of the grid of settings."""

    name: str
    """No other cell of the reproduction has it, nor will another one with other settings."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    runs: int
    """How often it is run unless somebody says otherwise."""
    work: float = 1.0
    """How long a run takes, compared with other cells."""


class Results:
    """The measures of all runs by cell, in the order of the repetitions."""

    def __init__(self, measures: Mapping[str, Sequence[Measures]]) -> None:
        self._measures = measures

    def __contains__(self, cell: str) -> bool:
        return bool(self._measures.get(cell))

    def of(self, cell: str, measure: str) -> list[float]:
        """Give one measure of all runs of a cell."""
        return [found[measure] for found in self._measures[cell]]

    def summary(self, cell: str, measure: str) -> Summary:
        """Sum up one measure of a cell."""
        return summarise(self.of(cell, measure))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceBand:
    """What the specification allows, both ends included."""

    least: float = -math.inf
    most: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most

    def text(self, unit: str) -> str:
        """Write the band as users read it."""
        tail = f" {unit}" if unit else ""
        if self.least == self.most:
            return f"{self.least:,g}{tail}"
        if math.isinf(self.least):
            return f"≤ {self.most:,g}{tail}"
        if math.isinf(self.most):
            return f"≥ {self.least:,g}{tail}"
        return f"{self.least:,g} to {self.most:,g}{tail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One figure, beside that of the paper."""

    table: str
    """The heading under which it stands."""
    figure: str
    ours: float
    unit: str = ""
    digits: int = 1
    """Behind the point."""
    error: float = math.nan
    """The standard error of a mean; not a number: there is none."""
    runs: int = 1
    """How many runs are behind it."""
    paper: str = ""
    """What the paper says, in its words or numbers."""
    prototype: str = ""
    """What the prototype of the specification measured."""
    band: ToleranceBand | None = None
    """None: nothing is demanded."""
    accepts: str = ""
    """The acceptance experiment that demands it: ``A1.7``."""

    @property
    def text(self) -> str:
        """Write our figure."""
        tiny = 0.0 < abs(self.ours) < 1e-6
        number = f"{self.ours:.1e}" if tiny else f"{self.ours:,.{self.digits}f}"
        error = "" if math.isnan(self.error) else f" ± {self.error:,.{self.digits}f}"
        return f"{number}{error} {self.unit}".rstrip()

    @property
    def within(self) -> bool | None:
        """Say whether the figure is as demanded; None: nothing is."""
        return None if self.band is None else self.ours in self.band

    def as_record(self) -> dict[str, object]:
        """Give the row as plain data for ``--json``."""
        return {
            "table": self.table,
            "figure": self.figure,
            "unit": self.unit,
            "paper": self.paper or None,
            "prototype": self.prototype or None,
            "ours": self.ours,
            "standard_error": self.error,
            "runs": self.runs,
            "least": None if self.band is None else self.band.least,
            "most": None if self.band is None else self.band.most,
            "within": self.within,
            "acceptance": self.accepts or None,
        }


class Reproduction(Protocol):
    """An experiment of a paper. It has no state: runs may be made in any process, in any order."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line for lists, with paper and section."""

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Give the cells: the complete grid, or what fits into a minute."""
        ...

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Run a cell once."""
        ...

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:
        """Give the figures of all runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Numbers over time, several to be compared."""

    title: str
    times_s: Sequence[float]
    """Equally far apart."""
    values: Mapping[str, Sequence[float]]
    """By name: the value at each of the times."""

    def as_record(self) -> dict[str, object]:
        """Give it as plain data for ``--json``."""
        values = {name: list(found) for name, found in self.values.items()}
        return {"chart": "curves", "title": self.title, "times_s": list(self.times_s), "values": values}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What a box plot shows of many numbers."""

    least: float
    lower_quartile: float
    median: float
    mean: float
    upper_quartile: float
    most: float

    def as_record(self) -> dict[str, float]:
        """Give it as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """Box plots below each other, on one scale."""

    title: str
    boxes: Mapping[str, Box]

    def as_record(self) -> dict[str, object]:
        """Give it as plain data for ``--json``."""
        boxes = {name: box.as_record() for name, box in self.boxes.items()}
        return {"chart": "boxes", "title": self.title, "boxes": boxes}


Chart = Curves | Boxes


@runtime_checkable
class ChartedReproduction(Protocol):
    """A reproduction that has charts."""

    def charts(self, results: Results, *, full: bool) -> Sequence[Chart]:
        """Give the charts of all runs."""
        ...
