"""Edges between subtasks: from ``after`` (all to all, by index, by pairs, with conditions) and from files.

Every reader of a file depends on the tasks that write the file. If an explicit transfer copies the file to
the reader's machine, the reader depends on the transfer instead. The transfer then has the cost of the copy,
so that no bytes are counted twice (docs/papers/unified.md, section 7, C4).
"""

from __future__ import annotations

import bisect
import fnmatch
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import DocumentPath, InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, evaluate
from weft.workflow.cycles import topological_order
from weft.workflow.quantity import Context, Quantity, evaluate_quantity, growth_file
from weft.workflow.subtasks import SubtaskTable
from weft.workflow.task import ALL, Dependency, IndexRange, Input, Output
from weft.workflow.templates import format_value, is_pattern, match_names
from weft.workflow.workflow import Loop

_Column = tuple[list[float], dict[Value, list[int]]]
"""The ascending numeric values of one sweep variable, and for each value the rows that have it."""

_ROUNDING = 1e-9


class _SubtaskIndex:
    """Finds subtasks by the values of their sweep variables: ``a[k]``, ``a[k-1..k+1]``, ``a[i, *]``."""

    def __init__(self, rows: SubtaskTable) -> None:
        self._rows = rows
        self._by_point: dict[int, dict[tuple[Value, ...], int]] = {}
        self._columns: dict[int, list[_Column]] = {}

    def row(self, task: int, point: tuple[Value, ...]) -> int | None:
        """Return the row of the subtask at a point of the task's sweep; None if the sweep lacks the point."""
        if task not in self._by_point:
            points = self._rows.points
            self._by_point[task] = {tuple(map(_key, points[row])): row for row in self._rows.rows_of(task)}
        key = tuple(map(_key, point))
        try:
            return self._by_point[task].get(key)
        except TypeError:
            return None  # a list or mapping is never a value of a sweep variable

    def find(
        self, task: int, index: tuple[Expression | IndexRange | str, ...], context: Context
    ) -> list[int]:
        """Return the rows that an index selects, ascending.

        Raises InvalidInput if an index without a range or ``*`` selects no subtask.
        """
        described = self._rows.tasks[task]
        names = described.sweep.names if described.sweep is not None else ()
        if len(names) != len(index):
            have = f"{len(names)} sweep variables" if names else "no sweep"
            what = f"{described.name}[...] has {len(index)} indices, but {described.name} has {have}"
            raise InvalidInput(what, advice="write one index per sweep variable; * means all values")
        exact = [evaluate(part, context) for part in index if isinstance(part, Expression)]
        if len(exact) < len(index):
            return self._several(task, index, context)
        if (row := self.row(task, tuple(exact))) is None:
            what = f"{described.name}[{','.join(map(format_value, exact))}] does not exist"
            raise InvalidInput(what, advice="a range such as a[k-1..k] omits subtasks that do not exist")
        return [row]

    def _several(
        self, task: int, index: tuple[Expression | IndexRange | str, ...], context: Context
    ) -> list[int]:
        chosen: set[int] | None = None
        for position, part in enumerate(index):
            if part != ALL:
                rows = self._matching(task, position, part, context)
                chosen = rows if chosen is None else chosen & rows
        return list(self._rows.rows_of(task)) if chosen is None else sorted(chosen)

    def _matching(self, task: int, position: int, part: object, context: Context) -> set[int]:
        numbers, rows_by_value = self._column(task, position)
        if isinstance(part, IndexRange):
            low, high = evaluate_quantity(part.low, context), evaluate_quantity(part.high, context)
            start = bisect.bisect_left(numbers, low - _ROUNDING)
            inside = numbers[start : bisect.bisect_right(numbers, high + _ROUNDING)]
            return {row for value in inside for row in rows_by_value[value]}
        assert isinstance(part, Expression)
        value = _key(evaluate(part, context))
        return set(rows_by_value.get(value, ()) if isinstance(value, str | int | float) else ())

    def _column(self, task: int, position: int) -> _Column:
        if task not in self._columns:
            points = {row: self._rows.points[row] for row in self._rows.rows_of(task)}
            width = len(next(iter(points.values()), ()))
            self._columns[task] = [_index_column(points, place) for place in range(width)]
        return self._columns[task][position]

    def groups(
        self, dependency: Dependency, source: int, target: int, path: DocumentPath
    ) -> Iterator[tuple[Sequence[int], int]]:
        """Yield pairs: rows of predecessors, and the row of a subtask of the target task.

        With ``pairs`` a subtask may occur several times. Problems are added with ``path`` as their place.
        """
        rows, index = self._rows, dependency.index
        if dependency.pairs is not None:
            yield from self._explicit(dependency.pairs, source, target, path)
            return
        if index is None:
            yield from ((rows.rows_of(source), here) for here in rows.rows_of(target))
            return
        window = not all(isinstance(part, Expression) for part in index)
        for here in rows.rows_of(target):
            try:
                found = self.find(source, index, rows.context(here))
            except InvalidInput as error:
                rows.add_problem(path, error)
                return
            # A range over the sweep of the same task, a[k-1..k], excludes the subtask itself.
            yield [there for there in found if there != here] if window and source == target else found, here

    def _explicit(
        self, pairs: tuple[tuple[Value, Value], ...], source: int, target: int, path: DocumentPath
    ) -> Iterator[tuple[Sequence[int], int]]:
        for there_value, here_value in pairs:
            there, here = self.row(source, _point(there_value)), self.row(target, _point(here_value))
            if there is None or here is None:
                task, value = (source, there_value) if there is None else (target, here_value)
                pair = f"[{shorten(there_value)}, {shorten(here_value)}]"
                what = f"pair {pair}: {self._rows.tasks[task].name} has no {shorten(value)}"
                rule = "pairs name values of the two sweeps"
                self._rows.problems.append(Problem(what=what, rule=rule, path=path))
                return
            yield (there,), here


