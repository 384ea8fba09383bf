"""Every file of the public benchmark sets is read, checked, unfolded, planned and verified."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path

import pytest

from planning_examples import planned
from weft.formats.files import load_platform, load_workflow
from weft.formats.format import SourceFile
from weft.formats.stg import Stg
from weft.instance import compile_instance
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.schedule.bounds import lower_bounds
from weft.schedule.verification import verify
from weft.workflow.task import Input, Output, Task
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Workflow

FOLDERS = {
    "stg/sample": "*.stg",
    "stg/app": "*.stg",
    "wfcommons": "v*/*.json",
    "dax": "*.xml",
    "comm-delay-optimal": "*.dot",
    "papers": "*.xml",
}
PROCESSORS = (2, 4, 8, 16)
NEEDS = {"floodplain.xml": "cluster:256"}
"""Files whose tasks are too wide for machines of one node."""


def files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    assert found, f"{folder.name} has no {pattern}"
    return found


def plan_and_verify(workflow, platform):
    """Plan and verify; return the makespan and the lower bound."""
    graph = unfold(workflow)
    made = compile_instance(graph, platform)
    schedule = planned(made)
    assert verify(schedule, graph, platform) == []
    bound = lower_bounds(made).best_s
    assert schedule.makespan_s >= bound * (1 - 1e-9)
    return schedule.makespan_s, bound


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_benchmark_file_is_planned(bench_data, folder):
    for path in files(bench_data / folder, FOLDERS[folder]):
        makespan, bound = plan_and_verify(
            load_workflow(path), load_platform(NEEDS.get(path.name, "identical:4"))
        )
        assert makespan > 0, path.name
        assert bound > 0, path.name


def published_bounds(folder):
    """Read {(file, processors): (published lower bound, trivial lower bound)}."""
    with (folder / "reference.csv").open() as lines:
        return {
            (row["file"], int(row["procs"])): (float(row["pub_lb"]), float(row["trivial_lb"]))
            for row in csv.DictReader(lines)
        }


def assert_above_published(name, workflow, bounds):
    """Assert that HEFT is not below the published bound and our bound is not below the trivial one."""
    for processors in PROCESSORS:
        published, trivial = bounds[name, processors]
        makespan, bound = plan_and_verify(workflow, load_platform(f"identical:{processors}"))
        assert makespan >= published, (name, processors)
        assert bound >= trivial - 1, (name, processors)  # the table rounds up


def test_plans_of_stg_samples_are_not_below_the_published_bounds(bench_data):
    bounds = published_bounds(bench_data / "stg")
    known = {name for name, _ in bounds}
    paths = [(path.name.replace("_", "/", 1), path) for path in files(bench_data / "stg" / "sample", "*.stg")]
    known_paths = [(name, path) for name, path in paths if name in known]
    assert len(known_paths) >= 7
    for name, path in known_paths:
        assert_above_published(name, load_workflow(path), bounds)


def test_plans_of_stg_50_are_not_below_the_published_bounds(bench_data):
    bounds = published_bounds(bench_data / "stg")
    with zipfile.ZipFile(bench_data / "stg" / "stg50.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".stg"))
        assert len(names) == 180
        for name in names[::4]:
            source = SourceFile(name=Path(name).name, data=archive.read(name))
            assert_above_published(f"50/{Path(name).name}", Stg().read(source), bounds)


def test_plans_of_small_graphs_are_not_below_their_optimum(bench_data):
    folder = bench_data / "comm-delay-optimal"
    with (folder / "optimal.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 33
    for row in rows:
        platform = load_platform(f"identical:{row['procs']}")
        makespan, bound = plan_and_verify(load_workflow(folder / row["file"]), platform)
        assert bound <= float(row["optimal_makespan"]) <= makespan, row["file"]


def generated(path):
    """Build a generated instance from work, speeds, edges with sizes, and bandwidths of all pairs of
    machines.
    """
    facts = json.loads(path.read_text())
    sizes = {(source, target): size for source, target, size in facts["edges"]}
    tasks = tuple(
        Task(
            name=f"t{index}",
            work=work,
            inputs=tuple(Input(file=f"{a}-{b}") for a, b in sizes if b == index),
            outputs=tuple(Output(file=f"{a}-{b}", size=size) for (a, b), size in sizes.items() if a == index),
        )
        for index, work in enumerate(facts["cost"])
    )
    machines = tuple(Machine(name=f"m{index}", speed=speed) for index, speed in enumerate(facts["speed"]))
    links = tuple(
        (f"m{a}", f"m{b}", Link(bandwidth_Bps=facts["bw"][a][b]))
        for a in range(len(machines))
        for b in range(a)
    )
    return Workflow(name=path.stem, tasks=tasks), Platform(name=path.stem, machines=machines, links=links)


def test_heft_reaches_the_known_makespan_of_a_generated_instance(bench_data):
    path = bench_data / "peers" / "hetero_1000x64.json"
    workflow, platform = load_workflow(path), load_platform(path)
    assert (workflow, platform) == generated(path)
    makespan, bound = plan_and_verify(workflow, platform)
    assert makespan == pytest.approx(162.16, abs=0.005)
    assert bound >= 128.28 - 0.005
