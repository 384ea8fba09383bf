"""Outcomes: exit codes of a task that are results, not failures (format: "Outcomes").

A code is an outcome if the task lists it, or if a condition on the task compares its exit code with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from weft.expressions import Expression, Value
from weft.expressions.nodes import Comparison, ListOf, Literal, Name, Node, walk
from weft.workflow.records.recovery import RESERVED_CODES
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.parameters import evaluate_params

__all__ = ["outcome_codes", "outcomes_of"]

_OWN = "exit_code"


def outcome_codes(workflow: Workflow, task_name: str) -> tuple[int, ...]:
    """List the exit codes of a task that are outcomes, ascending; 85 and 99 never are."""
    params, _ = evaluate_params(workflow.params)
    codes = {code for task in workflow.tasks if task.name == task_name for code in task.outcomes}
    for condition, name in _conditions(workflow, task_name):
        codes.update(_compared(condition, name, params))
    return tuple(sorted(codes.difference(RESERVED_CODES)))


def outcomes_of(workflow: Workflow) -> dict[str, tuple[int, ...]]:
    """List the outcome codes of every task that has some, in one pass over the workflow."""
    spoken = {task.name for task in workflow.tasks if task.outcomes}
    ended_by = {loop.name: loop.last for loop in workflow.loops}
    for task in workflow.tasks:
        spoken.update(
            ended_by.get(dependency.task, dependency.task)
            for dependency in task.after
            if dependency.condition is not None
        )
    for loop in workflow.loops:
        spoken.add(loop.last)
        if loop.until is not None:
            spoken.update(name.rpartition(".")[0] for name in loop.until.names if name.endswith(f".{_OWN}"))
    return {name: codes for name in sorted(spoken) if (codes := outcome_codes(workflow, name))}


def _conditions(workflow: Workflow, task_name: str) -> Iterator[tuple[Expression, str]]:
    """Give the conditions that may speak of a task, and what they call its exit code."""
    ended_by = {loop.name: loop.last for loop in workflow.loops}
    for task in workflow.tasks:
        for dependency in task.after:
            source = ended_by.get(dependency.task, dependency.task)
            if dependency.condition is not None and source == task_name:
                yield dependency.condition, _OWN
    for loop in workflow.loops:
        if loop.until is not None:
            yield loop.until, f"{task_name}.{_OWN}"
            if loop.last == task_name:
                yield loop.until, _OWN


def _compared(condition: Expression, name: str, params: dict[str, Value]) -> Iterator[int]:
    """Give the whole numbers that stand beside a name in a comparison."""
    for node in walk(condition.tree):
        if isinstance(node, Comparison):
            for left, right in pairwise(node.operands):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, Name) and one.name == name:
                        yield from _codes(other, params)


def _codes(node: Node, params: dict[str, Value]) -> Iterator[int]:
    match node:
        case ListOf(items=items):
            for item in items:
                yield from _codes(item, params)
        case Literal(value=value):
            yield from _whole(value)
        case Name(name=name):
            found = params.get(name)
            for entry in found if isinstance(found, list) else [found]:
                yield from _whole(entry)
        case _:
            return


def _whole(value: Value) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
