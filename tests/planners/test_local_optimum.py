"""The local optimum: the fastest node count of every task, in one queue or on the best machine."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from planners.test_best_modes import totals
from planning_examples import instance, lines, planned, platform
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.planners.local_optimum import LocalOptimum
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LOCAL = make_objective("local")
LAW = {"nodes": "1..4", "speedup": {"seconds": {1: 9, 2: 5, 3: 5, 4: 6}}}


def test_the_first_job_that_does_not_fit_blocks_the_queue():
    tasks = {"a": LAW, "b": LAW, "c": LAW, "d": {"work": 1}}
    assert lines(planned(instance(tasks, "cluster:4"), "local-optimum")) == {
        "a": ("cluster", 2, 0, 5),
        "b": ("cluster", 2, 0, 5),
        "c": ("cluster", 2, 5, 10),
        "d": ("cluster", 1, 5, 6),
    }


def test_queue_rule_of_the_machine_is_used():
    wide = {"nodes": 3, "work": 9, "speedup": {"roofline": 3}}
    tasks = {"a": {"work": 5, "nodes": 2}, "b": wide, "c": {"work": 1}}
    fifo = instance(tasks, platform({"nodes": 4}))
    first_fit = instance(tasks, platform({"nodes": 4, "queue": "first-fit"}))
    assert lines(planned(fifo, "local-optimum"))["c"][2] > 0
    assert lines(planned(first_fit, "local-optimum"))["c"][2] == 0


@given(flow=workflows(), where=platforms())
@SEARCH
def test_no_plan_has_a_smaller_sum_of_times(flow, where):
    try:
        made = compile_instance(unfold(flow), where)
    except (Infeasible, InvalidInput):
        assume(False)
    schedule = planned(made, "local-optimum")
    assert verify(schedule, made.graph, where) == []
    least = sum(min(own.values()) for own in totals(made).values())
    assert abs(LOCAL.value(schedule, made) - least) <= 1e-9 * max(1.0, least)


def test_local_optimum_supports_the_sum_of_times_and_the_makespan():
    made = instance({"a": {"work": 1}}, "identical:2")
    planner = LocalOptimum()
    assert planner.supports(made, LOCAL) is None
    assert planner.supports(made, make_objective("makespan")) is None
    assert "cost" in planner.supports(made, make_objective("cost")).reason
