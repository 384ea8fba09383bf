"""Ranks on real machines: stated ones, and those that programs write while they run."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.formats.profiles import list_presets

MACHINES = """
weft: 1
machines:
  fast: {speed: 4, nodes: 2, backend: {kind: local}}
  medium: {speed: 2, nodes: 2, backend: {kind: local}}
  large: {speed: 1, nodes: 2, memory: 8GB, backend: {kind: local}}
"""

STATED = """
weft: 1
name: stated
tasks:
  big: {command: "sleep 0.2; head -c 20000000 /dev/zero > kept", seconds: 0.2, rank: "default(memory, 0)", outputs: {kept: 20MB}}
  quick: {command: sleep 0.2, seconds: 0.2, rank: speed, after: big}
  near: {command: "test -e kept", seconds: 0.1, inputs: [kept], rank: "-(seconds + transfer_s + queue_s)", after: quick}
  spread: {command: "true", seconds: 0.1, rank: 'free_nodes * (0 if name == "fast" else 1)', after: near}
"""

WISHES = """
weft: 1
name: wishes
tasks:
  complains:
    command: "test -e {folder}/complained || { touch {folder}/complained; echo memory > gw_rank; touch gw_perf; sleep 30; }"
    seconds: 30
    rank: speed
  requires:
    command: "test -e {folder}/required || { touch {folder}/required; echo 'name == \\"medium\\"' > gw_reqs; sleep 30; }"
    seconds: 30
    rank: speed
"""


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    (tmp_path / "machines.yaml").write_text(MACHINES)
    return tmp_path / "machines.yaml"


def decided(history, names):
    """Return task, machine and reason of every placement, in the order of decisions."""
    return [(each.label, names[each.machine], each.reason) for each in history.attempts.values()]


def test_real_run_with_stated_ranks_has_the_same_placements_as_the_simulation(tmp_path, platform):
    (tmp_path / "stated.yaml").write_text(STATED)
    ran = weft.run(tmp_path / "stated.yaml", on=platform, project=tmp_path, plan_steps=50)
    assert ran.completed, str(ran)
    names = ("fast", "medium", "large")
    found = decided(ran.report.executed.history, names)
    assert [(task, machine) for task, machine, _ in found] == [
        ("big", "large"),
        ("quick", "fast"),
        ("near", "large"),
        ("spread", "medium"),
    ]
    assert all(reason.startswith("highest rank") for _, _, reason in found)
    simulated = weft.simulate(tmp_path / "stated.yaml", on=platform, plan_steps=50).first
    assert decided(simulated.history, names) == found


@pytest.mark.parametrize("preset", list_presets())
def test_gridway_files_of_a_program_cause_migrations_under_every_preset(tmp_path, platform, preset):
    (tmp_path / "wishes.yaml").write_text(WISHES.replace("{folder}", str(tmp_path)))
    ran = weft.run(tmp_path / "wishes.yaml", on=platform, project=tmp_path, preset=preset, plan_steps=50)
    assert ran.completed, str(ran)
    history = ran.report.executed.history
    places = {task: [] for task in ("complains", "requires")}
    for attempt in history.attempts.values():
        places[attempt.label].append(("fast", "medium", "large")[attempt.machine])
    assert places == {"complains": ["fast", "large"], "requires": ["fast", "medium"]}
    reasons = {each.label: each.reason for each in history.moves}
    assert reasons == {"complains": "performance", "requires": "self-migration"}
