"""U5 (docs/papers/unified.md, section 9): on a simulated cluster the engine reproduces the queue model exactly.

The model is computed by the kernels of the moldable paper's cluster simulator (docs/papers/moldable.md); the engine
handles the same tasks event by event.
"""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import instance
from policy_runs import run_all
from weft.planners.queue_decoding import run_queue, submission_order
from weft.platform.machine import QUEUES, Machine
from weft.platform.platform import Platform
from weft.policies.orders import ByIndex
from weft.policies.policy import Place


class Sender:
    """Policy that submits every ready task to the cluster at once, with a given node count."""

    name: ClassVar[str] = "sender"
    title: ClassVar[str] = "a queue of one machine"
    needs_plan: ClassVar[bool] = False
    order: ClassVar[object] = ByIndex()

    def __init__(self, made, counts, rule):
        self._counts = counts
        self._turn = np.argsort(submission_order(made)).tolist()
        # With reservations, earlier arrivals keep theirs; the other rules order by submission only.
        self._by_arrival = rule == "conservative"

    def decide(self, view):
        """Submit all ready tasks in order."""
        for run in view.runs:
            for task in sorted(run.ready, key=self._turn.__getitem__):
                order = view.now + 1e-9 * self._turn[task] if self._by_arrival else float(self._turn[task])
                yield Place(
                    run=run.index, task=task, machine=0, count=self._counts[task], queue=True, order=order
                )


def assert_same_times(tasks, nodes, counts, rule):
    """Assert that engine and kernel give the same start and end of every task."""
    cluster = Platform(machines=(Machine(name="cluster", nodes=nodes, queue=rule),))
    made = instance(tasks, cluster)
    expected = run_queue(made, counts, rule)
    ran = run_all({"w": made}, [(0, "w")], Sender(made, counts, rule))
    assert ran.endings() == ["completed"]
    for line in expected:
        found = ran.lines[0][line.task]
        assert (found.nodes, found.start_s, found.finish_s) == (line.nodes, line.start_s, line.finish_s)
    assert ran.end_s == expected.makespan_s
    return ran.end_s


@st.composite
def moldable(draw):
    """Draw durations per node count (whole numbers for many ties, or not), node counts, and the number of
    nodes.
    """
    nodes, number = draw(st.integers(2, 8)), draw(st.integers(1, 12))
    seconds = st.integers(1, 5).map(float) if draw(st.booleans()) else st.floats(0.1, 10)
    tasks, counts = {}, []
    for index in range(number):
        table = draw(st.lists(seconds, min_size=1, max_size=nodes))
        before = draw(st.lists(st.integers(0, index - 1), max_size=2, unique=True)) if index else []
        tasks[f"t{index:02d}"] = {
            "nodes": f"1..{len(table)}",
            "speedup": {"seconds": dict(enumerate(table, start=1))},
            "after": [f"t{other:02d}" for other in before],
        }
        counts.append(draw(st.integers(1, len(table))))
    return tasks, nodes, counts


@pytest.mark.parametrize("rule", QUEUES)
@given(drawn=moldable())
def test_makespans_of_random_moldable_workflows_equal_the_queue_model(rule, drawn):
    assert_same_times(*drawn, rule)


@pytest.mark.parametrize("run", ["local", "all_one"])
@pytest.mark.parametrize("name", ["tree7", "barrier8", "tree15", "barrier16"])
def test_makespans_of_reference_workflows_equal_the_fixture(spec_data, name, run):
    figures = json.loads((spec_data / "s2_perfdb_and_expected.json").read_text())
    workflow = figures["workflows"][name]
    tasks = {}
    for index, kind in enumerate(workflow["kinds"]):
        spent = 60 + 8 * workflow["inputs"][index]
        seconds = figures["ST"] if kind == "S" else [spent, 0.6 * spent]
        tasks[f"t{index:02d}"] = {
            "nodes": f"1..{len(seconds)}",
            "speedup": {"seconds": dict(enumerate(seconds, start=1))},
            "after": [f"t{other:02d}" for other in workflow["preds"][index]],
        }
    counts = workflow[run].get("R", [1] * len(tasks))
    end_s = assert_same_times(tasks, 64, counts, "fifo")
    assert end_s == pytest.approx(workflow[run]["makespan"], rel=1e-6)
