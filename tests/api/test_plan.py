"""``weft.plan``: its record, parameters, objectives, loops and notes."""

from __future__ import annotations

import json

import pytest

import weft
from planning_examples import platform, workflow
from weft.api.plan import plan_facts

RECORD = {
    "workflow": str,
    "platform": str,
    "planner": str,
    "objective": str,
    "alpha": type(None),
    "objective_value": float,
    "deadline_s": type(None),
    "deadline_slack_s": type(None),
    "max_cost": type(None),
    "cost_slack": type(None),
    "seed": int,
    "tasks": int,
    "edges": int,
    "makespan_s": float,
    "makespan_p50_s": float,
    "makespan_p90_s": float,
    "promise": dict,
    "total_s": float,
    "cost": float,
    "cost_p50": float,
    "cost_p90": float,
    "lower_bound_s": float,
    "lower_bound_by": str,
    "gap": float,
    "machines_used": int,
    "machine_nodes": dict,
    "planning_s": float,
    "steps": int,
    "cut": bool,
    "found_by": str,
    "plan_time_s": type(None),
    "plan_steps": type(None),
    "workers": int,
    "islands": int,
    "estimate_sources": dict,
    "notes": list,
    "metrics": dict,
    "critical_path": list,
    "ranked": list,
    "schedule": list,
}
FORK = {
    "prepare": {"work": 2, "outputs": {"x": "1kB"}},
    "train": {"work": 10, "sweep": {"seed": "1..4"}, "inputs": ["x"]},
    "best": {"work": 1, "after": "train"},
}


PRICED = platform({"price_per_node_hour": 3600.0}, {"price_per_node_hour": 7200.0})
TIGHT = {f"t{index}": {"work": work} for index, work in enumerate([3, 3, 2, 2, 2])}
"""12 s of work on two machines: the optimum is 6 s, HEFT needs 7 s."""


def plan_of(tasks, loops=(), on="identical:2", planner="heft", **options):
    return weft.plan(workflow(tasks, loops), on=on, planner=planner, **options)


class TestRecord:
    def test_plan_record_has_every_key_with_its_type(self):
        record = plan_of(FORK).as_record()
        assert {key: type(value) for key, value in record.items()} == RECORD
        assert {key: record[key] for key in ("planner", "objective", "tasks", "edges", "machines_used")} == {
            "planner": "heft",
            "objective": "makespan",
            "tasks": 6,
            "edges": 8,
            "machines_used": 2,
        }

    def test_plan_record_has_one_schedule_line_per_task(self):
        record = plan_of(FORK).as_record()
        assert record["schedule"][0] == {
            "task": "prepare",
            "machine": "m1",
            "nodes": 1,
            "start_s": 0.0,
            "finish_s": 2.0,
        }
        assert [line["task"] for line in record["schedule"]] == [
            "prepare", "train[1]", "train[2]", "train[3]", "train[4]", "best",
        ]  # fmt: skip

    def test_plan_record_is_plain_data(self):
        record = plan_of(FORK).as_record()
        assert json.loads(json.dumps(record)) == record

    def test_numbers_of_a_plan_record_are_consistent(self):
        planned = plan_of(FORK, on=platform({"price_per_node_hour": 3600.0}, {"price_per_node_hour": 7200.0}))
        record = planned.as_record()
        assert record["makespan_s"] == max(line["finish_s"] for line in record["schedule"])
        assert record["gap"] == pytest.approx(record["makespan_s"] / record["lower_bound_s"] - 1)
        prices = {"m0": 1.0, "m1": 2.0}
        spent = [
            (line["finish_s"] - line["start_s"]) * prices[line["machine"]] for line in record["schedule"]
        ]
        assert record["cost"] == pytest.approx(sum(spent))
        assert record["critical_path"][-1] == "best"
        assert planned.verify() == []

    def test_an_optimal_plan_has_no_gap(self):
        assert plan_of({"a": {"work": 5}}).gap == 0
        assert ("gap", "0 (optimal)") in plan_facts(plan_of({"a": {"work": 5}}))

    def test_plan_with_a_tiny_gap_is_not_reported_as_optimal(self):
        late = {name: {**keys, "after": "long"} for name, keys in TIGHT.items()}
        facts = dict(plan_facts(plan_of({"long": {"work": 100_000}, **late})))
        assert facts["gap"] == "less than 0.1% above the optimum"

    def test_plan_with_makespan_zero_has_no_gap(self):
        record = plan_of({"a": {"kind": "virtual"}}).as_record()
        assert (record["makespan_s"], record["gap"], record["lower_bound_s"]) == (0, 0, 0)

    def test_forecast_equals_the_plan_when_durations_have_no_spread(self):
        record = plan_of(FORK, on=PRICED).as_record()
        assert record["makespan_p50_s"] == record["makespan_p90_s"] == record["makespan_s"]
        assert record["cost_p50"] == record["cost_p90"] == record["cost"] > 0

    def test_planning_time_is_recorded_and_does_not_change_the_plan(self):
        planned = plan_of(FORK)
        assert planned.planning_s > 0
        assert planned.plan.cut is False
        assert planned.plan.steps == 1


