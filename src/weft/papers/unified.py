"""``u1``: different workflows share three sites while machines slow down and fail (docs/papers/unified.md,
U1).

Two WIEN2k loops (dynamic-grid.md), a parameter sweep (parameter-sweeps.md) and a moldable workflow
(moldable.md) are submitted 60 s apart. Every workflow follows a plan of the genetic search; FOFT chooses
between workflows (many-workflows.md). Tasks that violate their contracts migrate with their checkpoints, and
the remaining tasks are planned again. The same scenario is simulated without migration, and with G-HEFT
instead of FOFT.
Input files: ``papers/unified_files``.

No paper has this experiment, so that the rows have no published figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import as_file, files
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weft.backends.simulation.scenario import Scenario, draw_arrivals
from weft.backends.simulation.scenario_reader import load_arrival_workflows, load_scenario
from weft.engine.engine import Engine
from weft.engine.history import measure_machines, replicated_share
from weft.engine.invariants import InvariantViolation, check_engine
from weft.engine.state.compiled import WorkflowLibrary
from weft.formats.files import load_platform
from weft.formats.profiles import DEFAULT_PRESET, preset_settings
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.papers.reproduction import (
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
    median_row,
)
from weft.papers.runs import SimulationHistory, run_simulation
from weft.papers.statistics import summarise
from weft.policies.policy import make_policy
from weft.randomness import generator
from weft.runtime.budget import PlanningBudget
from weft.runtime.simulation import Simulation
from weft.workflow.checks import check_and_unfold

_SEEDS, _QUICK_SEEDS = 10, 3
_PLANNER = "genetic"
_PLAN_STEPS = 200
_ADAPTIVE = {
    "poll_every": 60,
    "replan": {"when": ["violated", "machines", "iteration"], "share": 0.25, "planner": _PLANNER},
}


class UnifiedVariant(NamedTuple):
    """Policy and settings of one variant."""

    policy: str
    settings: Mapping[str, Any]
    """Keys and values as under ``settings:`` of a workflow."""
    checked: bool = False
    """Whether invariants are checked after every event, which doubles the run time."""


VARIANTS = {
    "all together": UnifiedVariant("shared-plans:inter=foft", _ADAPTIVE, checked=True),
    "without migration": UnifiedVariant(
        "shared-plans:inter=foft", {**_ADAPTIVE, "migration": {"when": "never"}}
    ),
    "G-HEFT": UnifiedVariant("shared-plans:inter=g-heft:rounds=tasks", _ADAPTIVE),
}
_WHOLE, _STAYING, _G_HEFT = VARIANTS
_CELL = "three sites"


class UnifiedStudy:
    """The experiment with all workflows together, in three variants."""

    name: ClassVar[str] = "u1"
    title: ClassVar[str] = (
        "loops, a sweep and a moldable workflow on three sites, with migration (unified, section 9)"
    )

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:
        """Return the only cell; one run simulates all variants with one seed."""
        return [ExperimentCell(name=_CELL, runs=_SEEDS if full else _QUICK_SEEDS)]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002
        """Simulate all variants with the same seed and return their measures."""
        seed = int(rng.integers(2**31))
        return {f"{name}.{measure}": value for name in VARIANTS for measure, value in _measures(name, seed)}

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return the values that have a tolerance, then the median of each variant."""
        return give_reasons([*_demanded(results), *_medians(results)], "no paper has this experiment")


class _LoadedScenario(NamedTuple):
    """The inputs of all simulations."""

    scenario: Scenario
    instances: dict[str, Instance]


@cache
def _load_scenario() -> _LoadedScenario:
    with as_file(files("weft.papers") / "unified_files") as folder:
        platform = load_platform(folder / "platform.yaml")
        scenario = load_scenario(folder / "scenario.yaml")
        arriving = load_arrival_workflows(scenario, checked=False)
    compiled = {key: compile_instance(check_and_unfold(flow), platform) for key, flow in arriving.items()}
    return _LoadedScenario(scenario, compiled)


