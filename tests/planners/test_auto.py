"""The portfolio: never worse than its members, deterministic with steps, and robust against failures."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count

import pytest

from planners.auto_doubles import registered
from planning_examples import MAKESPAN, instance, lines, platform
from weft.errors import Infeasible, InvalidInput
from weft.planners import PLANNERS
from weft.planners.auto import LIST_PLANNERS, Auto
from weft.planners.evaluation import evaluate_loss
from weft.planners.planner import Budget, ClockSlice, PlanRequest
from weft.planners.portfolio import Contender, Incumbent, PortfolioSearch, SearchSlice, run_slice
from weft.pools.pool import make_pool
from weft.randomness import generator
from weft.schedule.bounds import lower_bounds
from weft.schedule.objective import OBJECTIVES, make_objective
from weft.schedule.verification import verify
from weft.search.pool import INLINE_POOL

UNLIKE = platform(
    {"speed": 1.0, "price_per_node_hour": 3600.0},
    {"speed": 2.0, "price_per_node_hour": 9000.0},
    {"speed": 1.5, "price_per_node_hour": 3600.0},
)
FORKS = {
    "first": {"work": 3, "outputs": {"x": "2MB"}},
    "many": {"sweep": {"k": "1..9"}, "work": "1 + k % 4", "inputs": ["x"], "outputs": {"y.{k}": "1MB"}},
    "more": {"sweep": {"k": "1..9"}, "work": "2 + k % 3", "inputs": ["y.{k}"]},
    "last": {"work": 2, "after": "more"},
}
LEVELS = {"a": {"sweep": {"k": "1..4"}, "work": 5}, "b": {"sweep": {"k": "1..4"}, "work": 5, "after": "a"}}
"""Tasks of which the first plan on four equal machines is optimal."""
MOLDABLE = {"wide": {"sweep": {"k": "1..5"}, "work": "10*k", "nodes": "1..4", "speedup": {"amdahl": 0.1}}}


@pytest.fixture(scope="module")
def open_gap():
    """Return an instance for which the plans of all list planners are above the lower bound."""
    made = instance(FORKS, UNLIKE)
    best = min(
        of_list(name, made)
        for name, _ in LIST_PLANNERS
        if PLANNERS.load(name)().supports(made, MAKESPAN) is None
    )
    assert best > lower_bounds(made).best_s * 1.01
    return made


def of_list(name, made):
    planner = PLANNERS.load(name)()
    return planner.plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(), rng=generator(0, "x"))
    ).schedule.makespan_s


def planned(made, *, objective=MAKESPAN, pool=INLINE_POOL, islands=0, seed=3, **budget):
    auto, spending = Auto(islands=islands), Budget(**budget)
    return auto.plan(
        PlanRequest(
            instance=made, objective=objective, budget=spending, rng=generator(seed, "test"), pool=pool
        )
    )


def clock(seconds=0.5, per_look=0.002):
    """Return a clock that advances with every call."""
    left = [seconds]

    def look():
        left[0] -= per_look
        return left[0]

    return look


class TestPlans:
    @pytest.mark.parametrize("tasks", [FORKS, LEVELS, MOLDABLE], ids=["forks", "levels", "moldable"])
    def test_plan_is_never_worse_than_that_of_any_list_planner(self, tasks):
        made = instance(tasks, UNLIKE if tasks is not MOLDABLE else "cluster:6")
        with registered(weave="Drawing"):
            found = planned(made, steps=200)
        assert verify(found.schedule, made.graph, made.platform) == []
        for name, most in LIST_PLANNERS:
            if most > 100 and PLANNERS.load(name)().supports(made, MAKESPAN) is None:
                assert found.schedule.makespan_s <= of_list(name, made) + 1e-9, name

    def test_the_search_shortens_the_plan(self, open_gap):
        with registered():
            first = planned(open_gap, steps=2_000)
        with registered(weave="Drawing"):
            found = planned(open_gap, steps=2_000)
        assert found.schedule.makespan_s < first.schedule.makespan_s
        assert (found.by, found.notes, found.cut) == ("weave", (), False)

    def test_no_search_starts_if_plan_and_bound_are_equal(self):
        with registered(weave="Breaking", cp_sat="Breaking") as calls:
            found = planned(instance(LEVELS, "identical:4"), steps=1_000)
        assert calls == []
        assert (found.steps, found.schedule.makespan_s, found.bound_s) == (1, 10, 10)

    def test_the_bound_is_the_best_of_all_planners(self, open_gap):
        with registered(weave="Idle"):
            found = planned(open_gap, steps=50)
        assert found.bound_s == lower_bounds(open_gap).best_s
        assert found.bound_by == lower_bounds(open_gap).argument

    def test_the_search_ends_when_the_plan_is_proven_optimal(self, open_gap):
        with registered(weave="Idle", cp_sat="Proving") as calls:
            found = planned(open_gap, steps=1_000_000)
        assert calls == ["proving"]  # with communication a small exact model is solved first
        assert found.bound_s == found.schedule.makespan_s
        assert found.bound_by == "cp-sat"

    def test_search_runs_before_the_exact_planner_if_tasks_exchange_no_data(self):
        tasks = {name: {"work": work} for name, work in zip("abcde", (3, 3, 2, 2, 2), strict=True)}
        with registered(weave="Idle", cp_sat="Proving") as calls:
            found = planned(instance(tasks, "identical:2"), steps=1_000_000)
        assert found.schedule.makespan_s == 7
        assert calls == ["idle", "proving"]

    def test_planners_that_have_not_improved_the_plan_are_left_out_of_the_next_rounds(self, open_gap):
        lucky, idle = (
            Contender(name=name, alone=alone, least_s=0.1, least_steps=1)
            for name, alone in (("weave", False), ("cp-sat", True))
        )
        incumbent = Incumbent(open_gap, MAKESPAN, None)
        budget, rng = Budget(steps=100), generator(0, "test")
        request = PlanRequest(instance=open_gap, objective=MAKESPAN, budget=budget, rng=rng)
        rounds = PortfolioSearch(request, incumbent, [lucky, idle])
        assert [rounds._lineup(turn, 1) for turn in range(3)] == [[lucky], [idle], [lucky]]
        assert [rounds._lineup(turn, 3) for turn in range(2)] == [[lucky], [idle, lucky, lucky]]
        idle.without_gain = 2
        assert [rounds._lineup(turn, 1) for turn in range(3)] == [[lucky]] * 3
        assert rounds._lineup(1, 3) == [lucky] * 3
        lucky.without_gain = 2
        assert rounds._lineup(1, 1) == [idle]

    def test_the_exact_planner_does_not_start_with_few_steps(self, open_gap):
        with registered(weave="Idle", cp_sat="Breaking") as calls:
            planned(open_gap, steps=1_000)
        assert set(calls) == {"idle"}

    def test_portfolio_uses_at_most_the_given_steps(self, open_gap):
        with registered(weave="Drawing"):
            assert planned(open_gap, steps=333).steps == 333
            assert planned(open_gap, steps=333, islands=3).steps <= 333 + 3
            assert planned(open_gap, steps=1).steps == 1


class TestSteps:
    """Plans with a budget of steps, which depend only on seed, steps and islands."""

    @pytest.mark.parametrize("pool", ["serial", "threads:2", "processes:2", "processes:3"])
    def test_pool_does_not_change_the_plan_of_the_portfolio(self, open_gap, pool):
        with registered(weave="Drawing", cp_sat="Idle"):
            alone = planned(open_gap, steps=9_000, islands=3)
            with make_pool(pool) as opened:
                found = planned(open_gap, steps=9_000, islands=3, pool=opened)
        assert lines(found.schedule) == lines(alone.schedule)
        assert (found.steps, found.bound_s, found.by) == (alone.steps, alone.bound_s, alone.by)

    def test_number_of_islands_equals_the_number_of_workers_by_default(self, open_gap):
        with registered(weave="Drawing"), make_pool("threads:2") as pool:
            found, two = planned(open_gap, steps=300, pool=pool), planned(open_gap, steps=300, islands=2)
        assert lines(found.schedule) == lines(two.schedule)

    def test_clock_that_never_advances_does_not_change_the_plan(self, open_gap):
        with registered(weave="Drawing"):
            timed = planned(open_gap, steps=500, left=lambda: 1e9)
            assert lines(timed.schedule) == lines(planned(open_gap, steps=500).schedule)
        assert not timed.cut

    def test_the_seed_changes_the_plan(self, open_gap):
        with registered(weave="Drawing"):
            found = {planned(open_gap, steps=600, seed=seed).schedule.makespan_s for seed in range(4)}
        assert len(found) > 1


class TestClock:
    def test_the_search_ends_in_time_with_a_valid_plan(self, open_gap):
        look = clock()
        with registered(weave="Drawing"):
            found = planned(open_gap, left=look)
        assert verify(found.schedule, open_gap.graph, open_gap.platform) == []
        assert found.schedule.makespan_s <= of_list("heft", open_gap)
        assert found.cut
        assert -0.05 < look() <= 0

    def test_first_plan_is_made_when_no_time_is_left(self, open_gap):
        with registered(weave="Breaking"):
            found = planned(open_gap, left=lambda: -1.0)
        assert found.schedule.makespan_s == of_list("heft", open_gap)
        assert found.cut

    def test_time_slice_is_not_longer_than_the_remaining_time(self):
        clock_slice = ClockSlice(left=lambda: 3.0, until_s=1.0)
        assert clock_slice.remaining_s() == 2.0
        assert ClockSlice(left=None).remaining_s() == math.inf

    def test_search_on_two_workers_ends_at_the_time_limit_with_a_valid_plan(self, open_gap):
        from weft.runtime.budget import Deadline

        with registered(weave="Drawing"), make_pool("processes:2") as pool:
            found = planned(open_gap, left=Deadline.of(1.0).left, pool=pool)
        assert (found.notes, found.cut) == ((), True)
        assert verify(found.schedule, open_gap.graph, open_gap.platform) == []
        assert found.schedule.makespan_s <= of_list("heft", open_gap)


class TestFailures:
    def test_a_planner_that_fails_is_dropped_and_named_in_a_note(self, open_gap):
        with registered(weave="Drawing", cp_sat="Breaking") as calls:
            found = planned(open_gap, steps=30_000)
        assert calls.count("breaking") == 1
        assert found.by == "weave"
        assert found.notes == ("cp-sat failed: ZeroDivisionError: by nothing",)

    def test_the_first_plan_is_kept_if_all_searches_fail(self, open_gap):
        with registered(weave="Breaking"):
            found = planned(open_gap, steps=5_000)
        assert found.schedule.makespan_s <= of_list("heft", open_gap)
        assert len(found.notes) == 1

    @pytest.mark.parametrize("kind", ["Stopped", "Obliging"])
    @pytest.mark.parametrize("budget", [{"steps": 5_000}, {"left": lambda: 50.0}], ids=["steps", "clock"])
    def test_an_interrupt_returns_the_best_plan_so_far(self, open_gap, kind, budget):
        with registered(weave=kind) as calls:
            found = planned(open_gap, **budget)
        assert calls == [kind.lower()]
        assert found.cut
        assert found.notes == ("the search was interrupted: this is the best plan so far",)
        assert found.schedule.makespan_s <= of_list("heft", open_gap)

    def test_an_interrupt_is_recorded_if_the_time_of_the_slice_is_over(self, open_gap):
        calls = count()

        def left():
            if (call := next(calls)) == 6:
                raise KeyboardInterrupt
            return 5.0 if call < 6 else 0.0

        start = PLANNERS.load("heft")().plan(
            PlanRequest(instance=open_gap, objective=MAKESPAN, rng=generator(0, "auto"))
        )
        clock = ClockSlice(left=left)
        piece = SearchSlice(
            planner="weave", start=start.schedule, steps=None, clock=clock, rng=generator(0, "auto")
        )
        found = run_slice(open_gap, MAKESPAN, piece)
        assert found.interrupted
        assert clock.remaining_s() == 0.0

    def test_an_interrupt_before_the_first_plan_is_raised(self, open_gap, monkeypatch):
        monkeypatch.setattr("weft.planners.auto.run_list_planners", interrupt)
        with pytest.raises(KeyboardInterrupt):
            planned(open_gap, steps=10)

    def test_interrupt_while_first_plans_are_made_returns_the_best_plan_so_far(self, open_gap, monkeypatch):
        monkeypatch.setattr("weft.planners.cpop.Cpop.plan", interrupt)
        found = planned(open_gap, steps=10)
        assert found.by == "heft"
        assert found.cut

    def test_lost_worker_process_is_noted_and_the_best_plan_is_kept(self, open_gap):
        with registered(weave="Vanishing"), make_pool("processes:2") as pool:
            found = planned(open_gap, steps=5_000, pool=pool)
        assert found.schedule.makespan_s <= of_list("heft", open_gap)
        assert found.cut
        assert found.notes[0].startswith("the search ended early: a worker process")

    def test_task_that_would_never_end_is_infeasible(self):
        tasks = {"a": {"work": 1}, "b": {"work": 1, "after": "a"}}
        with pytest.raises(Infeasible, match=r"b cannot end at a finite time|range of floating-point"):
            planned(instance(tasks, platform({"speed": 1e-308})), steps=10)


def interrupt(*arguments, **options):
    raise KeyboardInterrupt


class TestObjectives:
    @pytest.mark.parametrize("name", ["cost", "on-demand", "static", "local", "efficiency", "throughput"])
    def test_plans_are_compared_by_the_objective(self, open_gap, name):
        objective = OBJECTIVES[name]
        with registered(weave="Drawing"):
            found = planned(open_gap, objective=objective, steps=400)
        assert verify(found.schedule, open_gap.graph, open_gap.platform) == []
        for rival in ("heft", "heft-moldable", "cheapest", "local-optimum"):
            planner = PLANNERS.load(rival)()
            goal = objective if planner.supports(open_gap, objective) is None else MAKESPAN
            theirs = planner.plan(
                PlanRequest(instance=open_gap, objective=goal, budget=Budget(), rng=generator(0, "x"))
            ).schedule
            assert evaluate_loss(open_gap, objective, found.schedule) <= evaluate_loss(
                open_gap, objective, theirs
            )

    @pytest.mark.parametrize("name", ["cost", "local"])
    def test_no_search_starts_if_a_first_plan_is_optimal(self, open_gap, name):
        with registered(weave="Breaking") as calls:
            planned(open_gap, objective=OBJECTIVES[name], steps=1_000)
        assert calls == []

    def test_meeting_limits_has_priority_over_the_objective(self, open_gap):
        cheap = planned_cost(open_gap, OBJECTIVES["cost"])
        objective = make_objective("makespan", max_cost=cheap * 1.1)
        assert planned_cost(open_gap, objective) <= cheap * 1.1 * (1 + 1e-9)
        assert planned_cost(open_gap, MAKESPAN) > cheap * 1.1

    @pytest.mark.parametrize("limit", [{"deadline_s": 0.1}, {"max_cost": 0.1}])
    def test_no_search_starts_for_infeasible_limits(self, open_gap, limit):
        with registered(weave="Breaking", cp_sat="Breaking") as calls:
            planned(open_gap, objective=replace(MAKESPAN, **limit), steps=5_000)
        assert calls == []

    def test_search_planner_makes_the_first_plan_if_no_list_planner_supports_the_instance(self):
        tasks = {"a": {"work": 5, "nodes": [1, 2], "consumes": {"fuel": {1: 2, 2: 5}}}, "b": {"work": 3}}
        made = instance(tasks, "cluster:2", budgets={"fuel": 4})
        with registered():
            refusal = Auto().supports(made, MAKESPAN)
            assert refusal is not None
            assert "budgets: fuel" in refusal.reason
        with registered(weave="Refusing", cp_sat="Beginning") as calls:
            assert Auto().supports(made, MAKESPAN) is None
            planned(made, steps=10_000)
        assert calls[0] == "beginning"


def planned_cost(made, objective):
    from weft.schedule.costs import schedule_cost

    with registered(weave="Drawing"):
        return schedule_cost(planned(made, objective=objective, steps=400).schedule, made)


class TestReports:
    @pytest.mark.parametrize("islands", [1, 2])
    def test_every_improved_plan_is_reported_with_the_bound(self, open_gap, islands):
        reports = []
        with registered(weave="Drawing"):
            found = planned(open_gap, steps=8_000, islands=islands, on_progress=reports.append)
        values = [progress.makespan_s for progress in reports]
        assert values == sorted(values, reverse=True)
        assert values[-1] == found.schedule.makespan_s
        assert reports[0].by == "heft"
        assert reports[-1].by == "weave"
        assert reports[-1].bound_s == found.bound_s
        assert [progress.steps for progress in reports] == sorted(progress.steps for progress in reports)

    def test_result_is_never_worse_than_the_incumbent(self, open_gap):
        start = PLANNERS.load("etf")().plan(
            PlanRequest(instance=open_gap, objective=MAKESPAN, budget=Budget(), rng=generator(0, "x"))
        )
        with registered(weave="Drawing"):
            found = Auto().plan(
                PlanRequest(
                    instance=open_gap,
                    objective=MAKESPAN,
                    incumbent=start.schedule,
                    budget=Budget(steps=8_000),
                    rng=generator(1, "x"),
                )
            )
        assert found.schedule.makespan_s < start.schedule.makespan_s
        assert found.steps == 8_000
        assert found.bound_s == lower_bounds(open_gap).best_s


def test_a_negative_number_of_islands_is_refused():
    with pytest.raises(InvalidInput, match="auto:islands=-1; must be at least 0"):
        Auto(islands=-1)
