"""The promise of a first plan: expected iterations, P90 where a spread is given, lower bounds otherwise."""

from __future__ import annotations

import pytest
from hypothesis import event, given

from planning_examples import instance, planned, platform
from planning_strategies import platforms, workflows
from unsure_predictor import Unsure
from weft.backends.simulation.scenario import Arrival
from weft.engine.replan.promise import Promise, compute_promise, derive_promise, list_untimed_kinds
from weft.engine.replan.remainder import prepare_replan
from weft.engine.state.compiled import CompiledWorkflow, WorkflowLibrary
from weft.engine.state.plan import store_schedule
from weft.engine.stored_fields import decode_record
from weft.errors import Infeasible
from weft.instance import compile_instance
from weft.planners.forecast import forecast_schedule
from weft.planners.planner import Budget, make_planner
from weft.policies.policy import make_policy
from weft.predictors.chain import default_chain
from weft.randomness import generator
from weft.reports.text import doubt_text, time_text
from weft.runtime.simulation import Simulation
from weft.schedule.schedule import expected_total_seconds
from weft.workflow.settings import RunSettings
from weft.workflow.unfold import unfold
from weft.workflow.workflow import set_growth_lines

LOOP = {
    "before": {"work": 1},
    "first": {"work": 2, "after": "before"},
    "last": {"work": 3, "after": "first"},
    "after": {"work": 4, "after": "last"},
}
"""A loop of 2 + 3 s between tasks of 1 and 4 s."""
MIXED = {
    "a": {"work": 4},
    "b": {"sweep": {"k": "1..3"}, "command": "true", "after": "a"},
    "c": {"work": 2, "after": "b"},
    "d": {"command": "true", "after": "a"},
}
PRICED = platform({"price_per_node_hour": 3600.0})
ENDS = {"until": "last.exit_code == 0", "max_iterations": 99}


def loops(expect, inner=None):
    """Return the loops of the workflow: the outer one, and optionally one around the task of 3 s."""
    printed = {} if expect is None else {"expect": expect}
    found = {"outer": {"last": "last", "first": "first", **ENDS, **printed}}
    if inner is not None:
        found["inner"] = {"last": "last", "first": "last", "until": "last.exit_code == 1", "expect": inner}
        found["inner"]["max_iterations"] = 99
    return found


def promised(tasks, on="identical:1", bodies=(), *, waited_s=0.0, predictor=None):
    made = instance(tasks, on, bodies, predictor=predictor)
    schedule = planned(made)
    return compute_promise(schedule, made, forecast_schedule(schedule, made, seed=0), waited_s=waited_s)


class TestIterations:
    @pytest.mark.parametrize(("expect", "total_s"), [(1, 10.0), (2, 15.0), (5, 30.0)])
    def test_each_additional_iteration_adds_the_time_of_the_loop_body(self, expect, total_s):
        made = instance(LOOP, "identical:1", loops(expect))
        assert promised(LOOP, bodies=loops(expect)).p50_s == total_s
        assert expected_total_seconds(planned(made), made.graph) == total_s

    def test_inner_loop_adds_its_time_once_per_iteration_of_the_outer_loop(self):
        assert promised(LOOP, bodies=loops(2, inner=3)).p50_s == 10 + 5 + 2 * 2 * 3

    def test_promised_cost_includes_all_iterations(self):
        assert promised(LOOP, PRICED).cost_p50 == pytest.approx(10)
        assert promised(LOOP, PRICED, loops(2, inner=3)).cost_p50 == pytest.approx(1 + 2 * 2 + 6 * 3 + 4)

    def test_loop_without_an_iteration_count_gives_a_lower_bound(self):
        found = promised(LOOP, PRICED, loops(None))
        assert (found.p50_s, found.p90_s, found.cost_p50) == (None, None, None)
        assert (found.least_s, found.open_loops, found.untimed) == (10.0, ("outer",), 0)
        assert found.least_cost == pytest.approx(10)

    def test_promised_time_counts_from_the_arrival(self):
        assert promised(LOOP, bodies=loops(2), waited_s=10.0).p50_s == 25.0
        assert promised(LOOP, bodies=loops(None), waited_s=10.0).least_s == 20.0


class TestSpread:
    def test_p90_is_unknown_if_no_duration_has_a_spread(self):
        found = promised(LOOP, PRICED)
        assert (found.p50_s, found.p90_s, found.cost_p90) == (10.0, None, None)
        assert (found.tasks, found.exact) == (4, 4)

    def test_p90_equals_that_of_the_forecast(self):
        made = instance(LOOP, PRICED, predictor=Unsure({"before": None}))
        schedule = planned(made)
        outlook = forecast_schedule(schedule, made, seed=3)
        found = compute_promise(schedule, made, outlook)
        assert (found.p50_s, found.p90_s) == (outlook.makespan_p50_s, outlook.makespan_p90_s)
        assert 10 < found.p90_s < 15
        assert (found.cost_p50, found.cost_p90) == pytest.approx((found.p50_s, found.p90_s))
        assert (found.planned_s, found.exact, found.tasks) == (10.0, 1, 4)

    def test_all_iterations_of_one_sample_have_the_same_duration(self):
        many = promised(LOOP, PRICED, loops(5), predictor=Unsure())
        assert many.planned_s == 30.0
        assert 30 * 1.1 < many.p90_s < 30 * 1.5
        assert many.cost_p90 == pytest.approx(many.p90_s)

    def test_promise_has_no_cost_if_machines_have_no_prices(self):
        found = promised(LOOP, predictor=Unsure())
        assert found.p90_s is not None
        assert (found.cost_p50, found.cost_p90, found.least_cost) == (None, None, None)


