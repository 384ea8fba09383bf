"""Regression: work or seconds as a function of a parameter (docs/papers/dynamic-grid.md, section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
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

_FAMILIES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "linear": lambda c, x: c[0] + c[1] * x,
    "logarithmic": lambda c, x: c[0] + c[1] * np.log(x),
    "exponential": lambda c, x: c[0] * np.exp(c[1] * x),
    "power": lambda c, x: c[0] * x ** c[1],
    "polynomial": lambda c, x: np.asarray(np.polyval(c[::-1], x), dtype=np.float64),
}
"""Functions of coefficients c and x, by family; if families are equally good, the first is chosen."""

_R2_TOLERANCE = 0.005
"""An increase of adjusted R2 by no more than this does not justify more parameters."""
_Z90 = 1.2816
"""Standard deviations from the median to the 90th percentile of a normal distribution."""
_MAX_DEGREE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A function fitted to measurements."""

    family: str
    coefficients: tuple[float, ...]
    """Coefficients in the order of _FAMILIES; those of a polynomial by ascending power."""
    r2: float
    adjusted_r2: float
    sigma: float
    """Standard deviation of the residuals."""
    low: float
    high: float
    """``low`` and ``high`` are the smallest and the largest x of the measurements."""

    def predict(self, x: ArrayLike) -> Floats:
        """Return the values of the function at x; nan outside its domain, infinity on overflow."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            values = _FAMILIES[self.family](np.array(self.coefficients), np.asarray(x, dtype=np.float64))
        return np.asarray(values, dtype=np.float64)

    def p90(self, x: ArrayLike) -> Floats:
        """Return the 90th percentile at x, assuming normally distributed residuals."""
        return self.predict(x) + _Z90 * self.sigma


def fit(x: ArrayLike, y: ArrayLike, *, max_degree: int = 2) -> Fit:
    """Return the function that fits the points (x, y) best; raises InvalidInput if none can be fitted."""
    xs, ys = np.asarray(x, dtype=np.float64).ravel(), np.asarray(y, dtype=np.float64).ravel()
    _check_points(xs, ys, max_degree)
    with np.errstate(over="ignore", invalid="ignore"):
        fits = list(_fit_families(xs, ys, max_degree))
    if not fits:
        what = f"no function can be fitted to measurements between {xs.min():g} and {xs.max():g}"
        raise InvalidInput(what, advice="measure at values that are farther apart")
    best = max(fitted.adjusted_r2 for fitted in fits)
    near = [fitted for fitted in fits if fitted.adjusted_r2 >= best - _R2_TOLERANCE]
    return min(near, key=lambda fitted: (len(fitted.coefficients), -fitted.adjusted_r2))


def _check_points(x: Floats, y: Floats, max_degree: int) -> None:
    if not 1 <= max_degree <= _MAX_DEGREE:
        what = f"the largest degree of polynomials is {max_degree}"
        raise InvalidInput(what, rule=f"must be between 1 and {_MAX_DEGREE}")
    if len(x) != len(y):
        what = f"{len(x)} values of x but {len(y)} values of y"
        raise InvalidInput(what, rule="a regression needs one y for each x")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        wrong = int(np.argmin(np.isfinite(x) & np.isfinite(y)))
        what = f"measurement {wrong + 1} has x = {x[wrong]:g} and y = {y[wrong]:g}"
        raise InvalidInput(what, rule="both must be finite numbers", advice="remove the measurement")
    if len(x) < 3:
        what = f"there are {len(x)} measurements"
        raise InvalidInput(what, rule="a regression needs at least 3", advice="measure at more values of x")
    if (x == x[0]).all():
        what = f"all measurements are at x = {x[0]:g}"
        advice = "measure at two or more different values"
        raise InvalidInput(what, rule="a regression needs different values of x", advice=advice)


def _fit_families(x: Floats, y: Floats, max_degree: int) -> Iterator[Fit]:
    ones, positive_x, positive_y = np.ones(len(x)), bool((x > 0).all()), bool((y > 0).all())
    # log(1) replaces undefined logarithms to avoid NumPy warnings; families that use them are skipped.
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
        usable = allowed and len(x) > len(columns) and np.isfinite(columns).all()
        if usable and (fitted := _least_squares(family, columns, target, x, y)) is not None:
            yield fitted


def _least_squares(family: str, columns: list[Floats], target: Floats, x: Floats, y: Floats) -> Fit | None:
    """Return the least-squares fit of one family; None if the points do not determine its coefficients."""
    scale = np.array([np.abs(column).max() or 1.0 for column in columns])
    solution, _, rank, _ = np.linalg.lstsq(np.stack(columns, axis=1) / scale, target, rcond=None)
    if rank < len(columns):
        return None
    coefficients = solution / scale
    if target is not y:
        coefficients[0] = np.exp(coefficients[0])
    r2, sigma = _quality(_FAMILIES[family](coefficients, x), y, len(columns))
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
    """Return R2 and the standard deviation of the residuals of y (not of its logarithm)."""
    unit = float(np.abs(y).max()) or 1.0
    residual = float((((y - fitted) / unit) ** 2).sum())
    total = float((((y - y.mean()) / unit) ** 2).sum())
    sigma = unit * math.sqrt(residual / (len(y) - parameters))
    if total <= len(y) * np.finfo(np.float64).eps ** 2:
        # Constant data have no variance: a function that reproduces them explains them fully.
        return (1.0 if residual <= _R2_TOLERANCE**2 else 0.0), sigma
    return 1.0 - residual / total, sigma


_INTERPOLATED = "regression"
_EXTRAPOLATED = "extrapolated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """Estimates tasks from functions of a parameter, fitted for each kind of task.

    Linear, polynomial, logarithmic, exponential and power functions are fitted by least squares (exponential
    and power on logarithms), and the one whose regression coefficient is closest to one is chosen. P90 is P50
    plus 1.2816 standard deviations of the residuals. An estimate outside the measured range is marked as
    ``extrapolated``; a function value that is not above 0 gives no estimate.

    Deviations: R2 is computed in the original space, even if logarithms were fitted. Because linear is nested
    in polynomial, families are compared by adjusted R2, and of those within 0.005 of the best the one with
    fewest parameters wins. Families whose domain the data violate, or with fewer points than parameters + 1,
    are skipped.
    """

    fits: Mapping[str, Fit] = field(default_factory=dict)
    """Fitted functions by kind of task."""
    parameter: str = "size"
    gives: Literal["work", "seconds"] = "work"
    """What the functions return: work, which is divided by rate and speed-up, or seconds, which hold on every
    machine for the smallest allowed node count.
    """

    name: ClassVar[str] = "regression"
    final: ClassVar[bool] = False

    @property
    def reads(self) -> PredictorInputs:
        """Return the inputs of an estimate: kind of task, the parameter and, for work, the machine's rate."""
        return PredictorInputs(kind=True, parameters=(self.parameter,), rate=self.gives == "work")

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the tasks that are of a fitted kind and have the parameter."""
        return select_tasks(graph, self.fits, self.parameter)

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the seconds by the fitted function.

        Return None if the kind has no function, the parameter is missing, or the function value is not above
        0.
        """
        fitted = self.fits.get(features.kind)
        x = numeric_parameter(features, self.parameter)
        if fitted is None or x is None:
            return None
        p50, p90 = float(fitted.predict(x)), float(fitted.p90(x))
        if not 0 < p50 < math.inf:
            return None
        source = _INTERPOLATED if fitted.low <= x <= fitted.high else _EXTRAPOLATED
        speed = self._speed(features, machine, nodes)
        if math.isnan(speed):
            return impossible(source)
        return Estimate(p50_s=p50 / speed, p90_s=p90 / speed, source=source)

    def _speed(self, features: TaskFeatures, machine: Machine, nodes: int) -> float:
        faster = evaluate_law(features.law, nodes)
        if self.gives == "work":
            return machine.rate(features.service) * faster
        return faster / reference_speedup(features.law, features.counts)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> ClassSeconds | TableSeconds:
        """Return the estimates of all modes; ``predict`` is called once per class of equivalent tasks."""
        return tabulate(self, graph, machines)
