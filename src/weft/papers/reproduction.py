"""Interface of the reproductions behind ``weft reproduce``: cells, measures, result rows and charts.

A reproduction repeats an experiment of a paper. Its cells are parameter settings. Every cell is run several
times, each time with its own random generator, and every run returns measures. Rows compare the figures of
all runs with those of the paper and state which lie within the tolerance of docs/papers; a row without a
tolerance states why. A reproduction with charts also has a method ``charts``; ``weft.reports`` draws them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from weft.papers.statistics import Summary, summarise

if TYPE_CHECKING:
    import numpy as np


Value = int | float | str | bool
Measures = Mapping[str, float]
"""The results of one run, by name of the measure; a name contains the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentCell:
    """One parameter setting of an experiment."""

    name: str
    """Unique within the reproduction; it seeds the runs and identifies them in the ledger."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    runs: int
    """Default number of runs."""
    work: float = 1.0
    """Duration of a run relative to runs of other cells, for estimates of the time left."""


@dataclass(frozen=True)
class Results:
    """The measures of all runs by cell, ordered by repetition."""

    _measures: Mapping[str, Sequence[Measures]]

    def __contains__(self, cell: str) -> bool:
        return bool(self._measures.get(cell))

    def of(self, cell: str, measure: str) -> list[float]:
        """Return the values of one measure in all runs of a cell, by repetition."""
        return [found[measure] for found in self._measures[cell]]

    def has(self, cell: str, measure: str) -> bool:
        """Return whether the runs of a cell have a measure."""
        return all(measure in found for found in self._measures[cell])

    def summary(self, cell: str, measure: str) -> Summary:
        """Return the statistics of one measure over all runs of a cell."""
        return summarise(self.of(cell, measure))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceBand:
    """The accepted interval of a figure, bounds included."""

    least: float = -math.inf
    most: float = math.inf

    def __contains__(self, value: float) -> bool:
        return self.least <= value <= self.most

    @classmethod
    def exactly(cls, value: float) -> ToleranceBand:
        """Return the interval that contains only one value."""
        return cls(least=value, most=value)

    def text(self, unit: str) -> str:
        """Return the interval as text for users."""
        tail = f" {unit}" if unit else ""
        if self.least == self.most:
            return f"{self.least:,g}{tail}"
        if math.isinf(self.least):
            return f"≤ {self.most:,g}{tail}"
        if math.isinf(self.most):
            return f"≥ {self.least:,g}{tail}"
        return f"{self.least:,g} to {self.most:,g}{tail}"


NO_FIGURE = "no figure in the paper"
"""The paper states no figure; the prototype of the specification may have one."""
OWN_TIMES = "testbed and times are ours"
"""The paper has a number, which depends on machines, programs or times that are not published."""
JUDGED_BELOW = "judged by another row"
ONLY_WORDS = "a claim without a number"
THIS_HOST = "depends on this host"
NOT_REPRODUCED = "not reproduced, see docs/papers"
"""The constants from NO_FIGURE to this one are reasons why a row has no tolerance."""

_CHANCE = 2.0
"""Number of standard errors by which a figure may be outside its interval by chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One figure (number) of our runs beside the figure of the paper."""

    table: str
    """Heading of the table that contains the row."""
    figure: str
    ours: float
    unit: str = ""
    digits: int = 1
    """Number of decimals of ``ours`` in texts."""
    error: float = math.nan
    """Standard error, if ``ours`` is a mean of several runs; otherwise NaN."""
    runs: int = 1
    """Number of runs that contribute."""
    paper: str = ""
    """The figure in the paper, as text."""
    prototype: str = ""
    """The figure measured by the prototype (docs/papers)."""
    band: ToleranceBand | None = None
    """The accepted interval; None: the figure is not judged."""
    disturbed: bool = False
    """Whether other load disturbed the run. A disturbed figure outside its interval is not judged."""
    accepts: str = ""
    """Id of the acceptance test in docs/papers that defines the interval, such as ``A1.7``."""
    why: str = ""
    """Why the figure has no interval; "" if it has one."""
    by_chance: bool = False
    """Whether the figure is outside its interval, but perhaps by chance; it is not judged then."""

    @property
    def text(self) -> str:
        """Return our figure with standard error and unit as text."""
        tiny = 0.0 < abs(self.ours) < 1e-6
        number = f"{self.ours:.1e}" if tiny else f"{self.ours:,.{self.digits}f}"
        error = "" if math.isnan(self.error) else f" ± {self.error:,.{self.digits}f}"
        return f"{number}{error} {self.unit}".rstrip()

    @property
    def within(self) -> bool | None:
        """Return whether the figure is in its interval; None: it is not judged."""
        if self.band is None or self.by_chance:
            return None
        inside = self.ours in self.band
        return None if self.disturbed and not inside else inside

    @property
    def unjudged(self) -> str:
        """Return why the figure is not judged; "" if it is judged."""
        if self.within is not None:
            return ""
        if self.by_chance:
            return "outside its tolerance by less than two standard errors"
        return "other load disturbed all attempts" if self.disturbed else self.why

    def left_to_chance(self) -> ResultRow:
        """Return the row, with ``by_chance`` set if it is up to two standard errors outside its interval."""
        if self.band is None or self.ours in self.band or math.isnan(self.error):
            return self
        slack = _CHANCE * self.error
        near = self.band.least - slack <= self.ours <= self.band.most + slack
        return replace(self, by_chance=near)

    def as_record(self) -> dict[str, object]:
        """Return the row as plain data for ``--json``."""
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
            "disturbed": self.disturbed,
            "by_chance": self.by_chance,
            "not_judged": self.unjudged or None,
            "acceptance": self.accepts or None,
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure as a line of a table, with its published values and its tolerance."""

    measure: str
    figure: str
    unit: str = ""
    paper: str = ""
    prototype: str = ""
    band: ToleranceBand | None = None
    accepts: str = ""
    digits: int | None = None
    """Number of decimals; by default 1 with a unit, else 0."""
    why: str = ""
    """Why there is no tolerance."""

    def fields(self) -> dict[str, Any]:
        """Return the fields of a result row that do not depend on results."""
        found = {name: getattr(self, name) for name in self.__slots__[1:]}
        return found | ({"digits": int(bool(self.unit))} if self.digits is None else {})


