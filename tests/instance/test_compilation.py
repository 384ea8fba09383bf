"""Compilation: candidates and modes of every task, and the error messages if there are none."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from planning_examples import instance, platform, workflow
from weft.errors import Infeasible, InvalidInput
from weft.formats.files import load_platform
from weft.instance import BusyInterval, compile_instance
from weft.instance.candidates import list_conditions
from weft.platform.platform import Share
from weft.workflow.unfold import unfold

FOUR = platform(
    {"speed": 1.0, "arch": "x86_64"},
    {"speed": 2.0, "nodes": 4, "memory": 8e9},
    {"speed": 3.0, "cores": 8, "resources": {"licence": 2}},
    {"nodes": 6, "backend": {"kind": "local"}},
)


def candidates(tasks, on=FOUR, **options):
    """Return the names of the candidates of every binding variable."""
    made = instance(tasks, on, **options)
    return {
        name: [made.machines[machine].name for machine in made.candidates_of(variable)]
        for variable, name in enumerate(made.graph.variables)
    }


def modes(tasks, task, on=FOUR):
    """Return the modes of one task as (machine, count, nodes, seconds)."""
    made = instance(tasks, on)
    found = made.modes(made.graph.index(task))
    columns = (found.machine, found.count, found.nodes, found.seconds)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def refusal(tasks, on=FOUR, **options):
    with pytest.raises(Infeasible) as caught:
        instance(tasks, on, **options)
    return str(caught.value)


class TestCandidates:
    def test_task_without_conditions_can_run_everywhere(self):
        assert candidates({"a": {"work": 1}})["a"] == ["m0", "m1", "m2", "m3"]

    def test_requirements_filter_machines(self):
        assert candidates({"a": {"work": 1, "requirements": "speed >= 2"}})["a"] == ["m1", "m2"]

    def test_comparisons_with_unstated_attributes_are_false(self):
        assert candidates({"a": {"work": 1, "requirements": "memory >= 1"}})["a"] == ["m1"]
        assert candidates({"a": {"work": 1, "requirements": 'arch == "x86_64"'}})["a"] == ["m0"]

    def test_requirements_that_evaluate_to_a_number_are_refused(self):
        with pytest.raises(InvalidInput, match=r"requirements speed evaluate to 1\.0, not to true or false"):
            candidates({"a": {"work": 1, "requirements": "speed"}})

    def test_requirements_may_use_sweep_variables_and_parameters(self):
        tasks = {"a": {"work": 1, "sweep": {"k": "1..3"}, "requirements": "speed >= k * scale"}}
        made = compile_instance(unfold(workflow(tasks, params={"scale": 1})), FOUR)
        assert [made.candidates_of(variable).tolist() for variable in range(3)] == [[0, 1, 2, 3], [1, 2], [2]]

    def test_equal_requirements_share_one_candidate_set(self):
        tasks = {"a": {"work": 1, "sweep": {"k": "1..50"}, "requirements": "speed >= 2"}}
        made = instance(tasks, FOUR)
        assert len(set(made.candidates.tolist())) == 1
        assert len(made.groups) == 1

    def test_service_restricts_machines(self):
        offering = platform({"services": ("dock",)}, {"speeds": {"dock": 2.0}}, {})
        assert candidates({"a": {"work": 1, "service": "dock"}}, offering)["a"] == ["m0", "m1"]

    def test_share_of_a_machine_runs_only_tasks_of_its_service(self):
        shared = platform(
            {"nodes": 4, "services": ("dock",)}, {}, virtual=(Share(machine="m0", service="dock", nodes=1),)
        )
        found = candidates({"a": {"work": 1, "service": "dock"}, "b": {"work": 1}}, shared)
        assert found["a"] == ["m0", "m0/dock"]
        assert found["b"] == ["m0", "m1"]

    def test_required_cores_refer_to_one_node_of_a_cluster_and_to_nodes_of_a_shared_host(self):
        assert candidates({"a": {"work": 1, "cores": 4}})["a"] == ["m2", "m3"]
        assert candidates({"a": {"work": 1, "cores": 7}})["a"] == ["m2"]

    def test_node_counts_need_machines_with_that_many_nodes(self):
        assert candidates({"a": {"work": 1, "nodes": [3, 5]}})["a"] == ["m1", "m3"]

    def test_shared_host_must_have_all_cores_of_the_smallest_count(self):
        assert candidates({"a": {"work": 1, "nodes": [2, 3], "cores": 3}})["a"] == ["m3"]
        assert "no machine can run a" in refusal({"a": {"work": 1, "nodes": [3], "cores": 3}})

    def test_node_count_without_an_estimate_is_not_a_candidate(self):
        # Two nodes fit the shared host, but only four are measured, and four times two cores do not fit.
        tasks = {"a": {"nodes": [2, 4], "cores": 2, "work": 5, "speedup": {"seconds": {4: 5, 8: 3}}}}
        assert "a node count that fits" in refusal(tasks)

    def test_unstated_memory_is_unlimited(self):
        assert candidates({"a": {"work": 1, "memory": "9GB"}})["a"] == ["m0", "m2", "m3"]

    def test_unstated_resources_are_0(self):
        assert candidates({"a": {"work": 1, "resources": {"licence": 2}}})["a"] == ["m2"]
        assert "has 3 of licence in total" in refusal({"a": {"work": 1, "resources": {"licence": 3}}})

    def test_machines_without_explicit_seconds_are_not_candidates(self):
        assert candidates({"a": {"seconds": {"m1": 4, "m3": 5}}})["a"] == ["m1", "m3"]

    def test_virtual_tasks_have_no_machine_restriction(self):
        assert candidates({"a": {"kind": "virtual"}})["a"] == ["m0", "m1", "m2", "m3"]


class TestAbstractMachines:
    def test_candidates_of_an_abstract_machine_are_accepted_by_all_its_tasks(self):
        tasks = {
            "a": {"work": 1, "machine": "A", "requirements": "speed >= 2"},
            "b": {"work": 1, "machine": "A", "cores": 4, "after": "a"},
            "c": {"work": 1, "machine": "A", "after": "b"},
        }
        assert candidates(tasks) == {"A": ["m2"]}

    def test_transfers_do_not_restrict_candidates(self):
        tasks = {
            "a": {"work": 1, "machine": "A", "requirements": "speed >= 2"},
            "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "1MB", "after": "a"},
        }
        assert candidates(tasks) == {"A": ["m1", "m2"], "B": ["m0", "m1", "m2", "m3"]}

    def test_abstract_machine_named_by_a_sweep_variable_is_separate_for_every_point(self):
        tasks = {
            "a": {"work": 1, "sweep": {"k": "1..2"}, "machine": "A-{k}"},
            "b": {"work": 1, "sweep": {"k": "1..2"}, "machine": "A-{k}", "requirements": "speed > k"},
        }
        assert candidates(tasks) == {"A-1": ["m1", "m2"], "A-2": ["m2"]}

    def test_error_about_conflicting_tasks_of_an_abstract_machine_states_the_reasons(self):
        tasks = {
            "a": {"work": 1, "machine": "A", "requirements": "speed >= 3"},
            "b": {"work": 1, "machine": "A", "nodes": 4},
        }
        text = refusal(tasks)
        assert "'A'" in text
        assert "a: 3 of 4 machines fail 'requirements speed >= 3'" in text
        assert "b: 2 of 4 machines fail 'has 4 nodes (the largest has 6)'" in text

    def test_task_of_an_abstract_machine_that_cannot_run_is_reported_alone(self):
        tasks = {"a": {"work": 1, "machine": "A"}, "b": {"work": 1, "machine": "A", "nodes": 9}}
        assert refusal(tasks).startswith("no machine can run b: 4 of 4 machines fail 'has 9 nodes")

    @pytest.mark.parametrize(
        ("keys", "hint"),
        [
            (
                {"nodes": 9, "cores": 4, "memory": "1.5GB"},
                "--on cluster:9,cores=4,memory=1500MB is large enough",
            ),
            ({"service": "dock"}, "a machine that has services: [dock]"),
            ({"gpus": 2, "resources": {"licence": 3}}, "at least gpus: 2, resources: {licence: 3}"),
            ({"seconds": {"P1": 3, "P2": 4}}, "stated for the machines P1, P2"),
        ],
    )
    def test_error_about_a_task_without_a_machine_describes_a_suitable_platform(self, keys, hint):
        assert hint in refusal({"b": {"work": 1} | keys if "seconds" not in keys else keys})


class TestModes:
    def test_modes_are_ordered_by_machine_then_count(self):
        tasks = {"a": {"work": 8, "nodes": [1, 2, 4], "speedup": {"roofline": 4}}}
        assert modes(tasks, "a")[:4] == [(0, 1, 1, 8.0), (1, 1, 1, 4.0), (1, 2, 2, 2.0), (1, 4, 4, 1.0)]

    def test_every_core_of_a_task_occupies_one_node_of_a_shared_host(self):
        tasks = {"a": {"work": 8, "nodes": [1, 2], "cores": 3, "speedup": {"roofline": 2}}}
        assert modes(tasks, "a") == [(2, 1, 1, 8 / 3), (3, 1, 3, 8.0), (3, 2, 6, 4.0)]

    def test_requirements_and_other_tasks_of_an_abstract_machine_reduce_modes(self):
        tasks = {
            "a": {"work": 8, "machine": "A"},
            "b": {"work": 6, "machine": "A", "requirements": "speed == 2"},
        }
        assert modes(tasks, "a") == [(1, 1, 1, 4.0)]

    @pytest.mark.parametrize(
        ("keys", "layout"),
        [
            ({"work": 6}, "related"),
            ({"seconds": 6}, "related"),
            ({"seconds": {"m0": 6, "m2": 3}}, "table"),
        ],
    )
    def test_every_layout_of_modes_has_the_same_interface(self, keys, layout):
        made = instance({"a": {**keys, "sweep": {"k": "1..3"}}, "b": {"kind": "virtual", "after": "a"}}, FOUR)
        assert made.seconds.layout == layout
        assert_groups_agree(made)

    def test_modes_with_mixed_kinds_of_times_are_grouped_by_class(self):
        tasks = {
            "a": {"seconds": {"m0": 6, "*": 3}, "sweep": {"k": "1..40"}},
            "b": {"work": 2, "sweep": {"k": "1..40"}, "nodes": [1, 2]},
        }
        made = instance(tasks, FOUR)
        assert made.seconds.layout == "classes"
        assert_groups_agree(made)

    def test_work_whose_duration_overflows_is_infeasible(self):
        slow = platform({"speed": 1e-305}, {"speed": 1.0})
        made = instance({"a": {"work": 1e6}, "b": {"work": 1}}, slow)
        assert made.modes(0).machine.tolist() == [1]
        assert made.modes(1).machine.tolist() == [0, 1]


def assert_groups_agree(made):
    """Assert that the modes of the groups agree with the estimates of every task."""
    seen = []
    for group in made.groups:
        for tasks, seconds in group.chunks():
            for task, row in zip(tasks.tolist(), seconds, strict=True):
                seen.append(task)
                machine, count, expected = made.seconds.modes(task)
                assert made.modes(task).machine.tolist() == machine.tolist()
                assert made.modes(task).count.tolist() == count.tolist()
                assert made.modes(task).seconds.tolist() == expected.tolist() == row.tolist()
    assert sorted(seen) == np.flatnonzero(made.group >= 0).tolist()
    assert made.shortest_s()[seen].tolist() == [made.modes(task).seconds.min() for task in seen]


PINNABLE = {"a": {"work": 1, "machine": "A", "requirements": "speed > 1"}, "b": {"work": 1}}


class TestPins:
    def test_pins_bind_abstract_machines_and_tasks(self):
        made = instance(PINNABLE, FOUR, pinned={"A": "m2", "b": "m0"})
        assert made.pinned == {0: 2, 1: 0}

    def test_pin_to_a_rejected_machine_is_infeasible(self):
        assert "cannot pin 'A' to 'm0'" in refusal(PINNABLE, pinned={"A": "m0"})

    @pytest.mark.parametrize(
        ("pins", "advice"), [({"AA": "m1"}, "did you mean 'A'?"), ({"b": "m33"}, "did you mean 'm3'?")]
    )
    def test_unknown_names_are_invalid_input(self, pins, advice):
        with pytest.raises(InvalidInput) as caught:
            instance(PINNABLE, FOUR, pinned=pins)
        assert next(iter(pins if "AA" in pins else pins.values())) in str(caught.value)
        assert caught.value.problems[0].advice == advice

    def test_pin_applies_to_task_and_abstract_machine_of_the_same_name(self):
        tasks = {"a": {"work": 1}, "b": {"work": 1, "machine": "a"}}
        assert instance(tasks, FOUR, pinned={"a": "m1"}).pinned == {0: 1, 1: 1}


class TestRequirementMistakes:
    @pytest.mark.parametrize(
        ("text", "printed"),
        [("sped > 1", "speed"), ("speed + 1", "true or false"), ("arch > 3", "arch")],
    )
    def test_error_about_unmet_requirements_has_the_location_of_the_requirements(self, text, printed):
        with pytest.raises(InvalidInput) as caught:
            instance({"a": {"work": 1, "requirements": text}}, FOUR)
        problem = caught.value.problems[0]
        assert problem.path == ("tasks", "a", "requirements")
        assert problem.location is not None
        assert printed in str(problem)


class TestProfile:
    def test_busy_intervals_and_earliest_starts_are_stored(self):
        held = (BusyInterval(machine=1, start_s=0.0, finish_s=5.0, nodes=2),)
        made = instance({"a": {"work": 1}}, FOUR, busy=held, earliest_start_s=np.array([3.0]))
        assert made.busy == held
        assert made.earliest_start_s.tolist() == [3.0]

    def test_earliest_starts_are_0_by_default(self):
        made = instance({"a": {"work": 1}}, FOUR)
        assert (made.busy, made.earliest_start_s.tolist()) == ((), [0.0])

    def test_unstated_amounts_are_infinite_memory_and_0_licences(self):
        tasks = {"a": {"work": 1, "memory": "1GB", "resources": {"licence": 1}}}
        made = instance(tasks, FOUR)
        assert made.graph.resource_names == ("licence", "memory")
        assert made.amounts.tolist() == [[0, np.inf], [0, 8e9], [2, np.inf], [0, np.inf]]

    def test_prices_are_per_node_second(self):
        made = instance({"a": {"work": 1}}, platform({"price_per_node_hour": 7.2}))
        assert made.price_per_node_s.tolist() == [pytest.approx(0.002)]


def test_planned_nodes_of_the_local_machine_are_whole_cores():
    made = instance({"a": {"work": 1, "cores": 2}}, load_platform("local:4"))
    assert made.modes(0).nodes.tolist() == [2]


def test_condition_about_one_node_uses_the_singular():
    made = instance({"a": {"work": 1}}, load_platform("cluster:2"))
    texts = [text for text, _ in list_conditions(made, 0)]
    assert "has 1 node (the largest has 2)" in texts


def test_rejection_of_a_machine_that_is_too_small_states_one_reason():
    flow = weft.Builder("wide")
    flow.task("a", nodes=512, work=1)
    with pytest.raises(weft.Infeasible) as caught:
        weft.plan(flow.build(), on="identical:4")
    assert str(caught.value).count("of 4 machines fail") == 1
    assert "has 512 nodes (the largest has 1)" in str(caught.value)
