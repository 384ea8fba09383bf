"""Charts: figures of a reproduction that are drawn, as data. ``weft.reports`` draws them.

A reproduction that has some gives them by a method ``charts``, beside what ``reproduction.py`` demands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from weft.studies.reproduction import Results

__all__ = ["Box", "Boxes", "Chart", "Charting", "Curves"]


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
class Charting(Protocol):
    """A reproduction that has charts."""

    def charts(self, results: Results, *, full: bool) -> Sequence[Chart]:
        """Give the charts of all runs."""
        ...