def _point(value: Value) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _index_column(points: dict[int, tuple[Value, ...]], place: int) -> _Column:
    rows_by_value: dict[Value, list[int]] = {}
    for row, point in points.items():
        rows_by_value.setdefault(_key(point[place]), []).append(row)
    return sorted(value for value in rows_by_value if isinstance(value, int | float)), rows_by_value


def _key(value: Value) -> Value:
    """Return a value with floats rounded to 12 digits, so that 0.1 + 0.2 and 0.3 are one key."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


MAX_EDGES = 10_000_000
"""Maximum number of edges; a larger all-to-all dependency needs a virtual task between sweeps."""


class EdgeList:
    """Edges in the order of discovery; ``MergedEdges`` combines edges between the same two tasks.

    Precedence edges and data edges are kept apart: only data edges may come from the previous iteration of a
    loop.
    """

    def __init__(self) -> None:
        self.source = array("I")
        self.target = array("I")
        self.data_source = array("I")
        self.data_target = array("I")
        self.bytes = array("d")
        self.files = array("d")
        self.seconds = array("d")
        self.conditions: dict[tuple[int, int], Expression] = {}
        self.unsized = 0
        """Number of files without a stated size."""

    def add(self, source: int, target: int) -> None:
        """Add a precedence edge between two rows."""
        self.source.append(source)
        self.target.append(target)

    def add_many(self, sources: Sequence[int], target: int) -> None:
        """Add a precedence edge from each of several rows to one row."""
        self.source.extend(sources)
        self.target.extend([target] * len(sources))

    def add_data(self, source: int, target: int, size: float, files: float, seconds: float) -> None:
        """Add a data edge: its bytes, its number of files, and fixed seconds between different machines."""
        self.data_source.append(source)
        self.data_target.append(target)
        self.bytes.append(size)
        self.files.append(files)
        self.seconds.append(seconds)


def connect_tasks(rows: SubtaskTable, loops: tuple[Loop, ...], edges: EdgeList) -> None:
    """Add the edges of ``after``; unresolved references are added to ``rows.problems``."""
    by_name = {task.name: index for index, task in enumerate(rows.tasks)}
    by_name |= {loop.name: by_name[loop.last] for loop in loops if loop.last in by_name}
    finder = _SubtaskIndex(rows)
    for target, task in enumerate(rows.tasks):
        for position, dependency in enumerate(task.after):
            source = by_name.get(dependency.task)
            if source is None or source in rows.failed or target in rows.failed:
                continue  # already reported
            if dependency.index is None and dependency.pairs is None and dependency.condition is None:
                if source == target:
                    continue  # reported by checks
                if task.sweep is None and rows.tasks[source].sweep is None:
                    edges.add(rows.first[source], rows.first[target])
                    continue
            entry = position if dependency.entry is None else dependency.entry
            path: DocumentPath = ("tasks", task.name, "after", entry)
            _connect(rows, edges, finder.groups(dependency, source, target, path), dependency, path)


def _connect(
    rows: SubtaskTable,
    edges: EdgeList,
    groups: Iterable[tuple[Sequence[int], int]],
    dependency: Dependency,
    path: DocumentPath,
) -> None:
    for sources, here in groups:
        if len(edges.source) + len(sources) > MAX_EDGES:
            what = f"too many edges from {dependency.task}"
            advice = "put a task of `kind: virtual` between the two sweeps"
            rows.problems.append(
                Problem(what=what, rule=f"at most {MAX_EDGES:,} are allowed", advice=advice, path=path)
            )
            return
        edges.add_many(sources, here)
        if dependency.condition is not None:
            edges.conditions |= dict.fromkeys(((there, here) for there in sources), dependency.condition)


class FileDependencies:
    """Finds the writers of every file and adds the edges to transfers and readers."""

    def __init__(self, rows: SubtaskTable, edges: EdgeList) -> None:
        self._rows = rows
        self._edges = edges
        self._row: list[int] = []
        self._output: list[Output] = []
        """All outputs; ``_row`` has the row that writes each of them."""
        self._sized: set[int] = set()
        """``id()`` of the Output records whose sizes were evaluated."""
        self._writer: dict[str, int] = {}
        """By file name: the index of the first output of that name."""
        self._more: dict[str, list[int]] = {}
        """By file name: the indices of further outputs of that name."""
        self._patterns: list[tuple[str, int]] = []
        self._transfer: dict[tuple[str, int], int] = {}
        """By file and binding variable: the row of the transfer that copies the file to that machine."""
        self.source_variable: dict[int, int] = {}
        """By row of a transfer: the binding variable of its source."""
        self.transfer_bytes: dict[int, float] = {}
        """By row of a transfer: the bytes moved; transfers of unknown size are missing."""

    def connect(self) -> None:
        """Add all edges that files imply; unresolved references are added to ``rows.problems``."""
        self._add_outputs()
        for row in self._rows.transfers:
            self._add_transfer(row)
        for row in self._rows.transfers:
            self._connect_transfer(row)
        self._connect_readers()
        self._check_unread()
        self._connect_growth()

    def shared_names(self) -> list[tuple[str, list[int]]]:
        """Return (file, rows that write it) for files with several writers, without wildcards and folders."""
        return [
            (name, [self._row[number] for number in self._numbers(name)])
            for name in self._more
            if not is_pattern(name)
        ]

    def _add_outputs(self) -> None:
        rows, writer = self._rows, self._writer
        for row, template in enumerate(rows.template):
            for output in rows.tasks[template].outputs:
                name = output.file
                if "{" in name or "}" in name:
                    name = rows.fill_name(row, name)
                number = len(self._row)
                self._row.append(row)
                self._output.append(output)
                if writer.setdefault(name, number) != number:
                    self._more.setdefault(name, []).append(number)
                if is_pattern(name):
                    self._patterns.append((name + "*" if name.endswith("/") else name, number))

    def _numbers(self, name: str) -> list[int]:
        """Return the indices of the outputs with this name; if there are none, of the patterns that match it.

        A pattern is an output with wildcards, or a directory.
        """
        if (first := self._writer.get(name)) is not None:
            return [first, *self._more.get(name, ())]
        return [number for pattern, number in self._patterns if fnmatch.fnmatchcase(name, pattern)]

    @cached_property
    def _names(self) -> list[str]:
        """Return the names of all outputs, sorted."""
        return sorted(self._writer)

    def _add_transfer(self, row: int) -> None:
        transfer = self._rows.tasks[self._rows.template[row]].transfer
        assert transfer is not None
        name = self._rows.fill_name(row, transfer.file)
        self._transfer[name, self._rows.variable[row]] = row

    def _connect_transfer(self, row: int) -> None:
        """Add the edges to a transfer from the tasks that write its file or copy the file to its source."""
        rows, task = self._rows, self._rows.tasks[self._rows.template[row]]
        assert task.transfer is not None
        name, machine = rows.fill_name(row, task.transfer.file), rows.fill_name(row, task.transfer.source)
        if (source := rows.abstract.get(machine)) is None:
            what = f"{rows.names[row]} moves {shorten(name)!r} from {shorten(machine)!r}, where no task runs"
            rule = "`from` is the abstract machine of a task or the destination of another transfer"
            advice = f"add `machine: {shorten(machine)}` to the task that writes it"
            problem = Problem(what=what, rule=rule, advice=advice, path=("tasks", task.name, "from"))
            rows.problems.append(problem)
            return
        self.source_variable[row] = source
        numbers = self._numbers(name)
        self._add_bytes(row, task.transfer.size, numbers)
        earlier = self._transfer.get((name, source))
        here = [number for number in numbers if rows.variable[self._row[number]] == source]
        if here:
            for number in here:
                self._edges.add_data(self._row[number], row, 0.0, 0.0, 0.0)
        elif earlier is not None and earlier != row:
            self._edges.add_data(earlier, row, 0.0, 0.0, 0.0)
        else:
            # Written elsewhere: the file is first copied to the source without an explicit transfer.
            for number in numbers:
                self._connect_reader(number, row, None)

    def _add_bytes(self, row: int, size: Quantity | None, numbers: list[int]) -> None:
        """Store the bytes of a transfer: the size that it states, else the size of the output it moves."""
        key = "size" if size is not None else "file"
        try:
            if size is not None:
                self.transfer_bytes[row] = _at_least_0(
                    float(evaluate_quantity(size, self._rows.context(row)))
                )
                return
            sizes = [self._size(number)[0] for number in numbers]
        except InvalidInput as error:
            name = self._rows.tasks[self._rows.template[row]].name
            self._rows.add_problem(("tasks", name, key), error)
            return
        if (known := next((found for found in sizes if found is not None), None)) is None:
            self._edges.unsized += 1
        else:
            self.transfer_bytes[row] = known

    def _connect_readers(self) -> None:
        rows, writer = self._rows, self._writer
        simple = not (self._more or self._patterns or self._transfer)
        for row, template in enumerate(rows.template):
            for given in rows.tasks[template].inputs:
                name = given.file
                if "{" in name or "}" in name:
                    name = rows.fill_name(row, name)
                if not simple:
                    self._connect_file(row, name, given)
                elif (number := writer.get(name)) is not None:
                    self._connect_reader(number, row, given)
                elif is_pattern(given.file):
                    self._connect_file(row, name, given)

    def _connect_file(self, row: int, name: str, given: Input) -> None:
        numbers = self._numbers(name)
        if given.source is None and is_pattern(given.file):
            # Only a wildcard in the description: the "*" of a growing sweep is not a pattern.
            held = (number for made in match_names(self._names, name) for number in self._numbers(made))
            numbers = list(dict.fromkeys([*numbers, *held]))
        if numbers and self._is_transferred(row, name, numbers):
            self._edges.add_data(self._transfer[name, self._rows.variable[row]], row, 0.0, 0.0, 0.0)
            return
        for number in numbers:
            self._connect_reader(number, row, given)

    def _is_transferred(self, row: int, name: str, numbers: list[int]) -> bool:
        """Return whether a transfer copies a file to the reader's machine, where no task writes the file."""
        variable = self._rows.variable[row]
        if (name, variable) not in self._transfer:
            return False
        return all(self._rows.variable[self._row[number]] != variable for number in numbers)

    def _connect_reader(self, number: int, reader: int, given: Input | None) -> None:
        writer, output = self._row[number], self._output[number]
        if writer == reader:
            return
        size: Quantity | None = output.size
        seconds = output.seconds
        if size is None or seconds is not None or isinstance(size, Expression) or not size >= 0:
            try:
                size, fixed = self._size(number)
                if size is None and given is not None and given.size is not None:
                    size = _at_least_0(float(evaluate_quantity(given.size, self._rows.context(reader))))
            except InvalidInput as error:
                self._add_problems(number, error)
                return
            if fixed is not None:
                self._edges.add_data(writer, reader, 0.0, 0.0, fixed)
                return
            self._edges.unsized += size is None
        self._edges.add_data(writer, reader, size or 0.0, 1.0, 0.0)

    def _size(self, number: int) -> tuple[float | None, float | None]:
        """Return the bytes and the fixed transfer seconds of an output; None for what is not stated."""
        output, context = self._output[number], self._rows.context(self._row[number])
        self._sized.add(id(output))
        size, seconds = (
            None if given is None else _at_least_0(float(evaluate_quantity(given, context)))
            for given in (output.size, output.seconds)
        )
        return size, seconds

    def _check_unread(self) -> None:
        """Evaluate the size formulas that no edge has evaluated; add a problem for each that is invalid.

        The size is evaluated for the first subtask only: a large sweep would take long.
        """
        for number, output in enumerate(self._output):
            if isinstance(output.size, Expression) and id(output) not in self._sized:
                try:
                    self._size(number)
                except InvalidInput as error:
                    self._add_problems(number, error)

    def _add_problems(self, number: int, error: InvalidInput) -> None:
        """Add the problems of evaluating the size of an output, with the path of the output."""
        name = self._rows.tasks[self._rows.template[self._row[number]]].name
        path = ("tasks", name, "outputs", self._output[number].file)
        self._rows.problems += [replace(problem, path=path, location=None) for problem in error.problems]

    def _connect_growth(self) -> None:
        """Add the edges from the writers of a file to the subtasks of sweeps over the lines of that file."""
        rows = self._rows
        swept = [(index, task.sweep) for index, task in enumerate(rows.tasks) if task.sweep is not None]
        files = [(index, growth_file(values)) for index, sweep in swept for _, values in sweep.variables]
        for index, file in files:
            if file is not None:
                writers = [self._row[number] for number in self._numbers(file)] or self._rows_named(file)
                for row in rows.rows_of(index):
                    self._edges.add_many([writer for writer in writers if writer != row], row)

    def _rows_named(self, file: str) -> list[int]:
        """Return the rows of the task that is named before the first dot: ``split`` in ``split.parts``."""
        task = file.partition(".")[0]
        found = [index for index, described in enumerate(self._rows.tasks) if described.name == task]
        return [row for index in found for row in self._rows.rows_of(index)]


