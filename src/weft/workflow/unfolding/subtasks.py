"""Subtasks: every description becomes one row, or one row per point of its sweep, with its numbers evaluated."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import InvalidInput, Path, Problem
from weft.expressions import Expression, Value, evaluate_columns, evaluate_number
from weft.workflow.records.quantity import Context, Quantity
from weft.workflow.records.sweep import Range, points_of
from weft.workflow.records.task import Kind, Task
from weft.workflow.templates import fill, shown
from weft.workflow.unfolding.task_graph import EVERYWHERE, KINDS

__all__ = ["Rows", "expand"]

_NO_POINT: tuple[Value, ...] = ()
_KIND_CODES = {kind: code for code, kind in enumerate(KINDS)}
_MAX_NODES = 10_000_000


class Rows:
    """Columns over subtasks in program order, growing while descriptions are expanded."""

    def __init__(self, tasks: Sequence[Task], params: Context) -> None:
        self.tasks = tasks
        self.params = params
        self.problems: list[Problem] = []
        self.first: list[int] = []
        """Per description: its first row; its rows follow one another."""
        self.names: list[str] = []
        self.template = array("I")
        self.points: list[tuple[Value, ...]] = []
        self.kind = array("B")
        self.work = array("d")
        self.cores = array("d")
        self.counts = array("I")
        self.count_sets: dict[tuple[int, ...], int] = {}
        self.variable = array("I")
        self.variables: list[str] = []
        self.abstract: dict[str, int] = {}
        self.demands: dict[str, dict[int, float]] = {}
        self.explicit: dict[int, list[tuple[str, float]]] = {}

    def rows_of(self, description: int) -> range:
        """Give the rows of a description."""
        following = self.first[description + 1] if description + 1 < len(self.first) else len(self.names)
        return range(self.first[description], following)

    def context(self, row: int) -> dict[str, Any]:
        """Give the names a row's expressions may use."""
        sweep = self.tasks[self.template[row]].sweep
        if sweep is None:
            return dict(self.params)
        return {**self.params, **dict(zip(sweep.names, self.points[row], strict=True))}

    def abstract_machine(self, name: str) -> int:
        """Find or make the binding variable of an abstract machine."""
        index = self.abstract.get(name)
        if index is None:
            index = self.abstract[name] = len(self.variables)
            self.variables.append(name)
        return index

    def own_variable(self, name: str) -> int:
        """Make a binding variable that belongs to one task alone."""
        self.variables.append(name)
        return len(self.variables) - 1

    def complain(self, path: Path, error: InvalidInput) -> None:
        """Keep the problems of an evaluation that failed, with the place it belongs to."""
        self.problems += [replace(problem, path=path, place=None) for problem in error.problems]


def expand(tasks: Sequence[Task], params: Context) -> Rows:
    """Turn descriptions into rows."""
    rows = Rows(tasks, params)
    for index, task in enumerate(tasks):
        rows.first.append(len(rows.names))
        _expand_task(rows, index, task)
    return rows


def _expand_task(rows: Rows, index: int, task: Task) -> None:
    path: Path = ("tasks", task.name)
    points: list[tuple[Value, ...]] = [_NO_POINT]
    if task.sweep is not None:
        try:
            points = points_of(task.sweep, rows.params)
        except InvalidInput as error:
            rows.complain((*path, "sweep"), error)
    start, count = len(rows.names), len(points)
    if task.sweep is None:
        rows.names.append(task.name)
    else:
        rows.names += [f"{task.name}[{','.join(map(shown, point))}]" for point in points]
    rows.points += points
    rows.template.extend([index] * count)
    rows.kind.extend([_KIND_CODES[task.kind]] * count)
    _fill(rows, rows.work, task.work, task, points, (*path, "work"), missing=math.nan)
    _fill(rows, rows.cores, task.cores, task, points, (*path, "cores"), missing=0.0)
    _add_counts(rows, task, points, (*path, "nodes"))
    _add_variables(rows, task, start, points)
    for name, quantity in task.resources.items():
        column = array("d")
        _fill(rows, column, quantity, task, points, (*path, name), missing=0.0)
        rows.demands.setdefault(name, {}).update(zip(range(start, start + count), column, strict=True))
    if task.seconds is not None:
        _add_explicit(rows, task, start, points, (*path, "seconds"))


