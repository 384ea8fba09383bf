"""Shuffle and xDCP: A4.1, A4.2, and A4.3 (invariants of xDCP)."""

from __future__ import annotations

import json

import pytest

from planning_examples import MAKESPAN
from weft.instance import compile_instance
from weft.planners.planner import Budget, PlanRequest
from weft.planners.sweeps import Shuffle, SweepQueues
from weft.planners.xdcp import Xdcp
from weft.randomness import generator
from weft.schedule.verification import verify
from weft.workflow.generators.sweep_graphs import RandomSweeps, SampleGraph, SweepLayers, build_layered_sweeps
from weft.workflow.unfold import unfold


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s4_expected.json").read_text())


def compiled(generated):
    return compile_instance(unfold(generated.workflow), generated.platform)


def reference_example(figure):
    """Return the reconstructed figures 5 and 7; t23 is the third subtask of the second layer."""
    lengths = figure["lengths"]
    parents = tuple(
        tuple(
            tuple(int(parent[2:]) - 1 for parent in figure["parents"].get(f"t{layer}{number}", ()))
            for number in range(1, len(of) + 1)
        )
        for layer, of in enumerate(lengths, start=1)
    )
    throughputs = tuple((1.0,) * count for count in figure["resources"])
    return SweepLayers(lengths=tuple(map(tuple, lengths)), throughputs=throughputs, parents=parents)


def random_vector(vector):
    later = (
        tuple(tuple(parent - 1 for parent in of) for of in layer)
        for layer in vector["parents_1based_per_layer"]
    )
    return SweepLayers(
        lengths=tuple(map(tuple, vector["lengths"])),
        throughputs=tuple(map(tuple, vector["throughputs"])),
        parents=(((),) * len(vector["lengths"][0]), *later),
    )


def makespan(planner, made):
    assert planner.supports(made, MAKESPAN) is None
    plan = planner.plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(), rng=generator(0, "test"))
    )
    assert verify(plan.schedule, made.graph, made.platform) == []
    return plan.schedule.makespan_s


def test_a4_1_static_plans_of_the_reference_example_equal_the_figures(figures):
    figure = figures["fig5"]
    made = compiled(build_layered_sweeps(reference_example(figure), "figure5"))
    assert makespan(Shuffle(), made) == figure["expected"]["shuffle"] == 22
    assert makespan(Xdcp(), made) == figure["expected"]["xDCP"] == 22


@pytest.mark.parametrize("number", range(6))
def test_a4_2_static_plans_of_the_random_vectors_equal_the_reference(figures, number):
    vector = figures["random"][number]
    expected = vector["expected"]
    made = compiled(build_layered_sweeps(random_vector(vector), "random"))
    shuffled, improved = makespan(Shuffle(), made), makespan(Xdcp(), made)
    assert shuffled == pytest.approx(expected["shuffle"], rel=1e-6)
    assert improved <= shuffled
    # A4.2 requires 5 %; with the corrections of docs/papers the passes are equal.
    assert improved == pytest.approx(expected["xDCP_reference"], rel=1e-9)


@pytest.mark.parametrize(
    "generated",
    [
        RandomSweeps(subtasks=40, layers=3),
        RandomSweeps(subtasks=40, layers=4, subtasks_per_machine=2.0, parents=1.0),
        SampleGraph(graph="ptg"),
    ],
    ids=["random", "sparse", "pipelines"],
)
@pytest.mark.parametrize("start", ["shuffle", "sequential"])
def test_a4_3_no_step_increases_the_makespan_and_every_step_is_valid(generated, start):
    made = compiled(generated.generate(generator(4, "a4.3")))
    queues = SweepQueues(made, "own", start=start)
    queues.placed[:] = 0
    before = queues.length_s
    assert before > 0
    for step in range(min(60, len(made))):
        assert queues.move_tasks(1) == 1
        assert queues.length_s <= before * (1 + 1e-9)
        assert (queues.times.latest - queues.times.finish).min() >= -1e-9 * before
        if step % 20 == 0:
            assert verify(queues.schedule(), made.graph, made.platform) == []
        before = queues.length_s