def make_simulation(variant: str, seed: int) -> Simulation:
    """Return the simulation of a variant, ready to run."""
    scenario, instances = _load_scenario()
    policy, settings, _ = VARIANTS[variant]
    return Simulation(
        library=WorkflowLibrary(instances),
        arrivals=draw_arrivals(scenario, generator(seed, "arrivals")),
        policy=make_policy(policy),
        settings=preset_settings(DEFAULT_PRESET, settings),
        scenario=scenario,
        planner=_PLANNER,
        budget=PlanningBudget(steps=_PLAN_STEPS),
        seed=seed,
    )


def _measures(variant: str, seed: int) -> Iterator[tuple[str, float]]:
    counter = _InvariantCounter()
    check = counter.check if VARIANTS[variant].checked else None
    yield from _figures(run_simulation(make_simulation(variant, seed), check=check))
    yield "broken", float(counter.broken)


class _InvariantCounter:
    """Counter of events after which an invariant is violated."""

    def __init__(self) -> None:
        self.broken = 0

    def check(self, engine: Engine) -> None:
        try:
            check_engine(engine)
        except InvariantViolation:
            self.broken += 1


def _figures(ran: SimulationHistory) -> Iterator[tuple[str, float]]:
    history = ran.history
    slowdowns = [run.slowdown for run in history.runs if run.slowdown is not None]
    machines = [(machine.name, machine.nodes) for machine in ran.engine.state.machines]
    yield "unfinished", float(sum(run.outcome != "completed" for run in history.runs))
    yield "end_s", history.end_s
    yield "slowdown", summarise(slowdowns or [0.0]).mean
    yield "migrations", float(sum(move.happened for move in history.moves))
    yield "replicated_percent", 100.0 * replicated_share(measure_machines(history, machines))
    yield "plans", float(sum(run.plans for run in history.runs))


def _demanded(results: Results) -> Iterator[ResultRow]:
    runs = len(results.of(_CELL, f"{_WHOLE}.end_s"))
    for measure, figure in (
        ("unfinished", "workflows that did not complete"),
        ("broken", "events after which an invariant did not hold"),
    ):
        found = sum(value for name in VARIANTS for value in results.of(_CELL, f"{name}.{measure}"))
        yield _row(figure, found, 0, runs, ToleranceBand(most=0.0))
    slower = summarise(_ratios(results, _STAYING, "end_s")).median
    yield _row("end without migration / with it, median", slower, 2, runs, ToleranceBand(least=1.3))
    unfair = summarise(_ratios(results, _G_HEFT, "slowdown")).median
    # Equality is not enough.
    band = ToleranceBand(least=1.0 + 1e-9)
    yield _row("mean slowdown by G-HEFT / by FOFT, median", unfair, 2, runs, band)


def _ratios(results: Results, variant: str, measure: str) -> list[float]:
    """Return, for each seed, a measure of a variant divided by the same measure of ``all together``."""
    both = zip(
        results.of(_CELL, f"{variant}.{measure}"), results.of(_CELL, f"{_WHOLE}.{measure}"), strict=True
    )
    return [other / whole for other, whole in both]


def _row(title: str, ours: float, digits: int, runs: int, band: ToleranceBand) -> ResultRow:
    figure = Figure("", title, band=band, accepts="U1", digits=digits)
    return ResultRow(table="required figures", ours=ours, runs=runs, **figure.fields())


def _medians(results: Results) -> Iterator[ResultRow]:
    for measure, title, unit, digits in (
        ("end_s", "end", "s", 0),
        ("slowdown", "mean slowdown", "", 2),
        ("migrations", "migrations", "", 0),
        ("plans", "plans adopted", "", 0),
        ("replicated_percent", "replicated work", "%", 1),
    ):
        for name in VARIANTS:
            found = results.summary(_CELL, f"{name}.{measure}")
            yield median_row(
                found, table=f"{title}, medians of all seeds", figure=name, unit=unit, digits=digits
            )
