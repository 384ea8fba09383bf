"""Subtasks: each task becomes one row, or one row per point of its sweep, with evaluated numbers."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import DocumentPath, InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, evaluate_columns
from weft.workflow.quantity import (
    COUNT_NAME,
    Amount,
    Context,
    Quantity,
    Range,
    depends_on_count,
    evaluate_quantity,
    list_points,
)
from weft.workflow.task import MeasuredSeconds, Task, TaskKind
from weft.workflow.task_graph import COMPUTE, EVERYWHERE, KINDS, AmountTable
from weft.workflow.templates import fill_template, format_value

_Points = list[tuple[Value, ...]]

_NO_POINT: tuple[Value, ...] = ()
_ONE_NODE: tuple[int, ...] = (1,)
_MAX_SUBTASKS = 3_000_000
_MAX_NODES = 10_000_000
_FEW = 32
"""Minimum number of points for which a formula is evaluated over arrays instead of point by point."""


class SubtaskTable:
    """Columns over subtasks in program order, filled while tasks are expanded."""

    def __init__(self, tasks: Sequence[Task], params: Context) -> None:
        self.tasks = tasks
        self.params = params
        self.problems: list[Problem] = []
        self.failed: set[int] = set()
        """Indices of the tasks whose sweep could not be evaluated."""
        self.is_full = False
        """Whether the sweeps together have too many points; further sweeps are not expanded."""
        self.first: list[int] = []
        """Per task: its first row; the last entry is the number of rows."""
        self.names: list[str] = []
        self.template = array("I")
        self.points: _Points = []
        self.kind = array("B")
        self.work = array("d")
        self.cores = array("d")
        self.counts = array("I")
        self.count_sets: dict[tuple[int, ...], int] = {}
        self.variable = array("I")
        self.variables: list[str] = []
        self.abstract: dict[str, int] = {}
        self.demand = AmountTable()
        self.consumption = AmountTable()
        self.explicit: dict[int, list[tuple[str, float]]] = {}
        self.transfers: list[int] = []
        """Rows of transfer tasks."""

    def rows_of(self, description: int) -> range:
        """Return the rows of the task with this index."""
        return range(self.first[description], self.first[description + 1])

    def context(self, row: int) -> Context:
        """Return the parameters and sweep variables of a row, for its expressions."""
        sweep = self.tasks[self.template[row]].sweep
        if sweep is None:
            return self.params
        return {**self.params, **dict(zip(sweep.names, self.points[row], strict=True))}

    def fill_name(self, row: int, text: str) -> str:
        """Return a file or machine name with the template fields of a row replaced."""
        return fill_template(text, self.context(row)) if "{" in text or "}" in text else text

    def abstract_machine(self, name: str) -> int:
        """Return the binding variable of an abstract machine, adding it if necessary."""
        if (index := self.abstract.get(name)) is None:
            index = self.abstract[name] = len(self.variables)
            self.variables.append(name)
        return index

    def count_set(self, counts: tuple[int, ...]) -> int:
        """Return the index of a set of node counts, adding it if necessary."""
        return self.count_sets.setdefault(counts, len(self.count_sets))

    def add_problem(self, path: DocumentPath, error: InvalidInput) -> None:
        """Add the problems of a failed evaluation, all with the path of the evaluated key."""
        self.problems += [replace(problem, path=path, location=None) for problem in error.problems]


def expand_tasks(tasks: Sequence[Task], params: Context) -> SubtaskTable:
    """Return the table of the subtasks of all tasks."""
    rows = SubtaskTable(tasks, params)
    for index, task in enumerate(tasks):
        rows.first.append(len(rows.names))
        _expand_task(rows, index, task)
    rows.first.append(len(rows.names))
    return rows


def _expand_task(rows: SubtaskTable, index: int, task: Task) -> None:
    start = len(rows.names)
    if task.sweep is None:
        points = _SINGLE
        rows.names.append(task.name)
        rows.points.append(_NO_POINT)
        rows.template.append(index)
        rows.kind.append(COMPUTE if task.kind is TaskKind.COMPUTE else KINDS.index(task.kind))
    else:
        points = _points(rows, index, task)
        rows.names += [f"{task.name}[{','.join(map(format_value, point))}]" for point in points]
        rows.points += points
        rows.template.extend([index] * len(points))
        rows.kind.extend([KINDS.index(task.kind)] * len(points))
    _fill(rows, rows.work, task.work, task, points, ("work",), missing=_default_work(task))
    _fill(rows, rows.cores, task.cores, task, points, ("cores",), missing=0.0)
    _add_counts(rows, task, points)
    _add_variables(rows, task, start, len(points))
    if (task.resources or task.consumes) and points:
        _add_amounts(rows, task, start, points)
    if task.seconds is not None:
        _add_explicit(rows, task, start, points)
    if task.transfer is not None:
        rows.transfers += range(start, start + len(points))


_SINGLE: _Points = [_NO_POINT]


def _points(rows: SubtaskTable, index: int, task: Task) -> _Points:
    assert task.sweep is not None
    if rows.is_full:
        rows.failed.add(index)
        return []
    try:
        points = list_points(task.sweep, rows.params)
        if len(rows.names) + len(points) > _MAX_SUBTASKS:
            rows.is_full = True
            what = f"{len(rows.names) + len(points):,} subtasks with those of the tasks before it"
            raise InvalidInput(what, rule=f"a workflow has at most {_MAX_SUBTASKS:,} subtasks")
        return points
    except InvalidInput as error:
        path: DocumentPath = ("tasks", task.name, "sweep")
        rows.problems += [replace(problem, path=(*path, *problem.path)) for problem in error.problems]
        rows.failed.add(index)
        return []


def _default_work(task: Task) -> float:
    """Return the work of a task that states no ``work``.

    It is the first time of the task's measured speed-up law; NaN if there is no such law.
    """
    if isinstance(task.speedup, MeasuredSeconds) and task.speedup.seconds and task.seconds is None:
        return task.speedup.first_seconds
    return math.nan


def _fill(rows: SubtaskTable, column: array[float], quantity: Quantity | None, task: Task, points: _Points,
          key: tuple[str, ...], *, missing: float, params: Context | None = None) -> None:  # fmt: skip
    """Append the value of a quantity at each point to a column.

    ``missing`` is appended if the quantity is None or cannot be evaluated. ``params`` replaces
    ``rows.params``.
    """
    if not isinstance(quantity, Expression):
        value = missing if quantity is None else quantity
        if points is _SINGLE:
            column.append(value)
        else:
            column.extend([value] * len(points))
        return
    path: DocumentPath = ("tasks", task.name, *key)
    try:
        values = _evaluate(quantity, rows.params if params is None else params, task, points)
    except InvalidInput as error:
        rows.add_problem(path, error)
        column.extend([missing] * len(points))
        return
    bad = next((value for value in values if not 0 <= value < math.inf), None)
    if bad is not None:
        what = f"{quantity} gives {bad:g}"
        rows.problems.append(Problem(what=what, rule="must be a number, at least 0", path=path))
    column.extend(values)


def _evaluate(quantity: Expression, params: Context, task: Task, points: _Points) -> list[float]:
    if task.sweep is None:
        return [float(evaluate_quantity(quantity, params))]
    names = task.sweep.names
    if len(points) < _FEW or "[" in quantity.text or not all(map(_is_numeric, zip(*points, strict=True))):
        return [float(evaluate_quantity(quantity, _at(params, names, point))) for point in points]
    columns = {name: np.array([point[i] for point in points]) for i, name in enumerate(names)}
    found: list[float] = evaluate_columns(quantity, columns, len(points), params).astype(float).tolist()
    return found


def _is_numeric(column: tuple[Value, ...]) -> bool:
    """Return whether NumPy represents the values of a column exactly."""
    return {type(value) for value in column} <= {float} or (
        {type(value) for value in column} <= {int} and max(map(abs, column)) < 2**53  # type: ignore[arg-type]
    )


def _at(params: Context, names: tuple[str, ...], point: tuple[Value, ...]) -> Context:
    return {**params, **dict(zip(names, point, strict=True))}


def _add_counts(rows: SubtaskTable, task: Task, points: _Points) -> None:
    if task.nodes == _ONE_NODE:
        number = rows.count_set(_ONE_NODE)
        rows.counts.extend([number] * len(points))
        return
    plain = not any(isinstance(count, Expression | Range) for count in task.nodes)
    try:
        if plain or task.sweep is None:
            sets = [_count_set(task, rows.params)] * len(points)
        else:
            names = task.sweep.names
            sets = [_count_set(task, _at(rows.params, names, point)) for point in points]
    except InvalidInput as error:
        rows.add_problem(("tasks", task.name, "nodes"), error)
        sets = [_ONE_NODE] * len(points)
    rows.counts.extend(map(rows.count_set, sets))


def _count_set(task: Task, context: Context) -> tuple[int, ...]:
    found: set[int] = set()
    for count in task.nodes:
        values: list[Any] = (
            count.values(context) if isinstance(count, Range) else [evaluate_quantity(count, context)]
        )
        for value in values:
            if not 1 <= value <= _MAX_NODES or value != int(value):
                what = f"node count {value:g}"
                raise InvalidInput(what, rule=f"must be a whole number from 1 to {_MAX_NODES:,}")
            found.add(int(value))
    if not found:
        raise InvalidInput("the list of node counts is empty", advice="give at least one node count")
    return tuple(sorted(found))


def _add_variables(rows: SubtaskTable, task: Task, start: int, count: int) -> None:
    name = task.transfer.target if task.transfer is not None else task.machine
    if name is None or task.kind is TaskKind.VIRTUAL:
        # Without an abstract machine every subtask has its own binding variable.
        rows.variable.extend(range(len(rows.variables), len(rows.variables) + count))
        rows.variables += rows.names[start:]
        return
    for row in range(start, start + count):
        rows.variable.append(rows.abstract_machine(rows.fill_name(row, name)))


def _add_amounts(rows: SubtaskTable, task: Task, start: int, points: _Points) -> None:
    taken = (*rows.params, *(task.sweep.names if task.sweep is not None else ()))
    for name, key, amount in task.amounts():
        amounts = rows.consumption if key[0] == "consumes" else rows.demand
        if depends_on_count(amount, taken):
            columns = _columns_by_count(rows, amount, task, points, key)
            sets = list(rows.count_sets)
            for position, row in enumerate(range(start, len(rows.names))):
                listed = [columns[count][position] for count in sets[rows.counts[row]]]
                amounts.add_by_count(name, row, listed)
        else:
            assert not isinstance(amount, Mapping)
            column = array("d")
            _fill(rows, column, amount, task, points, key, missing=0.0)
            amounts.add(name, start, column)


def _columns_by_count(
    rows: SubtaskTable, amount: Amount, task: Task, points: _Points, key: tuple[str, ...]
) -> dict[int, array[float]]:
    """Return, by node count, the amounts at all points, for every count that is allowed at some point."""
    sets = list(rows.count_sets)
    allowed = {count for index in set(rows.counts[-len(points) :]) for count in sets[index]}
    if isinstance(amount, Mapping):
        _check_counts(rows, amount, allowed, ("tasks", task.name, *key))
    columns: dict[int, array[float]] = {}
    for count in sorted(allowed):
        columns[count] = array("d")
        at = {COUNT_NAME: count, **rows.params}
        stated, place = (
            (amount.get(count), (*key, str(count))) if isinstance(amount, Mapping) else (amount, key)
        )
        _fill(rows, columns[count], stated, task, points, place, missing=0.0, params=at)
    return columns


def _check_counts(
    rows: SubtaskTable, stated: Mapping[int, Quantity], allowed: set[int], path: DocumentPath
) -> None:
    """Add a problem for an allowed node count without an amount, or an amount for a count not allowed."""
    for counts, what in (
        (allowed - stated.keys(), "there is no amount for the node counts {}"),
        (stated.keys() - allowed, "there are amounts for the node counts {}, which are not allowed"),
    ):
        if counts:
            rule = "amounts by node count must list exactly the allowed counts"
            shown = shorten(", ".join(map(str, sorted(counts))))
            advice = "see `nodes:` of the task"
            rows.problems.append(Problem(what=what.format(shown), rule=rule, advice=advice, path=path))


def _add_explicit(rows: SubtaskTable, task: Task, start: int, points: _Points) -> None:
    given = task.seconds
    per_machine: Mapping[str, Quantity | None] = given if isinstance(given, Mapping) else {EVERYWHERE: given}
    for machine, quantity in per_machine.items():
        column = array("d")
        key = ("seconds",) if machine == EVERYWHERE else ("seconds", machine)
        _fill(rows, column, quantity, task, points, key, missing=math.nan)
        for row, seconds in enumerate(column, start):
            rows.explicit.setdefault(row, []).append((machine, seconds))