class TestChoices:
    def test_parameters_are_overridden(self):
        flow = workflow({"a": {"work": "n", "sweep": {"k": "1..n"}}}, params={"n": 3})
        assert weft.plan(flow, on="identical:1").makespan_s == 9
        assert weft.plan(flow, on="identical:1", params={"n": 2}).makespan_s == 4

    def test_overridden_parameters_are_checked(self):
        flow = workflow({"a": {"work": "n"}}, params={"n": 3})
        with pytest.raises(weft.InvalidInput, match="at least 0"):
            weft.plan(flow, on="identical:1", params={"n": -2})
        with pytest.raises(weft.InvalidInput, match="no parameter 'm'"):
            weft.plan(flow, on="identical:1", params={"m": 2})

    def test_error_about_an_unknown_planner_suggests_the_nearest_name(self):
        with pytest.raises(weft.InvalidInput, match="did you mean 'heft'"):
            plan_of(FORK, planner="hefty")

    def test_error_about_an_unknown_objective_suggests_the_nearest_name(self):
        with pytest.raises(weft.InvalidInput, match="did you mean 'makespan'"):
            plan_of(FORK, objective="makespam")

    def test_unsupported_objective_is_rejected_and_the_reason_is_stated(self):
        with pytest.raises(weft.InvalidInput, match="does not support the objective 'cost'"):
            plan_of(FORK, objective="cost")

    def test_pinned_tasks_stay_on_their_machines(self):
        planned = plan_of(FORK, pinned={"prepare": "m2", "best": "m2"})
        machines = {line.task: line.machine for line in planned.schedule}
        assert (machines["prepare"], machines["best"]) == ("m2", "m2")

    def test_a_task_that_cannot_run_is_infeasible(self):
        with pytest.raises(weft.Infeasible, match="no machine can run a"):
            plan_of({"a": {"work": 1, "nodes": 3}})

    def test_durations_that_overflow_are_infeasible(self):
        with pytest.raises(weft.Infeasible, match="b cannot end at a finite time"):
            plan_of({"a": {"work": 1}, "b": {"work": 1, "after": "a"}}, on=platform({"speed": 1e-308}))

    def test_plan_accepts_files_and_short_forms(self, tmp_path):
        (tmp_path / "flow.yaml").write_text("weft: 1\ntasks: {a: {work: 3}, b: {work: 4, after: a}}\n")
        (tmp_path / "grid.yaml").write_text("weft: 1\nmachines: {fast: {speed: 2}}\n")
        assert weft.plan(tmp_path / "flow.yaml", on=tmp_path / "grid.yaml").makespan_s == 3.5
        assert weft.plan(str(tmp_path / "flow.yaml"), on="cluster:4").makespan_s == 7


class TestLimits:
    """Limits of plans of FORK, which takes 23.001 s and costs 63 here; the lower bounds are 23 s and 43."""

    def test_a_plan_within_its_limits_reports_the_slack(self):
        planned = plan_of(FORK, on=PRICED, deadline_s=30.0, max_cost=100.0)
        record = planned.as_record()
        assert (record["deadline_s"], record["max_cost"]) == (30, 100)
        assert record["deadline_slack_s"] == pytest.approx(30 - record["makespan_s"])
        assert record["cost_slack"] == pytest.approx(100 - record["cost"])
        facts = dict(plan_facts(planned))
        assert facts["deadline"] == "30 s, 6.999 s to spare"
        assert facts["maximal cost"].startswith("100, ")

    def test_limits_do_not_change_the_plan(self):
        free, limited = plan_of(FORK, on=PRICED), plan_of(FORK, on=PRICED, deadline_s=30.0, max_cost=100.0)
        changed = {"deadline_s", "deadline_slack_s", "max_cost", "cost_slack", "planning_s"}
        plain, other = free.as_record(), limited.as_record()
        assert {key: plain[key] for key in plain.keys() - changed} == {
            key: other[key] for key in other.keys() - changed
        }

    def test_limit_equal_to_the_value_of_the_plan_is_met(self):
        planned = plan_of(FORK, on=PRICED)
        limits = {"deadline_s": planned.makespan_s, "max_cost": planned.metrics.cost}
        assert plan_of(FORK, on=PRICED, **limits).deadline_slack_s == 0
        closer = {key: value * (1 - 1e-12) for key, value in limits.items()}
        assert plan_of(FORK, on=PRICED, **closer).cost_slack == 0

    def test_deadline_below_the_bound_is_reported_as_proven_infeasible(self):
        with pytest.raises(weft.Infeasible, match=r"no plan can meet the deadline of 10 s: .* too long"):
            plan_of(FORK, on=PRICED, deadline_s=10.0)

    def test_deadline_between_bound_and_plan_is_missed_but_not_proven_infeasible(self):
        planned = plan_of(TIGHT)
        assert planned.lower_bound_s < 6.5 < planned.makespan_s
        with pytest.raises(
            weft.Infeasible,
            match=r"the plan of heft takes 7 s, 500 ms longer .* another plan may keep the limit",
        ):
            plan_of(TIGHT, deadline_s=6.5)

    def test_cost_limit_below_the_bound_is_reported_as_proven_infeasible(self):
        with pytest.raises(weft.Infeasible, match=r"no plan can keep to a cost of 42: .* at least 43"):
            plan_of(FORK, on=PRICED, max_cost=42.0)

    def test_cost_limit_between_bound_and_plan_is_missed_but_not_proven_infeasible(self):
        with pytest.raises(
            weft.Infeasible, match=r"the plan of heft costs .* more than the maximal cost of 50"
        ):
            plan_of(FORK, on=PRICED, max_cost=50.0)

    def test_notes_say_that_limits_refer_to_one_iteration_and_cost_limits_need_prices(self):
        planned = plan_of(BODY, {"scf": {**OUTER, "expect": 2}}, deadline_s=20.0, max_cost=1.0)
        assert "deadline and maximal cost refer to one iteration" in planned.notes
        assert "no machine has a price: the maximal cost has no effect" in planned.notes

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"alpha": 0.5}, "has no alpha"),
            ({"deadline_s": -1.0}, "the deadline is -1"),
            ({"max_cost": float("nan")}, "the maximal cost is nan"),
        ],
    )
    def test_bad_limits_are_rejected(self, options, message):
        with pytest.raises(weft.InvalidInput, match=message):
            plan_of(FORK, **options)


