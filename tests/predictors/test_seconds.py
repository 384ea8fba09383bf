"""The three layouts of seconds equal each other and the estimates of single modes."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.small_graphs import MACHINES, assert_agrees, graph_of, graphs
from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.predictors import tabulation
from weft.predictors.chain import PredictorChain, default_chain
from weft.predictors.explicit import ExplicitSeconds
from weft.predictors.performance import PerformanceTable
from weft.predictors.regression import Regression, fit
from weft.predictors.seconds import MAX_ENTRIES, ClassSeconds, RelatedSeconds, TableSeconds, check_entries
from weft.predictors.tabulation import tabulate
from weft.predictors.work import AssumedWork, WorkOverSpeed
from weft.workflow.task import Task, TaskKind

MEASURED = PerformanceTable({"t0": {2: {1: 9.0, 4: 3.0}, 5: {1: 20.0, 2: 12.0, 4: 6.0}}}, size="size")
FITTED = Regression(fits={"t1": fit([1, 2, 3, 4], [2.0, 4.1, 5.9, 8.0])}, parameter="size")
CHAINS = [
    default_chain(),
    PredictorChain((WorkOverSpeed(), AssumedWork())),
    PredictorChain((ExplicitSeconds(), WorkOverSpeed())),
    PredictorChain((ExplicitSeconds(),)),
    PredictorChain((MEASURED, FITTED, WorkOverSpeed(), ExplicitSeconds(), AssumedWork())),
    PredictorChain(()),
]


@given(graphs(), st.sampled_from(CHAINS), st.sampled_from([1, len(MACHINES)]))
def test_every_layout_agrees_with_the_predictor(graph, chain, number):
    machines = MACHINES[:number]
    assert_agrees(chain.table(graph, machines), chain, graph, machines)
    by_classes = tabulate(chain, graph, machines)
    assert by_classes.layout == "classes"
    assert_agrees(by_classes, chain, graph, machines)
    with mock.patch.object(tabulation, "SMALL", -1):
        assert_agrees(tabulate(chain, graph, machines), chain, graph, machines)


@given(graphs())
def test_table_of_explicit_seconds_agrees_with_the_predictor(graph):
    seconds = ExplicitSeconds().table(graph, MACHINES)
    assert isinstance(seconds, TableSeconds)
    assert_agrees(seconds, ExplicitSeconds(), graph, MACHINES)


def test_different_tasks_use_a_table_and_equivalent_tasks_use_classes():
    unlike = graph_of(
        *(Task(name=f"t{i}", seconds={"x": float(i), "z": 2.0}) for i in range(4)), Task(name="w", work=3.0)
    )
    with mock.patch.object(tabulation, "SMALL", 0):
        table = default_chain().table(unlike, MACHINES)
    assert isinstance(table, TableSeconds)
    assert table.seconds.size == 4 * 3 + 5  # z also stands for its share z/dock
    assert_agrees(table, default_chain(), unlike, MACHINES)
    like = graph_of(
        *(Task(name=f"t{i}", seconds={"x": 1.0, "z": 2.0}) for i in range(4)), Task(name="w", work=3.0)
    )
    with mock.patch.object(tabulation, "SMALL", 0):
        classes = default_chain().table(like, MACHINES)
    assert isinstance(classes, ClassSeconds)
    assert classes.seconds.shape[0] == 2
    assert classes.machine_class[2] != classes.machine_class[3]  # z is named, the equal machine is not


def test_tasks_without_work_take_0_seconds_on_one_node_of_every_machine():
    graph = graph_of(Task(name="v", kind=TaskKind.VIRTUAL), Task(name="a", work=4.0, nodes=(2,)))
    seconds = default_chain().table(graph, MACHINES)
    task = graph.index("v")
    assert seconds.modes(task)[0].tolist() == [0, 1, 2, 3, 4]
    assert seconds.modes(task)[1].tolist() == [1] * 5
    assert seconds.modes(task)[2].tolist() == [0.0] * 5
    assert seconds.sources[seconds.source[task]] == "no work"


def test_platform_without_machines_has_no_modes():
    graph = graph_of(Task(name="a", work=4.0), Task(name="b", seconds={"x": 1.0}))
    for seconds in (
        WorkOverSpeed().table(graph, ()),
        ExplicitSeconds().table(graph, ()),
        tabulate(default_chain(), graph, ()),
    ):
        assert [len(seconds.modes(task)[0]) for task in range(2)] == [0, 0]
        assert np.isnan(seconds.means_over(np.zeros(0, dtype=np.uint32))).all()


def test_layout_of_related_machines_needs_little_memory_for_a_large_instance():
    graph = graph_of(*(Task(name=f"t{i}", work=float(i)) for i in range(2000)), Task(name="s", seconds=4.0))
    machines = [Machine(name=f"m{i}", speed=1.0 + i) for i in range(500)]
    seconds = default_chain().table(graph, machines)
    assert isinstance(seconds, RelatedSeconds)
    assert seconds.work.size + seconds.rate.size + seconds.speedup.size < 4000
    assert seconds.at(graph.index("t1000"), 499, 1) == 2.0
    assert seconds.at(graph.index("s"), 499, 1) == 4.0


def test_error_about_a_layout_that_is_too_large_names_the_sizes():
    with pytest.raises(InvalidInput, match=r"12,000,000 .*3,000 tasks.*at most 10,000,000.*give `work`"):
        check_entries(12_000_000, "3,000 tasks on 4,000 machines")
    check_entries(MAX_ENTRIES, "just enough")
    graph = graph_of(
        *(Task(name=f"t{i}", seconds={"m0": 1.0 + i, "*": 2.0}) for i in range(5000)),
        Task(name="w", work=1.0),
    )
    machines = [Machine(name=f"m{i}", speed=1.0 + i) for i in range(2100)]
    with pytest.raises(InvalidInput, match="5,001 different tasks x 2,100 different machines"):
        default_chain().table(graph, machines)


def test_explicit_seconds_use_classes_if_a_table_would_be_too_large():
    graph = graph_of(*(Task(name=f"t{i}", seconds={"m0": 1.0 + i, "*": 2.0}) for i in range(5000)))
    machines = [Machine(name=f"m{i}", speed=1.0 + i) for i in range(2100)]
    seconds = default_chain().table(graph, machines)
    assert isinstance(seconds, ClassSeconds)
    assert seconds.seconds.shape == (5000, 2, 2)
    assert seconds.at(graph.index("t7"), 0, 1) == 8.0
    assert seconds.at(graph.index("t7"), 2099, 1) == 2.0


def test_without_capacities_only_the_speedup_law_limits_node_counts():
    zero = np.zeros(1, dtype=np.uint32)
    related = RelatedSeconds(
        sources=("work/speed",),
        source=np.zeros(1, dtype=np.uint8),
        spread=np.full(1, np.nan),
        work=np.array([12.0]),
        service=zero,
        rate=np.array([[1.0, 2.0]]),
        law=zero,
        speedup=np.array([[np.nan, 1.0, 2.0, np.nan, 3.0]]),
        counts=zero,
        count_sets=((1, 2, 3, 4, 99),),
    )
    machine, count, seconds = related.modes(0)
    assert machine.tolist() == [0, 0, 0, 1, 1, 1]
    assert count.tolist() == [1, 2, 4, 1, 2, 4]
    assert seconds.tolist() == [12.0, 6.0, 4.0, 6.0, 3.0, 2.0]
    assert related.means_over(np.arange(2, dtype=np.uint32)).tolist() == [3.0]
    assert np.isnan(related.at(0, 0, 99))
    assert np.isnan(related.at(0, 0, 3))
