"""Countable resources: every planner on all 480 instances of PSPLIB j30, verified, beside the optima.

One JSON line per planner: number of plans, of plans that broke a rule, mean excess over the optimum, number
of optima reached, and the reasons of planners that do not support an instance.

    python benchmarks/psplib.py [--planner heft,etf] [--every 1]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from measurement import calibration_s
from weft.formats.files import load_platform, read_workflow_file
from weft.instance import Instance, compile_instance
from weft.planners import PLANNERS
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.checks import check_and_unfold

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("WEFT_BENCH_DATA") or ROOT.parent / "shared" / "data") / "psplib"


def instances(every: int) -> Iterator[tuple[str, Instance]]:
    """Read the instances through their format, as a user would."""
    with zipfile.ZipFile(DATA / "rcpsp" / "j30.sm.zip") as archive, tempfile.TemporaryDirectory() as folder:
        for name in sorted(archive.namelist())[::every]:
            path = archive.extract(name, folder)
            graph = check_and_unfold(read_workflow_file(path))
            yield Path(name).name, compile_instance(graph, load_platform(path))


def optima() -> dict[str, float]:
    """Return the optimum of every instance."""
    with (DATA / "best_known_j30.csv").open() as file:
        return {row["instance"]: float(row["ub"]) for row in csv.DictReader(file)}


def report(name: str, made: list[tuple[str, Instance]], best: dict[str, float]) -> dict[str, object]:
    """Plan all instances with one planner."""
    goal = make_objective("makespan")
    planner = make_planner(name)
    excess, broken, refused = [], 0, Counter[str]()
    started = time.process_time()
    for key, instance in made:
        refusal = planner.supports(instance, goal)
        if refusal is not None:
            refused[refusal.reason] += 1
            continue
        plan = planner.plan(
            PlanRequest(
                instance=instance, objective=goal, budget=Budget(steps=100), rng=generator(0, "psplib")
            )
        )
        broken += bool(verify(plan.schedule, instance.graph, instance.platform))
        excess.append(plan.schedule.makespan_s / best[key] - 1.0)
    return {
        "planner": name,
        "plans": len(excess),
        "broken": broken,
        "refused": dict(refused),
        "mean_excess": round(statistics.fmean(excess), 4) if excess else None,
        "optimal": sum(value < 1e-9 for value in excess),
        "seconds_with_verification": round(time.process_time() - started, 2),
    }


def main() -> None:
    """Print one line per planner."""
    parser = argparse.ArgumentParser(description="Plan PSPLIB j30 with every planner.")
    parser.add_argument("--planner", help="planners, separated by commas (default: all)")
    parser.add_argument("--every", type=int, default=1, help="take every n-th instance")
    asked = parser.parse_args()
    if not DATA.is_dir():
        print(json.dumps({"benchmark": "psplib", "skipped": "no data: set WEFT_BENCH_DATA to their folder"}))
        return
    made, best = list(instances(asked.every)), optima()
    for name in asked.planner.split(",") if asked.planner else PLANNERS:
        figures = report(name, made, best)
        print(json.dumps({"benchmark": "psplib", **figures, "calibration_s": calibration_s(1)}), flush=True)


if __name__ == "__main__":
    main()
