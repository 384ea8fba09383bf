"""What a first plan promises: all expected iterations of the loops, or nothing where nobody can know."""

from __future__ import annotations

import pytest

from weft.api.iterations import expected_total_s
from weft.engine.remaining.promises import promised_s
from weft.engine.state.known import Known
from weft.engine.state.plans import stored_plan
from weft.instance import compile_instance
from weft.planners.lists.heft import Heft
from weft.planners.planner import Budget
from weft.platform.short_forms import short_form
from weft.randomness import generator
from weft.schedule.objective import objective_named
from weft.workflow.builder import Builder
from weft.workflow.checks import checked_graph


def planned(expect, inner=None, offset_s=0.0):
    """Plan a loop of 2 + 3 s (and a loop inside of it of the 3 s) between tasks of 1 and 4 s."""
    flow = Builder("loops")
    before = flow.task("before", work=1)
    first = flow.task("first", work=2, after=before)
    last = flow.task("last", work=3, after=first)
    flow.task("after", work=4, after=last)
    flow.loop("outer", last=last, first=first, until="last.exit_code == 0", max_iterations=99, **expect)
    if inner is not None:
        flow.loop(
            "inner", last=last, first=last, until="last.exit_code == 1", max_iterations=99, expect=inner
        )
    made = compile_instance(checked_graph(flow.build()), short_form("identical:1"))
    plan = Heft().plan(made, objective=objective_named("makespan"), budget=Budget(), rng=generator(0, "test"))
    known = Known("loops", made)
    return (
        stored_plan(plan.schedule, known, planner="heft", steps=0, offset_s=offset_s),
        plan.schedule,
        known.graph,
    )


@pytest.mark.parametrize(("expect", "total_s"), [(1, 10.0), (2, 15.0), (5, 30.0)])
def test_every_further_iteration_adds_the_span_of_the_body(expect, total_s):
    plan, schedule, graph = planned({"expect": expect})
    assert promised_s(plan, graph, 0.0) == total_s == expected_total_s(schedule, graph)


def test_an_inner_loop_adds_its_span_once_per_iteration_of_the_outer_one():
    plan, schedule, graph = planned({"expect": 2}, inner=3)
    assert promised_s(plan, graph, 0.0) == 10 + 5 + 2 * 2 * 3 == expected_total_s(schedule, graph)


def test_the_time_counts_from_the_arrival():
    plan, _, graph = planned({"expect": 2}, offset_s=100.0)
    assert promised_s(plan, graph, 90.0) == 25.0


def test_nothing_is_promised_of_a_loop_that_does_not_say_how_often_it_runs():
    plan, _, graph = planned({})
    assert promised_s(plan, graph, 0.0) is None
