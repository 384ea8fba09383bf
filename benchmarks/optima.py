"""Known optima: how often a planner reaches and proves them within its time.

One JSON line per set: number of instances, of plans as short as the best known makespan, proven optimal,
shorter than the best known, worst ratio, number of plans that broke a rule, CPU seconds.

- papers: the examples of HEFT (73) and PEFT (113);
- communication: 33 small graphs on identical processors with communication delays;
- moldable: ten sets of moldable tasks on some cores and an accelerator;
- stg: graphs of 50 tasks on 2, 4 and 8 identical processors whose optimum is published; stg-open: the others;
- j10: PSPLIB projects with modes and budgets; j30: with resources.

    python benchmarks/optima.py [--planner auto] [--sets papers,stg] [--plan-time 2] [--workers 1] [--every 1]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import psplib
import stg
from measurement import calibration_s
from weft.api.plan import open_pool
from weft.errors import Infeasible
from weft.formats.files import load_platform, read_workflow_file
from weft.instance import Instance, compile_instance
from weft.planners import PLANNERS
from weft.planners.evaluation import compute_bounds
from weft.planners.planner import Planner, PlanRequest, make_planner
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.predictors.predictor import Estimate, Flags, Predictor, PredictorInputs, TaskFeatures
from weft.predictors.seconds import Seconds
from weft.predictors.tabulation import tabulate
from weft.randomness import generator
from weft.runtime.budget import make_budget
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.search.pool import Pool
from weft.workflow.builder import Builder
from weft.workflow.checks import check_and_unfold
from weft.workflow.task_graph import COMPUTE, TaskGraph

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("WEFT_BENCH_DATA") or ROOT.parent / "shared" / "data")
CLOSED = 1e-9
"""Relative tolerance between a plan and a bound or a known optimum."""


@dataclass(frozen=True)
class Case:
    """An instance with its best known makespan."""

    instance: Instance
    best_s: float
    predictor: Predictor | None = None


@dataclass
class Results:
    """The results of a planner on a set."""

    ratios: list[float] = field(default_factory=list)
    proven: int = 0
    broken: int = 0
    failed: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Predicts seconds by task, machine and count from a table."""

    seconds: Mapping[str, Mapping[tuple[str, int], float]]
    name: str = "measured"
    final: bool = True
    reads: PredictorInputs = field(default_factory=lambda: PredictorInputs(kind=True, machine=True))

    def applies(self, graph: TaskGraph) -> Flags:
        return np.asarray(graph.kind == COMPUTE)

    def predict(self, subject: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        found = self.seconds[subject.name].get((machine.name, nodes))
        return None if found is None else Estimate(p50_s=found, source=self.name)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Seconds:
        return tabulate(self, graph, machines)


def rows(path: Path) -> list[dict[str, str]]:
    """Read a table."""
    with path.open() as text:
        return list(csv.DictReader(text))


def papers(every: int) -> Iterator[Case]:
    """Read the examples from the tables of the papers: seconds per machine, and per edge between machines."""
    for name, best_s in (("heft2002", 73.0), ("peft2014", 113.0))[::every]:
        folder = DATA / "papers"
        seconds = _matrix(folder / f"{name}_task_exe_time.csv")
        data = _matrix(folder / f"{name}_task_connectivity.csv")
        flow = Builder(name)
        for task, row in enumerate(seconds):
            flow.task(
                f"t{task}",
                seconds={f"P{machine}": spent for machine, spent in enumerate(row)},
                inputs=[f"d{before}.{task}" for before in range(len(data)) if data[before][task] > 0],
                outputs={
                    f"d{task}.{to}": {"seconds": size} for to, size in enumerate(data[task]) if size > 0
                },
            )
        machines = tuple(Machine(name=f"P{machine}") for machine in range(len(seconds[0])))
        yield Case(compile_instance(check_and_unfold(flow.build()), Platform(machines=machines)), best_s)


def _matrix(path: Path) -> list[list[float]]:
    """Read the numbers of a table with header row and header column."""
    with path.open() as text:
        lines = [line for line in csv.reader(text) if line]
    return [[float(cell) for cell in line[1:] if cell.strip()] for line in lines[1:]]


def communication(every: int) -> Iterator[Case]:
    """Read the graphs with communication delays."""
    folder = DATA / "comm-delay-optimal"
    for row in rows(folder / "optimal.csv")[::every]:
        graph = check_and_unfold(read_workflow_file(folder / row["file"]))
        instance = compile_instance(graph, load_platform(f"identical:{row['procs']}"))
        yield Case(instance, float(row["optimal_makespan"]))


def moldable(every: int) -> Iterator[Case]:
    """Read the moldable tasks; the accelerator is a separate machine. The table has three digits."""
    folder = DATA / "moldable" / "hunold_tpds2017"
    known = [row for row in rows(folder / "optimum_cpsat_ours.csv") if row["with_gpu"] == "1"]
    for row in known[::every]:
        facts = json.loads((folder / row["file"]).read_text())
        cores, names = facts["meta"]["m"], facts["gpudata"]
        seconds = {
            name: {("cores", count): spent for count, spent in enumerate(facts["cpudata"][name], start=1)}
            | {("gpu", 1): names[name]}
            for name in names
        }
        flow = Builder("moldable")
        for name in names:
            flow.task(name, nodes=list(range(1, cores + 1)))
        machines = (Machine(name="cores", nodes=cores), Machine(name="gpu"))
        predictor = Measured(seconds)
        graph = check_and_unfold(flow.build())
        instance = compile_instance(graph, Platform(machines=machines), predictor=predictor)
        yield Case(instance, float(row["best"]) + 5e-4, predictor)


def graphs(every: int, *, settled: bool) -> Iterator[Case]:
    """Read the graphs of STG whose optimum is published, or the others."""
    best, table = stg.best_known(), stg.table("reference.csv")
    made = stg.instances(1)
    chosen = [
        row for row in made if row[1] <= 8 and (table[row]["pub_lb"] == table[row]["pub_ub"]) == settled
    ]
    for row in chosen[::every]:
        yield Case(made[row], best[row])


def settled_graphs(every: int) -> Iterator[Case]:
    return graphs(every, settled=True)


def open_graphs(every: int) -> Iterator[Case]:
    return graphs(every, settled=False)


def multi_mode(every: int) -> Iterator[Case]:
    """Read the projects with modes and budgets."""
    folder = DATA / "psplib" / "mrcpsp"
    table = (folder / "j10opt.mm").read_text(errors="replace")
    optima = {
        f"j10{first}_{second}.mm": float(best)
        for first, second, best in re.findall(r"^\s*(\d+),\s+(\d+),\s+(\d+)", table, re.MULTILINE)
    }
    with zipfile.ZipFile(folder / "j10.mm.zip") as archive, tempfile.TemporaryDirectory() as place:
        for name in sorted(name for name in archive.namelist() if name.endswith(".mm"))[::every]:
            path = archive.extract(name, place)
            graph = check_and_unfold(read_workflow_file(path))
            yield Case(compile_instance(graph, load_platform(path)), optima[Path(name).name])


def projects(every: int) -> Iterator[Case]:
    """Read the projects with resources."""
    best = psplib.optima()
    for name, instance in psplib.instances(every):
        yield Case(instance, best[name])


SETS: dict[str, Callable[[int], Iterator[Case]]] = {
    "papers": papers,
    "communication": communication,
    "moldable": moldable,
    "stg": settled_graphs,
    "stg-open": open_graphs,
    "j10": multi_mode,
    "j30": projects,
}
SAMPLES = {"stg": 20, "stg-open": 3, "j10": 24, "j30": 20}
"""Default stride through the instances of the large sets."""


def run(planner: Planner, cases: Iterator[Case], plan_time_s: float, pool: Pool) -> Results:
    """Plan and verify all instances of a set."""
    goal, results = make_objective("makespan"), Results()
    for case in cases:
        instance = case.instance
        if planner.supports(instance, goal) is not None:
            results.failed += 1
            continue
        started = _cpu_s()
        budget = make_budget(plan_time_s=plan_time_s, plan_steps=None)
        try:
            plan = planner.plan(
                PlanRequest(
                    instance=instance, objective=goal, budget=budget, rng=generator(0, "optima"), pool=pool
                )
            )
        except Infeasible:
            results.failed += 1
            continue
        finally:
            results.cpu_s += _cpu_s() - started
        makespan_s = plan.schedule.makespan_s
        results.broken += bool(
            verify(plan.schedule, instance.graph, instance.platform, predictor=case.predictor)
        )
        results.ratios.append(makespan_s / case.best_s)
        results.proven += makespan_s <= max(plan.bound_s, compute_bounds(instance).best_s) * (1 + CLOSED)
    return results


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of finished workers."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def line(results: Results) -> dict[str, object]:
    """Return the figures of a set."""
    ratios = results.ratios
    return {
        "plans": len(ratios),
        "failed": results.failed,
        "reached": sum(ratio <= 1 + CLOSED for ratio in ratios),
        "better": sum(ratio < 1 - 1e-4 for ratio in ratios),
        "proven": results.proven,
        "worst_ratio": round(max(ratios), 5) if ratios else None,
        "broken": results.broken,
        "cpu_s": round(results.cpu_s, 2),
    }


def main() -> int:
    """Print one line per set; return 1 if a plan broke a rule."""
    parser = argparse.ArgumentParser(description="Plan instances whose optimum is known.")
    default = "auto" if "auto" in PLANNERS else "cp-sat"
    parser.add_argument("--planner", default=default, help=f"default: {default}")
    parser.add_argument("--sets", default=",".join(SETS), help=f"of {', '.join(SETS)} (default: all)")
    parser.add_argument("--plan-time", type=float, default=2.0, help="seconds per plan (default: 2)")
    parser.add_argument("--workers", type=int, default=1, help="processes, or threads of cp-sat (default: 1)")
    parser.add_argument("--every", type=int, default=0, help="take every n-th (default: some two dozen each)")
    asked = parser.parse_args()
    if not DATA.is_dir():
        print(json.dumps({"benchmark": "optima", "skipped": "no data: set WEFT_BENCH_DATA to their folder"}))
        return 0
    broken = 0
    for name in asked.sets.split(","):
        every = asked.every or SAMPLES.get(name, 1)
        started = time.monotonic()
        with open_pool(workers=asked.workers) as pool:
            results = run(make_planner(asked.planner), SETS[name](every), asked.plan_time, pool)
        broken += results.broken
        head = {"benchmark": "optima", "planner": asked.planner, "set": name, "every": every}
        spent = {"plan_time_s": asked.plan_time, "workers": asked.workers}
        wall = {"wall_s": round(time.monotonic() - started, 1), "calibration_s": round(calibration_s(1), 4)}
        print(json.dumps({**head, **spent, **line(results), **wall}), flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
