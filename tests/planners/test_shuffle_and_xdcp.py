"""Shuffle and xDCP: supported instances, initial queues, passes and budgets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import MAKESPAN, instance, lines, platform
from weft.errors import InvalidInput
from weft.instance import BusyInterval, compile_instance
from weft.planners import sweeps
from weft.planners.planner import Budget, PlanRequest, Unsupported, make_planner
from weft.planners.sweeps import Shuffle, divide_machines, find_layers
from weft.planners.xdcp import Xdcp
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.verification import verify
from weft.workflow.generators.sweep_graphs import RandomSweeps, SweepLayers, build_layered_sweeps
from weft.workflow.unfold import unfold


def compiled(generated):
    return compile_instance(unfold(generated.workflow), generated.platform)


def random_instance(seed, **parameters):
    return compiled(RandomSweeps(**parameters).generate(generator(seed, "sweeps")))


def plan(planner, made, budget=None):
    assert planner.supports(made, MAKESPAN) is None
    found = planner.plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=budget or Budget(), rng=generator(0, "test"))
    )
    assert verify(found.schedule, made.graph, made.platform) == []
    return found


def makespan(planner, made):
    return plan(planner, made).schedule.makespan_s


def layer(number, size, after=None, **more):
    keys = {"sweep": {"j": f"1..{size}"}, "work": "j", "service": f"s{number}"}
    return keys | ({} if after is None else {"after": after}) | more


def servers(*services):
    return platform(*({"services": (service,)} for service in services))


def refused(planner, made, objective=MAKESPAN):
    answer = planner.supports(made, objective)
    assert isinstance(answer, Unsupported)
    return answer.reason


# Supported instances


THREE = {"a": layer(1, 5), "b": layer(2, 3, "a[j]"), "c": layer(3, 2, ["b[j]", "a[j+3]"])}
ROOMS = servers("s1", "s1", "s2", "s3", "s3")


def test_subtasks_with_the_same_machines_form_a_layer():
    made = instance(THREE, ROOMS)
    found = find_layers(made, "own")
    assert found.layer.tolist() == [0] * 5 + [1] * 3 + [2] * 2
    assert found.position.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1]


def test_subtasks_without_predecessors_belong_to_the_layer_of_their_machines():
    tasks = {"a": layer(1, 2), "b": layer(2, 4, {"task": "a", "pairs": [[1, 1], [2, 3]]})}
    made = instance(tasks, servers("s1", "s2"))
    assert find_layers(made, "own").layer.tolist() == [0, 0, 1, 1, 1, 1]
    assert sorted(find_layers(made, "shared").layer.tolist()) == [0, 0, 0, 0, 1, 1]


def test_shuffle_assigns_the_subtasks_of_a_layer_in_turn():
    found = lines(plan(Shuffle(), instance(THREE, ROOMS)).schedule)
    assert [found[f"a[{j}]"][0] for j in range(1, 6)] == ["m0", "m1", "m0", "m1", "m0"]
    assert [found[f"c[{j}]"][0] for j in (1, 2)] == ["m3", "m4"]
    assert found["a[5]"] == ("m0", 1, 4.0, 9.0)  # after a[1] and a[3]
    assert found["b[2]"] == ("m2", 1, 2.0, 4.0)  # after its parent a[2], and after b[1]
    assert found["c[2]"] == ("m4", 1, 9.0, 11.0)  # after its parents b[2] and a[5]


def test_virtual_tasks_need_no_machine():
    tasks = {"a": layer(1, 4), "all": {"kind": "virtual", "after": "a"}, "b": layer(2, 3, "all")}
    made = instance(tasks, servers("s1", "s2", "s2"))
    for planner in (Shuffle(), Xdcp(), Xdcp(pool="shared")):
        found = lines(plan(planner, made).schedule)
        assert found["all"][1:] == (0, 10.0, 10.0)
        assert min(found[f"b[{j}]"][2] for j in (1, 2, 3)) == 10.0
    bound = instance(tasks, servers("s1", "s2", "s2"), pinned={"all": "m2"})
    assert lines(plan(Xdcp(), bound).schedule)["all"][0] == "m2"


def test_resource_amounts_have_no_effect_on_machines_of_one_node():
    tasks = {"a": layer(1, 3, memory="2GB", resources={"licence": 1})}
    made = instance(tasks, platform({"services": ("s1",), "resources": {"licence": 1}}))
    assert makespan(Xdcp(), made) == 6.0


@pytest.mark.parametrize(
    ("tasks", "on", "reason"),
    [
        ({"a": {"work": 1, "nodes": [1, 2]}}, "cluster:4", "a has several node counts on one machine"),
        ({"a": {"work": 1}}, platform({"occupancy": "unlimited"}), "m0 runs any number of tasks at once"),
        ({"a": layer(1, 2, machine="A")}, servers("s1"), "a[1] shares an abstract machine"),
        (
            {
                "a": layer(1, 1, machine="A"),
                "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "1MB"},
                "b": layer(2, 1, machine="B"),
            },
            servers("s1", "s2"),
            "move is a transfer",
        ),
    ],
)
def test_error_about_an_unsupported_instance_names_the_violated_condition(tasks, on, reason):
    made = instance(tasks, on)
    assert reason in refused(Xdcp(), made)
    assert reason in refused(Shuffle(), made)


@pytest.mark.parametrize(
    ("tasks", "on", "reason"),
    [
        ({"a": {"work": 1}, "b": {"work": 1, "after": "a"}}, "identical:2", "b depends on a but"),
        ({"a": {"work": 1}, "b": {"work": 1, "service": "x"}}, servers("x", "y"), "share m0 but not all"),
        (
            {"a": layer(1, 2), "b": layer(2, 2, "a[j]"), "c": layer(1, 1, {"task": "b", "pairs": [[2, 1]]})},
            servers("s1", "s2"),
            "form a cycle; use the option pool=shared",
        ),
    ],
)
def test_layers_that_share_machines_are_refused_only_with_the_option_pool_own(tasks, on, reason):
    made = instance(tasks, on)
    assert reason in refused(Xdcp(pool="own"), made)
    assert lines(plan(Xdcp(), made).schedule) == lines(plan(Xdcp(pool="shared"), made).schedule)


# Machines of several nodes, and data


def test_machine_of_several_nodes_has_one_queue_per_node():
    made = instance({"a": {"work": 3, "sweep": {"j": "1..5"}}}, "cluster:2")
    assert divide_machines(made).tolist() == [2]
    assert makespan(Shuffle(), made) == 9.0
    assert lines(plan(Shuffle(), made).schedule)["a[3]"] == ("cluster", 1, 3.0, 6.0)


def test_every_queue_of_a_machine_has_the_node_count_of_its_widest_subtask():
    tasks = {"a": layer(1, 4, nodes=3), "b": layer(2, 2, "a[j]"), "c": layer(2, 2, nodes=2)}
    made = instance(tasks, platform({"nodes": 8, "services": ("s1",)}, {"nodes": 3, "services": ("s2",)}))
    assert divide_machines(made).tolist() == [2, 1]
    found = plan(Xdcp(), made).schedule
    assert found.nodes.tolist() == [3] * 4 + [1] * 2 + [2] * 2


@pytest.mark.parametrize(
    ("keys", "queues"), [({"memory": "2GB"}, 3), ({"resources": {"licence": 2}}, 2), ({}, 6)]
)
def test_resources_limit_the_queues_of_a_machine(keys, queues):
    where = platform({"nodes": 8, "memory": 7e9, "resources": {"licence": 5}})
    made = instance({"a": {"work": 1, "sweep": {"j": "1..6"}, **keys}}, where)
    assert divide_machines(made).tolist() == [queues]
    plan(Xdcp(), made)


def test_local_machine_has_one_queue_per_subtask_that_its_cores_can_run_at_once():
    where = platform({"nodes": 4, "backend": {"kind": "local"}})
    tasks = {"a": {"work": 2, "cores": 2, "sweep": {"j": "1..4"}}, "b": {"work": 1, "after": "a"}}
    made = instance(tasks, where)
    assert divide_machines(made).tolist() == [2]
    assert makespan(Xdcp(), made) == 5.0


def test_pinned_subtasks_use_all_queues_of_their_machine():
    pins = {f"a[{j}]": "m1" for j in (1, 2, 3, 4)}
    made = instance({"a": layer(1, 6)}, platform(*[{"nodes": 2, "services": ("s1",)}] * 2), pinned=pins)
    for planner in (Shuffle(), Xdcp(), Xdcp(start="sequential")):
        found = lines(plan(planner, made).schedule)
        assert {found[name][0] for name in pins} == {"m1"}
    assert makespan(Xdcp(), made) == 6.0


def test_data_transfer_takes_time_between_machines_and_no_time_on_the_same_machine():
    tasks = {"a": {"work": 1, "outputs": {"x": "6MB"}}, "b": {"work": 1, "inputs": ["x"]}}
    apart = instance(tasks, platform({}, {}), pinned={"a": "m0", "b": "m1"})
    assert makespan(Shuffle(), apart) == makespan(Xdcp(), apart) == 1 + 6 + 1
    # Shuffle uses m0 for both: each is the first of its layer.
    assert makespan(Xdcp(), instance(tasks, platform({}, {}))) == 2.0


def test_subtask_is_placed_on_the_machine_of_its_data_if_a_transfer_takes_longer():
    tasks = {
        "a": {"work": 1, "sweep": {"j": "1..2"}, "outputs": {"x.{j}": "5MB"}},
        "b": {"work": 4, "sweep": {"j": "1..2"}, "inputs": ["x.{j}"]},
    }
    pins = {"a[1]": "m1", "a[2]": "m0"}
    made = instance(tasks, platform({}, {}), pinned=pins)
    found = lines(plan(Xdcp(), made).schedule)
    assert (found["b[1]"][0], found["b[2]"][0]) == ("m1", "m0")
    assert makespan(Xdcp(), made) == 5.0 < makespan(Shuffle(), made)


def test_busy_machines_and_other_objectives_are_refused():
    busy = (BusyInterval(machine=0, start_s=0.0, finish_s=3.0, nodes=1),)
    made = instance({"a": layer(1, 2)}, servers("s1"), busy=busy)
    assert "busy beforehand" in refused(Xdcp(), made)
    free = instance({"a": layer(1, 2)}, servers("s1"))
    assert (
        refused(Xdcp(), free, make_objective("cost"))
        == "sweep planners do not support the objective 'cost', only makespan"
    )


def test_layers_may_exchange_data_with_a_transfer_time_of_0():
    tasks = {"a": layer(1, 1, outputs={"x": 0}), "b": layer(2, 1, inputs=["x"])}
    assert makespan(Xdcp(), instance(tasks, servers("s1", "s2"))) == 2.0


def test_earliest_starts_and_bindings_are_respected():
    tasks = {"a": layer(1, 4), "b": layer(2, 2, "a[j]")}
    earliest = np.array([0.0, 7.0, 0.0, 0.0, 0.0, 0.0])
    pins = {"a[1]": "m1", "a[2]": "m1", "a[3]": "m1"}
    made = instance(tasks, servers("s1", "s1", "s2"), pinned=pins, earliest_start_s=earliest)
    for planner in (Shuffle(), Xdcp(), Xdcp(start="sequential"), Xdcp(pool="shared")):
        schedule = plan(planner, made).schedule
        found = lines(schedule)
        assert {found[name][0] for name in pins} == {"m1"}
        assert found["a[2]"][2] >= 7.0
        assert (schedule.start_s >= earliest).all()


# One shared pool


def dag(rng, number, *, data):
    tasks = {}
    for index in range(number):
        before = [str(other) for other in range(index) if rng.random() < 2 / number]
        tasks[f"t{index}"] = {
            "work": int(rng.integers(0, 5)),
            "memory": f"{rng.integers(1, 4)}GB",
            "outputs": {f"f{index}": f"{rng.integers(0, 4)}MB"} if data else {},
            **({"inputs": [f"f{name}" for name in before]} if data else {"after": [f"t{x}" for x in before]}),
        }
    return tasks


@given(seed=st.integers(0, 10**6), number=st.integers(1, 14), machines=st.integers(1, 4), data=st.booleans())
def test_any_graph_can_be_planned_on_a_shared_pool(seed, number, machines, data):
    rng = generator(seed, "pool")
    on = platform(
        *(
            {"speed": float(rng.integers(1, 4)), "nodes": int(rng.integers(1, 4)), "memory": 4e9}
            for _ in range(machines)
        )
    )
    made = instance(dag(rng, number, data=data), on)
    first = makespan(Shuffle(pool="shared"), made)
    assert makespan(Xdcp(pool="shared"), made) <= first * (1 + 1e-9)
    assert makespan(Xdcp(pool="shared", start="sequential"), made) > 0 or first == 0


def test_layers_with_their_own_machines_give_the_same_plan_in_a_shared_pool():
    made = random_instance(3, subtasks=60, layers=3)
    own, shared = (plan(Xdcp(pool=pool), made).schedule for pool in ("own", "shared"))
    assert lines(own) == lines(shared)


def test_a_chain_in_a_shared_pool_keeps_its_order():
    tasks = {"a": {"work": 1}, "b": {"work": 1, "after": "a"}, "c": {"work": 0, "after": "b"}}
    assert makespan(Xdcp(pool="shared"), instance(tasks, "identical:1")) == 2.0


# Starts, passes, budget


def test_sequential_start_places_a_layer_on_one_machine():
    made = instance(THREE, ROOMS)
    start = sweeps.SweepQueues(made, "own", start="sequential").schedule()
    found = lines(start)
    assert {found[f"a[{j}]"][0] for j in range(1, 6)} == {"m0"}
    assert {found[f"c[{j}]"][0] for j in (1, 2)} == {"m3"}
    assert verify(start, made.graph, made.platform) == []


def test_passes_from_both_initial_schedules_converge_to_similar_makespans():
    ratios = []
    for seed in range(6):
        made = random_instance(seed, subtasks=60, layers=3)
        first = makespan(Shuffle(), made)
        shuffled, sequential = (
            plan(Xdcp(start=start, threshold=1.0), made) for start in ("shuffle", "sequential")
        )
        assert shuffled.schedule.makespan_s < first
        assert shuffled.steps > 2
        ratios.append(sequential.schedule.makespan_s / shuffled.schedule.makespan_s)
    # The start of the paper is better after one pass; after all passes both are equal on average.
    assert 0.8 < np.mean(ratios) < 1.25


def test_passes_are_repeated_while_each_pass_saves_enough_time():
    made = random_instance(1, subtasks=60, layers=3)
    lengths = [plan(Xdcp(), made, Budget(steps=steps)).schedule.makespan_s for steps in range(1, 12)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == makespan(Shuffle(), made)
    gains = [after / before for before, after in itertools.pairwise(lengths)]
    last = next(index for index, gain in enumerate(gains) if gain >= 0.95)
    assert set(gains[last + 1 :]) == {1.0}
    assert plan(Xdcp(), made).steps == last + 2
    assert plan(Xdcp(threshold=0.0), made).steps == 2


def test_step_budget_ends_the_passes():
    made = random_instance(2, subtasks=60, layers=3)
    few = plan(Xdcp(), made, Budget(steps=1))
    assert (few.steps, few.cut) == (1, False)
    late = plan(Xdcp(), made, Budget(left=lambda: 0.0))
    assert (late.steps, late.cut) == (1, True)
    assert late.schedule.makespan_s == makespan(Shuffle(), made)
    whole = plan(Xdcp(), made, Budget(left=lambda: 1.0))
    assert not whole.cut
    assert whole.schedule.makespan_s == makespan(Xdcp(), made)


def test_pass_that_the_clock_interrupts_returns_a_valid_schedule(monkeypatch):
    made = random_instance(2, subtasks=60, layers=3)
    whole = plan(Xdcp(), made)
    monkeypatch.setattr(sweeps, "_ELEMENTS_PER_CALL", 1000)  # several calls per pass
    assert lines(plan(Xdcp(), made).schedule) == lines(whole.schedule)
    left = iter([1.0, 1.0, 1.0] + [0.0] * 1000)
    cut = plan(Xdcp(), made, Budget(left=lambda: next(left)))
    assert (cut.steps, cut.cut) == (2, True)
    assert whole.schedule.makespan_s < cut.schedule.makespan_s < makespan(Shuffle(), made)


def test_an_empty_instance_is_planned():
    tasks = {"a": layer(1, 3) | {"work": 0}, "end": {"kind": "virtual", "after": "a"}}
    assert plan(Xdcp(), instance(tasks, servers("s1"))).schedule.makespan_s == 0.0


def test_xdcp_leaves_a_very_slow_machine_unused():
    layers = SweepLayers(lengths=((4.0, 4.0),), throughputs=((10.0, 0.1),), parents=(((), ()),))
    made = compiled(build_layered_sweeps(layers, "two"))
    assert makespan(Shuffle(), made) == 40.0
    assert makespan(Xdcp(), made) == pytest.approx(0.8)


def test_rounding_errors_do_not_move_a_subtask():
    assert (
        0.1 + 0.7 - 0.7 < 0.1
    )  # by its latest finish alone the first subtask would end too late where it is
    layers = SweepLayers(lengths=((0.1,), (0.7,)), throughputs=((1.0,), (1.0,)), parents=(((),), ((0,),)))
    made = compiled(build_layered_sweeps(layers, "chain"))
    assert lines(plan(Xdcp(), made).schedule) == lines(plan(Shuffle(), made).schedule)
    assert makespan(Xdcp(), made) == 0.1 + 0.7


def test_planner_options_can_be_given_with_the_name():
    found = make_planner("xdcp:pool=shared:threshold=0.9:start=sequential")
    assert found == Xdcp(pool="shared", threshold=0.9, start="sequential")
    assert make_planner("shuffle:pool=shared") == Shuffle(pool="shared")
    with pytest.raises(InvalidInput, match=r"threshold=1\.5; must be from 0 to 1"):
        make_planner("xdcp:threshold=1.5")


@pytest.mark.parametrize("form", ["plain", "compiled"])
def test_compiled_and_plain_kernels_give_the_same_plan(form, monkeypatch):
    made = random_instance(5, subtasks=80, layers=4)
    monkeypatch.setenv("WEFT_KERNELS", "plain")
    expected = lines(plan(Xdcp(), made).schedule)
    monkeypatch.setenv("WEFT_KERNELS", form)
    assert lines(plan(Xdcp(), made).schedule) == expected
