"""Applications, arrivals and policies of the many-workflows paper, and ``s5-starvation``.

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (docs/papers/many-workflows.md, sections 5 to 7 and 10; A5.8). Table 1 states tasks, services, work
and makespan of the three applications. The durations of single tasks are in a figure that is not available;
they are reconstructed and agree with the whole table.

Arrivals: one workflow every 12 s, drawn without replacement from 25 MAXDo, 16 PipeAlign and 10 GEE, 2,000 s
of work each; 51 workflows from 0 s, and the same numbers again from 1,200 s.

Starvation: the paper says that G-HEFT starves the last tasks of workflows while others arrive, and that aging
helps. The experiment submits 100 GEE, one every 45 s, which is 1.11 times the capacity of four servers. It is
deterministic: one run is enough.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import ClassVar

import numpy as np

from weft.backends.simulation.scenario import Arrival, Scenario
from weft.engine.history import History, StepFunction, list_slowdowns
from weft.engine.state.compiled import CompiledWorkflow, WorkflowLibrary
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.papers.reproduction import (
    NO_FIGURE,
    ExperimentCell,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
)
from weft.papers.runs import SimulationHistory, run_simulation
from weft.papers.statistics import Summary, summarise
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.settings import RunSettings
from weft.workflow.workflow import Workflow

SERVERS = 4
"""Number of identical servers, each with one task at a time."""
ALONE_S = {"MAXDo": 32.9, "PipeAlign": 96.0, "GEE": 123.0}
"""By application: its makespan in seconds alone on the four servers."""
WORK_S = {"MAXDo": 80.0, "PipeAlign": 125.0, "GEE": 200.0}
"""By application: the sum of all its durations in seconds."""
_DOCKINGS, _FAMILIES = 4, 14


def _maxdo() -> Workflow:
    """Return the protein docking workflow: 6 tasks of 3 services."""
    flow = Builder("MAXDo")
    prepare = flow.task("prepare", seconds=8.0)
    dock = flow.task("dock", seconds=15.7, sweep={"part": f"1..{_DOCKINGS}"}, after=prepare)
    flow.task("collect", seconds=9.2, after=dock)
    return flow.build()


def _pipealign() -> Workflow:
    """Return the protein alignment workflow: 9 tasks of 7 services, one of them used three times."""
    flow = Builder("PipeAlign")
    ballast = flow.task("ballast", seconds=30.0)
    blastp = flow.task("blastp", seconds=21.0)
    dbclustal = flow.task("dbclustal", seconds=15.0, after=[ballast, blastp])
    rascal = flow.task("rascal", seconds=10.0, after=dbclustal)
    first = flow.task("normd1", seconds=4.0, after=dbclustal)
    second = flow.task("normd2", seconds=4.0, after=rascal)
    leon = flow.task("leon", seconds=20.0, after=[first, second])
    flow.task("normd3", seconds=4.0, after=leon)
    flow.task("secator", seconds=17.0, after=leon)
    return flow.build()


def _gee() -> Workflow:
    """Return the gene expression workflow: 17 tasks of 4 services."""
    flow = Builder("GEE")
    mapped = flow.task("map", seconds=45.0)
    family = flow.task("family", seconds=7.7, sweep={"number": f"1..{_FAMILIES}"}, after=mapped)
    integrate = flow.task("integrate", seconds=27.2, after=family)
    flow.task("select", seconds=20.0, after=integrate)
    return flow.build()


_BUILD = {"MAXDo": _maxdo, "PipeAlign": _pipealign, "GEE": _gee}
APPLICATIONS = tuple(_BUILD)


@cache
def compile_applications(servers: int) -> dict[str, Instance]:
    """Return the instance of every application on this number of servers, by name."""
    platform = Platform(machines=tuple(Machine(name=f"server{number}") for number in range(1, servers + 1)))
    return {name: compile_instance(check_and_unfold(build()), platform) for name, build in _BUILD.items()}


SERIES = {"GEE": 10, "MAXDo": 25, "PipeAlign": 16}
"""Number of workflows of each application in a series."""
BOUND_S = 3000.0
"""Lower bound of the end in seconds: the work of both series divided by four servers."""
_EVERY_S, _STARTS_S = 12.0, (0.0, 1200.0)
_REFERENCES = (
    (
        "MMPPPGGPGPPGGMMMPMMPPMMMMMMPMGPGPGPMGPMPMMMMMMMGMPM",
        "MMPMGPMGMPPGPGMMPMPGPPPMMMPMMMMGMMGMMPPGMMGMMPMGPMP",
    ),
    (
        "GMPGMMPGPMMMMMPMPPMMPMPPMMGMPMMMPGMPGPGMMPMMMGMGPPG",
        "GPPMGMPGMGPMPPGMGMMMMMMPGPMPMMPMGMPMPMMPMMMGMPMGPPM",
    ),
    (
        "MMGMGGPMMMGMPMPMPGMMPPPMPMMGPGMMMPMMMPPGPMPMMPMMPGG",
        "MGMGPGMMGPPPGMGMMMPMMGPGMGPMPGMPMPPPMPMPMMMMPMPMMMM",
    ),
    (
        "MPMMGPMPMGMMMPMMGGMGGMPPPMMGPMMMMPMMPMPGPGPPMPMGMPM",
        "GPMMPGPMMPPPMGPMGPPGMGMMPMMGPMPMGMMPMMPMMMMPMPMMMGG",
    ),
    (
        "PMPMMPPPPPGMMMPMMGMPPPMMMMGPGPMMMMMMMGMPPGGGGMMPGMM",
        "PMMMPGPMMGGMGPGPPPPPMPGPMMPMPGMGMMMMMMPGGMMMMMPMPMM",
    ),
)
"""The reference orders of docs/papers/many-workflows.md, one letter per workflow."""
REFERENCES = len(_REFERENCES)
_STARVING, _STARVING_EVERY_S = 100, 45.0


def reference_arrivals(number: int) -> list[Arrival]:
    """Return the arrivals of a reference order by its number; 0 is the order of A5.2."""
    names = {name[0]: name for name in SERIES}
    return _make_arrivals([[names[letter] for letter in series] for series in _REFERENCES[number]])


def draw_order(rng: np.random.Generator) -> list[Arrival]:
    """Return both series of arrivals, each in a random order."""
    names = [name for name, number in SERIES.items() for _ in range(number)]
    return _make_arrivals([[names[index] for index in rng.permutation(len(names))] for _ in _STARTS_S])


def starvation_arrivals() -> list[Arrival]:
    """Return arrivals that exceed the capacity of four servers: 200 s of work every 45 s (A5.8)."""
    return [Arrival(workflow="GEE", at_s=number * _STARVING_EVERY_S) for number in range(_STARVING)]


def _make_arrivals(series: list[list[str]]) -> list[Arrival]:
    return [
        Arrival(workflow=name, at_s=start_s + number * _EVERY_S)
        for start_s, names in zip(_STARTS_S, series, strict=True)
        for number, name in enumerate(names)
    ]


POLICY_LABELS = {
    "srpt": "SRPT",
    "foft": "FOFT",
    "aging-e": "AGING e",
    "fcfs": "FCFS",
    "basic": "BASIC",
    "aging": "AGING",
    "g-heft": "G-HEFT",
}
"""The paper's names of the policies, ordered by mean slowdown, the smallest first."""
ALL_APPLICATIONS = "all"
"""Name in measures for the workflows of all applications together."""
BOX_NUMBERS = ("least", "lower_quartile", "median", "mean", "upper_quartile", "most")
TIMES_S = tuple(float(time_s) for time_s in range(0, 3200, 50))
"""Sampling times of the charts."""
_LAST = 0.9
"""Time at which the last tenth of a run begins, as a share of the run."""


