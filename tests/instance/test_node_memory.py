"""Memory of a node and the start of programs: which modes are possible, and how long they take."""

from __future__ import annotations

import pytest

import weft
from planning_examples import instance
from weft.documents import from_python
from weft.engine.state.compiled import CompiledWorkflow
from weft.errors import Infeasible, InvalidInput
from weft.platform.file_format import platform_document, read_platform
from weft.platform.machine import Machine
from weft.platform.platform import Platform, planned_machines
from weft.predictors.seconds import ClassSeconds, RelatedSeconds, TableSeconds


def platform(**machines) -> Platform:
    return read_platform(from_python({"weft": 1, "machines": machines}))


def modes(found, task: int) -> list[tuple[str, int]]:
    group = found.groups[found.group[task]]
    names = [found.machines[int(machine)].name for machine in group.machine]
    return list(zip(names, group.count.tolist(), strict=True))


CLUSTER = {"nodes": 4, "memory_per_node": "8GB"}


def test_memory_per_node_gives_the_total_and_is_written_back():
    found = platform(c=CLUSTER)
    machine = found.machines[0]
    assert (machine.memory, machine.memory_per_node) == (32e9, 8e9)
    assert (machine.memory_for(2), Machine(name="h", memory=5e9, nodes=4).memory_for(2)) == (16e9, 5e9)
    written = platform_document(found)["machines"]["c"]
    assert written == {"nodes": 4, "memory_per_node": "8GB"}
    assert read_platform(from_python(platform_document(found))).machines == found.machines


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"nodes": 4, "memory_per_node": "8GB", "memory": "9GB"}, "state one of them"),
        ({"memory_per_node": "8GB", "backend": {"kind": "local"}}, "share its memory"),
        ({"memory_per_node": "8GB", "backend": {"kind": "ssh", "host": "h"}}, "share its memory"),
        ({"startup": "-1s"}, "startup"),
    ],
)
def test_contradictory_memory_is_refused(machine, words):
    with pytest.raises(InvalidInput, match=words):
        platform(m=machine)


def test_shares_have_the_memory_of_their_nodes():
    found = read_platform(
        from_python(
            {
                "machines": {"c": {**CLUSTER, "services": ["s"]}},
                "virtual": [{"machine": "c", "service": "s", "nodes": 1}],
            }
        )
    )
    rest, share = planned_machines(found)
    assert (rest.memory, share.memory, share.memory_per_node) == (24e9, 8e9, 8e9)


def test_only_node_counts_whose_nodes_have_the_memory_are_modes():
    tasks = {
        "large": {"work": 8, "nodes": [1, 2, 4], "memory": "20GB"},
        "small": {"work": 8, "nodes": [1, 2, 4], "memory": "1GB"},
        "grows": {"work": 8, "nodes": [1, 2, 4], "memory": "=9*GB if nodes == 1 else 10*GB"},
    }
    found = instance(tasks, platform(c=CLUSTER, host={"nodes": 4, "memory": "32GB"}))
    whole = [("host", 1), ("host", 2), ("host", 4)]
    assert modes(found, 0) == [("c", 4), *whole]
    assert modes(found, 1) == [("c", 1), ("c", 2), ("c", 4), *whole]
    assert modes(found, 2) == [("c", 2), ("c", 4), *whole]


def test_task_that_fits_on_no_node_is_refused_with_the_reason():
    with pytest.raises(Infeasible, match="has the memory on the nodes of a count that fits"):
        instance({"a": {"work": 1, "memory": "9GB"}}, platform(c=CLUSTER))


def test_memory_of_a_node_can_be_required():
    tasks = {"a": {"work": 1, "requirements": "memory_per_node >= 4*GB"}}
    found = instance(tasks, platform(c=CLUSTER, host={"nodes": 4, "memory": "32GB"}))
    assert modes(found, 0) == [("c", 1)]


def test_plan_with_node_memory_verifies(tmp_path):
    (tmp_path / "flow.yaml").write_text(
        "weft: 1\nname: f\ntasks: {a: {work: 8, nodes: [1, 2, 4], memory: 12GB}, b: {work: 1, after: a}}\n"
    )
    (tmp_path / "on.yaml").write_text(
        "weft: 1\nmachines: {c: {nodes: 4, memory_per_node: 8GB, startup: 2s}, h: {startup: 1s}}\n"
    )
    planned = weft.plan(tmp_path / "flow.yaml", on=tmp_path / "on.yaml")
    assert planned.verify() == []


@pytest.mark.parametrize(
    ("tasks", "layout"),
    [
        ({"a": {"work": 8, "nodes": [1, 2]}, "b": {"work": 4}}, RelatedSeconds),
        (
            {"a": {"work": 8, "nodes": [1, 2]}, "b": {"seconds": {"c": 4, "d": 8}}},
            (ClassSeconds, TableSeconds),
        ),
    ],
)
def test_startup_is_part_of_every_estimate(tasks, layout):
    plain = {"c": {"nodes": 2}, "d": {"nodes": 2, "speed": 0.5}}
    before = instance(tasks, platform(**plain))
    assert isinstance(before.seconds, layout)
    after = instance(tasks, platform(c={**plain["c"], "startup": "1.5s"}, d=plain["d"]))
    for task in (0, 1):
        first, second = before.seconds.modes(task), after.seconds.modes(task)
        assert first[0].tolist() == second[0].tolist()
        assert first[1].tolist() == second[1].tolist()
        added = [1.5 if machine == 0 else 0.0 for machine in first[0].tolist()]
        assert (second[2] - first[2]).tolist() == pytest.approx(added)
    assert after.seconds.means_over(after.candidate_sets[0])[0] > 0.0
    compiled = CompiledWorkflow("flow", after)
    assert compiled.seconds(0, 0, 2) == pytest.approx(before.seconds.at(0, 0, 2) + 1.5)


@pytest.mark.parametrize("layout", ["related", "classes", "table"])
def test_startup_of_several_nodes_is_part_of_the_estimates_of_several_nodes(layout):
    tasks = {
        "related": {"a": {"work": 4, "nodes": [1, 2, 3]}},
        "classes": {"a": {"speedup": {"seconds": {1: 4, 2: 3, 3: 2}}}},
        "table": {"a": {"work": 4, "nodes": [1, 2, 3]}, "b": {"speedup": {"seconds": {1: 4, 2: 3, 3: 2}}}},
    }[layout]
    plain = {"c": {"nodes": 3}, "d": {"nodes": 3, "startup": "0.5s"}}
    before = instance(tasks, platform(**plain)).seconds
    stated = {"c": {**plain["c"], "parallel_startup": "2s"}, "d": {**plain["d"], "parallel_startup": "2s"}}
    after = instance(tasks, platform(**stated)).seconds
    for task in range(len(tasks)):
        added = [[after.at(task, m, n) - before.at(task, m, n) for n in (1, 2, 3)] for m in (0, 1)]
        assert added == [pytest.approx([0.0, 2.0, 2.0]), pytest.approx([0.0, 1.5, 1.5])]
