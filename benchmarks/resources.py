"""Countable resources: how often the search on shared machines finds the optimum of PSPLIB j30, and how soon.

One JSON line: the share of optima, the mean excess over the optimum, and CPU seconds per instance until the
optimum was found, else until the limit. Every plan is verified.

    python benchmarks/resources.py [--every 1] [--limit 5] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time

from measurement import calibration_s
from psplib import DATA, instances, optima
from weft.instance import Instance
from weft.planners.evaluation import linearise_objective
from weft.planners.planner import Budget, PlanProgress, PlanRequest, make_planner
from weft.planners.weave_search import search_shared
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify

__all__ = ["main"]


def searched(instance: Instance, optimum_s: float, limit_s: float, seed: int) -> tuple[float, float, bool]:
    """Search from HEFT's plan; return makespan, CPU seconds and whether the plan is valid."""
    goal = make_objective("makespan")
    started, best = time.process_time(), [float("inf")]

    def record(news: PlanProgress) -> None:
        best[0] = min(best[0], news.makespan_s)

    def left() -> float:
        return 0.0 if best[0] <= optimum_s else limit_s - (time.process_time() - started)

    heft = make_planner("heft").plan(
        PlanRequest(instance=instance, objective=goal, budget=Budget(steps=1), rng=generator(seed, "heft"))
    )
    best[0] = heft.schedule.makespan_s
    aim = linearise_objective(instance, goal)
    assert aim is not None
    budget = Budget(left=left, on_progress=record)
    plan = search_shared(instance, aim, heft.schedule, budget, generator(seed, "search"))
    spent_s = time.process_time() - started
    return plan.schedule.makespan_s, spent_s, not verify(plan.schedule, instance.graph, instance.platform)


def main() -> None:
    """Search all instances and print one line."""
    parser = argparse.ArgumentParser(description="Search PSPLIB j30 for optima.")
    parser.add_argument("--every", type=int, default=1, help="take every n-th instance")
    parser.add_argument("--limit", type=float, default=5.0, help="CPU seconds per instance")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if not DATA.is_dir():
        skipped = "no data: set WEFT_BENCH_DATA to their folder"
        print(json.dumps({"benchmark": "resources", "skipped": skipped}))
        return
    os.environ["WEFT_KERNELS"] = "compiled"
    best = optima()
    rows: list[tuple[str, float, float, bool]] = []
    for name, instance in instances(asked.every):
        if not rows:
            searched(instance, 0.0, 0.1, asked.seed)  # compile the kernels
        rows.append((name, *searched(instance, best[name], asked.limit, asked.seed)))
    excess = {name: makespan_s / best[name] - 1.0 for name, makespan_s, _, _ in rows}
    figures = {
        "instances": len(rows),
        "broken": sum(not valid for *_, valid in rows),
        "optimal_share": round(statistics.fmean(value < 1e-9 for value in excess.values()), 4),
        "mean_excess": round(statistics.fmean(excess.values()), 6),
        "missed": [name for name, value in excess.items() if value >= 1e-9],
        "cpu_s_mean": round(statistics.fmean(spent_s for _, _, spent_s, _ in rows), 3),
        "cpu_s_max": round(max(spent_s for _, _, spent_s, _ in rows), 2),
        "limit_s": asked.limit,
    }
    print(json.dumps({"benchmark": "resources", **figures, "calibration_s": calibration_s(1)}))


if __name__ == "__main__":
    main()
