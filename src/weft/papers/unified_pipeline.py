"""``u2``: the reference example of parameter sweeps, executed in real time (docs/papers/unified.md, U2).

T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with Parameter Sweep
Tasks on Global Grids (docs/papers/parameter-sweeps.md, section 5). Three layers of sweep tasks whose subtasks
sleep; a subtask starts as soon as its own parents have ended. With the priorities of pM-S all tasks end after
15 units, without them after 22.

Deviations: the paper simulates. Here machines are directories of this host with one slot each; a unit is 0.2
seconds. Order and total are judged; a run that other load disturbed is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np

from weft.papers.reproduction import (
    JUDGED_BELOW,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
    single_row,
    single_rows,
)
from weft.papers.runs import DISTURBANCE_LIMIT, LocalRun, place_locally, repeat_if_disturbed, run_locally
from weft.platform.platform import Platform
from weft.workflow.generators.sweep_graphs import SweepLayers, build_layered_sweeps
from weft.workflow.settings import RunSettings
from weft.workflow.task import JobSpec, Task

EXPECTED: dict[str, dict[str, float]] = {
    "m-s": {"t11": 0, "t12": 1, "t13": 5, "t14": 9, "t22": 9, "t21": 10, "t31": 11, "t32": 12},
    "pm-s": {"t11": 0, "t14": 1, "t12": 2, "t21": 2, "t32": 4, "t13": 6, "t22": 10, "t31": 14},
}
"""By policy: expected start of each subtask in units, ordered by start, then by layer.

The name t23 stands for the third subtask of layer 2.
"""
_TOTAL = {"m-s": 22, "pm-s": 15}
_TITLES = {"m-s": "M-S", "pm-s": "pM-S"}
_LAYERS = SweepLayers(
    lengths=((1, 4, 4, 1), (2, 2), (1, 10)),
    throughputs=((1.0,), (1.0, 1.0), (1.0,)),
    parents=(((), (), (), ()), ((0, 3), (1, 2)), ((1,), (0,))),
)
_YES = ToleranceBand.exactly(1.0)


class PipelineStudy:
    """The experiment with sweep layers without barriers between them."""

    name: ClassVar[str] = "u2"
    title: ClassVar[str] = "sweeps without barriers, real processes (Ma and Buyya; unified, section 9)"

    def __init__(self, unit_s: float = 0.2) -> None:
        self._unit_s = unit_s

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:  # noqa: ARG002 -- deterministic
        """Return one cell per policy."""
        return [
            ExperimentCell(name=policy, settings={"policy": policy}, runs=1, work=_TOTAL[policy])
            for policy in EXPECTED
        ]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- deterministic
        """Execute the example under one policy and return the measures."""
        ran, share = repeat_if_disturbed(lambda: self.execute(cell.name))
        return {**_measures(cell.name, find_starts(ran, self._unit_s)), "disturbance": share}

    def execute(self, policy: str) -> LocalRun:
        """Execute the example under one policy and return the run."""
        made = build_layered_sweeps(_LAYERS, "layers")
        assert made.platform is not None
        tasks = [
            self._sleeping(task, lengths)
            for task, lengths in zip(made.workflow.tasks, _LAYERS.lengths, strict=True)
        ]
        with TemporaryDirectory(prefix="weft-u2-") as project:
            return run_locally(
                {"layers": replace(made.workflow, tasks=tuple(tasks))},
                Platform(name="layers", machines=place_locally(made.platform.machines)),
                [(0.0, "layers")],
                project=Path(project),
                policy=policy,
                settings=RunSettings(),
            )

    def _sleeping(self, task: Task, lengths: Sequence[float]) -> Task:
        """Return the task with a command that sleeps for the length of the subtask.

        The command begins with ``exec``, which avoids a second process.
        """
        cases = " ".join(
            f"{number}) exec sleep {length * self._unit_s:g};;"
            for number, length in enumerate(lengths, start=1)
        )
        return replace(task, job=JobSpec(command=f"case {{j}} in {cases} esac"))

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return the totals, then the start of every subtask next to its expected start."""
        return give_reasons([*_totals(results), *_starts(results)], JUDGED_BELOW)


def find_starts(ran: LocalRun, unit_s: float) -> dict[str, tuple[float, float]]:
    """Return start and end of every subtask in units since the first start, ordered by start."""
    attempts = sorted(ran.history.attempts.values(), key=lambda each: (each.started_s or 0.0, each.number))
    zero_s = attempts[0].started_s or 0.0
    return {
        _short(each.task): (
            ((each.started_s or 0.0) - zero_s) / unit_s,
            ((each.ended_s or 0.0) - zero_s) / unit_s,
        )
        for each in attempts
    }


def _short(task: str) -> str:
    """Return the paper's name of a subtask: t23 for layer2[3]."""
    layer, _, number = task.partition("[")
    return f"t{layer.removeprefix('layer')}{number.rstrip(']')}"


def _measures(policy: str, found: dict[str, tuple[float, float]]) -> Measures:
    return {
        "total_units": max(end for _, end in found.values()),
        "in_order": float(list(found) == list(EXPECTED[policy])),
        **{f"{name}_start_units": start for name, (start, _) in found.items()},
    }


def _totals(results: Results) -> Iterator[ResultRow]:
    for policy, total in _TOTAL.items():
        for measure, figure, unit, digits, paper, band in (
            ("total_units", "total", "units", 2, str(total), ToleranceBand(least=total - 1, most=total + 1)),
            ("in_order", "starts in the order of the paper (1 = yes)", "", 0, "1", _YES),
        ):
            known = Figure(measure, f"{_TITLES[policy]}: {figure}", unit, paper, "", band, "U2", digits)
            disturbed = results.of(policy, "disturbance")[0] > DISTURBANCE_LIMIT
            found = results.of(policy, measure)
            yield single_row(found, table="required figures", disturbed=disturbed, **known.fields())


def _starts(results: Results) -> Iterator[ResultRow]:
    for policy, starts in EXPECTED.items():
        figures = [
            Figure(f"{name}_start_units", name, "units", f"{start:g}", digits=2)
            for name, start in starts.items()
        ]
        yield from single_rows(results, policy, {f"starts under {_TITLES[policy]}": figures})
