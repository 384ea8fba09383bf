"""Properties of all plans: random workflows on random platforms."""

from __future__ import annotations

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from planning_examples import planned
from planning_strategies import platforms, workflows
from weft.errors import Infeasible
from weft.instance import BusyInterval, compile_instance
from weft.schedule.bounds import lower_bounds
from weft.schedule.metrics import critical_path, measure_schedule
from weft.schedule.schedule import expected_total_seconds
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

EVERY = settings(max_examples=100, deadline=None, derandomize=True)
SOME = settings(max_examples=40, deadline=None, derandomize=True)


def compiled(workflow, platform, **options):
    """Return the instance; None after checking the message if it is infeasible."""
    graph = unfold(workflow)
    try:
        return compile_instance(graph, platform, **options)
    except Infeasible as error:
        reason = str(error)
    assert "no machine" in reason
    event("infeasible")
    return None


@given(workflows())
@EVERY
def test_unfolding_is_acyclic_and_in_topological_order(workflow):
    graph = unfold(workflow)
    targets = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    assert (graph.predecessor < targets).all()
    assert len(set(graph.names)) == len(graph)


@given(workflows(), platforms())
@EVERY
def test_every_plan_is_valid_and_not_below_any_bound(workflow, platform):
    made = compiled(workflow, platform)
    if made is None:
        return
    schedule = planned(made)
    assert verify(schedule, made.graph, platform) == []
    bounds = lower_bounds(made)
    slack = 1 - 1e-9
    assert schedule.makespan_s >= bounds.critical_path_s * slack
    assert schedule.makespan_s >= bounds.area_s * slack
    assert schedule.makespan_s >= bounds.combined_s * slack
    assert bounds.combined_s >= bounds.area_s * slack


@given(workflows(), platforms())
@SOME
def test_metrics_of_a_plan_are_consistent(workflow, platform):
    made = compiled(workflow, platform)
    if made is None:
        return
    schedule = planned(made)
    for through_machines in (False, True):
        found = measure_schedule(schedule, made, through_machines=through_machines)
        parts = found.communication_s + found.synchronisation_s + found.lost_parallelism_s
        assert abs(found.overhead_s - parts) <= 1e-9 * max(1.0, found.makespan_s)
        path = critical_path(schedule, made, through_machines=through_machines)
        assert len(path) == len(set(path))
        assert (np.diff(schedule.start_s[path]) >= 0).all()
        assert found.synchronisation_s >= -1e-9 * max(1.0, found.makespan_s)
    assert found.length_ratio >= 1 - 1e-9
    if not made.unlimited.any():
        assert -1e-9 <= found.idle_share <= 1


@given(workflows(), platforms())
@SOME
def test_several_iterations_never_take_less_time_than_one(workflow, platform):
    made = compiled(workflow, platform)
    if made is None:
        return
    schedule = planned(made)
    total = expected_total_seconds(schedule, made.graph)
    assert total is not None
    assert total >= schedule.makespan_s
    if not made.graph.loops:
        assert total == schedule.makespan_s


HELD = st.lists(
    st.tuples(
        st.integers(0, 3), st.sampled_from([0.0, 2.0]), st.sampled_from([1.0, 50.0]), st.integers(1, 4)
    ),
    max_size=3,
)


@given(workflows(), platforms(), HELD)
@SOME
def test_plans_respect_busy_intervals(workflow, platform, held):
    busy = tuple(
        BusyInterval(machine=machine, start_s=start, finish_s=start + seconds, nodes=nodes)
        for machine, start, seconds, nodes in held
        if machine < len(platform.machines)
    )
    made = compiled(workflow, platform, busy=busy)
    if made is None:
        return
    schedule = planned(made)
    assert verify(schedule, made.graph, platform) == []
    for one in busy:
        others = [other for other in busy if other.machine == one.machine]
        running = (schedule.machine == one.machine) & (schedule.start_s <= one.start_s)
        running &= (schedule.finish_s > one.start_s) & (schedule.finish_s > schedule.start_s)
        taken = int(schedule.nodes[running].sum())
        now = [other.nodes for other in others if other.start_s <= one.start_s < other.finish_s]
        free = int(made.capacity[one.machine]) - sum(now)
        assert taken <= max(0, free) or made.unlimited[one.machine]
