"""Regression on measurements: work or seconds of a kind of task over one parameter (S1 section 5).

The functions are fitted and chosen in ``fitting``. P90 is P50 plus 1.2816 standard deviations of the
residuals. An answer outside the measured range is marked as ``extrapolated``; one that is not above 0 seconds
is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from weft.platform.machine import Machine
from weft.predictors.building.laws import gain, reference_gain
from weft.predictors.fitting import Fit, fit
from weft.predictors.parameters import number, tasks_of
from weft.predictors.predictor import Estimate, Flags, Reads, Subject, impossible
from weft.predictors.seconds import Classes, Table
from weft.predictors.tabulate import tabulate
from weft.workflow.unfolding.task_graph import TaskGraph

__all__ = ["EXTRAPOLATED", "INSIDE", "Fit", "Regression", "fit"]

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
    def reads(self) -> Reads:
        """The kind, the parameter, and for work the machine's rate."""
        return Reads(kind=True, parameters=(self.parameter,), rate=self.gives == "work")

    def applies(self, graph: TaskGraph) -> Flags:
        """Take the tasks of fitted kinds that have the parameter."""
        return tasks_of(graph, self.fits, self.parameter)

    def predict(self, subject: Subject, machine: Machine, nodes: int) -> Estimate | None:
        """Evaluate the function and divide by what makes the task faster here."""
        fitted = self.fits.get(subject.kind)
        x = number(subject, self.parameter)
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

    def _speed(self, subject: Subject, machine: Machine, nodes: int) -> float:
        faster = gain(subject.law, nodes)
        if self.gives == "work":
            return machine.rate(subject.service) * faster
        return faster / reference_gain(subject.law, subject.counts)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Classes | Table:
        """Ask class by class."""
        return tabulate(self, graph, machines)
