"""Bounds on public benchmarks are never above a proven optimum, and as close to it as known."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path

import pytest

from planning_examples import instance, matrix_tasks, platform, processors, workflow
from published.test_benchmarks_plan import generated
from published.test_heft_2002 import COMMUNICATION as HEFT_DATA
from published.test_heft_2002 import SECONDS as HEFT_SECONDS
from published.test_peft_2014 import COMMUNICATION as PEFT_DATA
from published.test_peft_2014 import SECONDS as PEFT_SECONDS
from weft.formats.files import load_platform, load_workflow
from weft.formats.format import SourceFile
from weft.formats.stg import Stg
from weft.instance import compile_instance
from weft.predictors.predictor import Estimate, PredictorInputs
from weft.predictors.tabulation import tabulate
from weft.schedule.bounds import lower_bounds
from weft.workflow.task_graph import COMPUTE
from weft.workflow.unfold import unfold


def rows(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def test_stg_bounds_are_between_the_trivial_bound_and_the_optimum(bench_data):
    reference = {(row["file"], int(row["procs"])): row for row in rows(bench_data / "stg" / "reference.csv")}
    solved = {
        (row["file"], int(row["procs"])): float(row["new_ub"])
        for row in rows(bench_data / "stg" / "cpsat_bounds_ours.csv")
    }
    proven = total = 0
    with zipfile.ZipFile(bench_data / "stg" / "stg50.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".stg"))
        for name in names[60:180:5]:
            graph = unfold(Stg().read(SourceFile(name=Path(name).name, data=archive.read(name))))
            for processors_used in (2, 4, 8, 16):
                key = (f"50/{Path(name).name}", processors_used)
                row = reference[key]
                found = lower_bounds(
                    compile_instance(graph, load_platform(f"identical:{processors_used}"))
                ).best_s
                best_known = min(float(row["pub_ub"]), solved.get(key, float("inf")))
                assert max(float(row["trivial_lb"]), float(row["pub_lb"])) <= found <= best_known, key
                total += 1
                proven += found == best_known
    assert total == 96
    assert proven >= 84


def test_most_small_graphs_with_communication_have_a_tight_bound(bench_data):
    folder = bench_data / "comm-delay-optimal"
    shares = []
    for row in rows(folder / "optimal.csv"):
        made = compile_instance(
            unfold(load_workflow(folder / row["file"])), load_platform(f"identical:{row['procs']}")
        )
        found, optimum = lower_bounds(made).best_s, float(row["optimal_makespan"])
        assert found <= optimum, row["file"]
        shares.append(found / optimum)
    assert shares.count(1.0) >= 18
    assert sum(shares) / len(shares) >= 0.973


@pytest.mark.parametrize(
    ("seconds", "data", "reached", "optimum"),
    [(HEFT_SECONDS, HEFT_DATA, 59, 73), (PEFT_SECONDS, PEFT_DATA, 102, 113)],
    ids=["heft2002", "peft2014"],
)
def test_bounds_of_the_papers_examples_equal_known_values(seconds, data, reached, optimum):
    found = lower_bounds(instance(matrix_tasks(seconds, data), processors(3)))
    assert reached <= found.best_s <= optimum
    assert found.argument == "tasks that must be together"


def moldable_tasks(path):
    """Read a generated moldable instance: seconds per node count, edges without data."""
    facts = json.loads(path.read_text())
    return {
        f"t{task}": {
            "work": row[0],
            "nodes": list(range(1, len(row) + 1)),
            "speedup": {"seconds": dict(enumerate(row, start=1))},
            "after": [f"t{before}" for before, after in facts["edges"] if after == task],
        }
        for task, row in enumerate(facts["t"])
    }, facts["P"]


def test_bound_of_moldable_tasks_between_barriers_is_better_than_that_of_a_solver(bench_data):
    tasks, nodes = moldable_tasks(bench_data / "peers" / "moldable_64_barrier.json")
    found = lower_bounds(instance(tasks, f"cluster:{nodes}"))
    # A constraint solver proved 8,012 in a minute and found a schedule of 8,902.
    assert found.best_s == 8321
    assert found.argument == "area of levels"


@pytest.mark.parametrize(
    ("name", "simple", "reached", "makespan"),
    [("hetero_100x16", 34.55, 36.85, 44.42), ("hetero_1000x64", 128.28, 130.5, 162.16)],
)
def test_bounds_of_heterogeneous_machines_with_transfers_equal_known_values(
    bench_data, name, simple, reached, makespan
):
    flow, where = generated(bench_data / "peers" / f"{name}.json")
    found = lower_bounds(compile_instance(unfold(flow), where))
    assert found.critical_path_s >= simple - 0.005
    assert reached <= found.best_s <= makespan


class Measured:
    """Predicts seconds by task, machine and count from a table."""

    name, final, reads = "measured", True, PredictorInputs(kind=True, machine=True)

    def __init__(self, seconds):
        self.seconds = seconds

    def applies(self, graph):
        return graph.kind == COMPUTE

    def predict(self, features, machine, nodes):
        found = self.seconds[features.name].get((machine.name, nodes))
        return None if found is None else Estimate(p50_s=found, source=self.name)

    def table(self, graph, machines):
        return tabulate(self, graph, machines)


def test_bounds_of_independent_moldable_tasks_with_an_accelerator_equal_known_values(bench_data):
    folder = bench_data / "moldable" / "hunold_tpds2017"
    known = {row["file"]: row for row in rows(folder / "optimum_cpsat_ours.csv") if row["with_gpu"] == "1"}
    shares = []
    for path in sorted(folder.glob("*.json")):
        facts, row = json.loads(path.read_text()), known[path.name]
        cores = facts["meta"]["m"]
        seconds = {
            name: {("m0", count): spent for count, spent in enumerate(facts["cpudata"][name], start=1)}
            | {("m1", 1): facts["gpudata"][name]}
            for name in facts["gpudata"]
        }
        flow = workflow({name: {"nodes": list(range(1, cores + 1))} for name in seconds})
        made = compile_instance(unfold(flow), platform({"nodes": cores}, {}), predictor=Measured(seconds))
        found, optimum = lower_bounds(made).best_s, float(row["best"])
        assert row["status"] == "OPTIMAL"
        assert found <= optimum + 5e-4, path.name  # the table has three digits
        shares.append(found / optimum)
    assert len(shares) == 10
    assert min(shares) >= 0.8
    assert sum(shares) / len(shares) >= 0.9
