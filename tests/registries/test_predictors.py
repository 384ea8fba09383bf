"""Every registered predictor follows the interface; new ones are included without a change here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from predictors.small_graphs import MACHINES, assert_agrees, graph_of, graphs
from weft.predictors import PREDICTORS
from weft.predictors.predictor import Estimate, task_features
from weft.workflow.task import Task, TaskKind
from weft.workflow.task_graph import COMPUTE


@pytest.fixture(params=list(PREDICTORS), scope="module")
def predictor(request):
    return PREDICTORS.load(request.param)()


def test_predictor_has_its_registered_name_and_properties(predictor):
    assert predictor.name.isidentifier()
    assert isinstance(predictor.final, bool)
    assert isinstance(predictor.reads.parameters, tuple)


@given(graph=graphs())
@settings(max_examples=15)
def test_methods_applies_predict_and_table_of_a_predictor_are_consistent(predictor, graph):
    applies = predictor.applies(graph)
    assert applies.shape == (len(graph),)
    assert applies.dtype == np.bool_
    for task in np.flatnonzero(graph.kind == COMPUTE).tolist():
        requested = task_features(graph, task)
        answers = [
            predictor.predict(requested, machine, count) for machine in MACHINES for count in requested.counts
        ]
        if not applies[task]:
            assert answers == [None] * len(answers)
        elif predictor.final:
            assert all(isinstance(answer, Estimate) for answer in answers)
        for answer in answers:
            assert answer is None or (answer.p50_s >= 0 and answer.source)
            assert answer is None or answer.p90_s is None or answer.p90_s >= answer.p50_s
    assert not applies[graph.kind != COMPUTE].any()
    assert_agrees(predictor.table(graph, MACHINES), predictor, graph, MACHINES)


def test_tables_are_deterministic(predictor):
    graph = graph_of(
        *(Task(name=f"t{i}", work=i % 3 + 0.5, nodes=(1, 2)) for i in range(9)),
        Task(name="e", seconds={"x": 1.0, "*": 2.0}),
        Task(name="v", kind=TaskKind.VIRTUAL),
    )
    first, second = predictor.table(graph, MACHINES), predictor.table(graph, MACHINES)
    assert first.sources == second.sources
    assert first.source.tolist() == second.source.tolist()
    for task in range(len(graph)):
        for one, other in zip(first.modes(task), second.modes(task), strict=True):
            assert one.tolist() == other.tolist()
