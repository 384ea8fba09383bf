"""Predictions that users write, as a predictor: measured, interpolated or fitted seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.predictions import EVERY_MACHINE, Prediction
from weft.predictors.performance import PerformanceTable
from weft.predictors.predictor import (
    Estimate,
    Flags,
    PredictorInputs,
    TaskFeatures,
    impossible,
    numeric_parameter,
)
from weft.predictors.regression import fit
from weft.predictors.seconds import ClassSeconds, TableSeconds
from weft.predictors.speedups import evaluate_law
from weft.predictors.tabulation import tabulate
from weft.workflow.task_graph import COMPUTE, TaskGraph

_MEASURED, _INTERPOLATED, _FITTED = "predictions", "interpolated", "fitted"
_LEAST_FOR_FIT = 3
_LATE = 0.9
_KIND = ""

_Point = tuple[tuple[str, float], ...]
"""Values of the parameters of a prediction, sorted by name."""


class _MeasuredKind:
    """The predictions of one kind of task on one machine: seconds by point and node count."""

    def __init__(self, rows: Sequence[Prediction]) -> None:
        self.names = tuple(sorted(rows[0].parameters))
        seconds: dict[_Point, dict[int, list[float]]] = {}
        late: dict[tuple[_Point, int], float] = {}
        for row in rows:
            if tuple(sorted(row.parameters)) != self.names:
                what = f"{row.place}a prediction of {row.kind!r} states {_list_names(row.parameters)}"
                rule = f"the others on machine {row.machine!r} state {_list_names(self.names)}"
                raise InvalidInput(what, rule=rule, advice="state the same columns in every row of a kind")
            point = tuple(sorted(row.parameters.items()))
            seconds.setdefault(point, {}).setdefault(row.nodes, []).append(row.seconds)
            if row.p90_seconds is not None:
                late[point, row.nodes] = max(row.p90_seconds, late.get((point, row.nodes), 0.0))
        self.seconds = {
            point: {nodes: float(np.median(each)) for nodes, each in sorted(by_count.items())}
            for point, by_count in seconds.items()
        }
        """Median of the stated seconds, by point and node count."""
        self._late = late | {
            (point, nodes): float(np.quantile(each, _LATE))
            for point, by_count in seconds.items()
            for nodes, each in by_count.items()
            if len(each) > 1 and (point, nodes) not in late
        }
        self.counts = sorted({nodes for by_count in self.seconds.values() for nodes in by_count})

    def estimate(self, point: _Point, nodes: int) -> Estimate | None:
        """Return the seconds at a point: measured, interpolated or fitted; None if they are unknown."""
        if (there := self.seconds.get(point)) is not None:
            return self._at_point(point, there, nodes)
        for name in self.names:
            if (found := self._along(name, point, nodes)) is not None:
                return found
        return None

    def _at_point(self, point: _Point, there: Mapping[int, float], nodes: int) -> Estimate | None:
        if nodes in there:
            return Estimate(p50_s=there[nodes], p90_s=self._late.get((point, nodes)), source=_MEASURED)
        found = PerformanceTable({_KIND: {0.0: _keyed(there)}}).lookup(_KIND, 0.0, nodes)
        return None if found is None else _renamed(found)

    def _along(self, name: str, point: _Point, nodes: int) -> Estimate | None:
        """Return the seconds between or beyond the measured values of parameter ``name``; None if unknown.

        Only measurements are used whose other parameters are equal to those of ``point``.
        """
        wanted, others = dict(point)[name], [pair for pair in point if pair[0] != name]
        line = {
            dict(each)[name]: by_count
            for each, by_count in self.seconds.items()
            if [pair for pair in each if pair[0] != name] == others
        }
        if len(line) < 2:
            return None
        table = PerformanceTable({_KIND: {size: _keyed(each) for size, each in line.items()}}, size=name)
        if (found := table.lookup(_KIND, wanted, nodes)) is not None:
            return _renamed(found)
        same = {size: by_count[nodes] for size, by_count in line.items() if nodes in by_count}
        if len(same) < _LEAST_FOR_FIT:
            return None
        fitted = fit(list(same), list(same.values()))
        seconds, late = float(fitted.predict(wanted)), float(fitted.p90(wanted))
        if not (seconds > 0 and math.isfinite(seconds) and math.isfinite(late)):
            return None
        return Estimate(p50_s=seconds, p90_s=max(seconds, late), source=_FITTED)


def _keyed(by_count: Mapping[int, float]) -> dict[str | float, float]:
    return {float(count): seconds for count, seconds in by_count.items()}


def _renamed(found: Estimate) -> Estimate:
    return Estimate(p50_s=found.p50_s, p90_s=found.p90_s, source=_INTERPOLATED)


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no parameter"


class Measurements:
    """Estimates tasks from predictions that users write: rows of kind, machine, nodes, parameters, seconds.

    S2's performance database (M. Jaros, J. Jaros, docs/papers/moldable.md, section 3) and the measurements of
    S1's regression (R. Prodan, T. Fahringer, docs/papers/dynamic-grid.md, section 5) can be written as such
    rows. Between measured node counts and values of one parameter, times are interpolated in log-log space,
    as ``PerformanceTable`` does; beyond the measured values of a parameter the best function of
    ``regression`` is used, if at least three values were measured. If there are several rows for the same
    point and node count, their median is P50, and their 90 % quantile is P90 unless a row states one. A node
    count beyond the measured ones is impossible, unless only one count was measured: then the speed-up law of
    the task scales the time. Rows that name a machine take precedence over rows for every machine.

    Deviations: S1 fits all points; here a measured or enclosed point is not fitted.
    """

    name: ClassVar[str] = "measurements"
    final: ClassVar[bool] = False

    def __init__(self, rows: Sequence[Prediction] = ()) -> None:
        self.rows = tuple(rows)
        grouped: dict[tuple[str, str], list[Prediction]] = {}
        for row in self.rows:
            grouped.setdefault((row.kind, row.machine), []).append(row)
        self._found = {key: _MeasuredKind(each) for key, each in grouped.items()}
        self._kinds = {kind for kind, _ in self._found}

    @cached_property
    def reads(self) -> PredictorInputs:
        """Return the inputs of an estimate: kind, parameters, and the machine if rows name machines."""
        names = dict.fromkeys(name for each in self._found.values() for name in each.names)
        named = any(machine != EVERY_MACHINE for _, machine in self._found)
        return PredictorInputs(kind=True, parameters=tuple(names), machine=named)

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the tasks whose kind has a row."""
        by_template = np.array([task.name in self._kinds for task in graph.workflow.tasks], dtype=np.bool_)
        return np.asarray(by_template[graph.template] & (graph.kind == COMPUTE))

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the estimate of one mode; None if unknown, "impossible" beyond the measured node counts."""
        for name in dict.fromkeys((machine.name, machine.host_name, EVERY_MACHINE)):
            if (found := self._found.get((features.kind, name))) is None:
                continue
            rate = machine.rate(features.service) if name == EVERY_MACHINE else 1.0
            estimate = self._estimate(found, features, nodes)
            if estimate is not None:
                late = None if estimate.p90_s is None else estimate.p90_s / rate
                return Estimate(p50_s=estimate.p50_s / rate, p90_s=late, source=estimate.source)
        return None

    def _estimate(self, found: _MeasuredKind, features: TaskFeatures, nodes: int) -> Estimate | None:
        values = [(name, numeric_parameter(features, name)) for name in found.names]
        point = tuple((name, value) for name, value in values if value is not None)
        if len(point) < len(values):
            return None
        if len(found.counts) > 1 or nodes == found.counts[0]:
            estimate = found.estimate(point, nodes)
            beyond = not found.counts[0] <= nodes <= found.counts[-1]
            return impossible(_MEASURED) if estimate is None and beyond else estimate
        (count,) = found.counts
        estimate = found.estimate(point, count)
        scale = evaluate_law(features.law, count) / evaluate_law(features.law, nodes)
        if estimate is None or not scale > 0:
            return None
        late = None if estimate.p90_s is None else estimate.p90_s * scale
        return Estimate(p50_s=estimate.p50_s * scale, p90_s=late, source=_INTERPOLATED)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> ClassSeconds | TableSeconds:
        """Return the estimates of all modes; ``predict`` is called once per class of equivalent tasks."""
        return tabulate(self, graph, machines)
