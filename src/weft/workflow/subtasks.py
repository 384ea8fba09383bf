"""Subtasks: each task becomes one row, or one row per point of its sweep, with evaluated numbers.

A few lines of a file can describe sweeps of any size. ``LIMITS`` bounds what they unfold to, so that a
workflow is unfolded or refused within a few seconds and 500 MB.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import DocumentPath, InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, evaluate, evaluate_columns
from weft.expressions.columns import pack
from weft.expressions.tree import ListOf, Name, walk
from weft.workflow.quantity import (
    COUNT_NAME,
    Amount,
    Context,
    Quantity,
    Range,
    SweepPoints,
    combine,
    depends_on_count,
    evaluate_quantity,
    list_points,
)
from weft.workflow.task import MeasuredSeconds, NodeCounts, Task, TaskKind
from weft.workflow.task_graph import COMPUTE, EVERYWHERE, KINDS, AmountTable, ExplicitTable
from weft.workflow.templates import fill_template, fill_templates, format_values, list_fields

TASKS = "tasks"
ENTRIES = "entries"
CHARACTERS = "characters in names"
OPERATIONS = "operations in formulas"
COUNTS = "node counts"
COMPARISONS = "comparisons of file names with wildcards"
SEARCHES = "tasks to search for loops"
LIMITS = {
    TASKS: 1_000_000,
    ENTRIES: 5_000_000,
    CHARACTERS: 100_000_000,
    OPERATIONS: 2_000_000,
    COUNTS: 2_000_000,
    COMPARISONS: 3_000_000,
    SEARCHES: 30_000_000,
}
"""Maximum size of an unfolded workflow with sweeps (docs/reference/file-format.md, "Sweeps").

