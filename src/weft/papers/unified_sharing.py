"""``u3``: many workflows share four slots of this host in real time (docs/papers/unified.md, U3).

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (docs/papers/many-workflows.md, sections 5 to 8). The scenario of ``s5-scenario``: 102 workflows of
928 tasks arrive one by one; tasks sleep 10 ms per second of the paper. Four policies choose between
workflows.

Deviations: one order of arrivals (the first reference order). The time to start a process is not scaled; it
delays all policies equally.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np

from weft.backends.simulation.scenario import Arrival
from weft.engine.history import list_slowdowns
from weft.papers.many_workflows import (
    ALONE_S,
    BOUND_S,
    POLICY_LABELS,
    SERVERS,
    compile_applications,
    reference_arrivals,
)
from weft.papers.reproduction import (
    THIS_HOST,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
    single_row,
)
from weft.papers.runs import DISTURBANCE_LIMIT, LocalRun, place_locally, repeat_if_disturbed, run_locally
from weft.papers.statistics import summarise
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.settings import RunSettings
from weft.workflow.task import JobSpec, Task
from weft.workflow.workflow import Workflow

POLICIES = ("srpt", "foft", "fcfs", "g-heft")
"""The compared policies, ordered by mean slowdown, the smallest first."""
_PROTOTYPE = {"srpt": 5.1, "foft": 7.4, "fcfs": 12.9, "g-heft": 39.2}
_ABOVE = ToleranceBand(least=1.0 + 1e-9)
"""Accepted ratios: greater than 1, without equality."""


class SharingStudy:
    """The experiment with workflows that arrive while others are running."""

    name: ClassVar[str] = "u3"
    title: ClassVar[str] = (
        "102 workflows on four slots, real processes, 1:100 (Bolze et al.; unified, section 9)"
    )

    def __init__(self, scale: float = 0.01) -> None:
        self._scale = scale

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:  # noqa: ARG002 -- deterministic
        """Return one cell per policy."""
        return [ExperimentCell(name=policy, settings={"policy": policy}, runs=1) for policy in POLICIES]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- deterministic
        """Execute all workflows under one policy and return the measures."""
        ran, share = repeat_if_disturbed(lambda: self.execute(reference_arrivals(0), cell.name))
        return {**dict(self._measures(ran)), "disturbance": share}

    def execute(self, arrivals: Sequence[Arrival], policy: str) -> LocalRun:
        """Execute these arrivals under one policy and return the run."""
        machines = [Machine(name=f"server{number}") for number in range(1, SERVERS + 1)]
        with TemporaryDirectory(prefix="weft-u3-") as project:
            return run_locally(
                {
                    name: self._sleeping(made.graph.workflow)
                    for name, made in compile_applications(SERVERS).items()
                },
                Platform(machines=place_locally(machines)),
                [(arrival.at_s * self._scale, arrival.workflow) for arrival in arrivals],
                project=Path(project),
                policy=policy,
                settings=RunSettings(),
            )

    def _sleeping(self, flow: Workflow) -> Workflow:
        return replace(flow, tasks=tuple(map(self._sleeping_task, flow.tasks)))

    def _sleeping_task(self, task: Task) -> Task:
        assert isinstance(task.seconds, int | float)
        seconds = task.seconds * self._scale
        return replace(task, seconds=seconds, job=JobSpec(command=("sleep", f"{seconds:g}")))

    def _measures(self, ran: LocalRun) -> Iterator[tuple[str, float]]:
        history = ran.history
        by_application = list_slowdowns(history.runs)
        all_slowdowns = [value for values in by_application.values() for value in values]
        yield "completed", float(len(all_slowdowns))
        yield "end_s", history.end_s
        yield "over_bound_percent", 100.0 * (history.end_s / (BOUND_S * self._scale) - 1.0)
        yield "slowdown", summarise(all_slowdowns).mean
        yield from ((f"{name}.slowdown", summarise(values).mean) for name, values in by_application.items())

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return the figures with a tolerance, then those of docs/papers/many-workflows.md, section 8."""
        return give_reasons([*_demanded(results), *_figures(results)], THIS_HOST)


def _demanded(results: Results) -> Iterator[ResultRow]:
    table = "required figures"
    for policy in POLICIES:
        completed = results.of(policy, "completed")
        figure = f"{POLICY_LABELS[policy]}: workflows completed"
        band = ToleranceBand(least=102.0, most=102.0)
        yield single_row(completed, table=table, figure=figure, digits=0, band=band, accepts="U3")
    for less, more in pairwise(POLICIES):
        title = f"mean slowdown, {POLICY_LABELS[more]} / {POLICY_LABELS[less]}"
        prototype = f"{_PROTOTYPE[more] / _PROTOTYPE[less]:.2f}"
        known = Figure("slowdown", title, "", "> 1", prototype, _ABOVE, "U3", digits=2)
        ours = results.of(more, "slowdown")[0] / results.of(less, "slowdown")[0]
        delay = max(results.of(policy, "disturbance")[0] for policy in (less, more))
        yield ResultRow(table=table, ours=ours, disturbed=delay > DISTURBANCE_LIMIT, **known.fields())


def _figures(results: Results) -> Iterator[ResultRow]:
    for measure, table, unit, digits in (
        ("slowdown", "mean slowdown", "", 2),
        *((f"{name}.slowdown", f"mean slowdown of {name}", "", 2) for name in ALONE_S),
        ("end_s", "end", "s", 2),
        ("over_bound_percent", "end above the bound", "%", 1),
    ):
        for policy in POLICIES:
            prototype = f"{_PROTOTYPE[policy]:g}" if measure == "slowdown" else ""
            known = Figure(measure, POLICY_LABELS[policy], unit, "", prototype, digits=digits)
            yield single_row(results.of(policy, measure), table=table, **known.fields())
