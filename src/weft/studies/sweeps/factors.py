"""The five sweeps of table I: which factor is varied, and what the paper says of it (spec s4 section 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.studies.sweeps.algorithms import ALGORITHMS
from weft.workflow.generators.sweep_layers import RandomSweeps

__all__ = ["DEFAULTS", "FACTORS", "Claim", "Factor", "point_name", "random_sweeps"]

Claim = Literal["rises", "falls", "stays"]
"""How the percentage of shuffle changes as a factor grows; it is the better, the lower."""
DEFAULTS = "defaults"
"""The name of the point at which every factor has its default."""
_ONE_TO_TEN = tuple(float(point) for point in range(1, 11))


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One sweep."""

    name: str
    """As the paper calls it."""
    parameter: str
    points: Sequence[float]
    xdcp: Claim
    masters: Claim
    """Of M-S and pM-S."""
    lowest: tuple[float, float, float]
    highest: tuple[float, float, float]
    """The prototype's percentages of xDCP, M-S and pM-S at both ends."""

    @property
    def ends(self) -> tuple[float, ...]:
        """Give the two lowest and the two highest points."""
        return (*self.points[:2], *self.points[-2:])

    def claim(self, algorithm: str) -> Claim:
        """Give what the paper says of an algorithm."""
        return self.xdcp if algorithm == "xDCP" else self.masters

    def prototype(self, point: float) -> Mapping[str, float]:
        """Give the prototype's percentages at a point, where it has some."""
        ends = {self.points[0]: self.lowest, self.points[-1]: self.highest}
        return dict(zip(ALGORITHMS, ends[point], strict=True)) if point in ends else {}


FACTORS = (
    Factor(
        name="#PST",
        parameter="layers",
        points=tuple(float(point) for point in range(3, 13)),
        xdcp="rises",
        masters="falls",
        lowest=(31.6, 36.9, 34.4),
        highest=(33.0, 36.3, 33.4),
    ),
    Factor(
        name="RSS",
        parameter="length_ratio",
        points=_ONE_TO_TEN,
        xdcp="falls",
        masters="stays",
        lowest=(34.1, 35.3, 32.3),
        highest=(30.4, 35.3, 32.9),
    ),
    Factor(
        name="RRT",
        parameter="throughput_ratio",
        points=_ONE_TO_TEN,
        xdcp="falls",
        masters="falls",
        lowest=(47.8, 52.5, 47.4),
        highest=(20.1, 26.5, 26.2),
    ),
    Factor(
        name="RSR",
        parameter="subtasks_per_machine",
        points=_ONE_TO_TEN,
        xdcp="falls",
        masters="falls",
        lowest=(56.5, 91.4, 90.9),
        highest=(27.6, 29.5, 25.4),
    ),
    Factor(
        name="ADPS",
        parameter="parents",
        points=tuple(0.5 * point for point in range(2, 12)),
        xdcp="rises",
        masters="rises",
        lowest=(28.0, 32.4, 32.4),
        highest=(37.3, 40.4, 37.3),
    ),
)


def point_name(factor: Factor, point: float) -> str:
    """Name a point of a sweep."""
    return f"{factor.name} {point:g}"


def random_sweeps(parameter: str, value: float) -> RandomSweeps:
    """Describe the random graphs of a point; "": those of the defaults."""
    if not parameter:
        return RandomSweeps()
    given = int(value) if parameter == "layers" else value
    return RandomSweeps(**{parameter: given})  # type: ignore[arg-type]
