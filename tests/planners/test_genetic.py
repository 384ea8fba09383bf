"""The genetic search over bindings: the figures of docs/papers/dynamic-grid.md, its genes, and its default."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning_examples import MAKESPAN, instance, lines, planned, platform
from published.wien2k import grid_of, wien2k
from weft.errors import InvalidInput
from weft.instance import compile_instance
from weft.planners.decoding import APPEND, EXCLUSIVE, INSERTION, UNLIMITED, encode_schedule
from weft.planners.evaluation import evaluate_loss
from weft.planners.genetic import BindingEncoding, GeneticPlanner
from weft.planners.planner import Budget, PlanRequest, make_planner
from weft.randomness import generator
from weft.schedule.objective import OBJECTIVES, make_objective
from weft.schedule.verification import verify
from weft.search.genetic import PRESETS, GeneticSettings
from weft.search.genetic import GeneticAlgorithm as Search
from weft.search.pool import INLINE_POOL
from weft.workflow.unfold import unfold

TASKS = {
    "a": {"work": 6, "outputs": {"x": "1MB"}},
    "b": {"sweep": {"k": "1..6"}, "work": "2*k", "inputs": ["x"], "outputs": {"y.{k}": "1MB"}},
    "c": {"work": 4, "inputs": ["y.1", "y.6"], "nodes": [1, 2, 4], "speedup": {"amdahl": 0.1}},
    "d": {"sweep": {"k": "1..3"}, "work": 5, "machine": "D", "after": "c"},
    "e": {"kind": "virtual", "after": ["d", "b"]},
}
UNLIKE = platform(
    {"speed": 1.0, "nodes": 2}, {"speed": 2.0, "price_per_node_hour": 4.0}, {"speed": 1.5, "nodes": 4}
)


@pytest.fixture(scope="module")
def made():
    return instance(TASKS, UNLIKE)


def run(planner, made, objective=MAKESPAN, steps=400, seed=5, **more):
    budget = Budget(steps=steps, **more)
    return planner.plan(
        PlanRequest(instance=made, objective=objective, budget=budget, rng=generator(seed, "genetic"))
    )


def test_number_of_genes_is_56_with_abstract_machines_and_106_without_them(spec_data):
    grid = grid_of(json.loads((spec_data / "s1_testbed.json").read_text()))
    assert (
        BindingEncoding(compile_instance(unfold(wien2k()), grid), MAKESPAN).space.sizes.tolist() == [314] * 56
    )
    # Without abstract machines every task has its own gene.
    record = wien2k()
    apart = replace(record, tasks=tuple(replace(task, machine=None) for task in record.tasks))
    assert BindingEncoding(compile_instance(unfold(apart), grid), MAKESPAN).space.genes == 106


def test_the_tuned_search_reaches_the_published_result(spec_data, monkeypatch):
    """A1.7 with few runs: P at most 30 %, I from 500 to 900 %, at most 75,150 points."""
    monkeypatch.setenv("WEFT_KERNELS", "compiled")
    facts = json.loads((spec_data / "s1_testbed.json").read_text())
    made = compile_instance(unfold(wien2k()), grid_of(facts))
    encoding = BindingEncoding(made, MAKESPAN, rule=EXCLUSIVE)
    search = Search(settings=PRESETS["s1-tuned"])
    runs = [search.optimise(encoding.space, encoding.values, rng=generator(seed, "s1")) for seed in range(3)]
    assert np.mean([-found.value / 387.0 - 1.0 for found in runs]) <= 0.30
    assert 5.0 <= np.mean([found.first_best / found.value - 1.0 for found in runs]) <= 9.0
    assert max(found.visited for found in runs) <= 75_150
    best = encoding.schedule(runs[0].best)
    assert best.makespan_s == -runs[0].value
    assert verify(best, made.graph, made.platform) == []


def test_published_preset_equals_the_genetic_search_without_list_plans(made):
    plan = run(GeneticPlanner(preset="s1-tuned", population=20, generations=8), made, steps=None)
    encoding = BindingEncoding(made, MAKESPAN)
    literal = Search(settings=replace(PRESETS["s1-tuned"], population=20, generations=8))
    found = literal.optimise(
        encoding.space, encoding.values, rng=generator(5, "genetic"), batch=encoding.batch
    )
    assert plan.schedule.makespan_s == -found.value
    assert plan.steps == found.visited
    assert not plan.cut


@pytest.mark.parametrize("rule", [APPEND, INSERTION, EXCLUSIVE, UNLIMITED])
def test_fitness_equals_the_negated_makespan_of_the_schedule(made, rule):
    encoding = BindingEncoding(made, MAKESPAN, rule=rule)
    points = encoding.space.draw(generator(2, "points"), 30)
    values = encoding.values(points)
    for point, value in zip(points, values, strict=True):
        schedule = encoding.schedule(point)
        assert verify(schedule, made.graph, made.platform) == []
        if rule != UNLIMITED:
            assert schedule.makespan_s == -value
        else:
            assert schedule.makespan_s >= -value


@pytest.mark.parametrize("name", OBJECTIVES)
def test_fitness_equals_the_objective_plus_penalties_for_limits(made, name):
    goal = make_objective(name, deadline_s=22.0, max_cost=0.02)
    encoding = BindingEncoding(made, goal)
    points = encoding.space.draw(generator(3, "points"), 40)
    values = encoding.values(points)
    schedules = [encoding.schedule(point) for point in points]
    losses = [evaluate_loss(made, goal, schedule) for schedule in schedules]
    assert {loss.excess > 0 for loss in losses} == {True, False}
    for schedule, loss, value in zip(schedules, losses, values.tolist(), strict=True):
        if loss.excess == 0:
            # Objectives that only depend on the makespan are searched as the makespan.
            number = schedule.makespan_s if goal.is_makespan else loss.value
            assert value == pytest.approx(-number, rel=1e-12)
    kept = [value for loss, value in zip(losses, values, strict=True) if loss.excess == 0]
    missed = [value for loss, value in zip(losses, values, strict=True) if loss.excess > 0]
    assert min(kept) > max(missed)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_genome_of_a_schedule_contains_its_choices(seed):
    made = instance(TASKS, UNLIKE)
    encoding = BindingEncoding(made, MAKESPAN)
    point = encoding.space.draw(generator(seed, "points"), 1)[0]
    schedule = encoding.schedule(point)
    genome = encode_schedule(made, schedule)
    again = encode_schedule(made, encoding.schedule(encoding.point(schedule)))
    assert again.bound.tolist() == genome.bound.tolist()
    assert again.modes.tolist() == genome.modes.tolist()


def test_node_count_that_a_machine_does_not_allow_is_replaced_by_the_next_smaller_count(made):
    encoding = BindingEncoding(made, MAKESPAN)
    # The last gene is the count of c (1, 2 or 4 nodes); the second machine has one node, the first two.
    chosen = {}
    for machine in range(3):
        for count in range(3):
            point = np.zeros(encoding.space.genes, dtype=np.uint32)
            point[7], point[-1] = machine, count
            line = lines(encoding.schedule(point))["c"]
            chosen.setdefault(line[0], []).append(line[1])
    assert chosen == {"m0": [1, 2, 2], "m1": [1, 1, 1], "m2": [1, 2, 4]}


@pytest.mark.parametrize("occupancy", ["append", "insertion", "exclusive", "none"])
def test_genetic_plan_is_never_worse_than_those_of_list_planners(made, occupancy):
    plan = run(GeneticPlanner(occupancy=occupancy), made)
    assert verify(plan.schedule, made.graph, made.platform) == []
    for name in ("heft", "cpop", "peft", "heft-moldable"):
        assert plan.schedule.makespan_s <= planned(made, name).makespan_s


@pytest.mark.parametrize("name", ["makespan", "cost", "on-demand", "efficiency", "local"])
def test_improved_plan_is_never_worse_than_the_incumbent(made, name):
    goal = make_objective(name)
    start = planned(made, "random")
    found = GeneticPlanner().plan(
        PlanRequest(
            instance=made,
            objective=goal,
            incumbent=start,
            budget=Budget(steps=600),
            rng=generator(1, "improve"),
        )
    )
    assert evaluate_loss(made, goal, found.schedule) < evaluate_loss(made, goal, start)
    assert verify(found.schedule, made.graph, made.platform) == []
    assert found.steps >= 600


def test_deadline_is_met_if_possible():
    slow, fast = {"speed": 1.0, "price_per_node_hour": 1.0}, {"speed": 4.0, "price_per_node_hour": 20.0}
    made = instance({"t": {"sweep": {"k": "1..12"}, "work": 8}}, platform(slow, fast))
    cheap = run(GeneticPlanner(), made, make_objective("cost"))
    assert cheap.schedule.makespan_s == 96, "all on the slow machine"
    goal = make_objective("cost", deadline_s=40.0)
    plan = run(GeneticPlanner(), made, goal, steps=2000)
    # Five tasks fit on the slow machine in time, seven must pay for the fast one.
    assert plan.schedule.makespan_s <= 40.0
    assert goal.value(plan.schedule, made) == pytest.approx((5 * 8 + 7 * 2 * 20) / 3600)


def test_every_better_plan_is_reported(made):
    reports = []
    plan = run(GeneticPlanner(preset="s1-tuned", population=10), made, steps=300, on_progress=reports.append)
    values = [progress.value for progress in reports]
    assert values == sorted(values, reverse=True)
    assert values[-1] == plan.schedule.makespan_s == reports[-1].makespan_s
    assert {progress.by for progress in reports} == {"genetic"}


def test_plan_records_whether_the_clock_ended_the_search(made):
    ticks = iter(range(30, -1, -1))
    by_clock = run(GeneticPlanner(preset="s1-tuned"), made, steps=None, left=lambda: float(next(ticks)))
    assert by_clock.cut
    assert by_clock.steps < 75_000
    assert not run(GeneticPlanner(preset="s1-tuned"), made, steps=400).cut


def test_an_interrupt_returns_the_best_plan_so_far(made, monkeypatch):
    calls, values = [], BindingEncoding.values

    def interrupted(self, points):
        calls.append(len(points))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return values(self, points)

    monkeypatch.setattr(BindingEncoding, "values", interrupted)
    plan = run(GeneticPlanner(), made, steps=10_000)
    assert plan.cut
    assert len(calls) == 5
    assert plan.schedule.makespan_s <= planned(made, "heft").makespan_s


def test_islands_give_the_same_plan_on_every_pool(made):
    class Backwards:
        workers = 2

        def map(self, function, items):
            return iter([function(item) for item in reversed(list(items))][::-1])

    planner, found = GeneticPlanner(islands=3, population=10), []
    for pool in (INLINE_POOL, Backwards()):
        plan = planner.plan(
            PlanRequest(
                instance=made,
                objective=MAKESPAN,
                budget=Budget(steps=900),
                rng=generator(4, "islands"),
                pool=pool,
            )
        )
        found.append((lines(plan.schedule), plan.steps))
    assert found[0] == found[1]
    assert found[0][1] >= 900


def test_pinned_variables_have_no_gene():
    made = instance(TASKS, UNLIKE, pinned={"D": "m1"})
    free = instance(TASKS, UNLIKE)
    assert BindingEncoding(made, MAKESPAN).space.genes == BindingEncoding(free, MAKESPAN).space.genes - 1
    plan = run(GeneticPlanner(), made)
    assert {lines(plan.schedule)[f"d[{k}]"][0] for k in (1, 2, 3)} == {"m1"}


def test_binding_budgets_are_refused():
    tasks = {name: {"work": 4, "nodes": [1, 2], "consumes": {"credits": "4 // nodes"}} for name in "ab"}
    refusal = GeneticPlanner().supports(instance(tasks, "cluster:2", budgets={"credits": 6}), MAKESPAN)
    assert "budgets: credits" in refusal.reason


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("population=-1", "must be at least 0"),
        ("population=1", "must be at least 2"),
        ("generations=-1", "must be at least 0"),
        ("islands=0", "must be at least 1"),
        ("island-steps=0", "must be at least 1"),
        ("selection=best", "must be one of remainder, steady-state, rank, tournament, roulette"),
        ("crossover=two-point", "must be one of single-point, uniform"),
        ("crossover-rate=1.5", "crossover_rate of the genetic algorithm is 1.5; must be from 0 to 1"),
        ("mutation-rate=-0.1", "must be from 0 to 1"),
        ("mutations=-1", "genetic:mutations=-1; must be at least 0"),
        ("mutations=3,mutation-rate=0.1", "only one may be given"),
        ("scaling=0.5", "must be at least 1"),
        ("elitist=yes", "must be true or false"),
        ("elite-share=x", "must be a number, not 'x'"),
        ("population=2.5", "must be a whole number, not '2.5'"),
        ("steady=0.1", "did you mean 'steady_share=...'"),
    ],
)
def test_invalid_options_are_refused(text, problem):
    with pytest.raises(InvalidInput, match=problem):
        make_planner(f"genetic:{text}")


def test_every_setting_of_the_genetic_algorithm_is_an_option():
    given = {
        "population": 12, "generations": 7, "selection": "roulette", "parent_share": 0.4, "scaling": 1.5,
        "crossover": "single-point", "crossover_rate": 0.3, "mutation_rate": 0.2, "elitist": True,
        "elite_share": 0.1, "steady_share": 0.5, "const_factor": 3.0,
    }  # fmt: skip
    assert set(given) == {field.name for field in fields(GeneticSettings)}
    text = ",".join(f"{name.replace('_', '-')}={str(value).lower()}" for name, value in given.items())
    for name in ("genetic", "moldable-genetic"):
        found = make_planner(f"{name}:{text}").settings(PRESETS["s1-tuned"], genes=3)
        assert asdict(found) == given


def test_options_that_are_not_given_are_those_of_the_preset():
    assert GeneticPlanner().settings(PRESETS["s1-tuned"], genes=3) == PRESETS["s1-tuned"]
    zero = make_planner("genetic:steady-share=0,mutation-rate=0,elitist=false")
    found = zero.settings(PRESETS["s1-tuned"], genes=3)
    assert (found.steady_share, found.mutation_rate, found.elitist) == (0.0, 0.0, False)


def test_mutations_per_generation_define_the_rate_by_population_and_genes():
    planner = make_planner("genetic:mutations=8.4,population=150")
    assert planner.settings(PRESETS["s1-tuned"], genes=56).mutation_rate == pytest.approx(0.001)
    assert planner.settings(PRESETS["s1-tuned"], genes=1).mutation_rate == pytest.approx(8.4 / 150)
    assert make_planner("genetic:mutations=900").settings(PRESETS["s1-tuned"], genes=1).mutation_rate == 1.0


@pytest.mark.parametrize("text", ["selection=rank", "crossover=uniform", "scaling=1,mutation-rate=0.2"])
def test_options_change_the_search(made, text):
    plain, other = (
        make_planner(f"genetic:preset=s1-tuned,population=8,generations=6{more}") for more in ("", f",{text}")
    )
    found = []
    for planner in (plain, other):
        request = PlanRequest(instance=made, objective=MAKESPAN, rng=generator(3, "options"))
        prepared = planner.prepare(request)
        result = prepared.optimiser.optimise(
            prepared.encoding.space, prepared.encoding.values, rng=generator(4, "options")
        )
        found.append(result.last.tolist())
    assert found[0] != found[1]
