"""``u1``: unlike workflows share three sites while machines slow down and fail (spec unified section 9, U1).

Two loops of WIEN2k (S1), a parameter sweep (S4) and a moldable workflow (S2) are submitted 60 s apart. Every
workflow follows a plan of the genetic search; whose turn it is, FOFT says (S5). Tasks that break their
contracts migrate with their restart files (S1, S3), and what remains is planned again. The same events are
met without migration, and with G-HEFT instead of FOFT. The files are beside this one.

No paper has this experiment: there are no figures to compare with, only what the parts promise together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import as_file, files
from typing import ClassVar, NamedTuple

import numpy as np

from weft.engine.engine import Engine
from weft.engine.history.measures import replicated_share, uses
from weft.engine.invariants.broken import Broken
from weft.engine.invariants.checking import check
from weft.engine.settings import Replanning, Settings
from weft.engine.state.known import Library
from weft.formats.files import load_platform
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.policies.naming import policy_named
from weft.randomness import generator
from weft.simulation.arrivals import arrivals_of
from weft.simulation.reading.files import load_arriving, load_scenario
from weft.simulation.scenario import Scenario
from weft.simulation.simulate import Simulation
from weft.studies.following import Followed, followed
from weft.studies.reproduction import Band, Cell, Measures, Results, Row
from weft.studies.statistics import summary
from weft.workflow.checks import checked_graph

__all__ = ["VARIANTS", "Together", "Variant", "simulation_of"]

_SEEDS, _QUICK_SEEDS = 10, 3
_PLANNER = "genetic"
_PLAN_STEPS = 200
_ADAPTIVE = Settings(
    poll_every_s=60.0,
    replanning=Replanning(planner=_PLANNER, violators=0.25, on_machines=True, on_iteration=True),
)


class Variant(NamedTuple):
    """One way to run everything."""

    policy: str
    settings: Settings
    checked: bool = False
    """Whether invariants are looked at after every event, which takes as long as everything else."""


VARIANTS = {
    "all together": Variant("shared-plans:inter=foft", _ADAPTIVE, checked=True),
    "without migration": Variant("shared-plans:inter=foft", replace(_ADAPTIVE, migrate="never")),
    "G-HEFT": Variant("shared-plans:inter=g-heft:rounds=tasks", _ADAPTIVE),
}
_WHOLE, _STAYING, _G_HEFT = VARIANTS
_CELL = "three sites"


class Together:
    """Everything at once."""

    name: ClassVar[str] = "u1"
    title: ClassVar[str] = (
        "loops, a sweep and a moldable workflow on three sites, adapting (unified section 9)"
    )

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give the one cell: a run of it is one seed under all variants."""
        return [Cell(name=_CELL, runs=_SEEDS if full else _QUICK_SEEDS)]

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:  # noqa: ARG002
        """Simulate all variants with the same seed."""
        seed = int(rng.integers(2**31))
        return {f"{name}.{measure}": value for name in VARIANTS for measure, value in _measures(name, seed)}

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:  # noqa: ARG002
        """Give what is demanded, then medians of the variants."""
        return [*_demanded(results), *_medians(results)]


class _Prepared(NamedTuple):
    """What all simulations share."""

    scenario: Scenario
    instances: dict[str, Instance]


@cache
def _prepared() -> _Prepared:
    with as_file(files("weft.studies.unified")) as folder:
        platform = load_platform(folder / "platform.yaml")
        scenario = load_scenario(folder / "scenario.yaml")
        arriving = load_arriving(scenario)
    compiled = {key: compile_instance(checked_graph(flow), platform) for key, flow in arriving.items()}
    return _Prepared(scenario, compiled)


def simulation_of(variant: str, seed: int) -> Simulation:
    """Describe one simulation: everything together, or one of the variants."""
    scenario, instances = _prepared()
    policy, settings, _ = VARIANTS[variant]
    return Simulation(
        library=Library(instances),
        arrivals=arrivals_of(scenario, generator(seed, "arrivals")),
        policy=policy_named(policy),
        settings=settings,
        scenario=scenario,
        planner=_PLANNER,
        plan_steps=_PLAN_STEPS,
        seed=seed,
    )


def _measures(variant: str, seed: int) -> Iterator[tuple[str, float]]:
    guard = _Guard()
    look = guard.look if VARIANTS[variant].checked else None
    yield from _figures(followed(simulation_of(variant, seed), check=look))
    yield "broken", float(guard.broken)


class _Guard:
    """Counts events after which an invariant does not hold."""

    def __init__(self) -> None:
        self.broken = 0

    def look(self, engine: Engine) -> None:
        try:
            check(engine)
        except Broken:
            self.broken += 1


def _figures(ran: Followed) -> Iterator[tuple[str, float]]:
    history = ran.history
    slowdowns = [run.slowdown for run in history.runs if run.slowdown is not None]
    machines = [(machine.name, machine.nodes) for machine in ran.engine.state.machines]
    yield "unfinished", float(sum(run.outcome != "completed" for run in history.runs))
    yield "end_s", history.end_s
    yield "slowdown", summary(slowdowns or [0.0]).mean
    yield "migrations", float(sum(not move.off for move in history.moves))
    yield "replicated_percent", 100.0 * replicated_share(uses(history, machines))
    yield "plans", float(sum(run.plans for run in history.runs))


def _demanded(results: Results) -> Iterator[Row]:
    runs = len(results.of(_CELL, f"{_WHOLE}.end_s"))
    for measure, figure in (
        ("unfinished", "workflows that did not complete"),
        ("broken", "events after which an invariant did not hold"),
    ):
        found = sum(value for name in VARIANTS for value in results.of(_CELL, f"{name}.{measure}"))
        yield _row(figure, found, "", 0, runs, Band(most=0.0))
    slower = _ratios(results, _STAYING, "end_s")
    yield _row(
        "end without migration / with it, median", summary(slower).median, "", 2, runs, Band(least=1.3)
    )
    unfair = _ratios(results, _G_HEFT, "slowdown")
    # It must rise: the same is not enough.
    band = Band(least=1.0 + 1e-9)
    yield _row("mean slowdown by G-HEFT / by FOFT, median", summary(unfair).median, "", 2, runs, band)


def _ratios(results: Results, variant: str, measure: str) -> list[float]:
    """Compare a variant with the whole, seed by seed."""
    both = zip(
        results.of(_CELL, f"{variant}.{measure}"), results.of(_CELL, f"{_WHOLE}.{measure}"), strict=True
    )
    return [other / whole for other, whole in both]


def _row(figure: str, ours: float, unit: str, digits: int, runs: int, band: Band) -> Row:
    return Row(
        table="what is promised",
        figure=figure,
        ours=ours,
        unit=unit,
        digits=digits,
        runs=runs,
        band=band,
        accepts="U1",
    )


def _medians(results: Results) -> Iterator[Row]:
    for measure, title, unit, digits in (
        ("end_s", "end", "s", 0),
        ("slowdown", "mean slowdown", "", 2),
        ("migrations", "migrations", "", 0),
        ("plans", "plans adopted", "", 0),
        ("replicated_percent", "replicated work", "%", 1),
    ):
        for name in VARIANTS:
            found = results.summary(_CELL, f"{name}.{measure}")
            yield Row(
                table=f"{title}, medians of all seeds",
                figure=name,
                ours=found.median,
                unit=unit,
                digits=digits,
                runs=found.number,
            )
