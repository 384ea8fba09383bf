"""Explicit seconds per machine."""

from __future__ import annotations

import pytest

from predictors.small_graphs import MACHINES, assert_agrees, graph_of
from weft.platform.machine import Machine
from weft.predictors.chain import default_chain
from weft.predictors.explicit import ExplicitSeconds
from weft.predictors.predictor import TaskFeatures
from weft.predictors.seconds import RelatedSeconds, TableSeconds
from weft.workflow.task import Amdahl, MeasuredSeconds, Task

X = Machine(name="x", speed=7.0, nodes=8)


def answer(explicit, machine=X, nodes=1, **more):
    return ExplicitSeconds().predict(
        TaskFeatures(name="t", kind="t", work=1.0, explicit=explicit, **more), machine, nodes
    )


def test_explicit_seconds_do_not_depend_on_speed():
    found = answer({"x": 14.0, "*": 3.0})
    assert (found.p50_s, found.p90_s, found.source) == (14.0, None, "seconds")
    assert answer({"y": 14.0, "*": 3.0}).p50_s == 3.0


def test_machine_without_explicit_seconds_is_impossible_not_unknown():
    assert answer({"y": 14.0}) is not None
    assert not answer({"y": 14.0}).possible
    assert answer({}) is None


def test_share_uses_explicit_seconds_of_its_host_unless_it_has_its_own():
    share = Machine(name="x/dock", host="x")
    assert answer({"x": 14.0, "*": 3.0}, share).p50_s == 14.0
    assert answer({"x": 14.0, "x/dock": 5.0}, share).p50_s == 5.0


def test_explicit_seconds_apply_to_the_smallest_allowed_count_and_the_law_scales_from_there():
    perfect = Amdahl(serial=0.0)
    assert answer({"*": 12.0}, nodes=2, law=perfect, counts=(2, 4)).p50_s == 12.0
    assert answer({"*": 12.0}, nodes=4, law=perfect, counts=(2, 4)).p50_s == 6.0
    assert answer({"*": 12.0}, nodes=4, counts=(2, 4)).p50_s == 12.0


def test_explicit_seconds_with_a_measured_law_apply_to_its_first_measured_count():
    law = MeasuredSeconds(seconds={2: 10.0, 4: 5.0})
    assert answer({"*": 12.0}, nodes=2, law=law, counts=(1, 2, 4)).p50_s == 12.0
    assert answer({"*": 12.0}, nodes=4, law=law, counts=(1, 2, 4)).p50_s == 6.0
    assert not answer({"*": 12.0}, nodes=1, law=law, counts=(1, 2, 4)).possible
    assert not answer({"*": 12.0}, nodes=8, law=law, counts=(8,)).possible


def test_seconds_for_all_machines_need_no_table():
    graph = graph_of(
        Task(name="a", seconds=5.0, nodes=(2, 4), speedup=Amdahl(serial=0.0)), Task(name="b", work=2.0)
    )
    seconds = default_chain().table(graph, MACHINES)
    assert isinstance(seconds, RelatedSeconds)
    assert seconds.at(graph.index("a"), 2, 4) == 2.5
    assert seconds.sources[seconds.source[graph.index("a")]] == "seconds"
    assert_agrees(seconds, default_chain(), graph, MACHINES)


def test_seconds_of_a_published_task_graph_are_stored_as_a_table():
    times = {"t1": (14, 16, 9), "t2": (13, 19, 18), "t3": (11, 13, 19)}
    machines = [Machine(name=f"P{index}") for index in (1, 2, 3)]
    graph = graph_of(
        *(
            Task(name=name, seconds={f"P{i}": float(s) for i, s in enumerate(row, start=1)})
            for name, row in times.items()
        )
    )
    seconds = default_chain().table(graph, machines)
    assert isinstance(seconds, TableSeconds)
    assert seconds.pointer.tolist() == [0, 3, 6, 9]
    assert [seconds.at(graph.index("t1"), machine, 1) for machine in range(3)] == [14.0, 16.0, 9.0]


@pytest.mark.parametrize("name", ["nowhere", "y"])
def test_explicit_seconds_for_machines_outside_the_platform_give_no_mode(name):
    graph = graph_of(Task(name="a", seconds={name: 1.0}))
    seconds = default_chain().table(graph, [X])
    assert len(seconds.modes(0)[0]) == 0
    assert seconds.sources[seconds.source[0]] == "seconds"