def _at_least_0(number: float) -> float:
    if not number >= 0:
        raise InvalidInput(f"size {number:g}", rule="must be at least 0")
    return number


class MergedEdges:
    """Edges as columns, sorted by target and then source, with one edge per pair of tasks."""

    def __init__(self, edges: EdgeList, tasks: int) -> None:
        self.tasks = tasks
        source = np.concatenate((_numbers(edges.source), _numbers(edges.data_source)))
        target = np.concatenate((_numbers(edges.target), _numbers(edges.data_target)))
        key, inverse = np.unique(target * max(tasks, 1) + source, return_inverse=True)
        plain, data = inverse[: len(edges.source)], inverse[len(edges.source) :]
        self.source: NDArray[np.int64] = key % max(tasks, 1)
        self.target: NDArray[np.int64] = key // max(tasks, 1)
        self.bytes = _sums(data, edges.bytes, len(key))
        self.files = _sums(data, edges.files, len(key))
        self.seconds = _sums(data, edges.seconds, len(key))
        self.only_data = np.ones(len(key), dtype=bool)
        """Per edge: whether it comes only from files, not from ``after``."""
        self.only_data[plain] = False

    def successors(self) -> list[list[int]]:
        """Return the successors of every task, in ascending order."""
        lists: list[list[int]] = [[] for _ in range(self.tasks)]
        for source, target in zip(self.source.tolist(), self.target.tolist(), strict=True):
            lists[source].append(target)
        return lists

    def keep(self, kept: NDArray[Any]) -> None:
        """Select or reorder edges by a mask or an array of positions."""
        for name in ("source", "target", "bytes", "files", "seconds", "only_data"):
            setattr(self, name, getattr(self, name)[kept])

    def order(self) -> Sequence[int] | None:
        """Return a topological order; None if there is a cycle."""
        if bool((self.source < self.target).all()):
            return range(self.tasks)  # program order is topological
        return topological_order(self.successors())

    def renumber(self, position: NDArray[np.int64]) -> None:
        """Renumber the tasks: task i becomes ``position[i]``; the edges are sorted again."""
        self.source, self.target = position[self.source], position[self.target]
        self.keep(np.lexsort((self.source, self.target)))

    def position(self, source: int, target: int) -> int:
        """Return the position of an edge in the columns."""
        first, end = np.searchsorted(self.target, [target, target + 1])
        return int(first + np.searchsorted(self.source[first:end], source))


def _numbers(column: array[int]) -> NDArray[np.int64]:
    return np.array(column, dtype=np.int64)


def _sums(group: NDArray[np.int64], values: array[float], count: int) -> NDArray[np.float64]:
    return np.bincount(group, weights=np.array(values, dtype=float), minlength=count).astype(float)
