"""``s1-dynamic``: WIEN2k on machines that become slow, with and without migration (S1 section 13).

R. Prodan, T. Fahringer, SAC 2005 (spec s1 sections 8 to 10 and 13; A1.9, A1.10). The preset ``s1`` is the
paper: a task whose contract is broken is moved, from zero, and completed tasks tied to its abstract machine
run again; the same with restart files; the first plan followed without any adaptation; the lazy baseline. The
cases are one iteration (DAG1), a larger problem (DAG2), the loop (DG, three iterations), and the LAPW1 stage
alone, which is what the prototype of the specification measured and the tolerances are about.

Perturbations as in the prototype: a random machine of the Grid is slowed 3 to 10 times for 100 to 600 s,
every 4 s on average; a scheduling event every 30 s. One run executes a case in all ways under the same
perturbations.

Deviations: a re-planning takes 7 ms per point visited, as in the paper, divided by the 59 of its parallel
version. The genetic search plans the LAPW1 stage, with ``full`` also DAG1; otherwise HEFT plans, in all ways
alike: one run of the larger cases would take the search several minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from weft.simulation.scenario import AS_BELIEVED, Perturbation, Scenario, Span
from weft.studies.dynamic_grid.disturbed import WAYS, Execution, executed
from weft.studies.dynamic_grid.dynamic_rows import rows_of
from weft.studies.dynamic_grid.testbed import FAST_MACHINES, grid_testbed
from weft.studies.dynamic_grid.wien2k import lapw1_stage, wien2k
from weft.studies.reproduction import Cell, Measures, Results, Row
from weft.workflow.records.workflow import Workflow

__all__ = ["Dynamic"]

_SEEDS = 10
_ITERATIONS = 3
_TUNED = "genetic:preset=s1-tuned"
_PLANNERS = {"genetic": _TUNED, "heft": "heft"}
_SECONDS_PER_POINT = 7e-3 / 59
_SLOWER, _FOR_S = Span(low=3.0, high=10.0), Span(low=100.0, high=600.0)
_EVERY_S = 4.0


class _Case(NamedTuple):
    """One workflow of the evaluation."""

    make: Callable[..., Workflow]
    ways: tuple[str, ...]
    work: Mapping[str, float]
    """Seconds of a run, about, by planner."""


_WHOLE = partial(wien2k, shared=True, watched=True)
_ALL_WAYS = ("static", "migration", "checkpoints", "lost", "lazy")
_CASES = {
    "LAPW1": _Case(lapw1_stage, ("static", "migration", "checkpoints", "lazy"), {"genetic": 2.5}),
    "DAG1": _Case(_WHOLE, _ALL_WAYS, {"heft": 1.0, "genetic": 50.0}),
    "DAG2": _Case(partial(_WHOLE, points=60, matrix=9000), _ALL_WAYS, {"heft": 3.7}),
    "DG": _Case(partial(_WHOLE, loop=True), _ALL_WAYS, {"heft": 4.4}),
}
_QUICK_RUNS = {"LAPW1 genetic": _SEEDS, "DAG1 heft": _SEEDS, "DG heft": 1, "one violation": 3, "calm": 1}
"""The cells where a minute must do; what is judged by A1.9 has all its seeds."""


class Dynamic:
    """The dynamic evaluation."""

    name: ClassVar[str] = "s1-dynamic"
    title: ClassVar[str] = (
        "WIEN2k on machines that slow down, migration (Prodan, Fahringer 2005; S1 section 13)"
    )

    def cells(self, *, full: bool) -> Sequence[Cell]:
        """Give the cases under perturbations, the loop with one violation, and the undisturbed cases."""
        cells = [
            Cell(
                name=f"{case} {planner}",
                settings={"case": case, "planner": planner},
                runs=_SEEDS,
                work=work,
            )
            for case, found in _CASES.items()
            for planner, work in found.work.items()
        ]
        cells.append(Cell(name="one violation", settings={"case": "one"}, runs=_SEEDS, work=0.4))
        # Nothing disturbs these, and their seed is fixed: one run says everything.
        cells.append(Cell(name="calm", settings={"case": "calm"}, runs=1, work=5.0))
        if full:
            return cells
        return [replace(cell, runs=_QUICK_RUNS[cell.name]) for cell in cells if cell.name in _QUICK_RUNS]

    def run(self, cell: Cell, rng: np.random.Generator) -> Measures:
        """Execute a case once in all its ways."""
        case = str(cell.settings["case"])
        if case == "calm":
            return _calm()
        if case == "one":
            return _one_violation(rng)
        seed = int(rng.integers(2**31))
        planner = _PLANNERS[str(cell.settings["planner"])]
        found = {
            way: executed(_CASES[case].make, WAYS[way], planner, _perturbed(), seed)
            for way in _CASES[case].ways
        }
        return _compared(found)

    def rows(self, results: Results, *, full: bool) -> Sequence[Row]:  # noqa: ARG002
        """Give the figures of S1 section 13."""
        return rows_of(results)


def _perturbed() -> Scenario:
    everywhere = Perturbation(machines=("*",), slowdown=_SLOWER, lasting_s=_FOR_S, every_s=_EVERY_S)
    return replace(_undisturbed(), perturbations=(everywhere,))


def _undisturbed() -> Scenario:
    return replace(AS_BELIEVED, iterations={"scf": _ITERATIONS}, replanning_s_per_point=_SECONDS_PER_POINT)


def _compared(found: Mapping[str, Execution]) -> Measures:
    static, moved = found["static"], found["migration"]
    predicted_s = static.predicted_s * static.iterations
    measures = {
        "completed": float(all(one.completed for one in found.values())),
        "predicted_s": predicted_s,
        "migrations": float(moved.migrations),
        "replicated_percent": 100.0 * moved.replicated_share,
        "rescheduling_percent": 100.0 * moved.rescheduling_share,
        "falling_percent": 100.0 * moved.falling_share,
    }
    for way, one in found.items():
        measures[f"{way}_s"] = one.end_s
        measures[f"{way}_gain"] = static.end_s / one.end_s
        measures[f"{way}_over_predicted"] = one.end_s / predicted_s
    measures["lazy_over_migration"] = found["lazy"].end_s / moved.end_s
    return measures


def _calm() -> Measures:
    """Execute the cases with HEFT, and the stage with the genetic search, where nothing is disturbed."""
    measures: dict[str, float] = {}
    for case, found in _CASES.items():
        planner = _TUNED if case == "LAPW1" else "heft"
        ends = {
            way: executed(found.make, WAYS[way], planner, _undisturbed(), 0).end_s
            for way in ("static", "checkpoints", "lazy")
        }
        for way, end_s in ends.items():
            measures[f"{case}_{way}_over_static"] = end_s / ends["static"]
    return measures


def _one_violation(rng: np.random.Generator) -> Measures:
    """Execute the loop, one machine in use being slowed once during the first iteration (A1.10)."""
    slowed = grid_testbed().machines[int(rng.integers(FAST_MACHINES))].name
    once = Perturbation(
        machines=(slowed,),
        slowdown=_SLOWER,
        lasting_s=Span(low=600.0, high=600.0),
        at_s=float(rng.uniform(50.0, 90.0)),
    )
    scenario = replace(_undisturbed(), perturbations=(once,))
    found = executed(_CASES["DG"].make, WAYS["migration"], "heft", scenario, 0)
    return {
        "completed": float(found.completed),
        "iterations": float(found.iterations),
        "migrations": float(found.migrations),
        "iteration_spread": found.iteration_spread,
        "end_s": found.end_s,
    }
