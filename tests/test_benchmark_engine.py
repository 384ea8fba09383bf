"""The benchmark of the engine: both programs simulate the same graph, and the figures are printed."""

from __future__ import annotations

import json

import pytest

import engine as benchmark
from weft.formats.files import load_platform
from weft.instance.compilation import compile_instance
from weft.workflow.checks import check_and_unfold


def test_makespans_of_both_simulations_are_between_the_bounds_of_the_graph() -> None:
    workflow, parents, seconds = benchmark.layered(400, seed=3)
    instance = compile_instance(check_and_unfold(workflow), load_platform("identical:64"))
    _, ours = benchmark.engine_s(instance)
    simpy = pytest.importorskip("simpy", reason="the benchmark extra is not installed")
    assert simpy is not None
    _, theirs = benchmark.bare_simpy_s(parents, seconds)
    path = [0.0] * len(seconds)
    for task, own in enumerate(seconds):
        path[task] = own + max((path[parent] for parent in parents[task]), default=0.0)
    shortest = max(max(path), sum(seconds) / 64)
    # Graham: list scheduling takes at most area plus critical path.
    longest = sum(seconds) / 64 + max(path)
    assert shortest <= ours <= longest
    assert shortest <= theirs <= longest


def test_cpu_time_per_event_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("simpy", reason="the benchmark extra is not installed")
    benchmark.main(["--repeat", "1", "--tasks", "300", "--waiting", "100,200", "--memory", "0"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["figure"] for line in lines] == ["throughput", "events"]
    assert set(lines[1]["us_per_event"]) == {"100", "200"}
    assert lines[0]["ratio"] > 0
