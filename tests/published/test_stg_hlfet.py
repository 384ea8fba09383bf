"""STG, 50 tasks on 2, 4, 8 and 16 processors: HLFET row by row, and every planner's schedules verify."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import pytest

from planning_examples import MAKESPAN, planned
from weft.formats.files import load_platform
from weft.formats.format import SourceFile
from weft.formats.stg import Stg
from weft.instance import compile_instance
from weft.planners import PLANNERS
from weft.planners.moldable_genetic import MoldableGeneticPlanner
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.randomness import generator
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

PROCESSORS = (2, 4, 8, 16)


@pytest.fixture(scope="module")
def reference(bench_data):
    """Return the rows of the table: {(file, processors): columns}."""
    with (bench_data / "stg" / "reference.csv").open() as text:
        rows = {(row["file"], int(row["procs"])): row for row in csv.DictReader(text)}
    return {key: row for key, row in rows.items() if key[0].startswith("50/")}


@pytest.fixture(scope="module")
def graphs(bench_data):
    """Return the graphs by the names of the table."""
    with zipfile.ZipFile(bench_data / "stg" / "stg50.zip") as archive:
        files = {
            f"50/{Path(name).name}": archive.read(name)
            for name in archive.namelist()
            if name.endswith(".stg")
        }
    return {
        name: unfold(Stg().read(SourceFile(name=name, data=data))) for name, data in sorted(files.items())
    }


@pytest.fixture(scope="module")
def platforms():
    return {processors: load_platform(f"identical:{processors}") for processors in PROCESSORS}


def test_hlfet_makespans_equal_every_row_of_the_table(graphs, reference, platforms):
    assert len(reference) == 720
    wrong = []
    for (name, processors), row in reference.items():
        found = planned(compile_instance(graphs[name], platforms[processors]), "hlfet").makespan_s
        if found != float(row["hlfet"]):
            wrong.append((name, processors, found, row["hlfet"]))
    assert wrong == []


@pytest.fixture(scope="module")
def sample(graphs, reference, platforms):
    """Return forty rows with their instances, shared by all planners because instances are immutable."""
    keys = sorted(reference)[::17][:40]  # all four numbers of processors in turn
    return {
        (name, processors): compile_instance(graphs[name], platforms[processors]) for name, processors in keys
    }


# Layers of these graphs have no machines of their own: sweep planners let them share, also if no option says so.
@pytest.fixture(params=[*PLANNERS, "shuffle:pool=shared", "xdcp:pool=shared"])
def planner(request):
    return make_planner(request.param)


def test_schedules_verify_and_are_not_below_the_published_bounds(planner, reference, sample):
    assert len(sample) == 40
    served = 0
    for (name, processors), made in sample.items():
        if planner.supports(made, MAKESPAN) is not None:
            continue
        rng = generator(1, "stg", name)
        plan = planner.plan(PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(steps=10), rng=rng))
        assert verify(plan.schedule, made.graph, made.platform) == []
        assert plan.schedule.makespan_s >= float(reference[name, processors]["pub_lb"])
        served += 1
    # Only the moldable search supports none of them: it plans for one machine.
    assert served == (0 if planner == MoldableGeneticPlanner() else 40)
