"""The tables of S4 for xDCP: how long its plans are in percent of shuffle's (ASE, lower is better).

One JSON line per row: the five sweeps of table I (random graphs of 512 subtasks, one factor varied at a
time), the point of all defaults, and the sample graphs of table II. ``within`` says whether the row keeps
what the specification expects (A4.5, A4.6, A4.8); ``prototype`` are the figures it states for comparison. A
factor is expected to change ASE in one direction; ``by_chance`` says that a difference is below two standard
errors, so that other seeds may turn it round (with 30 graphs that of #PST is).
How often an algorithm is the best (BDT, A4.7) is left out: it needs the online policies M-S and pM-S.

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
from typing import get_args

from calibration import calibration_s
from weft.instance import compile_instance
from weft.planners.planner import Budget
from weft.planners.sweeps.shuffle import Shuffle
from weft.planners.sweeps.xdcp import Xdcp
from weft.randomness import generator
from weft.schedule.objective import objective_named
from weft.workflow.generators.generator import Generated
from weft.workflow.generators.sample_graphs import SampleGraph, SampleName
from weft.workflow.generators.sweep_layers import RandomSweeps
from weft.workflow.unfolding.unfold import unfold

__all__ = ["main"]

_ONE_TO_TEN = tuple(range(1, 11))


@dataclass(frozen=True)
class Factor:
    """One sweep of table I."""

    name: str
    """As the paper calls it."""
    parameter: str
    points: Sequence[float]
    rises: bool
    """Whether ASE rises with the factor."""
    prototype: tuple[float, float]
    """ASE at the lowest and highest point, as the specification states it."""


FACTORS = (
    Factor("#PST", "layers", tuple(range(3, 13)), rises=True, prototype=(31.6, 33.0)),
    Factor("RSS", "length_ratio", _ONE_TO_TEN, rises=False, prototype=(34.1, 30.4)),
    Factor("RRT", "throughput_ratio", _ONE_TO_TEN, rises=False, prototype=(47.8, 20.1)),
    Factor("RSR", "subtasks_per_machine", _ONE_TO_TEN, rises=False, prototype=(56.5, 27.6)),
    Factor("ADPS", "parents", tuple(0.5 * n for n in range(2, 12)), rises=True, prototype=(28.0, 37.3)),
)
SAMPLES = {
    "ptg": 61.6, "otg-a": 64.2, "itg-a": 69.8, "otg-b": 65.9, "itg-b": 70.0, "dotg-a": 57.9, "ditg-a": 58.0,
    "dotg-b": 58.9, "ditg-b": 65.8, "ctg": 69.4,
}  # fmt: skip
COMPARISONS: tuple[tuple[str, str, Callable[[float], bool], str], ...] = (
    ("itg-a", "otg-a", lambda difference: difference > 0, "in-tree above out-tree"),
    ("itg-b", "otg-b", lambda difference: difference > 0, "in-tree above out-tree"),
    ("ditg-b", "dotg-b", lambda difference: difference > 0, "in-tree above out-tree"),
    ("ditg-a", "dotg-a", lambda difference: abs(difference) < 3, "within 3 of each other"),
)


class Runs:
    """Plans graphs with both planners and counts."""

    def __init__(self, graphs: int, seed: int) -> None:
        self.graphs = graphs
        self.seed = seed
        self.planned = 0
        self.planning_s = 0.0

    def ase_percent(self, kind: RandomSweeps | SampleGraph, *label: str) -> float:
        """Give the mean length of xDCP's plans in percent of shuffle's."""
        return statistics.fmean(self.percents(kind, *label))

    def percents(self, kind: RandomSweeps | SampleGraph, *label: str) -> list[float]:
        """Give the length of xDCP's plan in percent of shuffle's, graph by graph."""
        rngs = (generator(self.seed, "sweeps", *label, str(graph)) for graph in range(self.graphs))
        return [100 * self._ratio(kind.generate(rng)) for rng in rngs]

    def _ratio(self, made: Generated) -> float:
        assert made.platform is not None
        instance = compile_instance(unfold(made.workflow), made.platform)
        makespan, rng = objective_named("makespan"), generator(0, "unused")
        first = Shuffle().plan(instance, objective=makespan, budget=Budget(), rng=rng)
        started = time.process_time()
        better = Xdcp().plan(instance, objective=makespan, budget=Budget(), rng=rng)
        self.planning_s += time.process_time() - started
        self.planned += 1
        return better.schedule.makespan_s / first.schedule.makespan_s


def factor_row(runs: Runs, factor: Factor) -> dict[str, object]:
    """Vary one factor; the mean of the two lowest points is compared with that of the two highest."""
    found: list[list[float]] = []
    for point in factor.points:
        kind = RandomSweeps(**{factor.parameter: point})  # type: ignore[arg-type]
        found.append(runs.percents(kind, factor.name, str(point)))
    means = [statistics.fmean(percents) for percents in found]
    difference = statistics.fmean(means[-2:]) - statistics.fmean(means[:2])
    ends = (found[0], found[1], found[-2], found[-1])
    error = math.sqrt(sum(statistics.variance(percents) / len(percents) for percents in ends)) / 2
    return {
        "table": "I",
        "factor": factor.name,
        "points": list(factor.points),
        "ase_percent": [round(mean, 2) for mean in means],
        "prototype": list(factor.prototype),
        "expected": "rises" if factor.rises else "falls",
        "difference": round(difference, 2),
        "standard_error": round(error, 2),
        "by_chance": abs(difference) < 2 * error,
        "within": (difference > 0) == factor.rises and max(means) < 100,
    }


def default_row(runs: Runs) -> dict[str, object]:
    """Give the point at which every factor has its default."""
    found = runs.ase_percent(RandomSweeps(), "defaults")
    return {
        "table": "I",
        "factor": "defaults",
        "ase_percent": round(found, 2),
        "prototype": 30.3,
        "expected": "28 to 35",
        "within": 28 <= found <= 35,
    }


def sample_rows(runs: Runs) -> Iterable[dict[str, object]]:
    """Give the sample graphs, then what is expected of pairs of them."""
    found: dict[str, float] = {}
    for name in get_args(SampleName):
        found[name] = runs.ase_percent(SampleGraph(graph=name), name)
        yield {
            "table": "II",
            "graph": name,
            "ase_percent": round(found[name], 2),
            "prototype": SAMPLES[name],
            "within": found[name] < 100,
        }
    for first, second, holds, expected in COMPARISONS:
        difference = found[first] - found[second]
        yield {
            "table": "II",
            "graph": f"{first} - {second}",
            "ase_percent": round(difference, 2),
            "prototype": round(SAMPLES[first] - SAMPLES[second], 2),
            "expected": expected,
            "within": holds(difference),
        }


def rows(runs: Runs) -> Iterable[dict[str, object]]:
    """Give every row as soon as it is known."""
    yield default_row(runs)
    for factor in FACTORS:
        yield factor_row(runs, factor)
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
