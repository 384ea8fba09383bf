"""The settings of S1's tuning experiment, what the paper found, what must hold (spec s1 sections 12, 15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.studies.reproduction import Value

__all__ = ["FACTORS", "GRID", "OPERATORS", "TRENDS", "TUNED", "VARIANTS", "Factor", "Trend", "cell_name"]

TUNED = "tuned"
"""The cell of the chosen settings."""
OPERATORS = "operators"
"""The cell that tries scaling and selection by themselves."""

GRID: Mapping[str, tuple[Value, ...]] = {
    "population": (50, 100, 150, 200),
    "crossover_rate": (0.4, 0.6, 0.8, 1.0),
    "mutation_rate": (0.001, 0.01, 0.1),
    "generations": (100, 200, 300, 400, 500),
    "steady_share": (0.1, 0.2),
    "scaling": (1.0, 1.5, 2.0),
    "elitist": (False, True),
}
"""The values of S1 section 12; all of them with all others are the experiments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A setting that is changed alone."""

    setting: str
    paper: str
    prototype: Mapping[Value, float]
    """The precision in percent by value; the tuned value is among them."""
    tuned: Value | None
    """The value among them that the chosen settings have; None: none of them."""
    titles: Mapping[Value, str] = field(default_factory=dict)
    """Values that are not written as they are."""

    @property
    def others(self) -> tuple[Value, ...]:
        """Give the values that are not the chosen one."""
        return tuple(value for value in self.prototype if value != self.tuned)

    def cell(self, value: Value) -> str:
        """Name the cell of a value."""
        return TUNED if value == self.tuned else cell_name({self.setting: value})


FACTORS = (
    Factor(
        setting="population",
        paper="50 too small, 200 good but slow",
        prototype={50: 80.8, 100: 32.1, 150: 16.1, 200: 13.9},
        tuned=150,
    ),
    Factor(
        setting="generations",
        paper="more is better",
        prototype={100: 104.6, 200: 46.1, 300: 27.5, 400: 19.2, 500: 16.1},
        tuned=500,
    ),
    Factor(setting="steady_share", paper="20 % is good", prototype={0.1: 18.3, 0.2: 16.1}, tuned=0.2),
    Factor(
        setting="crossover_rate",
        paper="higher is faster",
        prototype={0.4: 50.0, 0.6: 37.6, 0.8: 15.5, 1.0: 16.0},
        tuned=None,
    ),
    Factor(
        setting="mutation_rate",
        paper="must be low",
        prototype={1e-5: 135.8, 1e-4: 84.1, 1e-3: 16.1, 3e-3: 14.4, 0.01: 19.5, 0.1: 154.4},
        tuned=1e-3,
    ),
    Factor(
        setting="scaling",
        paper="crucial, up to 10 times better",
        prototype={1.0: 60.3, 1.5: 15.4, 2.0: 16.1},
        tuned=2.0,
        titles={1.0: "off"},
    ),
    Factor(
        setting="elitist",
        paper="33 % better on average",
        prototype={False: 50.4, True: 16.1},
        tuned=True,
        titles={False: "no", True: "yes"},
    ),
)
"""Each setting with the values the prototype tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A value that must be worse than the chosen one."""

    setting: str
    value: Value
    times: float
    """At least so many times the precision of the chosen settings (A1.8)."""


TRENDS = (
    Trend(setting="population", value=50, times=1.5),
    Trend(setting="generations", value=100, times=2.0),
    Trend(setting="mutation_rate", value=0.1, times=3.0),
    Trend(setting="mutation_rate", value=1e-5, times=3.0),
    Trend(setting="scaling", value=1.0, times=2.0),
    Trend(setting="elitist", value=False, times=1.5),
)

VARIANTS: tuple[dict[str, Value], ...] = (
    {"const_factor": 10.0},
    {"const_factor": 10.0, "scaling": 1.0},
    {"separate_genes": True},
)
"""What the prototype tried besides: a larger Const, with scaling and without; 106 genes instead of 56."""


def cell_name(changed: Mapping[str, Value]) -> str:
    """Name the cell with some settings changed."""
    return " ".join(f"{setting}={value}" for setting, value in changed.items()) or TUNED
