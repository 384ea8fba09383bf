"""Simulated programs keep the restart files that real ones keep, and are polled as often."""

from __future__ import annotations

import pytest

import weft
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.builder import Builder

MACHINES = Platform(machines=tuple(Machine(name=name) for name in ("one", "two")))


def attempts(tmp_path, scenario, **task):
    """Simulate a task of 10 s; return (machine, restart share) of its attempts and the end of the run."""
    flow = Builder("saved")
    flow.task("work", work=10, rank="name == 'one'", **task)
    (tmp_path / "truth.yaml").write_text(f"weft: 1\n{scenario}\n")
    done = weft.simulate(flow.build(), on=MACHINES, scenario=tmp_path / "truth.yaml", planner="heft").first
    return [
        (MACHINES.machines[each.machine].name, each.restart_from) for each in done.history.attempts.values()
    ], done.end_s


@pytest.mark.parametrize(("every", "share"), [({}, 0.75), ({"every": 5}, 0.5)])
def test_copied_restart_files_survive_a_lost_machine(tmp_path, every, share) -> None:
    """Without an interval, they are copied as soon as they change."""
    found, _ = attempts(
        tmp_path, "failures: [{machine: one, at: 7.5}]", checkpoint={"files": ["state"], **every}
    )
    assert found == [("one", 0.0), ("two", share)]


@pytest.mark.parametrize("every", [{}, {"every": 5}])
def test_restart_files_are_written_before_the_time_limit(tmp_path, every) -> None:
    found, end_s = attempts(
        tmp_path,
        "durations: {bias: 1.5}",
        checkpoint={"files": ["state"], **every},
        time_limit=12,
        retries=1,
    )
    assert [share for _, share in found] == [0.0, pytest.approx(0.8)]
    assert end_s == pytest.approx(15.0)


def test_contract_of_a_short_task_is_judged_within_its_time(tmp_path) -> None:
    found, end_s = attempts(
        tmp_path, "perturbations: [{machine: one, at: 0, slowdown: 50, lasting: 1h}]", contract=0.5
    )
    assert [machine for machine, _ in found] == ["one", "two"]
    assert end_s < 40.0  # the first poll of a long task is after 30 s
