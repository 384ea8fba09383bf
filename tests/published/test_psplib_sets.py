"""PSPLIB's sets j30 (single mode) and j10 (multi-mode): every file is read, and no plan is below its
optimum.

The optima are those published with the sets (Demeulemeester and Herroelen 1995; Sprecher and Drexl 1996).
"""

from __future__ import annotations

import re
import zipfile
from functools import cache

import numpy as np
import pytest

from planning_examples import MAKESPAN, planned
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml, read_platform_file, write_platform
from weft.formats.psplib import Psplib
from weft.instance import compile_instance
from weft.planners.heft import Heft
from weft.schedule.bounds import lower_bounds
from weft.schedule.verification import verify
from weft.workflow.checks import check_and_unfold

SETS = {
    "j30": ("rcpsp/j30.sm.zip", "rcpsp/j30opt.sm", 480),
    "j10": ("mrcpsp/j10.mm.zip", "mrcpsp/j10opt.mm", 536),
}
NAME = re.compile(r"j\d0(\d+)_(\d+)\.[sm]m$")


@cache
def sources(folder, name):
    """Read the files of a set as {(parameter, instance): source}."""
    archive, _, _ = SETS[name]
    with zipfile.ZipFile(folder / archive) as members:
        listed = {member: NAME.search(member) for member in sorted(members.namelist())}
        return {
            (int(found[1]), int(found[2])): SourceFile(name=found[0], data=members.read(member))
            for member, found in listed.items()
            if found is not None
        }


def optima(folder, name):
    """Read the table of optima as {(parameter, instance): makespan}."""
    rows = re.findall(
        r"^\s*(\d+),?\s+(\d+),?\s+(\d+),?\s", (folder / SETS[name][1]).read_text("latin1"), re.MULTILINE
    )
    return {(int(parameter), int(number)): int(makespan) for parameter, number, makespan in rows}


@pytest.fixture(params=SETS)
def files(request, bench_data):
    found = sources(bench_data / "psplib", request.param)
    assert len(found) == SETS[request.param][2]
    return request.param, found, optima(bench_data / "psplib", request.param)


def test_every_file_is_read_and_checked(files):
    _, found, _ = files
    for source in found.values():
        graph = check_and_unfold(Psplib().read(source))
        jobs = re.search(rb"jobs \(incl. supersource/sink \):\s*(\d+)", source.data)
        assert len(graph) == int(jobs[1]), source.name


def test_bounds_are_not_above_the_optimum_and_times_are_integers(files):
    _, found, known = files
    for key in list(found)[::8]:
        graph = check_and_unfold(Psplib().read(found[key]))
        made = compile_instance(graph, Psplib().read_platform(found[key]))
        assert lower_bounds(made).best_s <= known[key], key
        for group in made.groups:
            seconds = group.seconds_of(group.tasks)
            assert np.array_equal(seconds, np.round(seconds)), key


def test_psplib_files_written_in_the_weft_format_read_back_the_same(files):
    _, found, _ = files
    for source in list(found.values())[::12]:
        workflow, platform = Psplib().read(source), Psplib().read_platform(source)
        written = SourceFile(name="again.yaml", data=WeftYaml().write(workflow).encode())
        assert WeftYaml().read(written) == workflow, source.name
        again = read_platform_file(SourceFile(name="again.yaml", data=write_platform(platform).encode()))
        assert again == platform, source.name


def test_plans_of_heft_are_not_below_the_optimum(files):
    _, found, known = files
    excess = []
    for key in list(found)[::8]:
        graph, platform = check_and_unfold(Psplib().read(found[key])), Psplib().read_platform(found[key])
        made = compile_instance(graph, platform)
        if Heft().supports(made, MAKESPAN) is not None:
            assert made.binding_budgets(), key
            continue
        schedule = planned(made)
        assert verify(schedule, graph, platform) == [], key
        assert schedule.makespan_s >= known[key], key
        excess.append(schedule.makespan_s / known[key] - 1)
    assert len(excess) >= 15
    assert min(excess) == 0
    assert np.mean(excess) < 0.3