Only what sweeps and wildcards multiply is counted, not what a file states entry by entry.
"""

_VECTORISED = 64
"""Number of operations over arrays that count as one operation."""
_FEW = 32
"""Minimum number of points for which a formula is evaluated over arrays instead of point by point."""
_COUNT_SET = 4
"""Number of operations that making a set of node counts takes, without its formulas."""
_MAX_NODES = 10_000_000
_ONE_NODE: tuple[int, ...] = (1,)
_SINGLE = SweepPoints(())
"""The points of a task without a sweep: one, without values."""


class SubtaskTable:
    """Columns over subtasks in program order, filled while tasks are expanded."""

    def __init__(self, tasks: Sequence[Task], params: Context) -> None:
        self.tasks = tasks
        self.params = params
        self.problems: list[Problem] = []
        self.failed: set[int] = set()
        """Indices of the tasks whose sweep could not be evaluated."""
        self.is_full = False
        """Whether a limit was exceeded; further sweeps are not expanded."""
        self.first: list[int] = []
        """Per task: its first row; the last entry is the number of rows."""
        self.points: list[SweepPoints] = []
        """Per task: the points of its sweep, one per row."""
        self.names: list[str] = []
        self.template = array("I")
        self.kind = array("B")
        self.work = array("d")
        self.cores = array("d")
        self.counts = array("I")
        self.count_sets: dict[tuple[int, ...], int] = {}
        self.fixed_counts: dict[NodeCounts, int] = {}
        """Index of the set of node counts, by what tasks state; only sets that are equal at all points."""
        self.variable = array("I")
        self.variables: list[str] = []
        self.abstract: dict[str, int] = {}
        self.demand = AmountTable()
        self.consumption = AmountTable()
        self.explicit = ExplicitTable()
        self.transfers: list[int] = []
        """Rows of transfer tasks."""
        self._counted = dict.fromkeys(LIMITS, 0)

    def count(self, what: str, number: int) -> None:
        """Count entries that sweeps or wildcards give; raise InvalidInput if they exceed their limit."""
        self._counted[what] += number
        if self._counted[what] > LIMITS[what]:
            self.is_full = True
            found = f"the workflow unfolds to {self._counted[what]:,} {what} or more"
            rule = f"at most {LIMITS[what]:,} are allowed" + (_ENTRIES if what == ENTRIES else "")
            raise InvalidInput(found, rule=rule, advice=_ADVICE.get(what, "reduce or split the sweeps"))

    def rows_of(self, description: int) -> range:
        """Return the rows, one per subtask, of the task with this index in ``tasks``."""
        return range(self.first[description], self.first[description + 1])

    def variables_of(self, description: int) -> tuple[str, ...]:
        """Return the names of the sweep variables of the task with this index in ``tasks``."""
        sweep = self.tasks[description].sweep
        return () if sweep is None else sweep.names

    def context(self, row: int) -> Context:
        """Return the parameters and sweep variables of a row, for its expressions."""
        task = self.template[row]
        return self._context(task, row - self.first[task], self.params)

    def _context(self, task: int, position: int, params: Context) -> Context:
        names = self.variables_of(task)
        return {**params, **dict(zip(names, self.points[task][position], strict=True))} if names else params

    def fill_name(self, row: int, text: str) -> str:
        """Return a file or machine name with the template fields of a row replaced."""
        return fill_template(text, self.context(row)) if "{" in text or "}" in text else text

    def fill_names(self, task: int, text: str) -> Sequence[str]:
        """Return a file or machine name with the template fields replaced, for every row of a task."""
        points, names = self.points[task], self.variables_of(task)
        if "{" not in text and "}" not in text:
            return [text] * len(points)
        if not names:
            return [fill_template(text, self.params)]
        return fill_templates(text, self.params, names, _point_texts(points))

    def values(self, expression: Expression, task: int, params: Context | None = None) -> NDArray[Any]:
        """Return the values of an expression at the points of a task, or raise InvalidInput.

        It is evaluated once for each combination of values of the variables that it uses. ``params`` replaces
        ``self.params``.
        """
        points, names = self.points[task], self.variables_of(task)
        used = _used(expression.names, names)
        part = points if len(used) == len(names) else _project(points, used)
        columns = {names[variable]: _column(part, place) for place, variable in enumerate(used)}
        values = self.row_values(expression, columns, len(part), self.params if params is None else params)
        return values if part is points else values[_projected(points, used)]

    def row_values(
        self, expression: Expression, columns: Mapping[str, NDArray[Any]], length: int, params: Context
    ) -> NDArray[Any]:
        """Return the values of an expression over the rows of columns, or raise InvalidInput."""
        nodes = list(walk(expression.tree))
        # A list of variables would be made for all rows at once.
        lists = any(isinstance(node, ListOf) and _uses(node, columns) for node in nodes)
        vectorised = length >= _FEW and not lists
        numeric = vectorised and all(column.dtype.kind in "if" for column in columns.values())
        if length >= _FEW:
            self.count(OPERATIONS, length * len(nodes) // (_VECTORISED if numeric else 1))
        if vectorised:
            return evaluate_columns(expression, columns, length, params)
        found = np.empty(length, dtype=object)
        for row in range(length):
            found[row] = evaluate(expression, _row_context(params, columns, row))
        return found

    def numbers(self, quantity: Quantity, task: int, params: Context | None = None) -> NDArray[np.float64]:
        """Return the numbers that a quantity gives at the points of a task, or raise InvalidInput."""
        if not isinstance(quantity, Expression):
            return np.full(len(self.points[task]), float(quantity))
        known = self.params if params is None else params
        if self.points[task] is _SINGLE:
            return np.array([float(evaluate_quantity(quantity, known))])
        values = self.values(quantity, task, known)
        return _as_numbers(quantity, values, lambda row: self._context(task, row, known))

    def row_numbers(
        self, expression: Expression, columns: Mapping[str, NDArray[Any]], length: int, params: Context
    ) -> NDArray[np.float64]:
        """Return the numbers that an expression gives over the rows of columns, or raise InvalidInput."""
        values = self.row_values(expression, columns, length, params)
        return _as_numbers(expression, values, lambda row: _row_context(params, columns, row))

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


_ENTRIES = ": 3 per task, 2 per output or machine name, 1 per input, dependency, time or amount"
_ADVICE = {
    OPERATIONS: "compute values once, as a parameter, or simplify the formulas",
    ENTRIES: "put a task of `kind: virtual` between two sweeps, or reduce or split the sweeps",
}


# Values at the points of a sweep.


def _used(mentioned: Iterable[str], names: Sequence[str]) -> list[int]:
    """Return the positions of the names that occur in an expression, ascending; ``k.x`` uses ``k``."""
    heads = {name.partition(".")[0] for name in mentioned}
    return [position for position, name in enumerate(names) if name in heads]


def _uses(node: ListOf, names: Iterable[str]) -> bool:
    return bool(_used((each.name for each in walk(node) if isinstance(each, Name)), list(names)))


def _project(points: SweepPoints, variables: Sequence[int]) -> SweepPoints:
    """Return the combinations of values of some variables."""
    chosen = [points.columns[variable] for variable in variables]
    return SweepPoints(chosen, paired=points.paired and bool(chosen))


def _projected(points: SweepPoints, variables: Sequence[int]) -> NDArray[np.int64]:
    """Return per point the position of its combination in ``_project``."""
    found = np.zeros(len(points), dtype=np.int64)
    for variable in variables:
        if points.paired:
            return points_of_variable(points, variable)
        found = found * len(points.columns[variable]) + points_of_variable(points, variable)
    return found


def points_of_variable(points: SweepPoints, variable: int) -> NDArray[np.int64]:
    """Return per point the position of its value in the column of a variable."""
    numbers = np.arange(len(points))
    if points.paired:
        return numbers
    stride = math.prod(map(len, points.columns[variable + 1 :]))
    return numbers // stride % len(points.columns[variable])


def _column(points: SweepPoints, variable: int) -> NDArray[Any]:
    """Return the value of a variable at each point."""
    values = as_array(points.columns[variable])
    return values if len(values) == len(points) else values[points_of_variable(points, variable)]


def as_array(values: Sequence[Value]) -> NDArray[Any]:
    """Return an array of floats, integers or booleans if all values have that type, else of objects."""
    if isinstance(values, range) and max(abs(values.start), abs(values.stop)) < 2**62:
        return np.arange(values.start, values.stop, values.step)
    return pack(values)


def _row_context(params: Context, columns: Mapping[str, NDArray[Any]], row: int) -> Context:
    # tolist() of a slice converts NumPy's numbers to those of Python.
    return {**params, **{name: column[row : row + 1].tolist()[0] for name, column in columns.items()}}


def _as_numbers(
    expression: Expression, values: NDArray[Any], context: Callable[[int], Context]
) -> NDArray[np.float64]:
    """Return values as floats; raise InvalidInput for values that are no numbers, or too large."""
    if values.dtype.kind in "if":
        return values.astype(np.float64)
    numbers = np.empty(len(values))
    for row, value in enumerate(values.tolist()):
        # Every other value is an error or unknown, which a single evaluation decides.
        plain = type(value) is float or (type(value) is int and abs(value) < 2**53)
        numbers[row] = value if plain else evaluate_quantity(expression, context(row))
    return numbers


def extend_column(column: array[Any], values: NDArray[Any]) -> None:
    """Append an array to a column, without an object per value."""
    column.frombytes(np.ascontiguousarray(values, dtype=column.typecode).tobytes())


# Expansion.


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
    kind = COMPUTE if task.kind is TaskKind.COMPUTE else KINDS.index(task.kind)
    if task.sweep is None:
        rows.points.append(_SINGLE)
        rows.names.append(task.name)
        rows.template.append(index)
        rows.kind.append(kind)
    else:
        points, names = _sweep(rows, index, task)
        rows.points.append(points)
        if not names:
            return
        rows.names += names
        extend_column(rows.template, np.full(len(points), index))
        extend_column(rows.kind, np.full(len(points), kind))
    _fill(rows, rows.work, task.work, index, ("work",), missing=_default_work(task))
    _fill(rows, rows.cores, task.cores, index, ("cores",), missing=0.0)
    _add_counts(rows, index, task)
    _add_variables(rows, index, task, start)
    if task.resources or task.consumes:
        _add_amounts(rows, index, task, start)
    if task.seconds is not None:
        _add_explicit(rows, index, task, start)
    if task.transfer is not None:
        rows.transfers += range(start, len(rows.names))


_NO_POINTS = SweepPoints(((),))


def _sweep(rows: SubtaskTable, index: int, task: Task) -> tuple[SweepPoints, list[str]]:
    """Return the points of a sweep and the names of its subtasks; none after adding a problem."""
    assert task.sweep is not None
    path: DocumentPath = ("tasks", task.name, "sweep")
    try:
        if not rows.is_full:
            points = list_points(task.sweep, rows.params)
            rows.count(TASKS, len(points))
            rows.count(ENTRIES, len(points) * _entries_per_subtask(task))
            _count_characters(rows, task, points)
            return points, [f"{task.name}[{','.join(texts)}]" for texts in _point_texts(points)]
    except InvalidInput as error:
        rows.problems += [replace(problem, path=(*path, *problem.path)) for problem in error.problems]
    rows.failed.add(index)
    return _NO_POINTS, []


def _entries_per_subtask(task: Task) -> int:
    """Return the entries of a subtask, in proportion to the memory that they need (``_ENTRIES``)."""
    machines = 0 if task.machine is None and task.transfer is None else 1
    times = len(task.seconds) if isinstance(task.seconds, Mapping) else 1
    others = len(task.inputs) + len(task.resources) + len(task.consumes) + times - 1
    return 3 + 2 * (machines + len(task.outputs)) + others


def _point_texts(points: SweepPoints) -> Iterable[tuple[str, ...]]:
    """Return the values of each point as they appear in names."""
    if len(points.columns) == 1:
        return zip(format_values(points.columns[0]))
    return combine([list(format_values(column)) for column in points.columns], paired=points.paired)


def _count_characters(rows: SubtaskTable, task: Task, points: SweepPoints) -> None:
    """Count the characters of the names of the subtasks and of their files and machines."""
    assert task.sweep is not None
    count = len(points)
    of_values = [
        sum(map(len, format_values(column))) * count // max(1, len(column)) for column in points.columns
    ]
    total = count * (len(task.name) + len(of_values) + 1) + sum(of_values)
    lengths = dict(zip(task.sweep.names, of_values, strict=True))
    moved = () if task.transfer is None else (task.transfer.source, task.transfer.target, task.transfer.file)
    files = (*(given.file for given in task.inputs), *(output.file for output in task.outputs))
    for text in (*files, *moved, task.machine or ""):
        if "{" in text:
            fields = [field.name for field in list_fields(text)]
            total += count * len(fill_template(text, rows.params))
            total += sum(lengths.get(name, 0) for name in fields)
    rows.count(CHARACTERS, total)


def _default_work(task: Task) -> float:
    """Return the work of a task that states no ``work``.

    It is the first time of the task's measured speed-up law; NaN if there is no such law.
    """
    if isinstance(task.speedup, MeasuredSeconds) and task.speedup.seconds and task.seconds is None:
        return task.speedup.first_seconds
    return math.nan


def _fill(
    rows: SubtaskTable,
    column: array[float],
    quantity: Quantity | None,
    task: int,
    key: tuple[str, ...],
    *,
    missing: float,
) -> None:
    """Append the value of a quantity at each point to a column.

    ``missing`` is appended if the quantity is None or cannot be evaluated.
    """
    if not isinstance(quantity, Expression):
        value = missing if quantity is None else quantity
        if rows.points[task] is _SINGLE:
            column.append(value)
        else:
            extend_column(column, np.full(len(rows.points[task]), float(value)))
        return
    extend_column(column, _numbers_or(rows, quantity, task, key, missing=missing))


def _numbers_or(
    rows: SubtaskTable,
    quantity: Quantity,
    task: int,
    key: tuple[str, ...],
    *,
    missing: float,
    params: Context | None = None,
) -> NDArray[np.float64]:
    """Return the numbers of a quantity at the points of a task; ``missing`` after adding a problem."""
    path: DocumentPath = ("tasks", rows.tasks[task].name, *key)
    try:
        values = rows.numbers(quantity, task, params)
    except InvalidInput as error:
        rows.add_problem(path, error)
        return np.full(len(rows.points[task]), missing)
    _check_numbers(rows, quantity, values, path)
    return values


def _check_numbers(
    rows: SubtaskTable, quantity: Quantity, values: NDArray[np.float64], path: DocumentPath
) -> None:
    """Add a problem if a value is negative, infinite or unknown."""
    allowed = (values >= 0) & (values < math.inf)
    if not allowed.all():
        what = f"{quantity} gives {float(values[int(np.argmin(allowed))]):g}"
        rows.problems.append(Problem(what=what, rule="must be a number, at least 0", path=path))


# Node counts.


def _add_counts(rows: SubtaskTable, index: int, task: Task) -> None:
    points = rows.points[index]
    number = rows.count_set(_ONE_NODE) if task.nodes == _ONE_NODE else rows.fixed_counts.get(task.nodes)
    if number is None:
        try:
            extend_column(rows.counts, _count_sets(rows, index, task))
            return
        except InvalidInput as error:
            rows.add_problem(("tasks", task.name, "nodes"), error)
            number = rows.count_set(_ONE_NODE)
    if points is _SINGLE:
        rows.counts.append(number)
    else:
        extend_column(rows.counts, np.full(len(points), number))


def _count_sets(rows: SubtaskTable, index: int, task: Task) -> NDArray[np.int64]:
    """Return per point the index of its set of node counts, or raise InvalidInput."""
    points, names = rows.points[index], rows.variables_of(index)
    parts = [part for count in task.nodes for part in _expressions(count)]
    used = _used([name for part in parts for name in part.names], names)
    if not used:
        number = rows.fixed_counts[task.nodes] = rows.count_set(_count_set(rows, task, rows.params))
        return np.full(len(points), number)
    part = _project(points, used)
    chosen = [names[variable] for variable in used]
    if len(part) >= _FEW:
        operations = sum(1 for each in parts for _ in walk(each.tree))
        rows.count(OPERATIONS, len(part) * (operations + _COUNT_SET))
    contexts = ({**rows.params, **dict(zip(chosen, point, strict=True))} for point in part)
    numbers = [rows.count_set(_count_set(rows, task, context)) for context in contexts]
    return np.array(numbers, dtype=np.int64)[_projected(points, used)]


def _expressions(count: Quantity | Range) -> list[Expression]:
    parts = (count.low, count.high, count.step) if isinstance(count, Range) else (count,)
    return [part for part in parts if isinstance(part, Expression)]


def _count_set(rows: SubtaskTable, task: Task, context: Context) -> tuple[int, ...]:
    found: set[int] = set()
    for count in task.nodes:
        values: Sequence[float] = (
            count.values(context) if isinstance(count, Range) else [evaluate_quantity(count, context)]
        )
        if isinstance(count, Range):
            rows.count(COUNTS, len(values))
        for value in values if not isinstance(values, range) else [*values[:1], *values[-1:]]:
            if not 1 <= value <= _MAX_NODES or value != int(value):
                what = f"node count {value:g}"
                raise InvalidInput(what, rule=f"must be a whole number from 1 to {_MAX_NODES:,}")
        found.update(values if isinstance(values, range) else map(int, values))
    if not found:
        raise InvalidInput("the list of node counts is empty", advice="give at least one node count")
    return tuple(sorted(found))


# Machines, amounts and times.


def _add_variables(rows: SubtaskTable, index: int, task: Task, start: int) -> None:
    name = task.transfer.target if task.transfer is not None else task.machine
    if name is None or task.kind is TaskKind.VIRTUAL:
        # Without an abstract machine every subtask has its own binding variable.
        first, count = len(rows.variables), len(rows.names) - start
        rows.variable.extend(range(first, first + count))
        rows.variables += rows.names[start:]
    else:
        rows.variable.extend(map(rows.abstract_machine, rows.fill_names(index, name)))


def _add_amounts(rows: SubtaskTable, index: int, task: Task, start: int) -> None:
    taken = (*rows.params, *rows.variables_of(index))
    for name, key, amount in task.amounts():
        amounts = rows.consumption if key[0] == "consumes" else rows.demand
        if depends_on_count(amount, taken):
            lengths, values = _amounts_by_count(rows, amount, index, start, key)
            amounts.add_by_count(name, start, lengths, values)
        else:
            assert not isinstance(amount, Mapping)
            column = array("d")
            _fill(rows, column, amount, index, key, missing=0.0)
            amounts.add(name, start, column)


def _amounts_by_count(
    rows: SubtaskTable, amount: Amount, index: int, start: int, key: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return per row the number of its node counts, and the amounts of all rows, count by count."""
    path: DocumentPath = ("tasks", rows.tasks[index].name, *key)
    sets = list(rows.count_sets)
    numbers = np.array(rows.counts[start:], dtype=np.int64)
    lengths = np.array([len(counts) for counts in sets], dtype=np.int64)[numbers]
    amounts = np.zeros(int(lengths.sum()))
    try:
        rows.count(ENTRIES, len(amounts))
        counts = np.fromiter((count for number in numbers.tolist() for count in sets[number]), np.int64)
        point = np.repeat(np.arange(len(numbers)), lengths)
        if isinstance(amount, Mapping):
            by_count = np.argsort(counts, kind="stable")
            allowed, first = np.unique(counts[by_count], return_index=True)
            _check_counts(rows, amount, set(allowed.tolist()), path)
            for count, places in zip(allowed.tolist(), np.split(by_count, first[1:]), strict=True):
                if count in amount:
                    at, own = {COUNT_NAME: count, **rows.params}, (*key, str(count))
                    column = _numbers_or(rows, amount[count], index, own, missing=0.0, params=at)
                    amounts[places] = column[point[places]]
        else:
            assert isinstance(amount, Expression)
            names = rows.variables_of(index)
            columns = {
                names[each]: _column(rows.points[index], each)[point] for each in _used(amount.names, names)
            }
            columns[COUNT_NAME] = counts
            amounts = rows.row_numbers(amount, columns, len(counts), rows.params)
            _check_numbers(rows, amount, amounts, path)
    except InvalidInput as error:
        rows.add_problem(path, error)
    return lengths, amounts


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


def _add_explicit(rows: SubtaskTable, index: int, task: Task, start: int) -> None:
    given = task.seconds
    per_machine: Mapping[str, Quantity | None] = given if isinstance(given, Mapping) else {EVERYWHERE: given}
    single = rows.points[index] is _SINGLE
    for machine, quantity in per_machine.items():
        assert quantity is not None
        if single and not isinstance(quantity, Expression):
            rows.explicit.add(machine, start, quantity)
            continue
        key = ("seconds",) if machine == EVERYWHERE else ("seconds", machine)
        rows.explicit.add_many(machine, start, _numbers_or(rows, quantity, index, key, missing=math.nan))