def run_policy(
    arrivals: Sequence[Arrival], policy: str, *, servers: int, overhead_s: float = 0.0
) -> SimulationHistory:
    """Simulate the arrivals under one policy and return the engine and its history."""
    return run_simulation(
        Simulation(
            library=WorkflowLibrary(compile_applications(servers)),
            arrivals=arrivals,
            policy=make_policy(policy),
            settings=RunSettings(),
            scenario=Scenario(overhead_per_task_s=overhead_s),
        )
    )


def compare_policies(
    arrivals: Sequence[Arrival], *, servers: int, overhead_s: float = 0.0
) -> dict[str, float]:
    """Simulate the same arrivals under all policies; return measures named policy.measure."""
    found = {}
    for policy in POLICY_LABELS:
        ran = run_policy(arrivals, policy, servers=servers, overhead_s=overhead_s)
        found.update({f"{policy}.{name}": value for name, value in _measures(ran)})
    return found


def box_measure(application: str, number: str) -> str:
    """Return the name of the measure for a number (such as ``median``) of an application's box plot."""
    return f"{application}.slowdown_{number}"


def sample_measure(curve: str, time_s: float) -> str:
    """Return the name of the measure for the value of a curve at a time."""
    return f"{curve}_at_{time_s:g}_s"


def _measures(ran: SimulationHistory) -> Iterator[tuple[str, float]]:
    history = ran.history
    by_application = list_slowdowns(history.runs)
    all_slowdowns = [value for values in by_application.values() for value in values]
    ends_s = [run.ended_s for run in history.runs if run.ended_s is not None]
    yield "end_s", history.end_s
    yield "completed", float(len(all_slowdowns))
    yield "over_bound_percent", 100.0 * (history.end_s / BOUND_S - 1.0)
    yield "flow_s", math.fsum(run.response_s or 0.0 for run in history.runs)
    yield from _dispersion(all_slowdowns)
    for name, values in ((ALL_APPLICATIONS, all_slowdowns), *by_application.items()):
        found = summarise(values)
        yield from ((box_measure(name, number), getattr(found, number)) for number in BOX_NUMBERS)
    yield "wave_tasks", _mean_wave(ran)
    late = sum(end_s > _LAST * history.end_s for end_s in ends_s)
    yield "last_tenth_percent", 100.0 * late / len(history.runs)
    yield from _curve("active", history.active)
    yield from _curve("ready", _count_waiting(history))