BODY = {
    "before": {"work": 5},
    "first": {"work": 2, "after": "before"},
    "inner": {"work": 3, "after": "first"},
    "last": {"work": 1, "after": "inner"},
    "after": {"work": 4, "after": "last"},
}
OUTER = {"last": "last", "first": "first", "max_iterations": 40}
INNER = {"last": "inner", "first": "inner", "max_iterations": 40}


class TestLoops:
    def test_without_loops_the_expected_total_equals_the_makespan(self):
        planned = plan_of(FORK)
        assert planned.total_s == planned.makespan_s

    def test_each_further_expected_iteration_adds_the_time_of_the_loop_body(self):
        planned = plan_of(BODY, {"scf": {**OUTER, "expect": 12}})
        assert planned.makespan_s == 15
        assert planned.total_s == 15 + 11 * 6
        assert ("all iterations", "81 s") in plan_facts(planned)

    def test_inner_loop_is_repeated_by_each_iteration_of_the_outer_loop(self):
        loops = {"scf": {**OUTER, "expect": 4}, "solve": {**INNER, "expect": 3}}
        total = plan_of(BODY, loops).total_s
        assert total == 5 + 4 * (2 + 3 * 3 + 1) + 4

    def test_an_unknown_number_of_iterations_is_noted(self):
        planned = plan_of(BODY, {"scf": OUTER, "solve": {**INNER, "expect": 3}})
        assert planned.total_s is None
        assert planned.as_record()["total_s"] is None
        assert "the number of iterations of scf is unknown" in planned.notes[0]
        assert ("all iterations", "unknown") in plan_facts(planned)


class TestNotes:
    def test_plan_without_duration_spread_has_a_note(self):
        assert plan_of(FORK).notes == ["the spread of 6 of 6 tasks is unknown: their times count as exact"]

    def test_assumed_times_and_unknown_sizes_are_noted(self):
        tasks = {"a": {"command": "true", "outputs": ["x"]}, "b": {"work": 1, "inputs": ["x"]}}
        planned = plan_of(tasks)
        assert planned.estimate_sources == {"assumed": 1, "work/speed": 1}
        assert planned.notes[0] == (
            "1 of 2 tasks (kind a) have no stated time: the plan uses a placeholder of 1 s on speed 1"
        )
        assert dict(plan_facts(planned))["makespan"] == "at least 1 s; 2 s with placeholders"
        assert (planned.promise.p50_s, planned.promise.least_s) == (None, 1.0)
        assert "of unknown size" in planned.notes[1]


@pytest.mark.parametrize(
    ("alpha", "gap"), [(0.05, "at most 150.0% above the shortest makespan"), (1.0, "0 (no plan is shorter)")]
)
def test_plan_for_another_objective_is_compared_with_the_shortest_plan(alpha, gap):
    flow = weft.Builder("one")
    flow.task("wide", work=100, nodes=[1, 2, 4], speedup={"amdahl": 0.2})
    options = {"planner": "heft-moldable", "objective": "on-demand", "alpha": alpha}
    assert dict(plan_facts(weft.plan(flow.build(), on="cluster:4", **options)))["gap"] == gap
