"""Nested loops on real machines: data follow the back edges, and every iteration is a task of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import weft
from weft.engine.history import measure_machines, replicated_share

NESTED = """
weft: 1
name: nested
tasks:
  setup: {command: "cp seed state; echo setup $WEFT_ITERATIONS >> state", inputs: [seed], outputs: [state], work: 0.1s}
  solve:
    command: "{ tail -1 state; tail -1 carry; echo solve $WEFT_ITERATION $WEFT_ITERATIONS; } > next"
    inputs: [state, carry]
    outputs: [next]
    work: 0.1s
  check:
    command: "cp next carry; cat next >> {log}; test $WEFT_ITERATION -ge 2"
    inputs: [next]
    outputs: [carry]
    work: 0.1s
  outer:
    command: "cp carry seed; test $WEFT_ITERATION -ge 3"
    inputs: [carry]
    outputs: [seed]
    after: inside
    work: 0.1s
  last: {command: cp seed final, inputs: [seed], outputs: [final], after: outside, work: 0.1s}
loops:
  inside: {from: check, to: solve, until: check.exit_code == 0, max_iterations: 9}
  outside: {from: outer, to: setup, until: outer.exit_code == 0, max_iterations: 9}
"""

EXPECTED = """
setup 1, begin, solve 1 1.1
setup 1, solve 1 1.1, solve 2 1.2
setup 2, solve 2 1.2, solve 1 2.1
setup 2, solve 1 2.1, solve 2 2.2
setup 3, solve 2 2.2, solve 1 3.1
setup 3, solve 1 3.1, solve 2 3.2
"""


@pytest.fixture(scope="module", params=["inner loop first", "outer loop first"])
def nested(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nested")
    text = NESTED.replace("{log}", str(folder / "log"))
    if request.param == "outer loop first":
        head, _, loops = text.rpartition("loops:\n")
        text = f"{head}loops:\n" + "\n".join(reversed(loops.strip("\n").splitlines())) + "\n"
    (folder / "nested.yaml").write_text(text)
    (folder / "seed").write_text("start\n")
    (folder / "carry").write_text("begin\n")
    return folder, weft.run(folder / "nested.yaml", project=folder)


def test_data_follow_inner_and_outer_back_edges(nested):
    folder, ran = nested
    assert ran.completed, str(ran)
    lines = (folder / "log").read_text().splitlines()
    seen = [", ".join(lines[first : first + 3]) for first in range(0, len(lines), 3)]
    assert seen == EXPECTED.strip().splitlines()
    assert (folder / "final").read_text() == "setup 3\nsolve 1 3.1\nsolve 2 3.2\n"


def test_undisturbed_run_repeats_no_work(nested):
    executed = nested[1].report.executed
    history = executed.history
    assert replicated_share(measure_machines(history, [("local", 2)])) == 0.0
    labels = Counter(attempt.label for attempt in history.attempts.values())
    assert set(labels.values()) == {1}
    assert {"solve", "solve#1.2", "solve#2.1", "solve#3.2", "outer#3"} <= labels.keys()


def test_simulation_of_the_same_file_has_the_same_attempts(nested, tmp_path: Path):
    folder, ran = nested
    scenario = tmp_path / "truth.yaml"
    scenario.write_text("weft: 1\niterations: {inside: 2, outside: 3}\n")
    simulated = weft.simulate(folder / "nested.yaml", scenario=scenario, on="local", plan_steps=50).first
    real = ran.report.executed.history
    assert [each.label for each in simulated.history.attempts.values()] == [
        each.label for each in real.attempts.values()
    ]
    assert simulated.replicated == 0.0
