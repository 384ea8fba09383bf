"""``weft plan`` with a search planner: time, steps, workers and Ctrl-C."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import dask_clusters as clusters
from cli.shell import start, weft
from patience import PATIENCE_S

HARD = """\
weft: 1
name: hard
tasks:
  a: {sweep: {k: 1..14}, work: 3 + 7 * k % 11, outputs: {"x.{k}": 3MB}}
  b: {sweep: {k: 1..14}, work: 2 + 5 * k % 13, inputs: ["x.{k}"], outputs: {"y.{k}": 5MB}}
  c: {sweep: {k: 1..7}, work: 4 + 3 * k % 7, inputs: ["y.{k}", "y.{k+7}", "x.{15-k}"]}
  d: {work: 3, after: c}
"""
MACHINES = """\
weft: 1
machines: {a: {speed: 1}, b: {speed: 1.3}, c: {speed: 1.7}, d: {speed: 2.2}, e: {speed: 0.7}}
links: {default: {bandwidth: 1MB/s, latency: 10ms}}
"""
PLAN = ("plan", "hard.yaml", "--on", "machines.yaml")
SAME = ("schedule", "makespan_s", "lower_bound_s", "steps", "found_by", "islands")


@pytest.fixture
def hard(folder: Path) -> Path:
    """Return a folder with a workflow whose optimum is not proven within seconds."""
    (folder / "hard.yaml").write_text(HARD)
    (folder / "machines.yaml").write_text(MACHINES)
    return folder


def record(*arguments: str, folder: Path) -> dict[str, Any]:
    shown = weft(*PLAN, *arguments, "--json", folder=folder)
    assert (shown.code, shown.err) == (0, "")
    found: dict[str, Any] = json.loads(shown.out)
    return found


def kept(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in SAME}


def test_equal_step_budgets_give_equal_plans(hard: Path) -> None:
    first, second = (record("--plan-steps", "400", folder=hard) for _ in range(2))
    assert kept(first) == kept(second)
    assert (first["cut"], first["plan_time_s"], first["plan_steps"], first["workers"]) == (
        False,
        None,
        400,
        1,
    )
    assert first["steps"] <= 400
    heft = record("--planner", "heft", folder=hard)
    assert first["makespan_s"] <= heft["makespan_s"]
    assert (heft["plan_time_s"], heft["found_by"]) == (None, "heft")


def test_plan_depends_on_the_number_of_islands_but_not_on_the_number_of_workers(hard: Path) -> None:
    two = record("--plan-steps", "400", "--workers", "2", folder=hard)
    alone = record("--plan-steps", "400", "--planner", "auto:islands=2", folder=hard)
    assert kept(two) == kept(alone)
    assert (two["workers"], two["islands"], alone["workers"], alone["islands"]) == (2, 2, 1, 2)


def test_plan_of_a_dask_cluster_equals_that_of_local_workers(hard: Path, tmp_path_factory: Any) -> None:
    if importlib.util.find_spec("distributed") is None and not os.environ.get("CI"):
        pytest.skip("the package distributed is not installed")
    with clusters.cluster(tmp_path_factory.mktemp("dask")) as address:
        there = record("--plan-steps", "400", "--cluster", address, folder=hard)
    here = record("--plan-steps", "400", "--planner", "auto:islands=2", folder=hard)
    assert kept(there) == kept(here)
    assert there["workers"] == 2


def test_planning_time_is_stored_and_printed(hard: Path) -> None:
    found = record("--plan-time", "0.5", folder=hard)
    assert (found["plan_time_s"], found["plan_steps"], found["cut"]) == (0.5, None, True)
    assert found["makespan_s"] <= record("--planner", "heft", folder=hard)["makespan_s"]
    assert found["gap"] == pytest.approx(found["makespan_s"] / found["lower_bound_s"] - 1)


def searching(folder: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start ``weft plan`` with a terminal as standard error, and wait until it shows a searched plan.

    With other load the line may skip the first plans of weave and show those of cp-sat.
    """
    ours, theirs = os.openpty()
    process = start(*PLAN, *arguments, folder=folder, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    while not re.search(rb" by (weave|cp-sat), bound ", shown):
        shown += os.read(ours, 1024)
    line = shown.decode().rpartition("\x1b[2K")[2]
    assert re.match(r"planning 4 task descriptions with auto: [\d.]+ s by [\w-]+, bound [\d.]+ s, gap ", line)
    return process, ours


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_shows_the_best_plan_so_far(hard: Path, workers: str) -> None:
    process, terminal = searching(hard, "--plan-time", "300", "--workers", workers, "--json")
    try:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert process.returncode == 0
    found = json.loads(out)
    assert found["cut"]
    assert "the search was interrupted: this is the best plan so far" in found["notes"]
    assert len(found["schedule"]) == 36
    assert found["planning_s"] < 200
