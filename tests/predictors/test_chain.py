"""Chains of predictors: which predictor estimates which task."""

from __future__ import annotations

import pytest

from predictors.small_graphs import MACHINES, assert_agrees, graph_of
from weft.platform.machine import Machine
from weft.predictors.chain import PredictorChain, default_chain
from weft.predictors.explicit import ExplicitSeconds
from weft.predictors.performance import PerformanceTable
from weft.predictors.predictor import TaskFeatures
from weft.predictors.regression import Regression, fit
from weft.predictors.work import AssumedWork, WorkOverSpeed
from weft.workflow.quantity import Sweep
from weft.workflow.task import Task, TaskKind

X = MACHINES[0]


def sources(seconds, graph):
    return {name: seconds.sources[seconds.source[task]] for task, name in enumerate(graph.names)}


def test_first_predictor_with_an_estimate_is_used():
    both = TaskFeatures(name="t", kind="t", work=10.0, explicit={"x": 3.0})
    assert default_chain().predict(both, X, 1).p50_s == 3.0
    assert PredictorChain((WorkOverSpeed(), ExplicitSeconds())).predict(both, X, 1).p50_s == 5.0
    assert default_chain().predict(TaskFeatures(name="t", kind="t"), X, 1).source == "assumed"
    assert PredictorChain((WorkOverSpeed(),)).predict(TaskFeatures(name="t", kind="t"), X, 1) is None


def test_chain_stops_at_the_first_predictor_that_declares_a_mode_impossible():
    elsewhere = TaskFeatures(name="t", kind="t", work=10.0, explicit={"y": 3.0})
    found = default_chain().predict(elsewhere, X, 1)
    assert (found.possible, found.source) == (False, "seconds")


def test_source_of_every_estimate_is_stored_for_each_task():
    graph = graph_of(
        Task(name="e", seconds=2.0),
        Task(name="w", work=2.0),
        Task(name="u"),
        Task(name="v", kind=TaskKind.VIRTUAL),
    )
    seconds = default_chain().table(graph, MACHINES)
    wanted = {"e": "seconds", "w": "work/speed", "u": "assumed", "v": "no work"}
    assert sources(seconds, graph) == wanted
    assert seconds.layout == "related"


def test_measurements_take_precedence_over_work():
    measured = PerformanceTable({"a": {1: {1: 9.0}, 4: {1: 36.0}}}, size="k")
    chain = PredictorChain((measured, *default_chain().predictors))
    graph = graph_of(
        Task(name="a", sweep=Sweep(variables=(("k", (1, 2, 9)),)), work=5.0), Task(name="b", work=5.0)
    )
    seconds = chain.table(graph, MACHINES)
    assert_agrees(seconds, chain, graph, MACHINES)
    assert sources(seconds, graph) == {
        "a[1]": "measured",
        "a[2]": "interpolated",
        "a[9]": "work/speed",
        "b": "work/speed",
    }
    assert seconds.spread[graph.index("a[2]")] == pytest.approx(2.0)
    assert seconds.at(graph.index("a[9]"), 0, 1) == 2.5


def test_other_predictors_estimate_unmeasured_sizes_of_measured_kinds():
    chain = PredictorChain((PerformanceTable({"a": {1: {1: 9.0}}}, size="k"), WorkOverSpeed()))
    graph = graph_of(Task(name="a", sweep=Sweep(variables=(("k", (1, 2)),)), work=5.0))
    seconds = chain.table(graph, MACHINES)
    assert [seconds.at(graph.index(name), 0, 1) for name in ("a[1]", "a[2]")] == [4.5, 2.5]


def test_tasks_of_different_kinds_or_services_have_separate_classes():
    measured = PerformanceTable({"a": {1: {1: 9.0}}, "b": {1: {1: 30.0}}})
    tasks = [Task(name=name, work=6.0, service=service) for name, service in zip("abcd", "qqdq", strict=True)]
    graph = graph_of(*tasks, Task(name="e", seconds={"m": 1.0}))
    machines = [Machine(name="m", speeds={"q": 3.0})]
    seconds = PredictorChain((measured, *default_chain().predictors)).table(graph, machines)
    assert [seconds.at(graph.index(name), 0, 1) for name in "abcde"] == [3.0, 10.0, 6.0, 2.0, 1.0]
    seconds = default_chain().table(graph, machines)
    assert seconds.layout == "classes"
    assert [seconds.at(graph.index(name), 0, 1) for name in "abcde"] == [2.0, 2.0, 6.0, 2.0, 1.0]


def test_chain_calls_a_predictor_once_per_class():
    requested = []

    class Counting(WorkOverSpeed):
        def predict(self, features, machine, nodes):
            requested.append((features.name, machine.name, nodes))
            return super().predict(features, machine, nodes)

    graph = graph_of(
        Task(name="a", sweep=Sweep(variables=(("k", tuple(range(50))),)), work=5.0, nodes=(1, 2)),
        Task(name="e", seconds={"x": 1.0}),
    )
    seconds = PredictorChain((Counting(), ExplicitSeconds())).table(graph, MACHINES[2:4])
    assert seconds.layout == "classes"
    assert (
        [name for name, _, _ in requested].count("a[0]") == len(requested) - 1 == 2
    )  # z and the other task are equivalent


def test_chain_reads_the_inputs_that_its_predictors_read():
    regression = Regression(fits={"a": fit([1, 2, 3], [1, 2, 3])}, parameter="n")
    assert default_chain().final
    assert not PredictorChain((regression, AssumedWork())).final
    assert PredictorChain((regression, AssumedWork())).reads.parameters == ("n",)
    assert PredictorChain((ExplicitSeconds(),)).reads.rate is False