_NO_REASONS: Mapping[str, str] = {}


def mean_row(found: Summary, **fields: Any) -> ResultRow:
    """Return a row with the mean of a sample and its standard error."""
    return ResultRow(ours=found.mean, error=found.standard_error, runs=found.number, **fields)


def median_row(found: Summary, **fields: Any) -> ResultRow:
    """Return a row with the median of a sample."""
    return ResultRow(ours=found.median, runs=found.number, **fields)


def single_row(values: Sequence[float], **fields: Any) -> ResultRow:
    """Return a row with the value of the first run, for experiments without random numbers."""
    return ResultRow(ours=values[0], runs=len(values), **fields)


def single_rows(results: Results, cell: str, tables: Mapping[str, Sequence[Figure]]) -> list[ResultRow]:
    """Return the rows of a cell without random numbers; ``tables`` has the figures by table heading."""
    return [
        single_row(results.of(cell, figure.measure), table=table, **figure.fields())
        for table, figures in tables.items()
        for figure in figures
    ]


def give_reasons(
    rows: Iterable[ResultRow], otherwise: str, reasons: Mapping[str, str] = _NO_REASONS
) -> list[ResultRow]:
    """Return the rows; a row with neither an interval nor a reason gets a reason.

    ``reasons`` maps the beginning of a table's heading to a reason. The first match is used, and
    ``otherwise`` if there is no match.
    """
    found = []
    for row in rows:
        of_table = next((why for start, why in reasons.items() if row.table.startswith(start)), otherwise)
        found.append(row if row.band is not None or row.why else replace(row, why=of_table))
    return found


class Reproduction(Protocol):
    """An experiment of a paper. It is stateless: runs may happen in any process and in any order."""

    name: ClassVar[str]
    title: ClassVar[str]
    """One line for lists, with paper and section."""

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Return the cells: the complete grid if ``full``, else a selection that takes about a minute."""
        ...

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:
        """Run a cell once and return its measures."""
        ...

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:
        """Return the rows that compare the results of all runs with the paper."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Several time series for one chart."""

    title: str
    times_s: Sequence[float]
    """Equidistant times."""
    values: Mapping[str, Sequence[float]]
    """By name: the values at these times."""

    def as_record(self) -> dict[str, object]:
        """Return the chart as plain data for ``--json``."""
        values = {name: list(found) for name, found in self.values.items()}
        return {"chart": "curves", "title": self.title, "times_s": list(self.times_s), "values": values}


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """The numbers of one box plot."""

    least: float
    lower_quartile: float
    median: float
    mean: float
    upper_quartile: float
    most: float

    def as_record(self) -> dict[str, float]:
        """Return the numbers as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """Several box plots on one scale."""

    title: str
    boxes: Mapping[str, Box]

    def as_record(self) -> dict[str, object]:
        """Return the chart as plain data for ``--json``."""
        boxes = {name: box.as_record() for name, box in self.boxes.items()}
        return {"chart": "boxes", "title": self.title, "boxes": boxes}


Chart = Curves | Boxes


@runtime_checkable
class ChartedReproduction(Protocol):
    """A reproduction with charts."""

    def charts(self, results: Results, *, full: bool) -> Sequence[Chart]:
        """Return the charts of all runs."""
        ...
