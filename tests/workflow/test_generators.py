"""The generators of workflows: structures, numbers and parameters."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.formats.files import load_workflow
from weft.randomness import generator
from weft.reports.shape import measure_shape
from weft.workflow.checks import check_and_unfold
from weft.workflow.generators import GENERATORS
from weft.workflow.generators.generator import configure_generator, list_parameters
from weft.workflow.generators.layered import LayeredGraph
from weft.workflow.generators.moldable import Barrier, MoldableTimes
from weft.workflow.generators.montage import Montage, count_images_and_overlaps, find_overlaps


def graph_of(kind, seed=0, **parameters):
    return check_and_unfold(weft.generate(kind, seed=seed, **parameters).workflow)


def predecessors(graph):
    pointer = graph.predecessor_pointer.tolist()
    before = graph.predecessor.tolist()
    return [sorted(before[a:b]) for a, b in pairwise(pointer)]


def seconds_of(workflow):
    """Return the seconds by node count of each task of a moldable workflow, in the order of the tasks."""
    graph = check_and_unfold(workflow)
    return [
        (law := graph.description(task).speedup) and {
            nodes: seconds * graph.work[task] / law.seconds[1] for nodes, seconds in law.seconds.items()
        }
        for task in range(len(graph))
    ]  # fmt: skip


class TestMoldable:
    """The moldable workflows of docs/papers/moldable.md, sections 6 and 7."""

    def test_times_equal_those_of_the_reference_database(self, spec_data):
        known = json.loads((spec_data / "s2_perfdb_and_expected.json").read_text())
        simulation = MoldableTimes().simulation_seconds()
        assert [simulation[nodes] for nodes in range(1, 37)] == pytest.approx(known["ST"], rel=1e-12)
        assert list(simulation) == list(range(1, 37))

    def test_speedup_law_has_the_optima_of_the_paper(self):
        times = MoldableTimes().simulation_seconds()
        assert min(times, key=times.get) == 35
        assert times[35] == pytest.approx(105.3, abs=0.05)
        assert times[1] / (35 * times[35]) == pytest.approx(0.57, abs=0.005)
        for local in (16, 32):
            assert times[local] < min(times[local - 1], times[local + 1])
        assert MoldableTimes().processing_seconds(7) == {1: 116.0, 2: pytest.approx(69.6)}

    @pytest.mark.parametrize(
        ("name", "kind", "tasks"),
        [
            ("tree7", "reduction-tree", 7),
            ("tree15", "reduction-tree", 15),
            ("barrier8", "barrier", 8),
            ("barrier16", "barrier", 16),
        ],
    )
    def test_unperturbed_workflows_equal_the_reference(self, spec_data, name, kind, tasks):
        known = json.loads((spec_data / "s2_perfdb_and_expected.json").read_text())
        expected = known["workflows"][name]
        made = weft.generate(kind, tasks=tasks, perturbed=False)
        assert predecessors(check_and_unfold(made.workflow)) == expected["preds"]
        tables = [
            dict(enumerate(known["ST"], start=1))
            if kind == "S"
            else MoldableTimes().processing_seconds(files)
            for kind, files in zip(expected["kinds"], expected["inputs"], strict=True)
        ]
        for found, table in zip(seconds_of(made.workflow), tables, strict=True):
            assert found == pytest.approx(table, rel=1e-12)
        assert sum(found[1] for found in seconds_of(made.workflow)) == pytest.approx(expected["t_max"])
        assert [machine.nodes for machine in made.platform.machines] == [64]

    @pytest.mark.parametrize(
        ("kind", "tasks", "simulations"),
        [("barrier", 2 * (k + 1), 2 * k) for k in (1, 3, 7, 15, 31)]
        + [("reduction-tree", 2**q - 1, 2 ** (q - 1)) for q in (2, 3, 4, 5, 6)]
        + [("independent", n, n) for n in (1, 8, 16, 32, 64)],
    )
    def test_moldable_workflows_have_the_published_sizes_and_composition(self, kind, tasks, simulations):
        made = weft.generate(kind, tasks=tasks)
        widest = Counter(max(table) for table in seconds_of(made.workflow))
        assert widest == Counter({36: simulations, 2: tasks - simulations}) - Counter()

    @given(st.integers(0, 10**6), st.sampled_from(["barrier", "reduction-tree", "independent"]))
    @settings(max_examples=20)
    def test_perturbation_stays_within_its_bounds(self, seed, kind):
        tasks = 31 if kind == "reduction-tree" else 32
        plain = seconds_of(weft.generate(kind, tasks=tasks, perturbed=False).workflow)
        drawn = seconds_of(weft.generate(kind, tasks=tasks, seed=seed).workflow)
        for before, after in zip(plain, drawn, strict=True):
            factors = {after[nodes] / before[nodes] for nodes in before}
            assert max(factors) - min(factors) < 1e-9, "the whole table is stretched"
            most = 1.25 * 1.05 if len(before) == 36 else 1.05
            assert 0.95 - 1e-5 <= min(factors) <= max(factors) <= most + 1e-5

    def test_perturbation_is_uniform(self):
        tables = seconds_of(weft.generate("independent", tasks=5_000, seed=2).workflow)
        factors = np.array([table[1] for table in tables]) / 2100.0
        longer, fluctuation = 0.25**2 / 12, 0.1**2 / 12
        assert factors.mean() == pytest.approx(1.125, abs=0.005)
        assert factors.var() == pytest.approx(
            1.125**2 * fluctuation + longer + longer * fluctuation, rel=0.05
        )
        assert factors.min() < 0.96
        assert factors.max() > 1.30

    def test_times_of_moldable_workflows_can_be_changed(self):
        made = weft.generate(
            "barrier",
            tasks=6,
            perturbed=False,
            simulation_s="100s",
            serial_share=0.5,
            most_nodes=2,
            processing_s=10,
            file_s=1,
            second_node=0.7,
        )
        simulate, _, process = seconds_of(made.workflow)[:3]
        assert simulate == {1: 100.0, 2: 75.0}
        assert process == {1: 12.0, 2: pytest.approx(8.4)}
        quiet = weft.generate("barrier", tasks=6, seed=1, longer=0, fluctuation=0)
        assert [table[1] for table in seconds_of(quiet.workflow)] == [2100.0, 2100.0, 76.0] * 2

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"serial_share": 1.5}, "serial_share of barrier is 1.5; must be from 0 to 1"),
            ({"most_nodes": 0}, "most_nodes of barrier is 0; must be from 1"),
            ({"fluctuation": 1}, "fluctuation of barrier is 1"),
            ({"simulation_s": 0}, "simulation_s of barrier is 0"),
        ],
    )
    def test_impossible_times_are_refused(self, given, problem):
        with pytest.raises(weft.InvalidInput, match=problem):
            weft.generate("barrier", **given)

    @pytest.mark.parametrize("tasks", [0, 2, 3, 7, 17])
    def test_a_barrier_needs_an_even_number_of_tasks(self, tasks):
        with pytest.raises(weft.InvalidInput, match="an even number from 4"):
            Barrier(tasks=tasks)

    @pytest.mark.parametrize("tasks", [0, 1, 2, 8, 14, 16, 62])
    def test_number_of_tasks_of_a_tree_must_be_one_less_than_a_power_of_two(self, tasks):
        with pytest.raises(weft.InvalidInput, match="one less than a power of two"):
            weft.generate("reduction-tree", tasks=tasks)


class TestLayered:
    @given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.integers(0, 10**6))
    def test_generated_layers_are_graph_levels_of_about_equal_size(self, tasks, layers, density, seed):
        layers = min(tasks, layers)
        graph = graph_of("layered", seed, tasks=tasks, layers=layers, density=density)
        level = []
        for before in predecessors(graph):
            above = {level[task] for task in before}
            assert len(above) <= 1, "parents stand in one layer"
            level.append(above.pop() + 1 if above else 0)
        sizes = Counter(level)
        assert len(graph) == tasks
        assert sorted(sizes) == list(range(layers))
        assert max(sizes.values()) - min(sizes.values()) <= 1

    def test_density_is_the_probability_of_an_edge(self):
        for density, expected in ((0.0, 1.0), (0.25, 1 + 0.25 * 39), (1.0, 40.0)):
            graph = graph_of("layered", 3, tasks=1600, layers=40, density=density)
            assert graph.edge_count / 1560 == pytest.approx(expected, rel=0.02)

    @pytest.mark.parametrize("ccr", [0.1, 1.0, 10.0])
    def test_communication_to_computation_ratio_holds_at_the_bandwidth(self, ccr):
        made = weft.generate("layered", seed=1, tasks=4000, ccr=ccr, bandwidth_Bps=2e8, density=0)
        sizes = [task.outputs[0].size for task in made.workflow.tasks]
        work = [task.work for task in made.workflow.tasks]
        assert np.mean(sizes) / 2e8 / np.mean(work) == pytest.approx(ccr, rel=0.03)
        (link,) = made.platform.sites.values()
        assert link.bandwidth_Bps == 2e8

    def test_work_and_sizes_are_distributed_around_their_means(self):
        made = weft.generate(
            "layered", tasks=3000, work_s=10, work_spread=0.2, ccr=1, bytes_spread=0.9, density=0
        )
        work = np.array([task.work for task in made.workflow.tasks])
        sizes = np.array([task.outputs[0].size for task in made.workflow.tasks])
        assert (work.min(), work.max()) == pytest.approx((8.0, 12.0), abs=0.02)
        assert (sizes.min() / 1e10, sizes.max() / 1e10) == pytest.approx((0.1, 1.9), abs=0.01)

    def test_default_number_of_layers_is_the_square_root_of_the_tasks(self):
        assert measure_shape(graph_of("layered", tasks=400)).depth == 20

    def test_machines_have_the_given_heterogeneity(self):
        speeds = [machine.speed for machine in weft.generate("layered", machines=5).platform.machines]
        assert (len(speeds), min(speeds), max(speeds)) == (5, 1.0, 4.0)
        assert weft.generate("layered", machines=0).platform is None
        alike = weft.generate("layered", heterogeneity=1).platform
        assert {machine.speed for machine in alike.machines} == {1.0}

    def test_the_machines_do_not_change_the_workflow(self):
        few, many = (weft.generate("layered", seed=9, machines=number) for number in (2, 50))
        assert few.workflow == many.workflow


class TestForkJoin:
    @given(st.integers(1, 12), st.integers(1, 6))
    @settings(max_examples=20)
    def test_fork_join_edges_connect_split_tasks_and_joins(self, width, stages):
        graph = graph_of("fork-join", width=width, stages=stages)
        expected = [[]]
        for stage in range(stages):
            split = stage * (width + 1)
            expected += [[split]] * width
            expected.append(list(range(split + 1, split + width + 1)))
        assert predecessors(graph) == expected

    def test_parts_of_a_fork_join_workflow_have_the_given_work_and_sizes(self):
        made = weft.generate(
            "fork-join", width=500, stages=2, part_bytes="2MB", bytes_spread=0.5, work_s="1m"
        )
        parts = [task for task in made.workflow.tasks if task.name.startswith("part")]
        sizes = [task.outputs[0].size for task in parts]
        assert len(parts) == 1000
        assert (min(sizes), max(sizes)) == pytest.approx((1e6, 3e6), rel=0.02)
        assert np.mean([task.work for task in parts]) == pytest.approx(60, rel=0.03)

    def test_every_file_is_read_once(self):
        tasks = weft.generate("fork-join", width=4, stages=3).workflow.tasks
        written = [output.file for task in tasks for output in task.outputs]
        read = [given.file for task in tasks for given in task.inputs]
        assert len(set(written)) == len(written) == 2 * 3 * 4
        assert sorted(read) == sorted(written)

    def test_too_many_tasks_are_rejected(self):
        with pytest.raises(
            weft.InvalidInput, match=r"stages of fork-join is 1000000; must be at least 1, with"
        ):
            weft.generate("fork-join", width=10, stages=1_000_000)


PROGRAMS = {
    "mProjectPP", "mDiffFit", "mConcatFit", "mBgModel", "mBackground", "mImgtbl", "mAdd", "mShrink", "mJPEG",
}  # fmt: skip


class TestMontage:
    @pytest.mark.parametrize("tasks", [25, 100])
    def test_montage_resembles_the_published_workflow(self, bench_data, tasks):
        known = check_and_unfold(load_workflow(bench_data / "dax" / f"Montage_{tasks}.xml"))
        graph = graph_of("montage", tasks=tasks)
        seconds = {"known": {}, "made": {}}
        for name, found in (("known", known), ("made", graph)):
            for task in range(len(found)):
                program = found.description(task).program.lower()
                seconds[name].setdefault(program, []).append(found.work[task])
        counts = {
            name: {program: len(of) for program, of in found.items()} for name, found in seconds.items()
        }
        assert counts["made"] == counts["known"]
        for program in ("mprojectpp", "mdifffit", "mbackground"):
            assert np.mean(seconds["made"][program]) == pytest.approx(
                np.mean(seconds["known"][program]), rel=0.05
            )
        total = {name: sum(sum(of) for of in found.values()) for name, found in seconds.items()}
        assert total["made"] == pytest.approx(total["known"], rel=0.05)

    def test_montage_of_1000_tasks_has_the_published_number_of_images(self):
        assert count_images_and_overlaps(1000) == (166, 662)

    @pytest.mark.parametrize("tasks", [*range(17, 120), 500, 9999])
    def test_montage_of_any_number_of_tasks_has_connected_images(self, tasks):
        images, overlaps = count_images_and_overlaps(tasks)
        pairs = find_overlaps(images, overlaps)
        assert 6 + 2 * images + len(pairs) == tasks
        assert len(set(pairs)) == overlaps
        assert all(1 <= first < second <= images for first, second in pairs)
        reached, edge = {1}, [1]
        neighbours = {image: set() for image in range(1, images + 1)}
        for first, second in pairs:
            neighbours[first].add(second)
            neighbours[second].add(first)
        while edge:
            new = neighbours[edge.pop()] - reached
            reached |= new
            edge += new
        assert len(reached) == images

    @pytest.mark.parametrize("images", [7, 30])
    def test_the_nearest_images_overlap(self, images):
        columns = math.ceil(math.sqrt(images))
        overlaps = 2 * images
        pairs = set(find_overlaps(images, overlaps))

        def distance(pair):
            (a, b), (c, d) = (divmod(image - 1, columns) for image in pair)
            return (a - c) ** 2 + (b - d) ** 2

        every = {(a, b) for a in range(1, images + 1) for b in range(a + 1, images + 1)}
        assert pairs <= every
        assert max(map(distance, pairs)) <= min(map(distance, every - pairs))

    def test_montage_has_the_published_levels_and_edges(self):
        graph = graph_of("montage", tasks=60)
        images, overlaps = count_images_and_overlaps(60)
        assert {graph.description(task).program for task in range(len(graph))} == PROGRAMS
        assert measure_shape(graph).depth == 9
        # Two per difference, one per fit, the model, two per correction, the table, images twice, the rest.
        assert graph.edge_count == 2 * overlaps + overlaps + 1 + 2 * images + 2 * images + 1 + 2

    def test_factors_multiply_work_and_data(self):
        plain, large = (
            measure_shape(graph_of("montage", tasks=60, work_factor=factor, data_factor=factor))
            for factor in (1, 10)
        )
        assert large.work_s == pytest.approx(10 * plain.work_s, rel=1e-4)
        assert large.data_bytes == pytest.approx(10 * plain.data_bytes, rel=1e-2)

    def test_too_few_tasks_are_rejected(self):
        with pytest.raises(weft.InvalidInput, match="tasks of montage is 16; must be from 17"):
            Montage(tasks=16)


class TestParameters:
    def test_parameters_given_as_text_may_have_units(self):
        given = {"work_s": "1h30m", "bandwidth_Bps": "12.5MB/s", "tasks": "1e3", "density": "0.25"}
        expected = LayeredGraph(work_s=5400.0, bandwidth_Bps=12.5e6, tasks=1000, density=0.25)
        assert configure_generator(LayeredGraph, given) == expected

    def test_parameter_names_may_have_hyphens(self):
        assert configure_generator(LayeredGraph, {"work-spread": 0.1}).work_spread == 0.1

    @pytest.mark.parametrize(
        ("given", "found"), [("true", True), ("false", False), (True, True), (False, False)]
    )
    def test_flags_are_read_from_text(self, given, found):
        assert configure_generator(Barrier, {"perturbed": given}).perturbed is found

    @pytest.mark.parametrize(
        ("kind", "given", "message"),
        [
            ("layered", {"taks": 3}, "layered has no parameter 'taks'; did you mean 'tasks'?"),
            ("layered", {"zzzzzz": 3}, "layered has no parameter 'zzzzzz'; known: tasks, layers"),
            ("layered", {"tasks": "many"}, "tasks=many; must be a whole number"),
            ("layered", {"tasks": 2.5}, "tasks=2.5; must be a whole number"),
            ("layered", {"tasks": True}, "tasks=True; must be a whole number"),
            ("layered", {"tasks": None}, "tasks=None; must be a whole number"),
            ("layered", {"tasks": "9" * 400}, "must be a whole number"),
            ("layered", {"density": "nan"}, "density=nan; must be a number"),
            ("layered", {"density": float("inf")}, "density=inf; must be a number"),
            ("layered", {"work_s": "3 parsecs"}, "work_s=3 parsecs; must be a time"),
            ("layered", {"bandwidth_Bps": "fast"}, "bandwidth_Bps=fast; must be a bandwidth"),
            ("layered", {"bandwidth_Bps": "-1MB/s"}, "bandwidth_Bps=-1MB/s; must be a bandwidth"),
            ("fork-join", {"part_bytes": "big"}, "part_bytes=big; must be a size"),
            ("barrier", {"perturbed": "yes"}, "perturbed=yes; must be true or false"),
            ("barrier", {"perturbed": 1}, "perturbed=1; must be true or false"),
            ("sample-sweeps", {"graph": "ogt"}, "graph=ogt; must be one of ptg, otg-a"),
        ],
    )
    def test_invalid_parameter_values_are_reported(self, kind, given, message):
        with pytest.raises(weft.InvalidInput) as refused:
            weft.generate(kind, **given)
        assert message in str(refused.value)

    def test_description_of_a_generator_parameter_is_a_json_object(self):
        (first, *_) = list_parameters(Barrier)
        assert first.as_record() == {
            "name": "tasks",
            "default": 16,
            "meaning": "tasks in total, an even number",
        }


@pytest.mark.parametrize("kind", ["fork-join", "layered", "montage"])
def test_numbers_that_would_overflow_are_rejected(kind):
    numbers = [setting.name for setting in list_parameters(GENERATORS.load(kind)) if setting.type is float]
    shares = {name for name in numbers if name.endswith("spread") or name == "density"}
    for name in numbers:
        with pytest.raises(weft.InvalidInput, match=f"{name} of {kind} is 1e\\+300; must be from"):
            weft.generate(kind, **{name: 1e300})
    made = weft.generate(kind, **dict.fromkeys(set(numbers) - shares, 1e15))
    graph = check_and_unfold(made.workflow)
    assert np.isfinite(graph.work).all()
    assert np.isfinite(graph.edge_bytes).all()


class TestGenerate:
    def test_error_about_an_unknown_kind_suggests_the_nearest(self):
        with pytest.raises(
            weft.InvalidInput, match="unknown kind of workflow 'montag'; did you mean 'montage'"
        ):
            weft.generate("montag")

    def test_negative_generator_seed_is_rejected(self):
        with pytest.raises(weft.InvalidInput, match="seed -1"):
            weft.generate("montage", seed=-1)

    def test_generate_passes_parameters_and_seed_to_the_generator(self):
        assert len(check_and_unfold(weft.generate("montage", tasks=100, seed=3).workflow)) == 100
        direct = Montage(tasks=100).generate(generator(3, "generate", "montage"))
        assert weft.generate("montage", tasks=100, seed=3) == direct
