"""``weft.compare``: every planner on every workflow, verified; planners that cannot plan are listed."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

import weft
from api.faulty_planners import FAULTY
from planning_examples import platform, workflow
from weft.planners import PLANNERS

CHAIN = {"a": {"work": 3}, "b": {"work": 4, "after": "a"}}
FORK = {"first": {"work": 2}, "many": {"work": 10, "sweep": {"k": "1..5"}, "after": "first"}}


def named(name, tasks, **head):
    flow = weft.Builder(name, **head)
    for task, keys in tasks.items():
        flow.task(task, **keys)
    return flow.build()


@pytest.fixture
def faulty_planners(monkeypatch):
    """Register the planners with faults."""
    monkeypatch.setattr(PLANNERS, "builtin", {**PLANNERS.builtin, **FAULTY})
    monkeypatch.setattr(PLANNERS, "_all", None)


def compared(*workflows, **options):
    flows = [named(f"w{number}", tasks) for number, tasks in enumerate(workflows, start=1)]
    return weft.compare(flows, **{"on": "identical:2", "planners": ["heft"], **options})


def row(comparison, planner, place=0):
    (found,) = [result for result in comparison.workflows[place].results if result.planner == planner]
    return found


class TestResults:
    def test_each_result_of_compare_equals_the_result_of_plan(self):
        grid = platform({"speed": 2.0}, {"speed": 3.0})
        found = compared(CHAIN, FORK, on=grid)
        for tasks, results in zip((CHAIN, FORK), found.workflows, strict=True):
            planned = weft.plan(workflow(tasks), on=grid, planner="heft")
            (result,) = results.results
            assert result.makespan_s == planned.makespan_s
            assert results.lower_bound_s == pytest.approx(planned.lower_bound_s, rel=1e-12)
            assert results.gap(result) == pytest.approx(planned.gap, abs=1e-9)
            assert (results.tasks, results.edges) == (len(planned.graph), planned.graph.edge_count)
            assert result.planning_s > 0

    def test_compare_and_plan_give_random_planners_the_same_seed(self, faulty_planners):
        name = "late:at-random=true"
        for seed in (0, 5):
            found = row(compared(CHAIN, planners=[name], seed=seed), name)
            assert (
                found.makespan_s
                == weft.plan(named("w1", CHAIN), on="identical:2", planner=name, seed=seed).makespan_s
            )
        first, second = (row(compared(CHAIN, planners=[name], seed=seed), name).makespan_s for seed in (0, 5))
        assert first != second

    def test_results_are_ordered_by_planner_and_workflow(self, faulty_planners):
        found = compared(CHAIN, FORK, planners=["late:by=1", "heft", "wrongbound"])
        assert found.planners == ("late:by=1", "heft", "wrongbound")
        assert [results.workflow for results in found.workflows] == ["w1", "w2"]
        for results in found.workflows:
            assert tuple(result.planner for result in results.results) == found.planners
        assert [result.makespan_s for result in found.workflows[0].results] == [8, 7, 7]

    def test_planner_named_twice_is_compared_once(self):
        assert compared(CHAIN, planners="heft, heft").planners == ("heft",)

    def test_lower_bound_proved_by_one_planner_applies_to_all_planners(self, faulty_planners):
        late = "late:by=3"
        for planners, bound_s in (
            (late, 7),
            (f"{late},wrongbound:claim=8", 8),
            (f"{late},wrongbound:claim=1", 7),
        ):
            found = compared(CHAIN, planners=planners)
            assert found.workflows[0].lower_bound_s == bound_s
            assert found.workflows[0].gap(row(found, late)) == pytest.approx(10 / bound_s - 1)

    def test_parameters_apply_to_every_workflow(self):
        flows = [
            named("short", {"a": {"work": "n"}}, params={"n": 3}),
            named("long", {"a": {"work": "10*n"}}, params={"n": 3}),
        ]
        found = weft.compare(flows, on="identical:1", planners="heft", params={"n": 2})
        assert [results.best_makespan_s for results in found.workflows] == [2, 20]


class TestPlanners:
    def test_without_planner_names_all_planners_that_support_a_workflow_are_compared(
        self, faulty_planners, monkeypatch
    ):
        monkeypatch.setattr(
            PLANNERS,
            "builtin",
            {key: PLANNERS.builtin[key] for key in ("heft", "smallinstances", "refusing")},
        )
        monkeypatch.setattr(PLANNERS, "_all", dict(PLANNERS.builtin))
        assert compared(FORK, planners=()).planners == ("heft",)
        both = compared(CHAIN, FORK, planners=())
        assert both.planners == ("heft", "smallinstances")
        assert [len(results.results) for results in both.workflows] == [2, 2]
        assert compared(FORK, planners="all").planners == ("heft", "refusing", "smallinstances")

    def test_every_registered_planner_is_verified_on_a_small_workflow(self):
        found = compared(CHAIN, planners=())
        assert set(found.planners) <= set(PLANNERS)
        assert row(found, "heft").makespan_s == 7

    def test_all_unknown_planner_names_are_reported_before_workflows_are_read(self):
        with pytest.raises(weft.InvalidInput) as refused:
            weft.compare("nothing.yaml", planners="hefty,heft,zzzzz")
        reported = str(refused.value)
        assert "unknown planner 'hefty'; did you mean 'heft'?" in reported
        assert "unknown planner 'zzzzz'" in reported
        assert "nothing.yaml" not in reported

    def test_unsupported_planners_are_listed_and_the_reason_is_stated(self, faulty_planners):
        found = compared(CHAIN, FORK, planners="heft,smallinstances,refusing,infinite")
        assert row(found, "smallinstances").makespan_s == 7
        assert found.refusals == (
            ("refusing", "w1", "the planner refuses"),
            ("infinite", "w1", "the times of this plan exceed the range of floating-point numbers"),
            ("smallinstances", "w2", "more than 3 tasks"),
            ("refusing", "w2", "the planner refuses"),
            ("infinite", "w2", "the times of this plan exceed the range of floating-point numbers"),
        )

    def test_compare_fails_when_no_planner_supports_the_workflow(self, faulty_planners):
        with pytest.raises(weft.InvalidInput) as refused:
            compared(FORK, planners="smallinstances,refusing")
        assert str(refused.value).splitlines() == [
            "planner 'smallinstances' cannot plan this: more than 3 tasks",
            "planner 'refusing' cannot plan this: the planner refuses",
        ]

    def test_invalid_schedule_of_a_planner_is_reported_as_an_error(self, faulty_planners):
        with pytest.raises(weft.WeftError, match=r"invalid on w2 gives an invalid schedule.* precedence: "):
            compared({"a": {"work": 1}}, CHAIN, planners="heft,invalid")


SWEEPS = {
    "a": {"work": "1 + j", "sweep": {"j": "1..6"}},
    "b": {"work": 2, "sweep": {"j": "1..6"}, "after": "a[j]"},
}


class TestPolicies:
    def test_policies_are_simulated_beside_planners(self):
        found = compared(SWEEPS, planners="shuffle,heft", policies=["m-s", "plan"])
        assert found.planners == ("shuffle", "heft", "policy:m-s", "policy:plan")
        assert row(found, "policy:plan").makespan_s == row(found, "heft").makespan_s
        simulated = weft.simulate(named("w1", SWEEPS), on="identical:2", policy="m-s")
        assert row(found, "policy:m-s").makespan_s == pytest.approx(simulated.end_s)

    def test_loops_are_planned_and_simulated_with_one_iteration(self):
        flow = weft.Builder("loop")
        flow.task("a", work=3)
        flow.task("b", work=4, after="a")
        flow.loop("l", first="a", last="b", until="b.exit_code == 0", max_iterations=9)
        found = weft.compare(flow.build(), on="identical:1", planners="heft", policies="m-s")
        assert [result.makespan_s for result in found.workflows[0].results] == [7, 7]

    def test_only_policies_and_the_baseline_are_compared_if_no_planner_is_named(self):
        assert compared(SWEEPS, planners=(), policies="pm-s").planners == ("policy:pm-s",)
        found = compared(SWEEPS, planners=(), policies="pm-s", baseline="shuffle")
        assert found.planners == ("policy:pm-s", "shuffle")

    def test_unknown_policies_baselines_and_planners_are_reported_together(self):
        with pytest.raises(weft.InvalidInput) as refused:
            compared(SWEEPS, planners="hefty", policies="m-ss", baseline="policy:pm-z")
        assert [problem.what for problem in refused.value.problems] == [
            "unknown planner 'hefty'", "unknown policy 'm-ss'", "unknown policy 'pm-z'",
        ]  # fmt: skip

    def test_ase_percent_is_the_mean_makespan_in_percent_of_the_baseline(self):
        found = compared(SWEEPS, FORK, planners="shuffle,xdcp", policies="m-s")
        assert found.baseline == "shuffle"
        standings = {standing.planner: standing for standing in found.standings}
        for name, standing in standings.items():
            percents = [
                100 * row(found, name, place).makespan_s / row(found, "shuffle", place).makespan_s
                for place in (0, 1)
            ]
            assert standing.ase_percent == pytest.approx(sum(percents) / 2)
        assert standings["shuffle"].ase_percent == 100
        best = [results.best_makespan_s for results in found.workflows]
        for name, standing in standings.items():
            assert standing.wins == sum(
                row(found, name, place).makespan_s <= best[place] * (1 + 1e-9) for place in (0, 1)
            )

    def test_ase_percent_is_none_if_no_baseline_can_plan(self):
        many = {"a": {"work": 1, "nodes": [1, 2]}}
        found = compared(many, on="cluster:2", planners="heft,shuffle")
        assert found.baseline is None
        assert all(standing.ase_percent is None for standing in found.standings)
        assert compared(many, on="cluster:2", baseline="heft").standings[0].ase_percent == 100


class TestObjectives:
    def test_planners_and_policies_are_compared_by_the_given_objective(self):
        grid = platform({"price_per_node_hour": 3600.0}, {"speed": 4.0, "price_per_node_hour": 36000.0})
        found = compared(SWEEPS, on=grid, planners="genetic,weave,heft", policies="m-s",
                         objective="makespan + cost", plan_steps=400)  # fmt: skip
        (results,) = found.workflows
        assert found.objective == "makespan + cost"
        values = {result.planner: result.value for result in results.results}
        assert values["heft"] is None
        assert values["genetic"] == pytest.approx(min(value for value in values.values() if value))
        assert results.best_value == min(value for value in values.values() if value)
        assert all(results.gap(result) is None for result in results.results)
        assert "makespan + cost" in found.refusals[0][2]

    def test_planner_with_the_largest_value_of_a_maximised_objective_wins(self):
        found = compared(SWEEPS, planners="genetic", policies="m-s,fcfs", objective="efficiency",
                         plan_steps=200)  # fmt: skip
        (results,) = found.workflows
        winners = [result for result in results.results if results.wins(result)]
        assert {result.value for result in winners} == {results.best_value}
        assert results.best_value == max(result.value for result in results.results)

    def test_options_of_planners_may_be_separated_by_commas(self):
        found = compared(CHAIN, planners="heft,genetic:population=6,generations=2,xdcp:threshold=0.5",
                         plan_steps=50)  # fmt: skip
        assert found.planners == ("heft", "genetic:population=6,generations=2", "xdcp:threshold=0.5")


class TestWorkflows:
    def test_compare_accepts_files_and_workflow_records(self, tmp_path):
        (tmp_path / "flow.yaml").write_text("weft: 1\nname: flow\ntasks: {a: {work: 3}}\n")
        path = tmp_path / "flow.yaml"
        for given in (path, str(path), [path, named("other", CHAIN)]):
            found = weft.compare(given, on="identical:1", planners="heft")
            assert found.workflows[0].workflow == "flow"
            assert found.workflows[0].best_makespan_s == 3
        assert (
            weft.compare(named("other", CHAIN), on="identical:1", planners="heft")
            .workflows[0]
            .best_makespan_s
            == 7
        )

    def test_workflows_with_equal_names_are_labelled_by_their_files(self, tmp_path):
        paths = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
        for path in paths:
            path.write_text("weft: 1\nname: same\ntasks: {a: {work: 3}}\n")

        def labels(*given):
            found = weft.compare(given, on="identical:1", planners="heft")
            return [results.workflow for results in found.workflows]

        assert labels(*paths) == [str(path) for path in paths]
        assert labels(paths[0], paths[0]) == [f"{paths[0]} (1)", f"{paths[0]} (2)"]
        flow = named("same", CHAIN)
        assert labels(flow, flow) == ["same (1)", "same (2)"]

    def test_error_names_the_infeasible_task(self):
        with pytest.raises(weft.Infeasible, match=r"w2: .*wide"):
            compared(CHAIN, {"wide": {"work": 1, "nodes": 3}})

    def test_compare_without_a_workflow_is_rejected(self):
        with pytest.raises(weft.InvalidInput, match="no workflow"):
            weft.compare([])

    def test_negative_seed_is_rejected(self):
        with pytest.raises(weft.InvalidInput, match="seed -1"):
            compared(CHAIN, seed=-1)


def test_progress_is_reported_for_every_plan(faulty_planners, tmp_path):
    path = tmp_path / "flow.yaml"
    path.write_text("weft: 1\nname: flow\ntasks: {a: {work: 3}}\n")
    reported = []

    @contextmanager
    def progress(text):
        reported.append(text)
        yield
        reported.append("done")

    weft.compare(path, on="identical:1", planners="heft,wrongbound", progress=progress)
    assert reported == [
        f"reading {path}", "done", "compiling flow", "done",
        "planning flow with heft", "done", "planning flow with wrongbound", "done",
    ]  # fmt: skip


def test_comparison_record_is_plain_data():
    record = compared(CHAIN, FORK).as_record()
    assert json.loads(json.dumps(record)) == record
    assert [line["planner"] for line in record["planners"]] == ["heft"]
    assert record["workflows"][0]["results"][0]["makespan_s"] == 7


def test_policies_that_cannot_keep_budgets_are_listed_with_the_reason():
    task = {"sweep": {"k": "1..4"}, "work": 4, "nodes": [1, 2], "consumes": {"credits": {1: 1, 2: 3}}}
    flow = named("thrifty", {"a": task}, budgets={"credits": 4})
    made = weft.compare(
        flow, on=platform({"nodes": 8}), planners=["auto"], policies=["m-s", "plan"], plan_steps=50
    )
    assert [standing.planned for standing in made.standings] == [1, 0, 0]
    assert [reason for _, _, reason in made.refusals] == [
        "policy 'm-s' does not support budgets: credits",
        "HEFT does not support budgets: credits",
    ]
