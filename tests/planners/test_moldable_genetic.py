"""The genetic search over node counts: the figures of docs/papers/moldable.md, its genes and its defaults."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from planning_examples import MAKESPAN, instance, lines, planned, platform
from published.test_s2_planners import reference
from weft.errors import InvalidInput
from weft.formats.files import load_platform, read_workflow_file
from weft.instance import BusyInterval, compile_instance
from weft.planners.evaluation import evaluate_loss
from weft.planners.moldable_genetic import MoldableGeneticPlanner, NodeCountEncoding, recommended_settings
from weft.planners.planner import Budget, PlanRequest
from weft.planners.queue_decoding import run_queue, submission_order
from weft.platform.machine import QUEUES
from weft.randomness import generator
from weft.schedule.metrics import measure_schedule
from weft.schedule.objective import OBJECTIVES, make_objective
from weft.schedule.verification import verify
from weft.search.genetic import GeneticAlgorithm
from weft.workflow.unfold import unfold

TASKS = {
    "wide": {"sweep": {"k": "1..5"}, "work": "9*k", "nodes": [1, 2, 3, 5], "speedup": {"amdahl": 0.05}},
    "pair": {"sweep": {"k": "1..2"}, "work": 8, "nodes": [2, 4], "speedup": {"amdahl": 0.2}, "after": "wide"},
    "rigid": {"work": 4, "nodes": 3, "after": "wide"},
    "end": {"kind": "virtual", "after": ["pair", "rigid"]},
}


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s2_perfdb_and_expected.json").read_text())


@pytest.fixture(scope="module")
def made():
    return instance(TASKS, "cluster:6")


def run(planner, made, objective=MAKESPAN, steps=500, seed=3):
    budget = Budget(steps=steps)
    return planner.plan(
        PlanRequest(instance=made, objective=objective, budget=budget, rng=generator(seed, "counts"))
    )


def test_population_size_is_the_recommended_one():
    assert [recommended_settings(tasks).population for tasks in (7, 30, 31, 64)] == [25, 25, 50, 50]


@pytest.mark.parametrize(("name", "population"), [("tree7", 25), ("barrier16", 50)])
def test_local_optimum_is_found_as_often_as_in_the_paper(figures, name, population):
    """A2.2 with few runs: 35 nodes for every simulation, 2 for every processing task."""
    made, facts = reference(figures, name)
    encoding = NodeCountEncoding(made, make_objective("local"), queue="fifo")
    search = GeneticAlgorithm(
        settings=replace(recommended_settings(len(made)), population=population, generations=900)
    )
    runs = [search.optimise(encoding.space, encoding.values, rng=generator(seed, "s2")) for seed in range(4)]
    best = [35 if kind == "S" else 2 for kind in facts["kinds"]]
    reached = [encoding.counts(found.best[None])[0].tolist() == best for found in runs]
    assert sum(reached) >= 3
    assert np.median([found.generation_of_best for found in runs]) <= 2 * 250


@pytest.mark.parametrize("name", ["tree15", "barrier16"])
def test_on_demand_savings_equal_those_of_the_paper(figures, name):
    """A2.4 with few runs."""
    made, facts = reference(figures, name)
    planner, goal = (
        MoldableGeneticPlanner(preset="s2-recommended", queue="fifo"),
        make_objective("on-demand", 0.5),
    )
    costs, times = [], []
    for seed in range(3):
        found = measure_schedule(run(planner, made, goal, steps=5000, seed=seed).schedule, made)
        costs.append(found.node_seconds / facts["local"]["cost"] - 1)
        times.append(found.makespan_s / facts["local"]["makespan"] - 1)
    assert -0.45 <= np.median(costs) <= -0.33
    assert -0.35 <= np.median(times) <= 0.40


def test_genes_are_the_tasks_with_several_modes_in_breadth_first_order(made):
    encoding = NodeCountEncoding(made, MAKESPAN)
    assert encoding.space.sizes.tolist() == [4] * 5 + [2] * 2
    counts = encoding.counts(np.array([[3, 2, 1, 0, 0, 1, 0]], dtype=np.uint32))[0]
    named = dict(zip(made.graph.names, counts.tolist(), strict=True))
    assert [named[f"wide[{k}]"] for k in range(1, 6)] == [5, 3, 2, 1, 1]
    assert [named["pair[1]"], named["pair[2]"], named["rigid"]] == [4, 2, 3]


@pytest.mark.parametrize("queue", [None, *QUEUES])
def test_fitness_equals_the_negated_makespan_of_the_queue(made, queue):
    encoding = NodeCountEncoding(made, MAKESPAN, queue=queue)
    points = encoding.space.draw(generator(1, "points"), 20)
    for point, value in zip(points, encoding.values(points), strict=True):
        schedule = encoding.schedule(point)
        expected = run_queue(made, encoding.counts(point[None])[0], queue, order=submission_order(made))
        assert lines(schedule) == lines(expected)
        assert schedule.makespan_s == -value
        assert verify(schedule, made.graph, made.platform) == []
        assert encoding.point(schedule).tolist() == point.tolist()


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("alpha", [0.05, 0.8])
def test_fitness_equals_the_objective_for_every_alpha(made, name, alpha):
    goal = OBJECTIVES[name] if not OBJECTIVES[name].has_alpha else make_objective(name, alpha)
    encoding = NodeCountEncoding(made, goal)
    points = encoding.space.draw(generator(2, "points"), 10)
    for point, value in zip(points, encoding.values(points), strict=True):
        schedule = encoding.schedule(point)
        number = schedule.makespan_s if goal.is_makespan else evaluate_loss(made, goal, schedule).value
        assert value == pytest.approx(-number, rel=1e-12)


def test_the_published_preset_is_the_plain_search(made):
    planner = MoldableGeneticPlanner(preset="s2-recommended", queue="easy", generations=12)
    plan = run(planner, made, steps=None)
    encoding = NodeCountEncoding(made, MAKESPAN, queue="easy")
    literal = GeneticAlgorithm(settings=replace(recommended_settings(len(made)), generations=12))
    found = literal.optimise(
        encoding.space, encoding.values, rng=generator(3, "counts"), batch=encoding.batch
    )
    assert plan.schedule.makespan_s == -found.value
    assert plan.steps == found.visited == 12 * 25


@pytest.mark.parametrize("queue", ["machine", *QUEUES])
def test_the_plan_is_never_worse_than_those_of_list_planners(made, queue):
    plan = run(MoldableGeneticPlanner(queue=queue), made)
    assert verify(plan.schedule, made.graph, made.platform) == []
    for name in ("heft-moldable", "cpa", "local-optimum", "heft"):
        assert plan.schedule.makespan_s <= planned(made, name).makespan_s


def test_improved_plan_is_never_worse_than_the_incumbent(made):
    start = run_queue(made, [1] * 5 + [2] * 2 + [3, 1])
    found = MoldableGeneticPlanner().plan(
        PlanRequest(
            instance=made,
            objective=MAKESPAN,
            incumbent=start,
            budget=Budget(steps=500),
            rng=generator(1, "improve"),
        )
    )
    assert found.schedule.makespan_s < start.makespan_s
    # The best plan cannot be improved, and is kept.
    again = MoldableGeneticPlanner().plan(
        PlanRequest(
            instance=made,
            objective=MAKESPAN,
            incumbent=found.schedule,
            budget=Budget(steps=30),
            rng=generator(9, "improve"),
        )
    )
    assert again.schedule.makespan_s <= found.schedule.makespan_s


def test_barrier_workflow_of_the_paper_is_planned_better_than_by_the_list_planner(bench_data):
    path = bench_data / "peers" / "moldable_64_barrier.json"
    made = compile_instance(unfold(read_workflow_file(path)), load_platform(path))
    start = planned(made, "heft-moldable")
    found = MoldableGeneticPlanner().plan(
        PlanRequest(
            instance=made,
            objective=MAKESPAN,
            incumbent=start,
            budget=Budget(steps=8_000),
            rng=generator(1, "improve"),
        )
    )
    assert found.schedule.makespan_s < start.makespan_s <= 8_750


def test_several_machines_and_reservations_are_refused():
    several = MoldableGeneticPlanner().supports(
        instance(TASKS, platform({"nodes": 6}, {"nodes": 6})), MAKESPAN
    )
    assert "one machine, not 2" in several.reason
    later = BusyInterval(machine=0, start_s=2.0, finish_s=4.0, nodes=3)
    assert (
        "reservations"
        in MoldableGeneticPlanner().supports(instance(TASKS, "cluster:6", busy=(later,)), MAKESPAN).reason
    )
    now = BusyInterval(machine=0, start_s=0.0, finish_s=4.0, nodes=4)
    busy = instance(TASKS, "cluster:6", busy=(now,))
    assert MoldableGeneticPlanner().supports(busy, MAKESPAN) is None
    plan = run(MoldableGeneticPlanner(), busy)
    assert verify(plan.schedule, busy.graph, busy.platform) == []


@pytest.mark.parametrize("options", [{"population": -1}, {"generations": -1}, {"islands": 0}])
def test_invalid_options_are_refused(options):
    with pytest.raises(InvalidInput, match="must be at least"):
        MoldableGeneticPlanner(**options)
