"""Every iteration of a loop is reused, stale or new by itself, and is compared with its own earlier product."""

from __future__ import annotations

import json
import sqlite3

import pytest

from cli.projects import Project

ONE = """\
weft: 1
name: one
params: {x: 1, y: 1, n: 4}
tasks:
  step: {command: "echo {x} $WEFT_ITERATION > o", outputs: [o]}
  more: {command: "echo {y} > p", inputs: [o], outputs: [p]}
  check: {command: "test $WEFT_ITERATION -ge {n}", after: more}
loops:
  l: {from: check, to: step, until: check.exit_code == 0, max_iterations: 9}
"""

NESTED = """\
weft: 1
name: nested
params: {x: 1}
tasks:
  setup: {command: "echo {x} > state", outputs: [state]}
  solve: {command: "cat state; echo $WEFT_ITERATIONS > next", inputs: [state], outputs: [next]}
  check: {command: "test $WEFT_ITERATION -ge 2", inputs: [next]}
  outer: {command: "test $WEFT_ITERATION -ge 3", after: inside}
loops:
  inside: {from: check, to: solve, until: check.exit_code == 0, max_iterations: 9}
  outside: {from: outer, to: setup, until: outer.exit_code == 0, max_iterations: 9}
"""


def reuse(project: Project, *arguments: str) -> dict[str, str]:
    """Run; return the printed line on reuse of each kind."""
    done = project.weft("run", *arguments)
    assert done.code == 0, done
    _, _, listed = done.out.partition("reuse of earlier results:\n")
    lines = [line.strip() for line in listed.splitlines() if line.startswith("  ")]
    return dict(line.split(": ", 1) for line in lines)


@pytest.fixture
def looped(project: Project) -> Project:
    project.write("one.yaml", ONE)
    assert reuse(project, "one.yaml") == {}
    return project


def test_all_iterations_are_reused(looped: Project) -> None:
    assert reuse(looped, "one.yaml") == dict.fromkeys(["step", "more", "check"], "4 reused")


def test_each_iteration_is_compared_with_its_own_product(looped: Project) -> None:
    assert reuse(looped, "one.yaml", "-p", "x=2") == {
        "step": "4 stale (the command changed from 'echo 1 $WEFT_ITERATION > o')",
        "more": "4 stale (input o changed)",
        "check": "4 reused",
    }
    explained = looped.weft("explain", "step#3")
    assert "it ran because the command changed from 'echo 1 $WEFT_ITERATION > o'" in explained.out, explained
    assert "1 s of work (assumed: no stated time), data ready" in explained.out


def test_an_iteration_without_an_earlier_product_is_new(looped: Project) -> None:
    found = reuse(looped, "one.yaml", "-p", "n=6")
    assert found["step"] == found["more"] == "4 reused, 2 new"
    assert found["check"] == "4 stale (the command changed from 'test $WEFT_ITERATION -ge 4'), 2 new"


def test_products_of_one_iteration_that_were_changed_are_stale(looped: Project) -> None:
    with sqlite3.connect(looped.folder / ".weft/weft.db") as database:
        query = "SELECT directory FROM product WHERE name = 'more' AND iteration = 2"
        ((directory,),) = database.execute(query).fetchall()
    database.close()
    (looped.folder / directory / "p").unlink()
    assert reuse(looped, "one.yaml")["more"] == "3 reused, 1 stale (its outputs were modified or removed)"


def test_iterations_of_nested_loops_are_compared_by_all_counters(project: Project) -> None:
    project.write("nested.yaml", NESTED)
    reuse(project, "nested.yaml")
    assert reuse(project, "nested.yaml") == {
        "setup": "3 reused", "solve": "6 reused", "check": "6 reused", "outer": "3 reused"
    }  # fmt: skip
    assert reuse(project, "nested.yaml", "-p", "x=2") == {
        "setup": "3 stale (the command changed from 'echo 1 > state')",
        "solve": "6 stale (input state changed)",
        "check": "6 reused",
        "outer": "3 reused",
    }


def test_status_and_report_count_the_reused_iterations(looped: Project) -> None:
    reuse(looped, "one.yaml", "-p", "y=2")
    report = json.loads(looped.weft("report", "2", "--json").out)
    counts = {each["kind"]: each["taken_over"] for each in report["kinds"]}
    assert counts == {"step": 4, "more": 0, "check": 4}
