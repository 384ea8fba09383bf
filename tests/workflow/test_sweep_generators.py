"""Graphs of parameter sweeps: docs/papers/parameter-sweeps.md, sections 6 and 7."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml, read_platform_file, write_platform
from weft.randomness import generator
from weft.workflow.checks import check
from weft.workflow.generators.sweep_graphs import (
    RandomSweeps,
    SampleGraph,
    SampleName,
    SweepLayers,
    build_layered_sweeps,
    combined_trees,
    dense_in_tree,
    dense_out_tree,
    draw_layers,
    in_tree,
    out_tree,
    pipelines,
)
from weft.workflow.unfold import unfold

LAYERS = SweepLayers(
    lengths=((1.5, 2.0, 3.0), (4.0, 5.0)),
    throughputs=((1.0, 2.5), (4.0,)),
    parents=(((), (), ()), ((0, 2), (1,))),
)


def test_layers_become_sweeps_on_their_machines():
    made = build_layered_sweeps(LAYERS, "small")
    check(made.workflow)
    graph = unfold(made.workflow)
    assert graph.names == ("layer1[1]", "layer1[2]", "layer1[3]", "layer2[1]", "layer2[2]")
    assert graph.work.tolist() == [1.5, 2.0, 3.0, 4.0, 5.0]
    assert [graph.predecessors(task).tolist() for task in range(5)] == [[], [], [], [0, 2], [1]]
    assert [(m.name, m.speed, m.services) for m in made.platform.machines] == [
        ("r1-1", 1.0, ("layer1",)),
        ("r1-2", 2.5, ("layer1",)),
        ("r2-1", 4.0, ("layer2",)),
    ]


@pytest.mark.parametrize("kind", [RandomSweeps(subtasks=40), SampleGraph(graph="ctg")], ids=["random", "ctg"])
def test_writing_and_reading_gives_the_same_workflow(kind):
    made = kind.generate(generator(1, "test"))
    text = WeftYaml().write(made.workflow)
    assert WeftYaml().read(SourceFile(name="x.yaml", data=text.encode())) == made.workflow
    written = write_platform(made.platform)
    assert read_platform_file(SourceFile(name="p.yaml", data=written.encode())) == made.platform


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"parents": (((), (), ()),)}, "differ in the number or size of layers"),
        ({"throughputs": ((1.0,),)}, "differ in the number or size of layers"),
        ({"throughputs": ((1.0,), ())}, "layer 2 is empty; must have subtasks and machines"),
        ({"parents": (((), (), ()), ((3,), ()))}, "layer 2 has a parent 3; parents are numbered from 0 to 2"),
        ({"parents": (((), (0,), ()), ((), ()))}, "layer 1 has a parent 0"),
    ],
)
def test_inconsistent_layers_are_rejected(change, problem):
    fields = {"lengths": LAYERS.lengths, "throughputs": LAYERS.throughputs, "parents": LAYERS.parents}
    with pytest.raises(InvalidInput, match=problem):
        SweepLayers(**fields | change)


# Random graphs


def sizes(workflow):
    return [int(task.sweep.variables[0][1].high.text) for task in workflow.tasks]


@given(
    seed=st.integers(0, 10**6),
    subtasks=st.integers(1, 200),
    layers=st.integers(1, 12),
    per_machine=st.floats(1, 10),
    parents=st.floats(1, 6),
)
def test_random_graphs_have_the_given_factors(seed, subtasks, layers, per_machine, parents):
    layers = min(layers, subtasks)
    kind = RandomSweeps(
        subtasks=subtasks, layers=layers, subtasks_per_machine=per_machine, parents=parents, length_ratio=3.0
    )
    made = kind.generate(generator(seed, "test"))
    found = sizes(made.workflow)
    assert (sum(found), len(found)) == (subtasks, layers)
    machines = Counter(machine.services[0] for machine in made.platform.machines)
    assert list(machines.values()) == [max(1, round(size / per_machine)) for size in found]
    assert all(10 <= machine.speed <= 50 for machine in made.platform.machines)
    assert all(20 <= length <= 60 for of in made.workflow.params.values() for length in of)
    for before, size, task in zip(found, found[1:], made.workflow.tasks[1:], strict=False):
        pairs = task.after[0].pairs
        assert len(set(pairs)) == len(pairs) == min(round(parents * size), before * size)
        assert {child for _, child in pairs} == set(range(1, size + 1))
        assert {parent for parent, _ in pairs} <= set(range(1, before + 1))


def test_defaults_are_those_of_the_paper():
    made = RandomSweeps().generate(generator(1, "test"))
    found = sizes(made.workflow)
    assert (sum(found), len(found)) == (512, 5)
    mean = 512 / 5
    assert all(0.3 * mean < size < 2 * mean for size in found)
    lengths = np.concatenate(list(made.workflow.params.values()))
    assert (lengths.min(), lengths.max()) == (pytest.approx(20, rel=0.05), pytest.approx(100, rel=0.05))
    speeds = np.array([machine.speed for machine in made.platform.machines])
    assert (speeds.min(), speeds.max()) == (pytest.approx(10, rel=0.1), pytest.approx(50, rel=0.1))


def test_ratio_of_1_gives_equal_lengths_of_subtasks_and_equal_speeds_of_machines():
    made = RandomSweeps(length_ratio=1.0, throughput_ratio=1.0).generate(generator(1, "test"))
    assert {length for of in made.workflow.params.values() for length in of} == {20.0}
    assert {machine.speed for machine in made.platform.machines} == {10.0}


def test_parents_are_drawn_uniformly():
    made = RandomSweeps(subtasks=4000, layers=2, parents=4.0).generate(generator(1, "test"))
    before, size = sizes(made.workflow)
    children = Counter(parent for parent, _ in made.workflow.tasks[1].after[0].pairs)
    mean = 4.0 * size / before
    assert np.mean(list(children.values())) == pytest.approx(mean, rel=0.1)
    assert np.var([children[parent] for parent in range(1, before + 1)]) == pytest.approx(mean, rel=0.2)


@pytest.mark.parametrize("kind", [RandomSweeps, SampleGraph])
def test_graphs_are_reproducible_by_seed(kind):
    first, again, other = (kind().generate(generator(seed, "test")) for seed in (1, 1, 2))
    assert first == again
    assert first.workflow != other.workflow
    assert first.platform != other.platform


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (RandomSweeps, {"subtasks": 0}, "subtasks of sweeps is 0; must be from 1"),
        (
            RandomSweeps,
            {"layers": 513},
            "layers of sweeps is 513; must be at least 1, with at least one subtask",
        ),
        (RandomSweeps, {"length_ratio": 0.5}, "length_ratio of sweeps is 0.5; must be finite and at least 1"),
        (RandomSweeps, {"throughput_ratio": float("nan")}, "throughput_ratio of sweeps is nan"),
        (RandomSweeps, {"subtasks_per_machine": 0.0}, "subtasks_per_machine of sweeps is 0.0"),
        (RandomSweeps, {"parents": 0.5}, "parents of sweeps is 0.5; must be at least 1"),
        (RandomSweeps, {"parents": 1e6}, "parents of sweeps is 1000000.0"),
        (SampleGraph, {"graph": "xtg"}, "graph of sample-sweeps is xtg; must be one of ptg, otg-a"),
        (SampleGraph, {"length_ratio": 0.0}, "length_ratio of sample-sweeps is 0.0"),
        (SampleGraph, {"fan": 3}, "fan of sample-sweeps is 3; must be 0: ptg has none"),
        (SampleGraph, {"graph": "otg-a", "layers": -2}, "layers of sample-sweeps is -2; must be at least 0"),
        (
            SampleGraph,
            {"graph": "otg-a", "layers": 21},
            "layers of .* is 21; must be so small that there are",
        ),
        (
            SampleGraph,
            {"graph": "itg-b", "fan": 10**9},
            "fan of sample-sweeps is 1000000000; must be so small",
        ),
        (SampleGraph, {"graph": "dotg-a", "step": 4}, "step of .* is 4; .*the step does not exceed the fan"),
        (SampleGraph, {"graph": "ditg-b", "width": 271}, "width of .* is 271; .*exactly; 286 for example"),
        (SampleGraph, {"graph": "ctg", "layers": 12}, "layers of sample-sweeps is 12; must be 5, 9, 13"),
        (SampleGraph, {"subtasks_per_machine": 0.5}, "subtasks_per_machine of sample-sweeps is 0.5"),
        (SampleGraph, {"throughput": 0.0}, "throughput of sample-sweeps is 0.0"),
    ],
)
def test_invalid_factors_are_rejected(kind, given, problem):
    with pytest.raises(InvalidInput, match=problem):
        kind(**given)


# Sample graphs: parents by the formulas of section 7, written with indices from 1


def clipped(low, high, most):
    return tuple(x for x in range(1, most + 1) if low <= x <= high)


def by_formula(widths, parents_of):
    later = (
        tuple(tuple(x - 1 for x in parents_of(j, before)) for j in range(1, width + 1))
        for before, width in itertools.pairwise(widths)
    )
    return (((),) * widths[0], *later)


def ceiling(a, b):
    return -(-a // b)


@pytest.mark.parametrize(
    ("found", "widths", "parents_of"),
    [
        (pipelines(4, 3), [3, 3, 3, 3], lambda j, n: (j,)),
        (out_tree(4, 2), [1, 2, 4, 8], lambda j, n: ((j - 1) // 2 + 1,)),
        (out_tree(3, 3), [1, 3, 9], lambda j, n: ((j - 1) // 3 + 1,)),
        (in_tree(4, 2), [8, 4, 2, 1], lambda j, n: clipped(2 * (j - 1) + 1, 2 * j, n)),
        (in_tree(3, 3), [9, 3, 1], lambda j, n: clipped(3 * (j - 1) + 1, 3 * j, n)),
        (
            dense_out_tree(3, 4, 3, 1),
            [4, 6, 8],
            lambda j, n: tuple(x + 1 for x in range(n) if ceiling(j - 3, 1) <= x <= (j - 1) // 1),
        ),
        (
            dense_out_tree(3, 3, 4, 2),
            [3, 8, 18],
            lambda j, n: tuple(x + 1 for x in range(n) if ceiling(j - 4, 2) <= x <= (j - 1) // 2),
        ),
        (dense_in_tree(3, 8, 3, 1), [8, 6, 4], lambda j, n: clipped(j, j + 2, n)),
        (dense_in_tree(3, 18, 4, 2), [18, 8, 3], lambda j, n: clipped(2 * (j - 1) + 1, 2 * (j - 1) + 4, n)),
    ],
)
def test_parents_in_sample_graphs_follow_the_formulas(found, widths, parents_of):
    assert found == by_formula(widths, parents_of)


def test_dense_in_tree_whose_groups_do_not_cover_a_layer_exactly_is_rejected():
    with pytest.raises(
        InvalidInput,
        match="a layer has 7 subtasks; groups of 4 subtasks with a shift of 2 must cover it exactly",
    ):
        dense_in_tree(2, 7, 4, 2)


def test_each_copy_of_combined_trees_fans_out_and_then_fans_in():
    one, two = combined_trees(1, 1), combined_trees(1, 2)
    assert one == (
        ((),),
        ((0,), (0,)),
        ((0,), (0,), (0,), (1,), (1,), (1,)),
        ((0, 1, 2), (3, 4, 5)),
        ((0, 1),),
    )
    assert two[2] == one[2] + tuple((of[0] + 2,) for of in one[2])
    assert two[3] == (*one[3], (6, 7, 8), (9, 10, 11))
    assert two[4] == ((0, 1), (2, 3))
    assert [len(layer) for layer in combined_trees(3, 15)] == [15, *([30, 90, 30, 15] * 3)]


SIZES = {
    "ptg": (12, 516), "otg-a": (10, 1023), "itg-a": (10, 1023), "otg-b": (7, 1093), "itg-b": (7, 1093),
    "dotg-a": (5, 510), "ditg-a": (5, 510), "dotg-b": (5, 517), "ditg-b": (5, 517), "ctg": (13, 510),
}  # fmt: skip


@pytest.mark.parametrize("name", get_args(SampleName))
def test_sample_graphs_have_the_sizes_of_the_table(name):
    made = SampleGraph(graph=name).generate(generator(1, "test"))
    found = sizes(made.workflow)
    assert (len(found), sum(found)) == SIZES[name]
    per_machine = 6 if name == "ptg" else 10
    machines = Counter(machine.services[0] for machine in made.platform.machines)
    assert list(machines.values()) == [max(1, round(size / per_machine)) for size in found]


@pytest.mark.parametrize(
    ("given", "widths"),
    [
        ({"graph": "ptg", "layers": 3, "width": 4}, [4, 4, 4]),
        ({"graph": "otg-b", "layers": 3, "fan": 4}, [1, 4, 16]),
        ({"graph": "itg-a", "layers": 3, "fan": 5}, [25, 5, 1]),
        ({"graph": "dotg-a", "layers": 3, "width": 3, "fan": 4, "step": 2}, [3, 8, 18]),
        ({"graph": "ditg-a", "layers": 3, "width": 18, "fan": 4, "step": 2}, [18, 8, 3]),
        ({"graph": "ctg", "layers": 5, "width": 2, "fan": 3, "inner_fan": 2}, [2, 6, 12, 6, 2]),
        ({"graph": "otg-a", "layers": 4, "fan": 1}, [1, 1, 1, 1]),
    ],
)
def test_all_sizes_of_sample_graphs_can_be_changed(given, widths):
    made = SampleGraph(**given, subtasks_per_machine=2.0).generate(generator(1, "test"))
    assert sizes(made.workflow) == widths
    machines = Counter(machine.services[0] for machine in made.platform.machines)
    assert list(machines.values()) == [max(1, round(size / 2)) for size in widths]


@pytest.mark.parametrize("kind", [RandomSweeps, SampleGraph])
def test_base_length_and_throughput_can_be_changed(kind):
    layers = kind(length=3.0, throughput=7.0, length_ratio=2.0, throughput_ratio=1.0).draw(generator(1, "t"))
    lengths = [length for of in layers.lengths for length in of]
    assert 3.0 <= min(lengths) <= max(lengths) <= 6.0
    assert {speed for of in layers.throughputs for speed in of} == {7.0}


def test_draw_layers_adds_lengths_and_throughputs_to_the_parents():
    layers = draw_layers(
        generator(1, "test"), out_tree(3, 2), length_ratio=2.0, throughput_ratio=3.0, subtasks_per_machine=2.0
    )
    assert [len(of) for of in layers.lengths] == [1, 2, 4]
    assert [len(of) for of in layers.throughputs] == [1, 1, 2]
    assert layers.parents == out_tree(3, 2)
