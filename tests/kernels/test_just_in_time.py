"""Just-in-time placement equals its reference bit for bit, with compiled and plain kernels."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.just_in_time_reference import JustInTime
from kernels.random_graphs import busy_stretches, faceted, forest, layered
from kernels.two_forms import columns, in_both_forms
from planning_examples import MAKESPAN
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.planners.lazy import LazyPlanner
from weft.planners.planner import Budget, PlanRequest
from weft.randomness import generator
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
READINGS = [("transfer", "first"), ("transfer", "random"), ("finish", "first")]


def both(made, by, ties, seed):
    """Return the schedules of planner and reference, which use equal random numbers."""
    planner = LazyPlanner(by=by, ties=ties)
    found = planner.plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(), rng=generator(seed, "lazy"))
    )
    draw = generator(seed, "lazy").random(len(made)) if ties == "random" else [0.0] * len(made)
    return columns(found.schedule), columns(JustInTime(made, by=by, draw=draw).run())


@given(
    flow=workflows(),
    where=platforms(),
    held=busy_stretches(),
    reading=st.sampled_from(READINGS),
    seed=st.integers(0, 9),
)
@SEARCH
def test_instances_with_all_features_are_placed_as_by_the_reference(
    monkeypatch, flow, where, held, reading, seed
):
    try:
        made = compile_instance(unfold(flow), where, busy=held(where))
    except (Infeasible, InvalidInput):
        assume(False)
    assume(not len(made.graph.demand_by_count.rows))
    for form in in_both_forms(monkeypatch):
        found, expected = both(made, *reading, seed)
        assert found == expected, form


@cache
def graphs(seed, integers):
    """Return random instances of several kinds, shared by all tests because instances are immutable."""
    rng = generator(seed, "just in time", str(integers))
    layout = ("related", "classes", "table")[seed % 3]
    return (
        layered(rng, integers=integers, layout=layout),
        faceted(rng, integers=integers),
        forest(rng),
    )


@pytest.mark.parametrize("integers", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("reading", READINGS, ids="-".join)
def test_larger_graphs_are_placed_as_by_the_reference(form, reading, integers):
    for seed in range(6):
        for made in graphs(seed, integers):
            found, expected = both(made, *reading, seed)
            assert found == expected
