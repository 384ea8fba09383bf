"""The Python builder: keys of the file format, and errors with the lines of the caller."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.workflow.builder import Builder, TaskHandle
from weft.workflow.unfold import unfold
from workflow.workflow_texts import edges, read


def line_of_this():
    return inspect.currentframe().f_back.f_lineno


def test_the_builder_gives_the_workflow_of_the_equivalent_file():
    flow = Builder(
        "wien2k", params={"kpoints": 3, "w1": 10}, defaults={"retries": 1}, owner="ann", description="d"
    )
    lapw0 = flow.task("lapw0", work="0.5*w1", outputs={"potential": "100kB"})
    lapw1 = flow.task("lapw1", sweep={"k": "1..kpoints"}, inputs=["potential"], work="w1", nodes=[1, 2, 4])
    lapw2 = flow.task("lapw2", sweep={"k": "1..kpoints"}, after=lapw1["k"], work=1)
    conv = flow.task("conv", after=[lapw2, lapw0.when("exit_code == 0")], work=1)
    flow.loop("scf", last=conv, first=lapw0, until="conv.exit_code == 0", max_iterations=40)
    assert flow.build() == read(
        """\
        name: wien2k
        description: d
        owner: ann
        params: {kpoints: 3, w1: 10}
        defaults: {retries: 1}
        tasks:
          lapw0: {work: 0.5*w1, outputs: {potential: 100kB}}
          lapw1: {sweep: {k: 1..kpoints}, inputs: [potential], work: w1, nodes: [1, 2, 4]}
          lapw2: {sweep: {k: 1..kpoints}, after: "lapw1[k]", work: 1}
          conv: {after: [lapw2, {task: lapw0, if: exit_code == 0}], work: 1}
        loops: {scf: {from: conv, to: lapw0, until: conv.exit_code == 0, max_iterations: 40}}
        """
    )


def test_python_values_of_every_type_are_accepted():
    flow = Builder("w")
    flow.task(
        "a", sweep={"k": range(1, 4)}, work=np.float64(2.5), nodes=(np.int64(1), 2), speedup={"amdahl": 0.1}
    )
    flow.task("m", kind="transfer", from_="A", to="B", file="f", size=5)
    flow.task("c", machine="A", inputs=("x", {"file": "y", "shared": True}))
    graph = unfold(flow.build())
    assert graph.work[:3].tolist() == [2.5] * 3
    assert [point for point in graph.points if point] == [(1,), (2,), (3,)]


def test_handles_select_subtasks():
    handle = TaskHandle("a")
    assert (handle["k"].name, handle["i", "*"].name, handle[3].name) == ("a[k]", "a[i, *]", "a[3]")
    assert repr(handle["k"]) == "TaskHandle('a[k]')"


def test_handles_can_be_used_as_dependencies():
    flow = Builder("w")
    a = flow.task("a", sweep={"k": [1, 2]})
    flow.task("b", sweep={"k": [1, 2]}, after=[a["k"]])
    assert edges(unfold(flow.build())) == {("a[1]", "b[1]"), ("a[2]", "b[2]")}


def test_problems_have_the_lines_of_the_caller():
    flow = Builder("w")
    line = line_of_this()
    flow.task("a", wrok=3)
    flow.task("b", after="c", work=-1)
    with pytest.raises(InvalidInput) as raised:
        flow.build()
    found = [(problem.what, problem.location.line) for problem in raised.value.problems]
    assert found == [
        ("unknown key 'wrok'", line + 1),
        ("work is -1", line + 2),
        ("b depends on 'c', which does not exist", line + 2),
    ]
    files = {Path(problem.location.file).name for problem in raised.value.problems}
    assert files == {"test_builder.py"}


def test_duplicate_names_are_rejected():
    flow = Builder("w")
    flow.task("a")
    with pytest.raises(InvalidInput, match="two tasks are named 'a'"):
        flow.task("a")
    flow.loop("l", last="a", first="a", max_iterations=2)
    with pytest.raises(InvalidInput, match="two loops are named 'l'"):
        flow.loop("l", last="a", first="a", max_iterations=3)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", 10**400])
def test_values_that_a_file_cannot_express_are_rejected(value):
    with pytest.raises(InvalidInput):
        Builder("w").task("a", work=value)


def test_an_empty_workflow_is_rejected():
    with pytest.raises(InvalidInput, match="no tasks"):
        Builder("w").build()