class TestUnknown:
    def test_promise_is_a_lower_bound_when_some_durations_are_unknown(self):
        found = promised(MIXED, PRICED)
        assert (found.p50_s, found.p90_s, found.least_s, found.planned_s) == (None, None, 6.0, 10.0)
        assert (found.tasks, found.untimed, found.untimed_kinds) == (6, 4, ("b", "d"))
        assert (found.cost_p50, found.least_cost) == (None, pytest.approx(6.0))
        assert not found.has_estimate

    def test_promise_has_no_p90_when_some_durations_are_unknown(self):
        found = promised(MIXED, predictor=Unsure())
        assert (found.p50_s, found.p90_s, found.least_s) == (None, None, 6.0)

    def test_promise_has_no_bound_when_no_duration_is_given(self):
        found = promised({"a": {"command": "true"}, "b": {"command": "true", "after": "a"}}, PRICED)
        assert (found.p50_s, found.least_s, found.least_cost, found.planned_s) == (None, None, None, 2.0)


GROWING = {
    "list": {"work": 1, "outputs": ["found"]},
    "each": {"work": 2, "sweep": {"k": "lines(list.found)"}, "command": "true {k}"},
    "last": {"work": 3, "after": "each"},
}


class TestGrowth:
    def test_growing_sweep_gives_the_lower_bound_with_one_subtask_and_its_reason(self):
        found = promised(GROWING, PRICED)
        assert (found.p50_s, found.p90_s, found.cost_p50, found.planned_s) == (None, None, None, 6.0)
        assert (found.least_s, found.growing) == (6.0, ("each",))
        assert found.least_cost == pytest.approx(6)
        assert time_text(found) == "at least 6 s"
        assert doubt_text(found) == "number of subtasks of each"

    def test_growing_sweep_without_a_stated_time_takes_no_time_in_the_lower_bound(self):
        untimed = GROWING | {"each": {"sweep": {"k": "lines(list.found)"}, "command": "true {k}"}}
        found = promised(untimed)
        assert (found.least_s, found.untimed_kinds, found.growing) == (4.0, ("each",), ("each",))

    def test_stored_plan_with_a_growing_sweep_has_no_p50(self):
        made = instance(GROWING, PRICED)
        stored = store_schedule(planned(made), CompiledWorkflow("w", made), planner="heft", steps=1)
        found = derive_promise(stored, made, 0.0)
        assert (found.p50_s, found.planned_s, found.growing) == (None, 6.0, ("each",))

    def test_known_lines_give_an_estimate(self):
        graph = unfold(set_growth_lines(instance(GROWING, PRICED).graph.workflow, {"list.found": ["x", "y"]}))
        made = compile_instance(graph, PRICED, predictor=default_chain())
        schedule = planned(made)
        found = compute_promise(schedule, made, forecast_schedule(schedule, made, seed=0))
        assert (found.p50_s, found.growing) == (8.0, ())


@given(workflows(), platforms())
def test_promise_never_counts_placeholder_durations(workflow, on):
    try:
        made = compile_instance(unfold(workflow), on, predictor=default_chain())
    except Infeasible:
        return
    schedule = planned(made)
    found = compute_promise(schedule, made, forecast_schedule(schedule, made, seed=0))
    assert (found.p50_s is None) == bool(found.untimed or found.open_loops or found.growing)
    assert found.planned_s == pytest.approx(expected_total_seconds(schedule, made.graph))
    if found.untimed:
        event("unknown" if found.least_s is None else "at least")
        # With any other time of the untimed tasks the run takes at least this long.
        assert found.least_s is None or 0 <= found.least_s <= found.planned_s * (1 + 1e-9)
    else:
        assert found.p50_s == pytest.approx(found.planned_s)
    assert decode_record(Promise, found.as_record()) == found


class TestArrivingLate:
    """A run that arrives while another run occupies the machine."""

    @pytest.fixture
    def question(self):
        made = {
            "w": instance(LOOP, PRICED, loops(3), predictor=Unsure()),
            "first": instance({"long": {"work": 100}}, PRICED),
        }
        simulation = Simulation(
            library=WorkflowLibrary(made),
            arrivals=[Arrival(workflow="first"), Arrival(workflow="w", at_s=30.0)],
            policy=make_policy("plan"),
            settings=RunSettings(),
        )
        state = simulation.run(stop=lambda engine: len(engine.state.runs) == 2).state
        assert state.now == 30.0
        return prepare_replan(state, 1)

    def test_promise_includes_waiting_time_and_iterations(self, question):
        assert question.remainder is not None
        plan = question.planned(make_planner("heft"), Budget(), generator(0, "test"))
        found = question.promise(plan, arrival_s=30.0, seed=0)
        assert found.planned_s == 70 + 20
        assert 70 + 20 < found.p90_s < 70 + 1.5 * 20
        assert found.cost_p50 < 1.2 * 20
        assert question.promise(plan, arrival_s=20.0, seed=0).planned_s == 100

    def test_promise_of_a_stored_plan_equals_the_computed_one(self, question):
        plan = question.planned(make_planner("heft"), Budget(), generator(0, "test"))
        stored = question.kept(make_planner("heft"), plan)
        found = derive_promise(stored, question.compiled.instance, 30.0)
        assert (found.p50_s, found.p90_s, found.planned_s) == (90.0, None, 90.0)


def test_stored_plan_with_tasks_of_unknown_duration_has_no_p50():
    made = instance(MIXED, PRICED)
    known = CompiledWorkflow("w", made)
    stored = store_schedule(planned(made), known, planner="heft", steps=1, offset_s=5.0)
    found = derive_promise(stored, made, 2.0)
    assert (found.p50_s, found.planned_s, found.untimed) == (None, 13.0, 4)
    assert list_untimed_kinds(made) == found.untimed_kinds == ("b", "d")
