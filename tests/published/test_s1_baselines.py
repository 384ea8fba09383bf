"""The baselines of the dynamic-grid paper on WIEN2k-50 (docs/papers/dynamic-grid.md, sections 12 and 13).

The fixture holds the makespans of three bindings with one task at a time per machine: all tasks on the
fastest machine, round robin over the 16 fast machines, and over all machines. Lazy binding by transfer time
keeps all tasks on the first machine.
"""

from __future__ import annotations

import json

import pytest

from planning_examples import planned
from published.wien2k import POINTS, SMALL, WORK, grid_of, wien2k
from weft.instance import compile_instance
from weft.planners.lazy import LazyPlanner
from weft.planners.planner import Budget, PlanRequest
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold


@pytest.fixture(scope="module")
def facts(spec_data):
    return json.loads((spec_data / "s1_testbed.json").read_text())


@pytest.fixture(scope="module")
def expected_s(spec_data):
    values = json.loads((spec_data / "s1_expected.json").read_text())["values"]
    return {name: both["exclusive"] for name, both in values.items()}


@pytest.mark.parametrize(
    ("planner", "number", "binding"),
    [
        ("fastest", None, "all_on_A000"),
        ("lazy", None, "all_on_A000"),
        ("round-robin", 16, "round_robin_16_fast"),
        ("round-robin", None, "round_robin_314"),
    ],
)
def test_makespans_equal_the_reference_data(facts, expected_s, planner, number, binding):
    made = compile_instance(unfold(wien2k()), grid_of(facts, number))
    schedule = planned(made, planner)
    assert verify(schedule, made.graph, made.platform) == []
    assert schedule.makespan_s == pytest.approx(expected_s[binding], rel=1e-6)


def first_stage():
    """Build LAPW0, a transfer to the machine of every k-point, and LAPW1 there."""
    flow = Builder("LAPW1")
    flow.task("lapw0", work=0.5 * WORK, machine="first", outputs=[f"k{point}" for point in POINTS])
    for point in POINTS:
        ends = {"from_": "first", "to": f"host{point}", "file": f"k{point}"}
        flow.task(f"move{point}", kind="transfer", size=SMALL, **ends)
        flow.task(f"lapw1-{point}", work=WORK, machine=f"host{point}", inputs=[f"k{point}"])
    return flow.build()


def lazy_s(made, **options):
    plan = LazyPlanner(**options).plan(
        PlanRequest(
            instance=made, objective=make_objective("makespan"), budget=Budget(), rng=generator(1, "lazy")
        )
    )
    assert verify(plan.schedule, made.graph, made.platform) == []
    return plan.schedule.makespan_s


def test_lazy_baseline_that_binds_by_transfer_time_is_many_times_slower_than_by_finish(facts):
    made = compile_instance(unfold(first_stage()), grid_of(facts))
    # The prototype takes 3993 s by transfer time with random ties, 185 s with the best machine for each task.
    assert lazy_s(made, ties="random") == pytest.approx(3993, rel=0.05)
    assert lazy_s(made, by="finish") == pytest.approx(185, rel=0.1)
