"""M-S and pM-S as policies of the engine, and the simulation of the benchmarks (A4.1, A4.2, A4.4)."""

from __future__ import annotations

import json
from itertools import accumulate

import pytest

from masters import run_masters
from policy_runs import run_all
from published.test_s4_static import compiled, random_vector, reference_example
from weft.randomness import generator
from weft.workflow.generators.sweep_graphs import RandomSweeps, SampleGraph, build_layered_sweeps

POLICIES = {"M-S": "m-s", "pM-S": "pm-s"}


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s4_expected.json").read_text())


def ran(layers, policy):
    """Run layers of sweeps; return machine (within the layer), start and finish per layer and subtask."""
    made = compiled(build_layered_sweeps(layers, "sweeps"))
    lines = run_all({"sweeps": made}, [(0.0, "sweeps")], policy).lines[0]
    sizes = [len(of) for of in layers.lengths]
    first_task, first_machine = accumulate(sizes, initial=0), [0, *accumulate(map(len, layers.throughputs))]
    found = []
    for layer, (begin, size) in enumerate(zip(first_task, sizes, strict=False)):
        of = [lines[name] for name in made.graph.names[begin : begin + size]]
        found.append([(line.machine - first_machine[layer], line.start_s, line.finish_s) for line in of])
    return found


def simulated(layers, name):
    run = run_masters(layers, priorities=name == "pM-S")
    return [list(zip(*of, strict=True)) for of in zip(run.machine, run.start_s, run.finish_s, strict=True)]


def times(found):
    """Return start and finish by name; t23 is the third subtask of the second layer."""
    return {
        f"t{layer}{number}": line[1:]
        for layer, lines in enumerate(found, start=1)
        for number, line in enumerate(lines, start=1)
    }


def test_a4_1_reference_example_without_priorities_equals_the_figure(figures):
    assert times(ran(reference_example(figures["fig5"]), "m-s")) == {
        "t11": (0, 1), "t12": (1, 5), "t13": (5, 9), "t14": (9, 10), "t22": (9, 11), "t21": (10, 12),
        "t31": (11, 12), "t32": (12, 22),
    }  # fmt: skip


def test_a4_1_reference_example_with_priorities_equals_the_figure(figures):
    assert times(ran(reference_example(figures["fig5"]), "pm-s")) == {
        "t11": (0, 1), "t14": (1, 2), "t21": (2, 4), "t12": (2, 6), "t32": (4, 14), "t13": (6, 10),
        "t22": (10, 12), "t31": (14, 15),
    }  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("number", range(6))
def test_a4_2_random_vectors_give_the_reference_makespans(figures, number, name):
    vector = figures["random"][number]
    found = ran(random_vector(vector), POLICIES[name])
    end = max(line[2] for of in found for line in of)
    assert end == pytest.approx(vector["expected"][name], rel=1e-6)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(4))
def test_policies_agree_with_an_independent_simulation(seed, name):
    layers = RandomSweeps(subtasks=80, layers=4).draw(generator(seed, "masters"))
    found, expected = ran(layers, POLICIES[name]), simulated(layers, name)
    assert [[line[0] for line in of] for of in found] == [[line[0] for line in of] for of in expected]
    for of, other in zip(found, expected, strict=True):
        assert of == [pytest.approx(line, rel=1e-12) for line in other]


@pytest.mark.parametrize("kind", [RandomSweeps(subtasks=100, parents=1.0), SampleGraph(graph="ptg")])
def test_a4_4_priorities_have_no_effect_if_every_subtask_has_one_parent(kind):
    layers = kind.draw(generator(0, "a4.4"))
    assert ran(layers, "pm-s") == ran(layers, "m-s")


def test_option_fastest_starts_the_first_subtask_on_the_fastest_machine():
    layers = RandomSweeps(subtasks=60, layers=3).draw(generator(0, "fastest"))
    first = {line[0] for line in ran(layers, "m-s:fastest=true")[0] if line[1] == 0.0}
    assert first == set(range(len(layers.throughputs[0])))
    alone = layers.throughputs[0].index(max(layers.throughputs[0]))
    assert ran(layers, "m-s:fastest=true")[0][0][0] == alone
