"""The tables of docs/papers/parameter-sweeps.md: xDCP, M-S and pM-S in percent of shuffle's length.

One JSON line per row: the point of all defaults, the five sweeps of table I (random graphs of 512 subtasks,
one factor varied at a time), how often an algorithm is the best, and the sample graphs of table II. A row has
the mean percentage (ASE, lower is better) and the number of graphs on which an algorithm is the best (BDT;
ties count for all) of xDCP, M-S and pM-S; ``prototype`` are the figures of that page for comparison.
``within``: whether the row meets its expectations (A4.5 to A4.8). A factor is expected to change the ASE
of xDCP in one direction; ``by_chance`` means that a difference is below two standard errors, so that other
seeds may reverse it (as for #PST). ``masters_as_claimed``, for information: whether M-S and pM-S change
as the paper claims.

The runs are those of ``masters.py``; ``weft reproduce s4-tables`` and ``s4-samples`` use the engine.

    python benchmarks/sweeps.py [--quick | --graphs 30] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from masters import run_masters
from measurement import calibration_s
from weft.papers.parameter_sweeps import (
    ALGORITHMS,
    FACTORS,
    SAMPLES_PROTOTYPE,
    Claim,
    SweepFactor,
    compile_layers,
    find_best,
    planned_s,
    random_sweeps,
)
from weft.randomness import generator
from weft.workflow.generators.sweep_graphs import RandomSweeps, SampleGraph, SampleName, SweepLayers

__all__ = ["main"]

Figures = tuple[float, float, float]
"""One number per algorithm."""

DEFAULTS = ((28, 35), (32, 38), (30, 36))
"""The ranges of ASE at the defaults (A4.6)."""
COMPARISONS: tuple[tuple[SampleName, SampleName, Callable[[float], bool], str], ...] = (
    ("itg-a", "otg-a", lambda difference: difference > 0, "in-tree above out-tree"),
    ("itg-b", "otg-b", lambda difference: difference > 0, "in-tree above out-tree"),
    ("ditg-b", "dotg-b", lambda difference: difference > 0, "in-tree above out-tree"),
    ("ditg-a", "dotg-a", lambda difference: abs(difference) < 3, "within 3 of each other"),
)


@dataclass(frozen=True)
class Point:
    """Graphs of one kind: per graph the lengths in percent of shuffle's."""

    percents: Sequence[Figures]

    def of(self, algorithm: str) -> list[float]:
        """Return the percentages of one algorithm."""
        return [percents[ALGORITHMS.index(algorithm)] for percents in self.percents]

    def ase(self) -> dict[str, float]:
        """Return the mean of every algorithm."""
        return {algorithm: statistics.fmean(self.of(algorithm)) for algorithm in ALGORITHMS}

    def best(self) -> dict[str, int]:
        """Count the graphs on which an algorithm is the best; ties count for all."""
        bests = [_best(percents) for percents in self.percents]
        return {algorithm: sum(algorithm in best for best in bests) for algorithm in ALGORITHMS}

    def ms_alone_best(self) -> int:
        """Count the graphs on which M-S is better than both others."""
        return sum(_best(percents) == ["M-S"] for percents in self.percents)


def _best(percents: Figures) -> list[str]:
    return find_best(dict(zip(ALGORITHMS, percents, strict=True)))


class Runs:
    """Plans and simulates graphs, and counts."""

    def __init__(self, graphs: int, seed: int) -> None:
        self.graphs = graphs
        self.seed = seed
        self.planned = 0
        self.planning_s = 0.0

    def point(self, kind: RandomSweeps | SampleGraph, *label: str) -> Point:
        """Draw graphs of a kind and measure all algorithms on each."""
        rngs = (generator(self.seed, "sweeps", *label, str(graph)) for graph in range(self.graphs))
        return Point([self._percents(kind.draw(rng)) for rng in rngs])

    def _percents(self, layers: SweepLayers) -> Figures:
        instance = compile_layers(layers)
        percent_s = planned_s("shuffle", instance) / 100
        started = time.process_time()
        better_s = planned_s("xdcp", instance)
        self.planning_s += time.process_time() - started
        self.planned += 1
        return (
            better_s / percent_s,
            run_masters(layers, priorities=False).makespan_s / percent_s,
            run_masters(layers, priorities=True).makespan_s / percent_s,
        )


def factor_points(runs: Runs, factor: SweepFactor) -> list[Point]:
    """Vary one factor."""
    return [
        runs.point(random_sweeps(factor.parameter, point), factor.name, f"{point:g}")
        for point in factor.points
    ]


def factor_row(factor: SweepFactor, points: Sequence[Point]) -> dict[str, object]:
    """Return one sweep of table I."""
    changes = {algorithm: Change.between(points, algorithm) for algorithm in ALGORITHMS}
    means = [point.ase() for point in points]
    return {
        "table": "I",
        "factor": factor.name,
        "points": list(factor.points),
        "ase_percent": {name: [round(mean[name], 2) for mean in means] for name in ALGORITHMS},
        "prototype": _by_name(factor.lowest, factor.highest),
        "best": {name: [point.best()[name] for point in points] for name in ALGORITHMS},
        "ms_alone_best": [point.ms_alone_best() for point in points],
        "expected": factor.xdcp,
        "difference": {name: round(change.difference, 2) for name, change in changes.items()},
        "standard_error": {name: round(change.error, 2) for name, change in changes.items()},
        "by_chance": changes["xDCP"].by_chance,
        "masters_claimed": factor.masters,
        "masters_as_claimed": {name: changes[name].is_as(factor.masters) for name in ("M-S", "pM-S")},
        "within": changes["xDCP"].is_as(factor.xdcp) and all(max(mean.values()) < 100 for mean in means),
    }