def _fill(rows: Rows, column: array[float], quantity: Quantity | None, task: Task, points: list[tuple[Value, ...]],
          path: Path, *, missing: float) -> None:  # fmt: skip
    """Append one value per point to a column."""
    if not isinstance(quantity, Expression):
        column.extend([missing if quantity is None else float(quantity)] * len(points))
        return
    try:
        values = _evaluate(quantity, rows.params, task, points)
    except InvalidInput as error:
        rows.complain(path, error)
        column.extend([missing] * len(points))
        return
    bad = next((value for value in values if not (value >= 0 and math.isfinite(value))), None)
    if bad is not None:
        what = f"{quantity} gives {bad:g}"
        rows.problems.append(Problem(what=what, rule="must be a number, at least 0", path=path))
    column.extend(values)


def _evaluate(
    quantity: Expression, params: Context, task: Task, points: list[tuple[Value, ...]]
) -> list[float]:
    if task.sweep is None:
        return [float(evaluate_number(quantity, params))]
    names = task.sweep.names
    if len(points) < 32 or "[" in quantity.text:
        return [
            float(evaluate_number(quantity, {**params, **dict(zip(names, point, strict=True))}))
            for point in points
        ]
    columns = {name: np.array([point[i] for point in points]) for i, name in enumerate(names)}
    found: list[float] = evaluate_columns(quantity, columns, len(points), params).astype(float).tolist()
    return found


def _add_counts(rows: Rows, task: Task, points: list[tuple[Value, ...]], path: Path) -> None:
    plain = not any(isinstance(count, Expression | Range) for count in task.nodes)
    try:
        if plain or task.sweep is None:
            sets = [_count_set(task, rows.params)] * len(points)
        else:
            names = task.sweep.names
            sets = [
                _count_set(task, {**rows.params, **dict(zip(names, point, strict=True))}) for point in points
            ]
    except InvalidInput as error:
        rows.complain(path, error)
        sets = [(1,)] * len(points)
    rows.counts.extend(rows.count_sets.setdefault(counts, len(rows.count_sets)) for counts in sets)


def _count_set(task: Task, context: Context) -> tuple[int, ...]:
    found: set[int] = set()
    for count in task.nodes:
        values: list[Any]
        if isinstance(count, Range):
            values = count.values(context)
        elif isinstance(count, Expression):
            values = [evaluate_number(count, context)]
        else:
            values = [count]
        for value in values:
            if not 1 <= value <= _MAX_NODES or value != int(value):
                what = f"node count {value:g}"
                raise InvalidInput(Problem(what=what, rule=f"must be a whole number from 1 to {_MAX_NODES}"))
            found.add(int(value))
    if not found:
        raise InvalidInput(Problem(what="no node count is allowed", advice="give at least one"))
    return tuple(sorted(found))


def _add_variables(rows: Rows, task: Task, start: int, points: list[tuple[Value, ...]]) -> None:
    name = task.transfer.target if task.transfer is not None else task.machine
    if name is None or task.kind is Kind.VIRTUAL:
        rows.variable.extend(rows.own_variable(rows.names[row]) for row in range(start, start + len(points)))
        return
    for row in range(start, start + len(points)):
        values = rows.context(row) if "{" in name else {}
        rows.variable.append(rows.abstract_machine(fill(name, values)))


def _add_explicit(rows: Rows, task: Task, start: int, points: list[tuple[Value, ...]], path: Path) -> None:
    given = task.seconds
    per_machine: Mapping[str, Quantity | None] = given if isinstance(given, Mapping) else {EVERYWHERE: given}
    for machine, quantity in per_machine.items():
        column = array("d")
        _fill(rows, column, quantity, task, points, path, missing=math.nan)
        for offset, seconds in enumerate(column):
            rows.explicit.setdefault(start + offset, []).append((machine, seconds))
