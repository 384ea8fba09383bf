"""Policies with very small evaluation limits: runs satisfy all rules and replay to the same decisions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine_strategies import simulations
from planning_examples import instance, platform
from policy_runs import run_all
from weft.backends.simulation.scenario import Failure, Scenario
from weft.engine.engine import Engine
from weft.engine.invariants import check_engine
from weft.engine.state.snapshot import restore_snapshot, take_snapshot
from weft.policies.policy import make_policy

POLICIES = [
    "foft",
    "basic",
    "lazy:by=finish",
    "srpt",
    "plan",
    "plan:strict=true",
    "shared-plans",
    "shared-plans:rounds=tasks",
    "shared-plans:inter=g-heft:rounds=tasks",
]
MOST_ENTRIES = 300


@pytest.fixture(autouse=True, scope="module")
def _little_looked_at():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.policies.forecast._MOST_PLACED", 2)
        patch.setattr("weft.engine.state.machines._MAX_SERVED", 1)
        patch.setattr("weft.engine.state.indexes._MAX_COMPARED", 0)
        patch.setattr("weft.engine.state.indexes._SHORTLIST", 1)
        patch.setattr("weft.engine.state.ready._MAX_WAITING", 1)
        patch.setattr("weft.policies.shared_plans._MOST_WAITING", 1)
        patch.setattr("weft.runtime.driver._PATIENCE_EVENTS", 1_000)
        yield


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(simulations(), st.sampled_from(POLICIES), st.floats(0.0, 1.0))
def test_a_rebuilt_or_restored_engine_makes_the_same_decisions(drawn, policy, share):
    simulation = replace(drawn, policy=make_policy(policy))
    entries, kept = [], []

    def look(engine):
        check_engine(engine)
        kept.append(json.dumps(take_snapshot(engine.state)))

    first = simulation.run(record=entries.append, check=look, stop=lambda _: len(entries) >= MOST_ENTRIES)
    middle = min(len(entries) - 1, int(share * len(entries)))
    instance = simulation.library[simulation.arrivals[0].workflow].instance
    rebuilt, restored = (
        Engine(simulation.library, instance, simulation.policy, simulation.settings) for _ in range(2)
    )
    for engine in (rebuilt, restored):
        engine.state.plans.update(first.state.plans)
    restore_snapshot(restored.state, json.loads(kept[middle]))
    for entry in entries[: middle + 1]:
        rebuilt.apply(entry.event, entry.now, entry.commands)
    for entry in entries[middle + 1 :]:
        assert tuple(rebuilt.handle(entry.event, entry.now)) == entry.commands
        assert tuple(restored.handle(entry.event, entry.now)) == entry.commands


@pytest.mark.parametrize("policy", POLICIES)
def test_all_tasks_run_with_small_evaluation_limits(policy):
    tasks = {
        "a": {"sweep": {"k": "1..12"}, "work": "1 + k % 3", "outputs": {"x{k}": "1MB"}},
        "b": {"sweep": {"k": "1..12"}, "work": 2, "inputs": ["x{k}"]},
    }
    made = instance(tasks, platform({"nodes": 2}, {"speed": 2.0}, {"speed": 2.0}))
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=0.5, repair_s=20.0),))
    found = run_all({"v": made, "w": made}, [(0.0, "v"), (1.0, "w")], policy, scenario)
    assert found.endings() == ["completed", "completed"]
    assert [len(lines) for lines in found.lines.values()] == [24, 24]


def test_transfer_to_a_machine_that_is_down_does_not_block_other_tasks():
    tasks = {
        "a": {"work": 1, "machine": "A", "outputs": ["x", "y"]},
        "far": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "1MB"},
        "b": {"work": 1, "machine": "B", "inputs": ["x"], "requirements": "name == 'm1'"},
        "near": {"kind": "transfer", "from_": "A", "to": "C", "file": "y", "size": "1MB"},
        "c": {"work": 1, "machine": "C", "inputs": ["y"], "requirements": "name == 'm2'"},
    }
    tasks["a"]["requirements"] = "name == 'm0'"
    made = instance(tasks, platform({}, {}, {}))
    scenario = Scenario(failures=(Failure(machines=("m1",), at_s=0.5, repair_s=100.0),))
    found = run_all({"w": made}, [(0.0, "w")], "fcfs", scenario)
    assert found.lines[0]["c"].finish_s == pytest.approx(3.0)
    assert found.lines[0]["b"].finish_s > 100.0