@dataclass(frozen=True)
class Change:
    """The difference of ASE between the two lowest and the two highest points of a sweep (A4.5)."""

    difference: float
    error: float

    @classmethod
    def between(cls, points: Sequence[Point], algorithm: str) -> Change:
        """Compare the mean of the two highest points with that of the two lowest."""
        ends = [points[index].of(algorithm) for index in (0, 1, -2, -1)]
        low, second, third, high = map(statistics.fmean, ends)
        variances = (statistics.variance(percents) / len(percents) for percents in ends)
        return cls((third + high) / 2 - (low + second) / 2, math.sqrt(sum(variances)) / 2)

    @property
    def by_chance(self) -> bool:
        """Return whether the difference is below two standard errors."""
        return abs(self.difference) < 2 * self.error

    def is_as(self, claim: Claim) -> bool:
        """Return whether the difference has the claimed direction; "stays" allows chance."""
        if claim == "stays":
            return self.by_chance
        return (self.difference > 0) == (claim == "rises")


def default_row(runs: Runs) -> dict[str, object]:
    """Return the point at which every factor has its default."""
    point = runs.point(RandomSweeps(), "defaults")
    found = point.ase()
    ranges = dict(zip(ALGORITHMS, DEFAULTS, strict=True))
    within = all(low <= found[name] <= high for name, (low, high) in ranges.items())
    return {
        "table": "I",
        "factor": "defaults",
        **_columns(point),
        "prototype": {"xDCP": 30.3, "pM-S": 33.1},
        "expected": {name: f"{low} to {high}" for name, (low, high) in ranges.items()},
        "within": within and found["pM-S"] <= found["M-S"],
    }


def best_rows(sweeps: dict[str, list[Point]]) -> Iterable[dict[str, object]]:
    """Yield how often an algorithm is the best where something is expected of that (A4.7)."""
    everywhere = [point for points in sweeps.values() for point in points]
    alone = sum(point.ms_alone_best() for point in everywhere)
    percent = 100 * alone / sum(len(point.percents) for point in everywhere)
    yield {
        "table": "BDT",
        "where": "all sweeps",
        "algorithm": "M-S alone",
        "best_percent": round(percent, 2),
        "expected": "below 15",
        "within": percent < 15,
    }
    lowest, highest = 0, -1
    for factor, end, algorithm, least in (
        ("RSR", lowest, "xDCP", 80),
        ("RRT", highest, "xDCP", 80),
        ("RSR", highest, "pM-S", 70),
    ):
        point = sweeps[factor][end]
        percent = 100 * point.best()[algorithm] / len(point.percents)
        yield {
            "table": "BDT",
            "where": f"{factor} {'lowest' if end == lowest else 'highest'}",
            "algorithm": algorithm,
            "best_percent": round(percent, 2),
            "expected": f"above {least}",
            "within": percent > least,
        }


def sample_rows(runs: Runs) -> Iterable[dict[str, object]]:
    """Yield the sample graphs, then the expectations of xDCP on pairs of them (A4.8)."""
    found: dict[str, dict[str, float]] = {}
    for name in SAMPLES_PROTOTYPE:
        point = runs.point(SampleGraph(graph=name), name)
        found[name] = point.ase()
        yield {
            "table": "II",
            "graph": name,
            **_columns(point),
            "prototype": dict(zip(ALGORITHMS, SAMPLES_PROTOTYPE[name], strict=True)),
            "within": max(found[name].values()) < 100,
        }
    for first, second, holds, expected in COMPARISONS:
        differences = {name: found[first][name] - found[second][name] for name in ALGORITHMS}
        prototype = (
            of - than for of, than in zip(SAMPLES_PROTOTYPE[first], SAMPLES_PROTOTYPE[second], strict=True)
        )
        yield {
            "table": "II",
            "graph": f"{first} - {second}",
            "ase_percent": {name: round(difference, 2) for name, difference in differences.items()},
            "prototype": {name: round(of, 2) for name, of in zip(ALGORITHMS, prototype, strict=True)},
            "expected": expected,
            "within": holds(differences["xDCP"]),
        }


def _columns(point: Point) -> dict[str, object]:
    return {
        "ase_percent": {name: round(mean, 2) for name, mean in point.ase().items()},
        "best": point.best(),
        "ms_alone_best": point.ms_alone_best(),
    }


def _by_name(*figures: Figures) -> dict[str, list[float]]:
    return {name: [of[index] for of in figures] for index, name in enumerate(ALGORITHMS)}


def rows(runs: Runs) -> Iterable[dict[str, object]]:
    """Yield every row as soon as it is computed."""
    yield default_row(runs)
    sweeps: dict[str, list[Point]] = {}
    for factor in FACTORS:
        sweeps[factor.name] = factor_points(runs, factor)
        yield factor_row(factor, sweeps[factor.name])
    yield from best_rows(sweeps)
    yield from sample_rows(runs)


def main() -> None:
    """Print the rows, then one line about the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--graphs", type=int, default=30, help="graphs per point (the paper: 30)")
    parser.add_argument("--quick", action="store_true", help="5 graphs per point")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    runs = Runs(5 if options.quick else options.graphs, options.seed)
    outside = 0
    for row in rows(runs):
        outside += not row["within"]
        print(json.dumps({"benchmark": "sweeps", **row}), flush=True)
    summary = {
        "benchmark": "sweeps",
        "table": "summary",
        "graphs": runs.planned,
        "xdcp_cpu_s": round(runs.planning_s, 2),
        "milliseconds_per_graph": round(1000 * runs.planning_s / runs.planned, 1),
        "rows_outside": outside,
        "calibration_s": round(calibration_s(), 4),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