def _dispersion(values: Sequence[float]) -> Iterator[tuple[str, float]]:
    found: Summary = summarise(values)
    number = len(values)
    yield "deviation", math.sqrt(math.fsum((value - found.mean) ** 2 for value in values) / number)
    yield "absolute_deviation", math.fsum(abs(value - found.mean) for value in values) / number
    yield "quartile_range", found.upper_quartile - found.lower_quartile
    yield "range", found.most - found.least


def _mean_wave(ran: SimulationHistory) -> float:
    """Return the mean number of consecutively started tasks that have the same rank."""
    started = sorted(
        (attempt.started_s, attempt.number, attempt.run, attempt.task)
        for attempt in ran.history.attempts.values()
        if attempt.started_s is not None
    )
    of_run = [_ranks(run.compiled) for run in ran.engine.state.runs]
    ranks = [of_run[run][task] for _, _, run, task in started]
    return len(ranks) / sum(1 for _ in groupby(ranks))


@cache
def _ranks(known: CompiledWorkflow) -> dict[str, float]:
    return dict(zip(known.names, known.ranks, strict=True))


def _count_waiting(history: History) -> StepFunction:
    """Return the number of ready tasks over time, including the tasks in the queues of machines."""
    changes = dict[float, int]()
    before = 0
    for time_s, value in zip(history.ready.times_s, history.ready.values, strict=True):
        changes[time_s] = changes.get(time_s, 0) + value - before
        before = value
    for attempt in history.attempts.values():
        if attempt.started_s is not None and attempt.started_s > attempt.assigned_s:
            changes[attempt.assigned_s] = changes.get(attempt.assigned_s, 0) + 1
            changes[attempt.started_s] = changes.get(attempt.started_s, 0) - 1
    steps = StepFunction()
    for time_s in sorted(changes):
        steps.add(time_s, changes[time_s])
    return steps


def _curve(name: str, steps: StepFunction) -> Iterator[tuple[str, float]]:
    yield f"most_{name}", float(steps.most)
    for time_s in TIMES_S:
        place = bisect_right(steps.times_s, time_s)
        yield sample_measure(name, time_s), float(steps.values[place - 1]) if place else 0.0


_OFTEN = ToleranceBand(least=80.0)
_STARVATION_DEMANDED = {
    "srpt": _OFTEN,
    "foft": _OFTEN,
    "aging-e": _OFTEN,
    "fcfs": _OFTEN,
    "aging": ToleranceBand(least=50.0),
    "g-heft": ToleranceBand(most=5.0),
}
_STARVATION_PROTOTYPE = {"aging": "68", "g-heft": "2", "basic": ""}


class StarvationStudy:
    """The experiment with arrivals that exceed the capacity of the servers."""

    name: ClassVar[str] = "s5-starvation"
    title: ClassVar[str] = "workflows that end under overload (Bolze et al.; many-workflows, section 10)"

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:  # noqa: ARG002
        """Return one cell per policy."""
        return [ExperimentCell(name=policy, settings={"policy": policy}, runs=1) for policy in POLICY_LABELS]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002
        """Simulate one policy and return the measures."""
        arrivals = starvation_arrivals()
        last_s = arrivals[-1].at_s
        history = run_policy(arrivals, str(cell.settings["policy"]), servers=SERVERS).history
        ends_s = [run.ended_s for run in history.runs if run.ended_s is not None]
        return {"early": float(sum(end_s < last_s for end_s in ends_s)), "end_s": history.end_s}

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return rows with the number of workflows that ended before the last one arrived, per policy."""
        rows = [
            ResultRow(
                table="of 100 workflows: ended before the last one arrived",
                figure=label,
                ours=results.summary(policy, "early").mean,
                digits=0,
                runs=len(results.of(policy, "early")),
                paper="starves" if policy == "g-heft" else "",
                prototype=_STARVATION_PROTOTYPE.get(policy, "86 or 87"),
                band=_STARVATION_DEMANDED.get(policy),
                accepts="A5.8" if policy in _STARVATION_DEMANDED else "",
            )
            for policy, label in POLICY_LABELS.items()
        ]
        return give_reasons(rows, NO_FIGURE)
