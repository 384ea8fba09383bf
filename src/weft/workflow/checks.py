"""Checks: everything that is wrong with a workflow, at once, each with its place, value, rule and advice.

Records check themselves (``faults``); ``task_checks``, ``loop_checks`` and ``budget_checks`` hold what needs
several of them: names that must exist, templates and formulas whose names must be known. What only values
show (empty sweeps, cycles) comes from the attempt to unfold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.documents import placed
from weft.errors import InvalidInput, Path, Problem
from weft.workflow.budget_checks import budget_problems
from weft.workflow.loop_checks import loop_problems
from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow
from weft.workflow.task_checks import TaskChecks, unknown_problems
from weft.workflow.unfolding.task_graph import TaskGraph
from weft.workflow.unfolding.unfold import try_unfold

__all__ = ["check", "checked_graph", "problems_of"]


def checked_graph(workflow: Workflow) -> TaskGraph:
    """Check a workflow and unfold it, in one pass. Raises InvalidInput with every problem it has."""
    graph, found = _judge(workflow, ())
    if graph is None or found:
        raise InvalidInput(found)
    return graph


def check(workflow: Workflow) -> None:
    """Raise InvalidInput with every problem of a workflow, if it has any."""
    checked_graph(workflow)


def problems_of(workflow: Workflow, earlier: Iterable[Problem] = ()) -> list[Problem]:
    """List every problem, those found earlier (while reading) included, each once and in reading order."""
    return _judge(workflow, earlier)[1]


def _judge(workflow: Workflow, earlier: Iterable[Problem]) -> tuple[TaskGraph | None, list[Problem]]:
    found = list(earlier)
    if workflow.tasks or not found:  # a file whose reading gave no task has said why
        found += _static_problems(workflow)
    reported = {problem.path for problem in found}
    graph, dynamic = try_unfold(workflow, strictly=True)
    found += [problem for problem in dynamic if problem.path not in reported]
    unique: dict[tuple[Path, str], Problem] = {}
    for problem in placed(found, workflow.document):
        unique.setdefault((problem.path, problem.what), problem)
    return graph, sorted(unique.values(), key=_reading_order)


def _reading_order(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (place.line or 0, place.column or 0) if place is not None else (0, 0)


def _static_problems(workflow: Workflow) -> Iterator[Problem]:
    if not workflow.tasks:
        yield Problem(what=f"workflow {workflow.name} has no tasks", rule="a workflow has at least one task")
    for name, value in workflow.params.items():
        yield from unknown_problems(value, workflow.params, ("params", name))
    checks = TaskChecks(workflow)
    if len(checks.names) < len(workflow.tasks):
        yield from _duplicates(workflow.tasks)
    for task in workflow.tasks:
        yield from checks.problems(task)
    yield from loop_problems(workflow)
    yield from budget_problems(workflow)


def _duplicates(tasks: Iterable[Task]) -> Iterator[Problem]:
    seen: set[str] = set()
    for task in tasks:
        if task.name in seen:
            path = ("tasks", task.name)
            yield Problem(what=f"two tasks are called {task.name!r}", rule="names are unique", path=path)
        seen.add(task.name)
