"""Machines of real runs that are loaded, lost and come back, compared with the simulated runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import weft
from real_world.disturbed_runs import busy_loops, entries_of, run_disturbed, wait_for
from weft.engine import messages as ev

MACHINES = """
weft: 1
machines:
  first: {speed: 2, backend: {kind: local, sandbox: FOLDER/box-first}}
  second: {backend: {kind: local, sandbox: FOLDER/box-second}}
"""

LOST = """
weft: 1
name: lost
tasks:
  long:
    command: "touch FOLDER/started; test -e FOLDER/again || { touch FOLDER/again; sleep 30; }"
    work: 20
  back: {command: "true", work: 1, requirements: name == "first", after: long}
"""


def prepare(folder: Path, workflow: str, machines: str = MACHINES) -> tuple[Path, Path]:
    (folder / "flow.yaml").write_text(workflow.replace("FOLDER", str(folder)))
    (folder / "machines.yaml").write_text(machines.replace("FOLDER", str(folder)))
    return folder / "flow.yaml", folder / "machines.yaml"


def story(history):
    """Return task and machine of every attempt and how it ended, in the order of decisions."""
    return [(each.label, each.machine, each.ending, each.cause) for each in history.attempts.values()]


def test_task_of_a_lost_machine_continues_elsewhere_and_the_machine_returns(tmp_path):
    flow, machines = prepare(tmp_path, LOST)
    box, away = tmp_path / "box-first", tmp_path / "away"

    def lose() -> None:
        box.rename(away)
        wait_for(tmp_path / "box-second")
        away.rename(box)

    ran = run_disturbed(flow, on=machines, when=tmp_path / "again", action=lose)
    assert ran.completed, str(ran)
    changes = [e.event for e in entries_of(ran) if isinstance(e.event, ev.MachineChanged)]
    assert [(each.machine, each.up) for each in changes] == [(0, False), (0, True)]
    assert "box-first has disappeared" in changes[0].reason
    real = ran.report.executed.history
    assert [(task, machine) for task, machine, _, _ in story(real)] == [("long", 0), ("long", 1), ("back", 0)]
    (tmp_path / "truth.yaml").write_text("weft: 1\nfailures: [{machine: first, at: 1, repair: 3}]\n")
    simulated = weft.simulate(flow, on=machines, scenario=tmp_path / "truth.yaml", plan_steps=50).first
    assert simulated.outcome == "completed"
    assert story(simulated.history) == story(real)


LOADED = """
weft: 1
name: loaded
tasks:
  go: {command: "true", work: 0.1, requirements: name == "second"}
  choose: {command: "true", work: 1, rank: -load, after: go}
"""


def test_measured_load_of_other_programs_decides_as_in_the_simulation(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    pinned = MACHINES
    for name, core in zip(("first", "second"), cores, strict=False):
        pinned = pinned.replace(f"box-{name}", f"box-{name}, cores: [{core}]")
    flow, machines = prepare(tmp_path, LOADED, pinned)
    with busy_loops(8, cores[0]):
        ran = weft.run(flow, on=machines, project=tmp_path, plan_steps=50)
    assert ran.completed, str(ran)
    real = ran.report.executed.history
    assert [(task, machine) for task, machine, _, _ in story(real)] == [("go", 1), ("choose", 1)]
    measured = [each.event for each in entries_of(ran) if isinstance(each.event, ev.Fetched)]
    first = next(each for each in measured if each.machine == 0)
    assert first.load >= 6.0
    assert first.free_memory_bytes > 0
    assert first.free_disk_bytes > 0
    (tmp_path / "truth.yaml").write_text("weft: 1\nloads: [{machine: first, processes: 8}]\n")
    simulated = weft.simulate(flow, on=machines, scenario=tmp_path / "truth.yaml", plan_steps=50).first
    assert story(simulated.history) == story(real)
    reasons = [each.reason for each in simulated.history.attempts.values()]
    assert reasons[1].startswith("highest rank of the free machines")
    assert [each.reason.partition(":")[0] for each in real.attempts.values()] == [
        reason.partition(":")[0] for reason in reasons
    ]
