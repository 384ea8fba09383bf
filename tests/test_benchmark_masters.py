"""The reference simulations of M-S and pM-S for the sweep benchmark: A4.1, A4.2 and A4.4."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masters import run_masters
from published.test_s4_static import random_vector, reference_example
from weft.randomness import generator
from weft.workflow.generators.sweep_graphs import RandomSweeps, SampleGraph, SweepLayers


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s4_expected.json").read_text())


def times(run):
    """Return start and finish by name; t23 is the third subtask of the second layer."""
    return {
        f"t{layer}{number}": line
        for layer, lines in enumerate(zip(run.start_s, run.finish_s, strict=True), start=1)
        for number, line in enumerate(zip(*lines, strict=True), start=1)
    }


def test_a4_1_reference_simulation_without_priorities_equals_the_figure(figures):
    run = run_masters(reference_example(figures["fig5"]), priorities=False)
    assert times(run) == {
        "t11": (0, 1), "t12": (1, 5), "t13": (5, 9), "t14": (9, 10), "t22": (9, 11), "t21": (10, 12),
        "t31": (11, 12), "t32": (12, 22),
    }  # fmt: skip
    assert run.makespan_s == figures["fig5"]["expected"]["M-S"] == 22


def test_a4_1_reference_simulation_with_priorities_equals_the_figure(figures):
    run = run_masters(reference_example(figures["fig5"]), priorities=True)
    assert times(run) == {
        "t11": (0, 1), "t14": (1, 2), "t21": (2, 4), "t12": (2, 6), "t32": (4, 14), "t13": (6, 10),
        "t22": (10, 12), "t31": (14, 15),
    }  # fmt: skip
    assert run.makespan_s == figures["fig5"]["expected"]["pM-S"] == 15


@pytest.mark.parametrize(("priorities", "name"), [(False, "M-S"), (True, "pM-S")])
@pytest.mark.parametrize("number", range(6))
def test_a4_2_reference_simulations_of_random_vectors_equal_the_fixture(figures, number, priorities, name):
    vector = figures["random"][number]
    run = run_masters(random_vector(vector), priorities=priorities)
    assert run.makespan_s == pytest.approx(vector["expected"][name], rel=1e-6)


@pytest.mark.parametrize(
    "kind",
    [
        RandomSweeps(parents=1.0),
        SampleGraph(graph="ptg"),
        SampleGraph(graph="otg-a"),
        SampleGraph(graph="otg-b"),
    ],
    ids=["adps-1", "ptg", "otg-a", "otg-b"],
)
def test_a4_4_priorities_have_no_effect_if_every_subtask_has_one_parent(kind):
    for seed in range(3):
        layers = kind.draw(generator(seed, "a4.4"))
        assert run_masters(layers, priorities=True) == run_masters(layers, priorities=False)


def test_priorities_change_the_schedule_of_other_graphs():
    layers = SampleGraph(graph="itg-a").draw(generator(0, "a4.4"))
    assert run_masters(layers, priorities=True) != run_masters(layers, priorities=False)


def test_subtasks_that_end_together_are_processed_one_by_one():
    # Both subtasks of layer 1 end at 1. The end of the first starts the second subtask of layer 2 on the better
    # machine, although the first subtask of layer 2 becomes ready at the same time.
    layers = SweepLayers(
        lengths=((1.0, 1.0), (6.0, 6.0)),
        throughputs=((1.0, 1.0), (2.0, 1.0)),
        parents=(((), ()), ((1,), (0,))),
    )
    run = run_masters(layers, priorities=False)
    assert run.machine[1] == (1, 0)
    assert run.finish_s[1] == (7.0, 4.0)


@given(seed=st.integers(0, 10**6), priorities=st.booleans())
def test_no_machine_is_idle_while_a_subtask_of_its_layer_is_ready(seed, priorities):
    rng = generator(seed, "masters")
    layers = small_layers(rng)
    run = run_masters(layers, priorities=priorities)
    for layer, parents in enumerate(layers.parents):
        throughputs = layers.throughputs[layer]
        lines = list(zip(run.machine[layer], run.start_s[layer], run.finish_s[layer], strict=True))
        ready = [max((run.finish_s[layer - 1][parent] for parent in of), default=0.0) for of in parents]
        for length, moment, (machine, start, finish) in zip(layers.lengths[layer], ready, lines, strict=True):
            assert finish == start + length / throughputs[machine]
            assert start >= moment
        assert_alone(lines)
        for moment in {start for _, start, _ in lines} | set(ready):
            waiting = sum(since <= moment < line[1] for since, line in zip(ready, lines, strict=True))
            busy = sum(start <= moment < finish for _, start, finish in lines)
            assert not waiting or busy == len(throughputs)


def assert_alone(lines):
    """Assert that each subtask on a machine starts after the previous one has ended."""
    ends = Counter()
    for machine, start, finish in sorted(lines, key=lambda line: line[1]):
        assert start >= ends[machine]
        ends[machine] = finish


def small_layers(rng):
    """Draw layers of few subtasks with small integer lengths, so that many end together."""
    sizes = rng.integers(1, 7, size=3).tolist()
    parents = [((),) * sizes[0]]
    for before, size in itertools.pairwise(sizes):
        counts = rng.integers(0, before + 1, size=size).tolist()
        parents.append(tuple(tuple(sorted(rng.permutation(before)[:count].tolist())) for count in counts))
    return SweepLayers(
        lengths=tuple(tuple(map(float, rng.integers(1, 4, size=size))) for size in sizes),
        throughputs=tuple(tuple(map(float, rng.integers(1, 3, size=rng.integers(1, 4)))) for _ in sizes),
        parents=tuple(parents),
    )
