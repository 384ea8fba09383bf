"""Workflows: tasks, loops and parameters, with the functions that evaluate or replace parts of them.

Loops follow docs/papers/dynamic-grid.md, sections 2.2 and 10. A growing sweep (docs/reference/file-format.md,
"Growth") takes its values from a file of the run. An outcome ("Outcomes") is an exit code that is a result
and not a failure: a code that the task lists, or with which a condition compares the exit code of the task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

from weft.documents import Document
from weft.errors import InvalidInput, Problem, suggest
from weft.expressions import Expression, Value, evaluate
from weft.expressions.tree import Compare, ExpressionNode, ListOf, Literal, Name, walk
from weft.predictions import Prediction
from weft.records import dataclass
from weft.workflow.cycles import find_cycle, topological_order
from weft.workflow.quantity import Quantity, Sweep, constant_value, growth_file
from weft.workflow.task import RESERVED_CODES, Isolation, Task

ON_EXHAUSTED = ("fail", "continue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop: the tasks from ``first`` to ``last`` are repeated until a condition holds.

    ``until`` is evaluated when ``last`` has ended. Tasks outside the body that depend on the loop, or on
    ``last``, run once, after the last iteration.
    """

    name: str
    last: str
    """The source of the back edge (``from`` in files)."""
    first: str
    """The target of the back edge (``to`` in files)."""
    until: Expression | None = None
    max_iterations: Quantity | None = None
    expect: Quantity | None = None
    """Expected number of iterations; None: unknown before the run."""
    on_exhausted: str = "fail"

    def find_problems(self) -> Iterator[Problem]:
        """Yield the problems of this record."""
        if self.until is None and self.max_iterations is None:
            yield Problem(
                what=f"loop {self.name} has neither until nor max_iterations",
                rule="a loop needs a condition or a limit",
                advice="add `until: CONDITION` or `max_iterations: N`",
            )
        for label, quantity in (("max_iterations", self.max_iterations), ("expect", self.expect)):
            number = constant_value(quantity)
            if number is not None and not (number >= 1 and number % 1 == 0):
                yield Problem(
                    what=f"{label} {number}", rule="must be a whole number, at least 1", path=(label,)
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A value for environment variables of programs and for fields of URLs; weft writes it nowhere."""

    name: str
    """Name of the environment variable in the programs, and of the field in URLs."""
    variable: str | None = None
    """Environment variable from which weft reads the value (``env`` in files); None: it is named like the
    secret.
    """
    file: str | None = None
    """File from which weft reads the value instead; its path is relative to the folder of the workflow."""
    fingerprint: bool = True
    """Whether finished tasks that receive the secret run again if its value has changed."""

    @property
    def source(self) -> str:
        """Return the name of the environment variable from which weft reads the value."""
        return self.variable or self.name


Parameter = Value | Expression
"""A value, or a formula over other parameters (``"=7*atoms"``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A directed graph of tasks with loops, sweeps and parameters, as the user describes it."""

    name: str
    tasks: tuple[Task, ...]
    loops: tuple[Loop, ...] = ()
    params: Mapping[str, Parameter] = field(default_factory=dict)
    budgets: Mapping[str, Quantity] = field(default_factory=dict)
    """Amounts that all tasks together may consume; they are never released."""
    secrets: tuple[Secret, ...] = ()
    predictions: tuple[Prediction | str, ...] = ()
    """Predicted times of the tasks; a text is the name of a file that is not read yet."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that the workflow states, by attribute of ``RunSettings``."""
    description: str | None = None
    owner: str | None = None
    services_file: str | None = field(default=None, compare=False, repr=False)
    """File beside the workflow that states the programs of its services, or the name of the file to write if
    there is none; None: the format of the workflow has no such file.
    """
    document: Document | None = field(default=None, compare=False, repr=False)
    """The document from which the workflow was read, for the locations of errors; comparisons ignore it."""


def find_growth_files(workflow: Workflow) -> dict[str, str]:
    """Return the file of each growing sweep, with the name of the first task that has this sweep.

    The lines of the file are the values of the sweep.
    """
    found: dict[str, str] = {}
    for task in workflow.tasks:
        for _, values in task.sweep.variables if task.sweep is not None else ():
            if (name := growth_file(values)) is not None:
                found.setdefault(name, task.name)
    return found


def find_named_writer(tasks: Iterable[Task], file: str) -> str | None:
    """Return the task that ``lines(split.parts)`` names, ``split``; None if the text is a file name.

    It is a file name if an output has exactly this name, or if no task has the name before the first dot. A
    task that is named is the writer even if wildcards or sweep variables in outputs of other tasks match.
    """
    head = file.partition(".")[0]
    named = False
    for task in tasks:
        if any(output.file == file for output in task.outputs):
            return None
        named = named or task.name == head
    return head if named else None


def set_growth_lines(workflow: Workflow, lines: Mapping[str, Sequence[str]]) -> Workflow:
    """Return the workflow in which growing sweeps have the values ``lines``, by file."""
    return dataclasses.replace(workflow, tasks=tuple(_set_lines(task, lines) for task in workflow.tasks))


def _set_lines(task: Task, lines: Mapping[str, Sequence[str]]) -> Task:
    if task.sweep is None:
        return task
    variables, grown = [], list(task.sweep.grown)
    for name, values in task.sweep.variables:
        file = growth_file(values)
        if file is not None and file in lines:
            values = tuple(lines[file])
            grown.append((name, file))
        variables.append((name, values))
    if tuple(variables) == task.sweep.variables:
        return task
    sweep = Sweep(variables=tuple(variables), paired=task.sweep.paired, grown=tuple(grown))
    return dataclasses.replace(task, sweep=sweep)


def evaluate_params(params: Mapping[str, Parameter]) -> tuple[dict[str, Value], list[Problem]]:
    """Return the values of the parameters, and the problems of those that cannot be evaluated."""
    values: dict[str, Value] = {k: v for k, v in params.items() if not isinstance(v, Expression)}
    formulas = [(name, formula) for name, formula in params.items() if isinstance(formula, Expression)]
    if not formulas:
        return values, []
    needed_by = _needed_by(formulas)
    if (order := topological_order(needed_by)) is None:
        first, *rest = find_cycle(needed_by) or [0]
        names = [formulas[index][0] for index in (first, *reversed(rest))]
        what = f"cyclic parameters: {', '.join(names[:8])}"
        return values, [
            Problem(what=what, rule="a formula must not depend on itself", path=("params", names[0]))
        ]
    problems: list[Problem] = []
    failed: set[str] = set()
    for name, formula in map(formulas.__getitem__, order):
        if not failed.isdisjoint(_needs(formula)):
            failed.add(name)
            continue
        try:
            values[name] = evaluate(formula, values)
        except InvalidInput as error:
            failed.add(name)
            problems += [replace(problem, path=("params", name)) for problem in error.problems]
    return {name: values[name] for name in params if name in values}, problems


def _needed_by(formulas: list[tuple[str, Expression]]) -> list[list[int]]:
    index = {name: position for position, (name, _) in enumerate(formulas)}
    successors: list[list[int]] = [[] for _ in formulas]
    for position, (_, formula) in enumerate(formulas):
        for name in _needs(formula):
            if name in index:
                successors[index[name]].append(position)
    return successors


def _needs(formula: Expression) -> dict[str, None]:
    """Return the names of the parameters that a formula uses, in order and without duplicates."""
    return dict.fromkeys(name.partition(".")[0] for name in formula.names)


def set_params(workflow: Workflow, changes: Mapping[str, Parameter]) -> Workflow:
    """Return the workflow with ``changes`` to its parameters; unknown names raise InvalidInput."""
    problems = []
    for name in changes:
        if name not in workflow.params:
            known = ", ".join(list(workflow.params)[:20]) or "none"
            advice = suggest(name, workflow.params, f"its parameters: {known}")
            problems.append(
                Problem(what=f"workflow {workflow.name} has no parameter {name!r}", advice=advice)
            )
    if problems:
        raise InvalidInput(problems)
    return replace(workflow, params={**workflow.params, **changes})


def isolate_tasks(workflow: Workflow, isolation: Isolation) -> Workflow:
    """Return the workflow with every program isolated whose task does not state ``isolate`` itself."""

    def isolate(task: Task) -> Task:
        if task.job is None or task.job.isolate is not None:
            return task
        return replace(task, job=replace(task.job, isolate=isolation))

    return replace(workflow, tasks=tuple(map(isolate, workflow.tasks)))


_OWN = "exit_code"


def outcome_codes(workflow: Workflow, task_name: str) -> tuple[int, ...]:
    """Return the exit codes of a task that are outcomes, ascending; 85 and 99 are never outcomes."""
    params, _ = evaluate_params(workflow.params)
    codes = {code for task in workflow.tasks if task.name == task_name for code in task.outcomes}
    for condition, name in _conditions(workflow, task_name):
        codes.update(_compared(condition, name, params))
    return tuple(sorted(codes.difference(RESERVED_CODES)))


def list_outcome_codes(workflow: Workflow) -> dict[str, tuple[int, ...]]:
    """Return the outcome codes by task, for the tasks that have any."""
    candidates = {task.name for task in workflow.tasks if task.outcomes}
    ended_by = {loop.name: loop.last for loop in workflow.loops}
    for task in workflow.tasks:
        candidates.update(
            ended_by.get(dependency.task, dependency.task)
            for dependency in task.after
            if dependency.condition is not None
        )
    for loop in workflow.loops:
        candidates.add(loop.last)
        if loop.until is not None:
            candidates.update(
                name.rpartition(".")[0] for name in loop.until.names if name.endswith(f".{_OWN}")
            )
    return {name: codes for name in sorted(candidates) if (codes := outcome_codes(workflow, name))}


def _conditions(workflow: Workflow, task_name: str) -> Iterator[tuple[Expression, str]]:
    """Yield each condition that may refer to a task, and the name of the task's exit code in it."""
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
    """Yield the integers with which a condition compares the variable ``name``."""
    for node in walk(condition.tree):
        if isinstance(node, Compare):
            for left, right in pairwise(node.operands):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, Name) and one.name == name:
                        yield from _codes(other, params)


def _codes(node: ExpressionNode, params: dict[str, Value]) -> Iterator[int]:
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
