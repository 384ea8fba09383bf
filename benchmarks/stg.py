"""Identical machines without communication: every planner on STG, 50 tasks, 2 to 16 processors, verified.

One JSON line per planner: number of plans (of 720), of plans that broke a rule, mean of makespan over the
best known one, number of best known makespans reached, number of instances on which no other planner was
shorter, and the reasons of planners that do not support an instance. HLFET must equal the column ``hlfet`` of
the reference table in every row.

    python benchmarks/stg.py [--planner heft,etf] [--every 1]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import sys
import time
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from measurement import calibration_s
from weft.formats.files import load_platform
from weft.formats.format import SourceFile
from weft.formats.stg import Stg
from weft.instance import Instance, compile_instance
from weft.planners import PLANNERS
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("WEFT_BENCH_DATA") or ROOT.parent / "shared" / "data") / "stg"

ASKED = [*PLANNERS, "shuffle:pool=shared", "xdcp:pool=shared"]
"""Sweep planners need an option because these graphs have no layers with their own machines."""

Row = tuple[str, int]
"""A file of the table and a number of processors."""


@dataclass
class Results:
    """The results of one planner."""

    makespan_s: dict[Row, float] = field(default_factory=dict)
    broken: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    planning_s: float = 0.0


def table(name: str) -> dict[Row, dict[str, str]]:
    """Read a table of the data set by file and processors; graphs of 50 tasks only."""
    with (DATA / name).open() as text:
        rows = {(row["file"], int(row["procs"])): row for row in csv.DictReader(text)}
    return {row: columns for row, columns in rows.items() if row[0].startswith("50/")}


def instances(every: int) -> dict[Row, Instance]:
    """Compile every graph for every number of processors of the table."""
    with zipfile.ZipFile(DATA / "stg50.zip") as archive:
        found = {f"50/{Path(name).name}": name for name in archive.namelist() if name.endswith(".stg")}
        graphs = {
            file: unfold(Stg().read(SourceFile(name=file, data=archive.read(name))))
            for file, name in found.items()
        }
    return {
        (file, processors): compile_instance(graphs[file], load_platform(f"identical:{processors}"))
        for file, processors in sorted(table("reference.csv"))[::every]
    }


def best_known() -> dict[Row, float]:
    """Return the best known makespan: the published one, or a shorter one found since."""
    best = {row: float(columns["pub_ub"]) for row, columns in table("reference.csv").items()}
    for row, columns in table("cpsat_bounds_ours.csv").items():
        best[row] = min(best[row], float(columns["new_ub"]))
    return best


def run(name: str, made: dict[Row, Instance]) -> Results:
    """Plan and verify all instances with one planner."""
    goal, planner, results = make_objective("makespan"), make_planner(name), Results()
    for row, instance in made.items():
        refusal = planner.supports(instance, goal)
        if refusal is not None:
            results.refused[refusal.reason] += 1
            continue
        started = time.process_time()
        plan = planner.plan(
            PlanRequest(instance=instance, objective=goal, budget=Budget(steps=100), rng=generator(0, "stg"))
        )
        results.planning_s += time.process_time() - started
        results.broken += bool(verify(plan.schedule, instance.graph, instance.platform))
        results.makespan_s[row] = plan.schedule.makespan_s
    return results


def figures(results: Results, shortest: dict[Row, float], best: dict[Row, float]) -> dict[str, object]:
    """Return the line of one planner."""
    ratios = [makespan / best[row] for row, makespan in results.makespan_s.items()]
    return {
        "plans": len(ratios),
        "broken": results.broken,
        "refused": sum(results.refused.values()),
        "reason": next(iter(results.refused), None),
        "mean_ratio": round(statistics.fmean(ratios), 5) if ratios else None,
        "best_known": sum(ratio <= 1.0 for ratio in ratios),
        "wins": sum(makespan == shortest[row] for row, makespan in results.makespan_s.items()),
        "planning_cpu_s": round(results.planning_s, 2),
    }


def main() -> int:
    """Print one line per planner; return 1 if a plan broke a rule or HLFET differs from the table."""
    parser = argparse.ArgumentParser(description="Plan STG with every planner.")
    parser.add_argument("--planner", help="planners, separated by commas (default: all)")
    parser.add_argument("--every", type=int, default=1, help="take every n-th row")
    asked = parser.parse_args()
    if not DATA.is_dir():
        print(json.dumps({"benchmark": "stg", "skipped": "no data: set WEFT_BENCH_DATA to their folder"}))
        return 0
    made, best = instances(asked.every), best_known()
    found = {name: run(name, made) for name in (asked.planner.split(",") if asked.planner else ASKED)}
    shortest = {
        row: min((one.makespan_s[row] for one in found.values() if row in one.makespan_s), default=0.0)
        for row in made
    }
    wrong = 0
    for name, results in found.items():
        line = {"benchmark": "stg", "planner": name, **figures(results, shortest, best)}
        wrong += results.broken
        if name == "hlfet":
            column = {row: float(columns["hlfet"]) for row, columns in table("reference.csv").items()}
            unlike = sum(makespan != column[row] for row, makespan in results.makespan_s.items())
            line["rows_unlike_the_table"] = unlike
            wrong += unlike
        print(json.dumps({**line, "calibration_s": round(calibration_s(1), 4)}), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
