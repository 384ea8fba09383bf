"""``weft.plan``: the record it gives, parameters, objectives, loops and notes."""

from __future__ import annotations

import json

import pytest

import weft
from planning_examples import platform, workflow
from weft.api.viewing import facts_of

RECORD = {
    "workflow": str,
    "platform": str,
    "planner": str,
    "objective": str,
    "seed": int,
    "tasks": int,
    "edges": int,
    "makespan_s": float,
    "total_s": float,
    "cost": float,
    "lower_bound_s": float,
    "gap": float,
    "machines_used": int,
    "planning_s": float,
    "steps": int,
    "estimate_sources": dict,
    "notes": list,
    "metrics": dict,
    "critical_path": list,
    "schedule": list,
}
FORK = {
    "prepare": {"work": 2, "outputs": {"x": "1kB"}},
    "train": {"work": 10, "sweep": {"seed": "1..4"}, "inputs": ["x"]},
    "best": {"work": 1, "after": "train"},
}


def plan_of(tasks, loops=(), on="identical:2", **options):
    return weft.plan(workflow(tasks, loops), on=on, **options)


class TestRecord:
    def test_it_has_every_key_with_its_type(self):
        record = plan_of(FORK).as_record()
        assert {key: type(value) for key, value in record.items()} == RECORD
        assert {key: record[key] for key in ("planner", "objective", "tasks", "edges", "machines_used")} == {
            "planner": "heft",
            "objective": "makespan",
            "tasks": 6,
            "edges": 8,
            "machines_used": 2,
        }

    def test_its_schedule_has_a_line_per_task(self):
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

    def test_it_is_plain_data(self):
        record = plan_of(FORK).as_record()
        assert json.loads(json.dumps(record)) == record

    def test_numbers_agree_with_each_other(self):
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
        assert ("gap", "0 (optimal)") in facts_of(plan_of({"a": {"work": 5}}))

    def test_a_tiny_gap_is_not_called_optimal(self):
        tasks = {"a": {"work": 5, "outputs": {"x": "1MB"}}, "b": {"work": 5, "inputs": ["x"], "machine": "B"}}
        facts = dict(facts_of(plan_of(tasks, pinned={"a": "m1", "B": "m2"})))
        assert facts["gap"] == "less than 0.1% above the optimum"

    def test_a_plan_of_no_time_has_no_gap(self):
        record = plan_of({"a": {"kind": "virtual"}}).as_record()
        assert (record["makespan_s"], record["gap"], record["lower_bound_s"]) == (0, 0, 0)

    def test_planning_takes_time_but_decides_nothing(self):
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

    def test_an_unknown_planner_is_named_with_the_nearest(self):
        with pytest.raises(weft.InvalidInput, match="did you mean 'heft'"):
            plan_of(FORK, planner="hefty")

    def test_an_unknown_objective_is_named_with_the_nearest(self):
        with pytest.raises(weft.InvalidInput, match="did you mean 'makespan'"):
            plan_of(FORK, objective="makespam")

    def test_an_objective_the_planner_cannot_serve_is_refused_with_the_reason(self):
        with pytest.raises(weft.InvalidInput, match="minimises the makespan, not the cost"):
            plan_of(FORK, objective="cost")

    def test_pins_are_kept(self):
        planned = plan_of(FORK, pinned={"prepare": "m2", "best": "m2"})
        machines = {line.task: line.machine for line in planned.schedule}
        assert (machines["prepare"], machines["best"]) == ("m2", "m2")

    def test_what_cannot_run_is_infeasible(self):
        with pytest.raises(weft.Infeasible, match="no machine can run a"):
            plan_of({"a": {"work": 1, "nodes": 3}})

    def test_times_beyond_numbers_are_infeasible(self):
        with pytest.raises(weft.Infeasible, match="b would never end"):
            plan_of({"a": {"work": 1}, "b": {"work": 1, "after": "a"}}, on=platform({"speed": 1e-308}))

    def test_files_and_short_forms_are_read(self, tmp_path):
        (tmp_path / "flow.yaml").write_text("weft: 1\ntasks: {a: {work: 3}, b: {work: 4, after: a}}\n")
        (tmp_path / "grid.yaml").write_text("weft: 1\nmachines: {fast: {speed: 2}}\n")
        assert weft.plan(tmp_path / "flow.yaml", on=tmp_path / "grid.yaml").makespan_s == 3.5
        assert weft.plan(str(tmp_path / "flow.yaml"), on="cluster:4").makespan_s == 7


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
    def test_without_loops_the_total_is_the_makespan(self):
        planned = plan_of(FORK)
        assert planned.total_s == planned.makespan_s

    def test_expected_iterations_add_the_span_of_the_body(self):
        planned = plan_of(BODY, {"scf": {**OUTER, "expect": 12}})
        assert planned.makespan_s == 15
        assert planned.total_s == 15 + 11 * 6
        assert ("all iterations", "81 s") in facts_of(planned)

    def test_a_loop_inside_a_loop_repeats_with_it(self):
        loops = {"scf": {**OUTER, "expect": 4}, "solve": {**INNER, "expect": 3}}
        total = plan_of(BODY, loops).total_s
        assert total == 5 + 4 * (2 + 3 * 3 + 1) + 4

    def test_an_unknown_number_of_iterations_is_unknown_and_said(self):
        planned = plan_of(BODY, {"scf": OUTER, "solve": {**INNER, "expect": 3}})
        assert planned.total_s is None
        assert planned.as_record()["total_s"] is None
        assert "how often scf runs is unknown" in planned.notes[0]
        assert ("all iterations", "unknown") in facts_of(planned)


class TestNotes:
    def test_a_plan_that_rests_on_what_was_said_needs_none(self):
        assert plan_of(FORK).notes == []

    def test_assumed_times_and_unknown_sizes_are_said(self):
        tasks = {"a": {"command": "true", "outputs": ["x"]}, "b": {"work": 1, "inputs": ["x"]}}
        planned = plan_of(tasks)
        assert planned.estimate_sources == {"assumed": 1, "work/speed": 1}
        assert "1 task without a stated time" in planned.notes[0]
        assert "of unknown size" in planned.notes[1]
