"""Without disturbances every task of a plan starts and ends exactly as planned.

Excluded, because plans and runs differ there: tasks of 0 s beside tasks that use the whole machine, data passed
on by virtual tasks (which have no machine), and transfers of files from another machine than their producer's.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planning_examples import MAKESPAN, instance, matrix_tasks, platform, processors
from policy_runs import run_all
from weft.errors import Infeasible
from weft.instance import compile_instance
from weft.planners.planner import make_planner
from weft.platform.platform import Link
from weft.runtime.budget import PlanningBudget
from weft.workflow.generators.sweep_graphs import SweepLayers, build_layered_sweeps
from weft.workflow.unfold import unfold

DENSE = ["heft", "cpop", "peft", "lookahead", "heft-moldable"]
"""Planners that leave no gap in which a later task could start earlier."""
OTHERS = [
    "dls", "etf", "hlfet", "minmin", "sufferage", "olb", "lazy", "round-robin", "random", "cpa",
    "local-optimum", "weave", "genetic",
]  # fmt: skip


@st.composite
def instances(draw):
    """Draw tasks of some seconds with data, node counts, amounts, shared machines and a transfer, on a platform.

    Sums of whole seconds are exact, so that rounding alone makes no gap too small.
    """
    seconds = st.integers(1, 4).map(float) if draw(st.booleans()) else st.floats(0.1, 10)
    number, tasks = draw(st.integers(1, 8)), {}
    for index in range(number):
        before = draw(st.lists(st.integers(0, index - 1), max_size=2, unique=True)) if index else []
        keys = {"work": draw(seconds), "inputs": [f"f{other}" for other in before]}
        keys["outputs"] = {f"f{index}": draw(st.sampled_from([0, 2e6, 2.5e7, {"seconds": 3}]))}
        if draw(st.integers(0, 2)) == 0:
            keys |= {"nodes": draw(st.sampled_from([2, "1..3"])), "speedup": {"roofline": 2}}
        if draw(st.integers(0, 3)) == 0:
            keys["memory"] = draw(st.sampled_from(["1GB", "2GB"]))
        if draw(st.integers(0, 3)) == 0:
            keys["machine"] = draw(st.sampled_from("AB"))
        tasks[f"t{index}"] = keys
    if draw(st.booleans()):
        tasks["made"] = {"work": draw(seconds), "machine": "A", "outputs": {"big": 5e6}}
        tasks["move"] = {"kind": "transfer", "from": "A", "to": "C", "file": "big", "size": 5e6}
        tasks["used"] = {"work": draw(seconds), "machine": "C", "inputs": ["big"]}
    machine = st.fixed_dictionaries(
        {
            "nodes": st.sampled_from([1, 1, 2, 4]),
            "speed": st.sampled_from([1.0, 1.0, 2.0, 0.5]),
            "memory": st.sampled_from([None, 3e9]),
            "occupancy": st.sampled_from(["exclusive"] * 4 + ["unlimited"]),
        }
    )
    first = {"nodes": 4, "memory": 4e9}
    link = Link(latency_s=draw(st.sampled_from([0.0, 0.5])), bandwidth_Bps=draw(st.sampled_from([1e6, 4e6])))
    where = platform(first, *draw(st.lists(machine, max_size=3)), link=link)
    try:
        return instance(tasks, where)
    except Infeasible:
        assume(False)


def follow(made, planner):
    """Return the lines of a plan, and the result of the simulation that follows it."""
    ran = run_all({"w": made}, [(0, "w")], "plan", planner=planner, budget=PlanningBudget(steps=30))
    (run,) = ran.engine.state.runs
    assert run.ending == "completed"
    return run.plan.stored.lines, ran


def assert_as_planned(made, planner):
    planned, ran = follow(made, planner)
    for task, line in ran.lines[0].items():
        assert line.machine == planned[task].machine, task
        assert math.isclose(line.start_s, planned[task].start_s, rel_tol=1e-9, abs_tol=1e-9), task
        assert math.isclose(line.finish_s, planned[task].finish_s, rel_tol=1e-9, abs_tol=1e-9), task
    assert len(ran.lines[0]) == sum(1 for line in planned.values() if line.count)
    return ran.end_s


@settings(suppress_health_check=list(HealthCheck))
@given(instances(), st.sampled_from(DENSE))
def test_without_disturbances_tasks_start_and_end_as_planned(made, planner):
    assume(make_planner(planner).supports(made, MAKESPAN) is None)
    assert_as_planned(made, planner)


@settings(suppress_health_check=list(HealthCheck))
@given(instances(), st.sampled_from(OTHERS))
def test_tasks_start_no_later_than_planned_if_the_plan_has_gaps(made, planner):
    assume(make_planner(planner).supports(made, MAKESPAN) is None)
    planned, ran = follow(made, planner)
    for task, line in ran.lines[0].items():
        assert line.machine == planned[task].machine
        assert line.finish_s <= planned[task].finish_s * (1 + 1e-9)


SECONDS = [
    (14, 16, 9), (13, 19, 18), (11, 13, 19), (13, 8, 17), (12, 13, 10),
    (13, 16, 9), (7, 15, 11), (5, 11, 14), (18, 12, 20), (21, 7, 16),
]  # fmt: skip
COMMUNICATION = {
    (1, 2): 18, (1, 3): 12, (1, 4): 9, (1, 5): 11, (1, 6): 14, (2, 8): 19, (2, 9): 16, (3, 7): 23,
    (4, 8): 27, (4, 9): 23, (5, 9): 13, (6, 8): 15, (7, 10): 17, (8, 10): 11, (9, 10): 13,
}  # fmt: skip


@pytest.mark.parametrize(("planner", "end_s"), [("heft", 80), ("cpop", 86)])
def test_example_of_heft_ends_as_published(planner, end_s):
    made = instance(matrix_tasks(SECONDS, COMMUNICATION), processors(3))
    assert assert_as_planned(made, planner) == end_s


@pytest.mark.parametrize("planner", ["shuffle", "xdcp"])
def test_sweeps_in_layers_end_as_planned(planner):
    layers = SweepLayers(
        lengths=((3.0, 1.0, 2.0), (2.0, 4.0), (1.0, 5.0, 1.0, 2.0)),
        throughputs=((1.0, 2.0), (1.0,), (1.0, 0.5)),
        parents=(((), (), ()), ((0, 1), (2,)), ((0,), (0, 1), (1,), (1,))),
    )
    generated = build_layered_sweeps(layers, "layers")
    made = compile_instance(unfold(generated.workflow), generated.platform)
    assert assert_as_planned(made, planner) > 0
