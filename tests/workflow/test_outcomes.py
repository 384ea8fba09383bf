"""Exit codes that are outcomes and not failures."""

from __future__ import annotations

import pytest

from weft.workflow.task import Task
from weft.workflow.workflow import Workflow, outcome_codes
from workflow.workflow_texts import read


def codes(text, name="a"):
    return outcome_codes(read(text), name)


def test_a_task_without_conditions_has_no_outcomes():
    assert codes("tasks: {a: , b: {after: a}}") == ()


def test_listed_exit_codes_are_outcomes():
    assert codes("tasks: {a: {outcomes: [3, 0, 3]}}") == (0, 3)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("exit_code == 0", (0,)),
        ("exit_code != 2", (2,)),
        ("1 == exit_code", (1,)),
        ("0 <= exit_code < 4", (0, 4)),
        ("exit_code in [1, 2]", (1, 2)),
        ("exit_code in (1, 2)", (1, 2)),
        ("not (exit_code == 1 or result.x == 7)", (1,)),
        ("result.delta < 5", ()),
        ("exit_code == bad", (42,)),
        ("exit_code in many", (5, 6)),
        ("exit_code == 85 or exit_code == 99 or exit_code == 7", (7,)),
        ("exit_code == true", ()),
        ("exit_code > 1.5", ()),
    ],
)
def test_exit_codes_that_a_branch_condition_compares_are_outcomes(condition, found):
    text = f"params: {{bad: '=40 + 2', many: [5, 6]}}\ntasks: {{a: , b: {{after: {{task: a, if: '{condition}'}}}}}}"
    assert codes(text) == found
    assert codes(text, "b") == ()


def test_exit_codes_that_a_loop_condition_compares_are_outcomes():
    text = (
        "tasks: {a: , b: {after: a}}\nloops: {l: {from: b, to: a, until: a.exit_code == 3 or exit_code == 4}}"
    )
    assert codes(text, "a") == (3,)
    assert codes(text, "b") == (4,)


def test_branch_after_a_loop_refers_to_its_last_task():
    text = (
        "tasks: {a: , b: {after: a}, z: {after: {task: l, if: exit_code == 9}}}\n"
        "loops: {l: {from: b, to: a, max_iterations: 2}}"
    )
    assert (codes(text, "a"), codes(text, "b")) == ((), (9,))


def test_outcomes_of_all_sources_are_combined():
    text = (
        "tasks: {a: {outcomes: [1]}, b: {after: {task: a, if: exit_code == 2}}}\n"
        "loops: {l: {from: b, to: a, until: a.exit_code == 0}}"
    )
    assert codes(text) == (0, 1, 2)
    assert codes(text, "nobody") == ()


def test_reserved_exit_codes_are_not_outcomes_even_if_listed():
    assert outcome_codes(Workflow(name="w", tasks=(Task(name="a", outcomes=(85, 99, 1)),)), "a") == (1,)
