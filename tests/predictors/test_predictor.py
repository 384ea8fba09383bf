"""The interface of predictors: features of tasks, estimates, inputs."""

from __future__ import annotations

import math

from predictors.small_graphs import graph_of
from weft.predictors.predictor import Estimate, PredictorInputs, impossible, task_features
from weft.workflow.quantity import Sweep
from weft.workflow.task import Amdahl, Task, TaskKind


def test_features_contain_the_values_of_the_graph():
    law = Amdahl(serial=0.1)
    graph = graph_of(
        Task(
            name="a",
            sweep=Sweep(variables=(("k", (3, 4)),)),
            work=7.0,
            nodes=(1, 2),
            speedup=law,
            service="dock",
        ),
        Task(name="b", seconds={"x": 1.0, "*": 2.0}),
        atoms=64,
    )
    found = task_features(graph, graph.index("a[4]"))
    assert (found.name, found.kind, found.work) == ("a[4]", "a", 7.0)
    assert (found.law, found.counts, found.service) == (law, (1, 2), "dock")
    assert found.parameters == {"atoms": 64, "k": 4}
    explicit = task_features(graph, graph.index("b"))
    assert explicit.explicit == {"x": 1.0, "*": 2.0}
    assert math.isnan(explicit.work)


def test_features_of_virtual_tasks_have_no_work():
    graph = graph_of(Task(name="v", kind=TaskKind.VIRTUAL, nodes=(2, 4)))
    found = task_features(graph, 0)
    assert (found.work, found.counts, found.law, found.explicit) == (0.0, (1,), None, {})


def test_estimates_state_their_spread_and_whether_the_mode_is_possible():
    assert Estimate(p50_s=4.0, p90_s=6.0, source="x").spread == 1.5
    assert math.isnan(Estimate(p50_s=4.0, source="x").spread)
    assert math.isnan(Estimate(p50_s=0.0, p90_s=1.0, source="x").spread)
    assert Estimate(p50_s=0.0, source="x").possible
    assert not impossible("x").possible


def test_inputs_of_two_predictors_are_combined_by_union():
    both = PredictorInputs(kind=True, parameters=("n", "m"), rate=False) | PredictorInputs(
        parameters=("m", "k")
    )
    assert both == PredictorInputs(kind=True, parameters=("n", "m", "k"), rate=True, machine=False)
