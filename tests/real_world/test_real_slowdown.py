"""Slowdown of real runs: the time alone counts what a run really had to do, as in a simulation."""

from __future__ import annotations

import pytest

from weft.backends.simulation.scenario import Scenario

MACHINES = 'machines: {"m{1..2}": {backend: {kind: local}}}\n'
LOOP = """\
name: rounds
tasks:
  a: {work: 0.03s, outputs: [x], command: "echo 1 > x"}
  b: {work: 0.02s, inputs: [x], outputs: [y], command: "echo {iteration} > y; test {iteration} = 4"}
loops: {l: {from: b, to: a, until: b.exit_code == 0, max_iterations: 6}}
"""
PAIR = """\
name: pair
params: {word: one}
tasks:
  a: {work: 0.3s, outputs: [x], command: "echo 1 > x"}
  b: {work: 0.05s, inputs: [x], outputs: [y], command: "cat x > y; echo {word} >> y"}
"""


def alone_s(history):
    (run,) = history.runs
    return run.alone_s, run.slowdown


def test_the_time_alone_of_a_loop_counts_all_iterations(real):
    real.write("machines.yaml", MACHINES)
    real.write("flow.yaml", LOOP)
    assert real.run("flow.yaml").completed
    simulated = real.simulate("flow.yaml", scenario=Scenario(iterations={"l": 4}))
    assert alone_s(simulated.history) == (pytest.approx(0.2), pytest.approx(1.0))
    (run,) = real.history.runs
    assert run.alone_s == pytest.approx(0.2)
    assert run.slowdown == pytest.approx(run.response_s / 0.2)


def test_reused_tasks_are_not_part_of_the_time_alone(real):
    real.write("machines.yaml", MACHINES)
    real.write("flow.yaml", PAIR)
    real.run("flow.yaml")
    assert alone_s(real.history)[0] == pytest.approx(0.35)
    real.run("flow.yaml", params={"word": "two"})
    assert alone_s(real.history)[0] == pytest.approx(0.05)
    again = real.run("flow.yaml", params={"word": "two"})
    assert alone_s(real.history) == (0.0, None), "nothing was left to do"
    assert again.report.executed.as_record()["runs"][0]["slowdown"] is None


def test_a_task_without_a_stated_time_counts_with_its_measured_seconds(real):
    real.write("machines.yaml", MACHINES)
    real.write(
        "flow.yaml", 'tasks: {a: {command: "sleep 0.2"}, b: {after: a, work: 0.05s, command: "true"}}\n'
    )
    real.run("flow.yaml")
    (run,) = real.history.runs
    measured = real.attempt("a").ran_s
    assert run.alone_s == pytest.approx(measured + 0.05)
    assert run.slowdown is not None
