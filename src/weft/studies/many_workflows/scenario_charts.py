"""The charts of S5: active workflows and ready tasks over time, box plots of slowdown (spec s5 section 7)."""

from __future__ import annotations

from collections.abc import Iterator

from weft.studies.charts import Box, Boxes, Chart, Curves
from weft.studies.many_workflows.applications import APPLICATIONS
from weft.studies.many_workflows.contests import ALL, BOX, LABELS, TIMES_S, boxed, sampled
from weft.studies.many_workflows.scenario_rows import CASES
from weft.studies.reproduction import Results

__all__ = ["scenario_charts"]


def scenario_charts(results: Results) -> list[Chart]:
    """Give the charts; every number is a mean over the orders."""
    return [*_curves(results), *_boxes(results)]


def _curves(results: Results) -> Iterator[Chart]:
    for curve, title in (("active", "active workflows"), ("ready", "ready tasks")):
        yield Curves(
            title=f"{title} over time, mean of all orders",
            times_s=TIMES_S,
            values={
                label: [_mean(results, policy, sampled(curve, time_s)) for time_s in TIMES_S]
                for policy, label in LABELS.items()
            },
        )


def _boxes(results: Results) -> Iterator[Chart]:
    for name in (ALL, *APPLICATIONS):
        yield Boxes(
            title=f"slowdown, {'all applications' if name == ALL else name}",
            boxes={
                label: Box(**{number: _mean(results, policy, boxed(name, number)) for number in BOX})
                for policy, label in LABELS.items()
            },
        )


def _mean(results: Results, policy: str, measure: str) -> float:
    return results.summary(CASES.orders, f"{policy}.{measure}").mean
