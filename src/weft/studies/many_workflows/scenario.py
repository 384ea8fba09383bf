"""``s5-scenario``: 102 workflows that arrive one by one on four servers, under seven policies.

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (spec s5 sections 5 to 8; A5.1 to A5.7). In one run every policy meets the same order of arrivals.

Deviations: the paper has one order, on real servers; here 20 orders are drawn (fewer without ``full``), and
those of the specification's figures are run too. What its middleware takes per task is tried as 0 and as
0.25 s; that of 0.25 s is judged over the five orders from which the specification took its tolerance. Of
tasks that end together one after the other is taken in, and machines are handed out after each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from weft.simulation.scenario import Arrival
from weft.studies.charts import Chart
from weft.studies.many_workflows.applications import SERVERS, compiled
from weft.studies.many_workflows.contests import LABELS, contest, run_one
from weft.studies.many_workflows.orders import REFERENCES, drawn, reference
from weft.studies.many_workflows.scenario_charts import scenario_charts
from weft.studies.many_workflows.scenario_rows import (
    CASES,
    alone_measure,
    delayed_case,
    scenario_rows,
    work_measure,
)
from weft.studies.reproduction import Cell, Measures, Results, Row, Value

__all__ = ["Scenario"]

_MANY_SERVERS = 600
"""So many that nobody waits."""
_OVERHEAD_S = 0.25
_ORDERS, _QUICK_ORDERS = 20, 8
_REFERENCE = "reference "


class Scenario:
    """Many workflows on four servers."""

    name: ClassVar[str] = "s5-scenario"
    title: ClassVar[str] = "102 workflows arriving online under seven policies (Bolze et al.; S5 section 8)"

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give the applications alone, drawn orders, and the orders of the specification's figures."""
        settings: dict[str, Value] = {"order": "drawn", "servers": SERVERS, "overhead_s": 0.0}
        delay: dict[str, Value] = {"overhead_s": _OVERHEAD_S}
        first = settings | {"order": f"{_REFERENCE}0"}
        cells = [
            Cell(name=CASES.alone, settings={"order": "alone"}, runs=1, work=0.1),
            Cell(name=CASES.orders, settings=settings, runs=_ORDERS if full else _QUICK_ORDERS),
            Cell(name=CASES.reference, settings=first, runs=1),
            Cell(name=CASES.idle, settings=first | {"servers": _MANY_SERVERS}, runs=1, work=2.0),
        ]
        for number in range(REFERENCES):
            order: dict[str, Value] = {"order": f"{_REFERENCE}{number}"}
            cells.append(Cell(name=delayed_case(number), settings=settings | delay | order, runs=1))
        if full:
            cells.append(Cell(name=CASES.delayed, settings=settings | delay, runs=_ORDERS))
        return cells

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:
        """Simulate all policies once."""
        order = cell.settings["order"]
        if order == "alone":
            return _alone()
        return contest(
            drawn(rng) if order == "drawn" else reference(int(str(order).removeprefix(_REFERENCE))),
            servers=int(cell.settings["servers"]),
            overhead_s=float(cell.settings["overhead_s"]),
        )

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:
        """Give the table of section 8 and what the specification demands."""
        return scenario_rows(results, full=full)

    def charts(self, results: Results, *, full: bool) -> Sequence[Chart]:  # noqa: ARG002
        """Draw active workflows and ready tasks over time, and the slowdowns."""
        return scenario_charts(results)


def _alone() -> Measures:
    found = {}
    for name, instance in compiled(SERVERS).items():
        seconds = [float(instance.modes(task).seconds[0]) for task in range(len(instance))]
        found[work_measure(name)] = sum(seconds)
        for policy in LABELS:
            ran = run_one([Arrival(workflow=name)], policy, servers=SERVERS)
            found[alone_measure(name, policy)] = ran.history.end_s
    return found
