"""Fitting a function of one variable to measurements, and choosing its family (S1 section 5, S1.9).

Linear, polynomial, logarithmic, exponential and power functions are fitted by least squares (exponential and
power on logarithms), and the one whose regression coefficient is closest to one is taken.

Deviations: R2 is computed in the original space, whatever space was fitted; because linear is nested in
polynomial, families are compared by adjusted R2, and of those within 0.005 of the best the one with fewest
parameters wins. Families whose domain the data violate are skipped, and those with fewer points than
parameters + 1.

Regression on measurements: work or seconds of a kind of task over one parameter (S1 section 5).

The functions are fitted and chosen in ``fitting``. P90 is P50 plus 1.2816 standard deviations of the
residuals. An answer outside the measured range is marked as ``extrapolated``; one that is not above 0 seconds
is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine
from weft.predictors.predictor import (
    Estimate,
    Flags,
    PredictorInputs,
    TaskFeatures,
    impossible,
    numeric_parameter,
    select_tasks,
)
from weft.predictors.seconds import ClassSeconds, TableSeconds
from weft.predictors.speedups import evaluate_law, reference_speedup
from weft.predictors.tabulation import tabulate
from weft.workflow.task_graph import Floats, TaskGraph

__all__ = ["EXTRAPOLATED", "FAMILIES", "INSIDE", "MAX_DEGREE", "NEAR", "Z90", "Fit", "Regression", "fit"]


FAMILIES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "linear": lambda c, x: c[0] + c[1] * x,
    "logarithmic": lambda c, x: c[0] + c[1] * np.log(x),
    "exponential": lambda c, x: c[0] * np.exp(c[1] * x),
    "power": lambda c, x: c[0] * x ** c[1],
    "polynomial": lambda c, x: np.asarray(np.polyval(c[::-1], x), dtype=np.float64),
}
"""The functions, from coefficients and x to y; of equally good ones the first is taken."""

NEAR = 0.005
"""Differences of adjusted R2 up to this do not justify more parameters."""
Z90 = 1.2816
"""Standard deviations from the median to the 90th percentile of a normal distribution."""
MAX_DEGREE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted function."""

    family: str
    coefficients: tuple[float, ...]
    """As in FAMILIES; of a polynomial from the constant upwards."""
    r2: float
    adjusted_r2: float
    sigma: float
    """Standard deviation of the residuals."""
    low: float
    high: float
    """Smallest and largest x that was fitted."""

    def predict(self, x: ArrayLike) -> Floats:
        """Give the function at x; nan outside its domain, infinite on overflow."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            values = FAMILIES[self.family](np.array(self.coefficients), np.asarray(x, dtype=np.float64))
        return np.asarray(values, dtype=np.float64)

    def p90(self, x: ArrayLike) -> Floats:
        """Give what is exceeded one time in ten, as if residuals were normal."""
        return self.predict(x) + Z90 * self.sigma


def fit(x: ArrayLike, y: ArrayLike, *, max_degree: int = 2) -> Fit:
    """Fit all families and choose one."""
    xs, ys = np.asarray(x, dtype=np.float64).ravel(), np.asarray(y, dtype=np.float64).ravel()
    _check(xs, ys, max_degree)
    with np.errstate(over="ignore", invalid="ignore"):
        fits = list(_fits(xs, ys, max_degree))
    if not fits:
        what = f"measurements between {xs.min():g} and {xs.max():g}"
        raise InvalidInput(Problem(what=what, rule="no function fits them", advice="measure farther apart"))
    best = max(fitted.adjusted_r2 for fitted in fits)
    near = [fitted for fitted in fits if fitted.adjusted_r2 >= best - NEAR]
    return min(near, key=lambda fitted: (len(fitted.coefficients), -fitted.adjusted_r2))


def _check(x: Floats, y: Floats, max_degree: int) -> None:
    if not 1 <= max_degree <= MAX_DEGREE:
        what = f"polynomials up to degree {max_degree}"
        raise InvalidInput(Problem(what=what, rule=f"the degree lies between 1 (none) and {MAX_DEGREE}"))
    if len(x) != len(y):
        raise InvalidInput(Problem(what=f"{len(x)} values of x and {len(y)} of y", rule="they come in pairs"))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InvalidInput(Problem(what="a measurement that is not a finite number", advice="leave it out"))
    if len(x) < 3:
        what = f"{len(x)} measurements"
        raise InvalidInput(Problem(what=what, rule="a regression needs at least 3", advice="measure more"))
    if (x == x[0]).all():
        what = f"all measurements at {x[0]:g}"
        advice = "measure at two or more different values"
        raise InvalidInput(Problem(what=what, rule="a regression needs different values of x", advice=advice))


def _fits(x: Floats, y: Floats, max_degree: int) -> Iterator[Fit]:
    ones, positive_x, positive_y = np.ones(len(x)), bool((x > 0).all()), bool((y > 0).all())
    # Where a logarithm does not exist, its families are skipped; the 1 only keeps NumPy quiet.
    log_x, log_y = np.log(np.where(x > 0, x, 1.0)), np.log(np.where(y > 0, y, 1.0))
    trials: list[tuple[str, bool, list[Floats], Floats]] = [
        ("linear", True, [ones, x], y),
        ("logarithmic", positive_x, [ones, log_x], y),
        ("exponential", positive_y, [ones, x], log_y),
        ("power", positive_x and positive_y, [ones, log_x], log_y),
    ]
    powers = [x**power for power in range(max_degree + 1)]
    trials += [("polynomial", True, powers[: degree + 1], y) for degree in range(2, max_degree + 1)]
    for family, allowed, columns, target in trials:
        if allowed and len(x) > len(columns) and np.isfinite(columns).all():
            fitted = _least_squares(family, columns, target, x, y)
            if fitted is not None:
                yield fitted


def _least_squares(family: str, columns: list[Floats], target: Floats, x: Floats, y: Floats) -> Fit | None:
    """Fit one family; None where the points do not determine it."""
    scale = np.array([np.abs(column).max() or 1.0 for column in columns])
    solution, _, rank, _ = np.linalg.lstsq(np.stack(columns, axis=1) / scale, target, rcond=None)
    if rank < len(columns):
        return None
    coefficients = solution / scale
    if target is not y:
        coefficients[0] = np.exp(coefficients[0])
    r2, sigma = _quality(FAMILIES[family](coefficients, x), y, len(columns))
    if not math.isfinite(r2):
        return None
    return Fit(
        family=family,
        coefficients=tuple(coefficients.tolist()),
        r2=r2,
        adjusted_r2=1.0 - (1.0 - r2) * (len(x) - 1) / (len(x) - len(columns)),
        sigma=sigma,
        low=float(x.min()),
        high=float(x.max()),
    )


def _quality(fitted: Floats, y: Floats, parameters: int) -> tuple[float, float]:
    """Give R2 and the standard deviation of the residuals, both in the space of y."""
    unit = float(np.abs(y).max()) or 1.0
    residual = float((((y - fitted) / unit) ** 2).sum())
    total = float((((y - y.mean()) / unit) ** 2).sum())
    sigma = unit * math.sqrt(residual / (len(y) - parameters))
    if total <= len(y) * np.finfo(np.float64).eps ** 2:
        # Constant data: nothing is left to explain, and what reproduces them explains all of it.
        return (1.0 if residual <= NEAR**2 else 0.0), sigma
    return 1.0 - residual / total, sigma


INSIDE = "regression"
EXTRAPOLATED = "extrapolated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """Answers for tasks of fitted kinds that have the parameter."""

    fits: Mapping[str, Fit] = field(default_factory=dict)
    """By kind of task."""
    parameter: str = "size"
    gives: Literal["work", "seconds"] = "work"
    """Work is divided by rate and speed-up; seconds hold on every machine for the smallest allowed count."""

    name: ClassVar[str] = "regression"
    final: ClassVar[bool] = False

    @property
    def reads(self) -> PredictorInputs:
        """The kind, the parameter, and for work the machine's rate."""
        return PredictorInputs(kind=True, parameters=(self.parameter,), rate=self.gives == "work")

    def applies(self, graph: TaskGraph) -> Flags:
        """Take the tasks of fitted kinds that have the parameter."""
        return select_tasks(graph, self.fits, self.parameter)

    def predict(self, subject: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Evaluate the function and divide by what makes the task faster here."""
        fitted = self.fits.get(subject.kind)
        x = numeric_parameter(subject, self.parameter)
        if fitted is None or x is None:
            return None
        p50, p90 = float(fitted.predict(x)), float(fitted.p90(x))
        if not 0 < p50 < math.inf:
            return None
        source = INSIDE if fitted.low <= x <= fitted.high else EXTRAPOLATED
        speed = self._speed(subject, machine, nodes)
        if math.isnan(speed):
            return impossible(source)
        return Estimate(p50_s=p50 / speed, p90_s=p90 / speed, source=source)

    def _speed(self, subject: TaskFeatures, machine: Machine, nodes: int) -> float:
        faster = evaluate_law(subject.law, nodes)
        if self.gives == "work":
            return machine.rate(subject.service) * faster
        return faster / reference_speedup(subject.law, subject.counts)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> ClassSeconds | TableSeconds:
        """Ask class by class."""
        return tabulate(self, graph, machines)
