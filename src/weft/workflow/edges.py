"""Edges between subtasks: from ``after`` (all to all, by index, by pairs, with conditions) and from files.

Every reader of a file depends on the tasks that write the file. If an explicit transfer copies the file to
the reader's machine, the reader depends on the transfer instead. The transfer then has the cost of the copy,
so that no bytes are counted twice (docs/papers/unified.md, section 7, C4).
"""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import DocumentPath, InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, evaluate
from weft.workflow.cycles import topological_order
from weft.workflow.quantity import Quantity, evaluate_quantity, grows, growth_file
from weft.workflow.subtasks import (
    COMPARISONS,
    ENTRIES,
    OPERATIONS,
    SubtaskTable,
    as_array,
    extend_column,
)
from weft.workflow.task import ALL, Dependency, IndexRange, Input, Output
from weft.workflow.templates import candidate_names, format_value, is_pattern, literal_beginning, make_matcher
from weft.workflow.workflow import Loop, find_named_writer

_Integers = NDArray[np.int64]
_Spans = tuple[_Integers, _Integers]
"""First position and end of a range of positions, for each of several subtasks."""

_ROUNDING = 1e-9
_EXACT = 2**53
_TOGETHER = 100_000
"""Number of subtasks whose edges are computed at a time, to bound memory."""


class _ColumnOrder:
    """The positions of the values of one sweep variable, sorted by value: numbers, then texts.

    Floats are equal if they agree in 12 digits, so that 0.1 + 0.2 finds 0.3.
    """

    def __init__(self, values: Sequence[Value]) -> None:
        column = as_array(values)
        texts: list[tuple[str, int]] = []
        numbers: list[Any] | NDArray[Any] = column
        places = np.arange(len(values))
        if column.dtype.kind == "O":
            texts = sorted((value, place) for place, value in enumerate(values) if isinstance(value, str))
            places = np.setdiff1d(places, [place for _, place in texts])
            numbers = [values[place] for place in places.tolist()]
        self._numbers, by_value = _sort_numbers(numbers)
        self.positions: _Integers = np.concatenate((places[by_value], [place for _, place in texts])).astype(
            np.int64
        )
        """Positions of the values in their column, in the order of the values."""
        self._texts: dict[str, tuple[int, int]] = {}
        for place, (text, _) in enumerate(texts, len(places)):
            self._texts[text] = (self._texts.get(text, (place,))[0], place + 1)

    @cached_property
    def rank(self) -> _Integers:
        """Return per position in the column its place in the order."""
        found = np.empty(len(self.positions), dtype=np.int64)
        found[self.positions] = np.arange(len(found))
        return found

    def equal(self, values: NDArray[Any]) -> _Spans:
        """Return for each value the places of the equal values of the column."""
        if values.dtype.kind in "ifb" and isinstance(self._numbers, np.ndarray):
            wanted = _round(values)
            return np.searchsorted(self._numbers, wanted), np.searchsorted(self._numbers, wanted, "right")
        found = np.array([self._place(value) for value in values.tolist()], dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def _place(self, value: Value) -> tuple[int, int]:
        if isinstance(value, str):
            return self._texts.get(value, (0, 0))
        if not isinstance(value, int | float) or value != value:
            return 0, 0  # a list, a mapping or an unknown value is never a value of a sweep variable
        key: Any = float(f"{value:.12g}") if isinstance(value, float) else value
        return bisect.bisect_left(self._numbers, key), bisect.bisect_right(self._numbers, key)

    def between(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> _Spans:
        """Return for each pair of bounds the places of the numbers between them; unknown bounds are open."""
        first = np.searchsorted(self._numbers, low - _ROUNDING)
        end = np.searchsorted(self._numbers, high + _ROUNDING, "right")
        return np.where(np.isnan(low), 0, first), np.where(np.isnan(high), len(self._numbers), end)


def _sort_numbers(numbers: Any) -> tuple[Any, _Integers]:
    """Return numbers in ascending order, and the positions that they had.

    The first result is an array of floats, or a list if floats would make different integers equal.
    """
    if any(isinstance(number, int) and abs(number) >= _EXACT for number in _extremes(numbers)):
        keys = [float(f"{each:.12g}") if isinstance(each, float) else each for each in list(numbers)]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return [keys[place] for place in order], np.array(order, dtype=np.int64)
    rounded = _round(np.array(numbers, dtype=object if isinstance(numbers, list) else None))
    by_value = np.argsort(rounded, kind="stable")
    return rounded[by_value], by_value


def _extremes(numbers: Sequence[Any] | NDArray[Any]) -> Sequence[Any]:
    if not isinstance(numbers, np.ndarray):
        return numbers
    return (int(numbers.max()), int(numbers.min())) if numbers.dtype.kind == "i" and len(numbers) else ()


def _round(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers as floats with 12 digits; integers below 2**53 are exact."""
    numbers = values.astype(np.float64)
    if values.dtype.kind in "ib":
        return numbers
    for place in np.flatnonzero((np.abs(numbers) >= 1e11) | (numbers != np.rint(numbers))).tolist():
        if isinstance(values[place], float):
            numbers[place] = float(f"{numbers[place]:.12g}")
    return numbers


class _SubtaskIndex:
    """Finds subtasks by the values of their sweep variables: ``a[k]``, ``a[k-1..k+1]``, ``a[i, *]``."""

    def __init__(self, rows: SubtaskTable) -> None:
        self._rows = rows
        self._orders: dict[tuple[int, int], _ColumnOrder] = {}

    def _order(self, task: int, variable: int) -> _ColumnOrder:
        if (task, variable) not in self._orders:
            self._orders[task, variable] = _ColumnOrder(self._rows.points[task].columns[variable])
        return self._orders[task, variable]

    def edges(
        self, dependency: Dependency, source: int, target: int
    ) -> Iterator[tuple[_Integers, _Integers]]:
        """Yield the rows of predecessors and of subtasks of the target task; may raise InvalidInput."""
        before, after = self._rows.first[source], self._rows.first[target]
        if dependency.pairs is not None:
            found = self._pairs(dependency.pairs, source, target)
        elif dependency.index is None:
            found = self._all(source, target)
        else:
            found = self._indexed(dependency.index, source, target)
        yield from ((there + before, here + after) for there, here in found)

    def _all(self, source: int, target: int) -> Iterator[tuple[_Integers, _Integers]]:
        there, here = len(self._rows.points[source]), len(self._rows.points[target])
        self._rows.count(ENTRIES, there * here)
        yield np.tile(np.arange(there), here), np.repeat(np.arange(here), there)

    def _indexed(
        self, index: tuple[Expression | IndexRange | str, ...], source: int, target: int
    ) -> Iterator[tuple[_Integers, _Integers]]:
        rows, described = self._rows, self._rows.tasks[source]
        names, count = rows.variables_of(source), len(rows.points[target])
        if len(names) != len(index):
            have = f"{len(names)} sweep variables" if names else "no sweep"
            what = f"{described.name}[...] has {len(index)} indices, but {described.name} has {have}"
            raise InvalidInput(what, advice="write one index per sweep variable; * means all values")
        spans = [self._span(source, place, part, target) for place, part in enumerate(index)]
        exact = all(isinstance(part, Expression) for part in index)
        for start in range(0, count, _TOGETHER):
            chunk = slice(start, min(start + _TOGETHER, count))
            there, here = self._expand(source, [(first[chunk], end[chunk]) for first, end in spans])
            if exact:
                # Equal points are a problem elsewhere; here the last of them is found.
                found = np.full(chunk.stop - start, -1)
                np.maximum.at(found, here, there)
                if (found < 0).any():
                    raise self._missing(index, source, target, start + int(np.argmin(found)))
                there, here = found, np.arange(len(found))
            here = here + start
            if source == target and not exact:
                # A range over the sweep of the same task, a[k-1..k], excludes the subtask itself.
                there, here = there[there != here], here[there != here]
            yield there, here

    def _span(self, source: int, place: int, part: object, target: int) -> _Spans:
        """Return for each subtask of the target the values of a sweep variable that one index selects."""
        rows, count = self._rows, len(self._rows.points[target])
        if part == ALL:
            return np.zeros(count, dtype=np.int64), np.full(count, len(rows.points[source].columns[place]))
        if isinstance(part, IndexRange):
            low, high = rows.numbers(part.low, target), rows.numbers(part.high, target)
            return self._order(source, place).between(low, high)
        assert isinstance(part, Expression)
        return self._order(source, place).equal(rows.values(part, target))

    def _missing(self, index: Sequence[Any], source: int, target: int, position: int) -> InvalidInput:
        context = self._rows.context(self._rows.first[target] + position)
        wanted = ",".join(format_value(evaluate(part, context)) for part in index)
        what = f"{self._rows.tasks[source].name}[{wanted}] does not exist"
        return InvalidInput(what, advice="a range such as a[k-1..k] omits subtasks that do not exist")

    def _expand(self, source: int, spans: Sequence[_Spans]) -> tuple[_Integers, _Integers]:
        """Return the points of the source in each combination of spans, and the positions of the spans."""
        rows, points = self._rows, self._rows.points[source]
        sizes = [np.maximum(end - first, 0) for first, end in spans]
        if points.paired:
            return self._intersect(source, spans, sizes)
        counts = np.prod(sizes, axis=0, dtype=np.int64) if sizes else np.ones(1, dtype=np.int64)
        rows.count(ENTRIES, int(counts.sum()))
        here, rest = _repeat(counts)
        there, stride = np.zeros(len(here), dtype=np.int64), 1
        for variable in reversed(range(len(spans))):
            size = sizes[variable][here]
            place = self._order(source, variable).positions[spans[variable][0][here] + rest % size]
            there += place * stride
            rest //= size
            stride *= len(points.columns[variable])
        return there, here

    def _intersect(
        self, source: int, spans: Sequence[_Spans], sizes: Sequence[_Integers]
    ) -> tuple[_Integers, _Integers]:
        """Return the points of paired variables that are in all spans: those in the smallest are compared."""
        smallest = np.argmin(sizes, axis=0)
        counts = np.min(sizes, axis=0)
        self._rows.count(OPERATIONS, int(counts.sum()) // 16)
        found: list[tuple[_Integers, _Integers]] = []
        for variable in range(len(spans)):
            own = np.flatnonzero(smallest == variable)
            here, rest = _repeat(counts[own])
            here = own[here]
            there = self._order(source, variable).positions[spans[variable][0][here] + rest]
            for other, (first, end) in enumerate(spans):
                rank = self._order(source, other).rank[there]
                inside = (rank >= first[here]) & (rank < end[here])
                there, here = there[inside], here[inside]
            found.append((there, here))
        there, here = (np.concatenate(part) for part in zip(*found, strict=True))
        self._rows.count(ENTRIES, len(there))
        return there, here

    def _pairs(
        self, pairs: tuple[tuple[Value, Value], ...], source: int, target: int
    ) -> Iterator[tuple[_Integers, _Integers]]:
        found = [
            self._find(task, [_point(pair[place]) for pair in pairs])
            for place, task in enumerate((source, target))
        ]
        missing = np.flatnonzero((found[0] < 0) | (found[1] < 0))
        if len(missing):
            there, here = pairs[int(missing[0])]
            task, value = (source, there) if found[0][missing[0]] < 0 else (target, here)
            pair, name = f"[{shorten(there)}, {shorten(here)}]", self._rows.tasks[task].name
            what = f"pair {pair}: {name} has no {shorten(value)}"
            raise InvalidInput(what, rule="pairs name values of the two sweeps")
        yield found[0], found[1]

    def _find(self, task: int, points: list[tuple[Value, ...]]) -> _Integers:
        """Return the positions of points in the sweep of a task; -1 for those that it lacks."""
        width = len(self._rows.points[task].columns)
        found = np.full(len(points), -1)
        known = [place for place, point in enumerate(points) if len(point) == width]
        columns = [_as_objects([points[place][variable] for place in known]) for variable in range(width)]
        spans = [self._order(task, variable).equal(column) for variable, column in enumerate(columns)]
        if known and spans:
            there, here = self._expand(task, spans)
            np.maximum.at(found, np.array(known)[here], there)
        return found


def _point(value: Value) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _as_objects(values: list[Value]) -> NDArray[Any]:
    """Return an array of objects; NumPy would make lists a second dimension."""
    column = np.empty(len(values), dtype=object)
    column[:] = [None if isinstance(value, list) else value for value in values]
    return column


def _repeat(counts: _Integers) -> tuple[_Integers, _Integers]:
    """Return each position as often as counted, and the number of each repetition from 0."""
    first = np.cumsum(counts) - counts
    return np.repeat(np.arange(len(counts)), counts), np.arange(int(counts.sum())) - np.repeat(first, counts)


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
        self.conditions: list[tuple[_Integers, _Integers, Expression]] = []
        """Sources and targets of edges with a condition; later ones replace earlier ones."""
        self.unsized = 0
        """Number of files without a stated size."""

    def add(self, source: int, target: int) -> None:
        """Add a precedence edge between two rows."""
        self.source.append(source)
        self.target.append(target)

    def add_many(self, sources: _Integers, targets: _Integers) -> None:
        """Add precedence edges between rows."""
        extend_column(self.source, sources)
        extend_column(self.target, targets)

    def add_data(self, source: int, target: int, size: float, files: float, seconds: float) -> None:
        """Add a data edge: its bytes, its number of files, and fixed seconds between different machines."""
        self.data_source.append(source)
        self.data_target.append(target)
        self.bytes.append(size)
        self.files.append(files)
        self.seconds.append(seconds)

    def add_many_data(
        self, sources: NDArray[Any], targets: NDArray[Any], *values: NDArray[np.float64]
    ) -> None:
        """Add data edges; ``values`` are bytes, numbers of files and fixed seconds."""
        extend_column(self.data_source, sources)
        extend_column(self.data_target, targets)
        for column, numbers in zip((self.bytes, self.files, self.seconds), values, strict=True):
            extend_column(column, numbers)

    def find_ancestors(self, rows: Sequence[int], count: int) -> NDArray[np.bool_]:
        """Return a mask over ``count`` rows: ``rows``, and all rows from which a path leads to them."""
        sources = np.concatenate((np.array(self.source), np.array(self.data_source)))
        targets = np.concatenate((np.array(self.target), np.array(self.data_target)))
        return Adjacency(targets, sources, count).reach(rows)


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
            try:
                for there, here in finder.edges(dependency, source, target):
                    edges.add_many(there, here)
                    if dependency.condition is not None:
                        in_order = np.lexsort((there, here))
                        edges.conditions.append((there[in_order], here[in_order], dependency.condition))
            except InvalidInput as error:
                entry = position if dependency.entry is None else dependency.entry
                rows.add_problem(("tasks", task.name, "after", entry), error)
                if rows.is_full:
                    return


class _PatternIndex:
    """Finds the outputs with wildcards, and directories, that match a file name."""

    def __init__(self) -> None:
        self._by_beginning: dict[str, list[tuple[str, int]]] = {}
        """By the text before the first wildcard: patterns and the indices of their outputs."""
        self._matchers: dict[str, Callable[[str], bool]] = {}
        self._lengths: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._by_beginning)

    def add(self, pattern: str, number: int) -> None:
        """Add the pattern of an output."""
        beginning = literal_beginning(pattern)
        if beginning not in self._by_beginning and len(beginning) not in self._lengths:
            self._lengths.append(len(beginning))
        self._by_beginning.setdefault(beginning, []).append((pattern, number))

    def match(self, name: str, rows: SubtaskTable) -> list[int]:
        """Return the indices of the outputs whose pattern matches a name, ascending."""
        found: list[int] = []
        for length in self._lengths:
            candidates = self._by_beginning.get(name[:length], ()) if length <= len(name) else ()
            rows.count(COMPARISONS, len(candidates))
            for pattern, number in candidates:
                if (matches := self._matchers.get(pattern)) is None:
                    matches = self._matchers[pattern] = make_matcher(pattern)
                if matches(name):
                    found.append(number)
        return sorted(found)


_UNSIZED = -1.0
"""Bytes of an output whose size is not stated."""


class FileDependencies:
    """Finds the writers of every file and adds the edges to transfers and readers."""

    def __init__(self, rows: SubtaskTable, edges: EdgeList) -> None:
        self._rows = rows
        self._edges = edges
        self._row = array("I")
        """Per output: the row that writes it."""
        self._output: list[Output] = []
        self._bytes = array("d")
        """Per output: its bytes, _UNSIZED, or NaN if they have not been evaluated yet."""
        self._seconds = array("d")
        """Per output: its fixed transfer time between machines; NaN if it has none."""
        self._sizes: dict[tuple[int, int, str], NDArray[np.float64] | None] = {}
        """Values of size formulas at the points of a task; None if some of them cannot be evaluated."""
        self._sized: set[int] = set()
        """``id()`` of the Output records whose sizes were evaluated."""
        self._writer: dict[str, int] = {}
        """By file name: the index of the first output of that name."""
        self._more: dict[str, list[int]] = {}
        """By file name: the indices of further outputs of that name."""
        self._patterns = _PatternIndex()
        self._unknown: dict[int, _PatternIndex] = {}
        """By task with a growing sweep: the names of its outputs, with "*" for lines not known yet."""
        self._undecided: list[tuple[int, str, Input]] = []
        """(reader, file, input) for files that only an output in ``_unknown`` may turn out to be."""
        self._matches: dict[str, list[int]] = {}
        """By wildcard that a task reads: the indices of the matching outputs."""
        self._transfer: dict[tuple[str, int], int] = {}
        """By file and binding variable: the row of the transfer that copies the file to that machine."""
        self.source_variable: dict[int, int] = {}
        """By row of a transfer: the binding variable of its source."""
        self.transfer_bytes: dict[int, float] = {}
        """By row of a transfer: the bytes moved; transfers of unknown size are missing."""

    def connect(self) -> None:
        """Add all edges that files imply; unresolved references are added to ``rows.problems``."""
        self._add_outputs()
        transfers = [(task, each.transfer) for task, each in enumerate(self._rows.tasks) if each.transfer]
        for task, transfer in transfers:
            names = self._rows.fill_names(task, transfer.file)
            for row, name in zip(self._rows.rows_of(task), names, strict=True):
                self._transfer[name, self._rows.variable[row]] = row
        for task, _ in transfers:
            self._within_limits(task, self._connect_transfers)
        for task, described in enumerate(self._rows.tasks):
            if described.inputs:
                self._within_limits(task, self._connect_readers)
        self._check_unread()
        for task, described in enumerate(self._rows.tasks):
            if described.sweep is not None:
                self._within_limits(task, self._connect_growth)
        for task in self._unknown if self._undecided else ():
            self._within_limits(task, self._connect_undecided)

    def _within_limits(self, task: int, connect: Callable[[int], None]) -> None:
        """Connect the subtasks of a task; add a problem if the workflow becomes too large."""
        if not self._rows.is_full:
            try:
                connect(task)
            except InvalidInput as error:
                self._rows.add_problem(("tasks", self._rows.tasks[task].name, "inputs"), error)

    def shared_names(self) -> list[tuple[str, list[int]]]:
        """Return (file, rows that write it) for files with several writers, without wildcards and folders."""
        return [
            (name, [self._row[number] for number in self._numbers(name)])
            for name in self._more
            if not is_pattern(name)
        ]

    def _add_outputs(self) -> None:
        rows = self._rows
        for task, described in enumerate(rows.tasks):
            if described.sweep is None:
                row = rows.first[task]
                for output in described.outputs:
                    self._add_name(rows.fill_name(row, output.file), len(self._row))
                    self._row.append(row)
                    self._output.append(output)
                    self._bytes.append(_plain_bytes(output))
                    self._seconds.append(math.nan)
                continue
            for output in described.outputs:
                names = rows.fill_names(task, output.file)
                index = self._unknown.setdefault(task, _PatternIndex()) if grows(described.sweep) else None
                for number, name in enumerate(names, len(self._row)):
                    self._add_name(name, number, index)
                self._row.extend(rows.rows_of(task))
                self._output += [output] * len(names)
                self._bytes.extend([_plain_bytes(output)] * len(names))
                self._seconds.extend([math.nan] * len(names))

    def _add_name(self, name: str, number: int, patterns: _PatternIndex | None = None) -> None:
        if self._writer.setdefault(name, number) != number:
            self._more.setdefault(name, []).append(number)
        if is_pattern(name):
            index = self._patterns if patterns is None else patterns
            index.add(name + "*" if name.endswith("/") else name, number)

    def _numbers(self, name: str) -> list[int]:
        """Return the indices of the outputs with this name; if there are none, of the patterns that match it.

        A pattern is an output with wildcards, or a directory.
        """
        if (first := self._writer.get(name)) is not None:
            return [first, *self._more.get(name, ())]
        return self._patterns.match(name, self._rows)

    def _possible_numbers(self, name: str) -> list[int]:
        """Return the indices of the outputs of growing sweeps that may turn out to have this name."""
        return sorted(number for index in self._unknown.values() for number in index.match(name, self._rows))

    @cached_property
    def _names(self) -> list[str]:
        """Return the names of all outputs, sorted."""
        return sorted(self._writer)

    def _matching(self, name: str) -> list[int]:
        """Return the indices of the outputs that a wildcard of a reader matches, or that have its name."""
        if (found := self._matches.get(name)) is None:
            candidates = candidate_names(self._names, name)
            self._rows.count(COMPARISONS, len(candidates))
            matches = make_matcher(name + "*" if name.endswith("/") else name)
            held = (number for made in candidates if matches(made) for number in self._numbers(made))
            found = self._matches[name] = list(dict.fromkeys([*self._numbers(name), *held]))
        return found

    def _connect_transfers(self, task: int) -> None:
        """Add the edges to transfers from the tasks that write their files or copy them to their sources."""
        rows, described = self._rows, self._rows.tasks[task]
        assert described.transfer is not None
        names = rows.fill_names(task, described.transfer.file)
        machines = rows.fill_names(task, described.transfer.source)
        problems = len(rows.problems)
        for row, name, machine in zip(rows.rows_of(task), names, machines, strict=True):
            if len(rows.problems) > problems:
                return  # the other subtasks would give the same problem
            if (source := rows.abstract.get(machine)) is None:
                what = (
                    f"{rows.names[row]} moves {shorten(name)!r} from {shorten(machine)!r}, where no task runs"
                )
                rule = "`from` is the abstract machine of a task or the destination of another transfer"
                advice = f"add `machine: {shorten(machine)}` to the task that writes it"
                path: DocumentPath = ("tasks", described.name, "from")
                rows.problems.append(Problem(what=what, rule=rule, advice=advice, path=path))
                continue
            self.source_variable[row] = source
            self._connect_transfer(row, name, source, described.transfer.size)

    def _connect_transfer(self, row: int, name: str, source: int, size: Quantity | None) -> None:
        rows = self._rows
        numbers = self._numbers(name) or self._possible_numbers(name)
        rows.count(ENTRIES, len(numbers) - 1 if len(numbers) > 1 else 0)
        self._add_bytes(row, size, numbers)
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
        if size is not None:
            try:
                self.transfer_bytes[row] = self._evaluate(size, row)
            except InvalidInput as error:
                name = self._rows.tasks[self._rows.template[row]].name
                self._rows.add_problem(("tasks", name, "size"), error)
            return
        known = [self._bytes[number] for number in numbers if self._find_size(number)]
        if (found := next((each for each in known if each != _UNSIZED), None)) is None:
            self._edges.unsized += 1
        else:
            self.transfer_bytes[row] = found

    def _connect_readers(self, task: int) -> None:
        rows, readers = self._rows, self._rows.rows_of(task)
        simple = not (self._more or self._patterns or self._unknown or self._transfer)
        for given in rows.tasks[task].inputs:
            special = not simple or is_pattern(given.file)
            if rows.tasks[task].sweep is None:
                name = rows.fill_name(readers.start, given.file)
                if special:
                    self._connect_file(readers.start, name, given)
                elif (number := self._writer.get(name)) is not None:
                    self._connect_reader(number, readers.start, given)
                continue
            names = rows.fill_names(task, given.file)
            if special:
                # After a problem the other subtasks would give the same one.
                problems = len(rows.problems)
                for row, name in zip(readers, names, strict=True):
                    if len(rows.problems) == problems:
                        self._connect_file(row, name, given)
            else:
                numbers = np.array([self._writer.get(name, -1) for name in names], dtype=np.int64)
                chosen = np.flatnonzero(numbers >= 0)
                self._connect_files(numbers[chosen], chosen + readers.start, given)

    def _connect_file(self, row: int, name: str, given: Input) -> None:
        # Only a wildcard in the description: the "*" of a growing sweep is not a pattern.
        wild = given.source is None and is_pattern(given.file)
        numbers = self._matching(name) if wild else self._numbers(name)
        if not numbers and self._unknown:
            self._undecided.append((row, name, given))
        self._connect_writers(row, name, given, numbers)

    def _connect_writers(self, row: int, name: str, given: Input, numbers: list[int]) -> None:
        """Add the edges to a reader of a file from the outputs ``numbers``, or from the file's transfer."""
        if numbers and self._is_transferred(row, name, numbers):
            self._edges.add_data(self._transfer[name, self._rows.variable[row]], row, 0.0, 0.0, 0.0)
        elif len(numbers) == 1:
            self._connect_reader(numbers[0], row, given)
        elif numbers:
            self._rows.count(ENTRIES, len(numbers))
            self._connect_files(np.array(numbers, dtype=np.int64), np.full(len(numbers), row), given)

    def _is_transferred(self, row: int, name: str, numbers: list[int]) -> bool:
        """Return whether a transfer copies a file to the reader's machine, where no task writes the file."""
        variable = self._rows.variable[row]
        if (name, variable) not in self._transfer:
            return False
        return all(self._rows.variable[self._row[number]] != variable for number in numbers)

    def _connect_files(self, numbers: _Integers, readers: _Integers, given: Input) -> None:
        """Add the data edges from outputs to readers, one reader per output; stop at the first problem."""
        writers = np.frombuffer(self._row, np.uint32)[numbers]
        numbers, readers = numbers[writers != readers], readers[writers != readers]
        sizes = np.frombuffer(self._bytes, np.float64)[numbers]
        for number in _sort_distinct(numbers[np.isnan(sizes)]).tolist():
            if not self._find_size(number):
                return
        sizes, seconds = (
            np.frombuffer(column, np.float64)[numbers] for column in (self._bytes, self._seconds)
        )
        unsized = sizes == _UNSIZED
        if given.size is not None and unsized.any():
            try:
                stated = {row: self._evaluate(given.size, row) for row in set(readers[unsized].tolist())}
            except InvalidInput as error:
                self._add_problems(int(numbers[unsized][0]), error)
                return
            sizes[unsized] = [stated[row] for row in readers[unsized].tolist()]
            unsized[:] = False
        fixed = ~np.isnan(seconds)
        self._edges.unsized += int((unsized & ~fixed).sum())
        self._edges.add_many_data(
            np.frombuffer(self._row, np.uint32)[numbers],
            readers,
            np.where(fixed, 0.0, np.maximum(sizes, 0.0)),
            np.where(fixed, 0.0, 1.0),
            np.where(fixed, seconds, 0.0),
        )

    def _connect_reader(self, number: int, reader: int, given: Input | None) -> None:
        if self._row[number] == reader or not self._find_size(number):
            return
        size, seconds = self._bytes[number], self._seconds[number]
        if not math.isnan(seconds):
            self._edges.add_data(self._row[number], reader, 0.0, 0.0, seconds)
            return
        if size == _UNSIZED and given is not None and given.size is not None:
            try:
                size = self._evaluate(given.size, reader)
            except InvalidInput as error:
                self._add_problems(number, error)
                return
        self._edges.unsized += size == _UNSIZED
        self._edges.add_data(self._row[number], reader, max(size, 0.0), 1.0, 0.0)

    def _find_size(self, number: int) -> bool:
        """Evaluate the size of an output once; add a problem and return False if it is invalid."""
        if not math.isnan(self._bytes[number]):
            return True
        output, row = self._output[number], self._row[number]
        self._sized.add(id(output))
        try:
            size = _UNSIZED if output.size is None else self._evaluate(output.size, row)
            if output.seconds is not None:
                self._seconds[number] = self._evaluate(output.seconds, row)
        except InvalidInput as error:
            self._add_problems(number, error)
            return False
        self._bytes[number] = size
        return True

    def _evaluate(self, quantity: Quantity, row: int) -> float:
        """Return the value of a size or time at a row; raise InvalidInput if it is below 0."""
        if not isinstance(quantity, Expression):
            return _at_least_0(quantity)
        rows, task = self._rows, self._rows.template[row]
        key = (task, id(quantity), quantity.text)
        if key not in self._sizes:
            try:
                self._sizes[key] = rows.numbers(quantity, task)
            except InvalidInput:
                if rows.is_full:
                    raise
                self._sizes[key] = None  # valid for some subtasks, perhaps for all whose file is read
        values = self._sizes[key]
        if values is None:
            return _at_least_0(float(evaluate_quantity(quantity, rows.context(row))))
        return _at_least_0(float(values[row - rows.first[task]]))

    def _check_unread(self) -> None:
        """Evaluate the size formulas that no edge has evaluated; add a problem for each that is invalid.

        The size is evaluated for the first subtask only.
        """
        number = 0
        for task, described in enumerate(self._rows.tasks):
            for output in described.outputs:
                unread = isinstance(output.size, Expression) and id(output) not in self._sized
                if unread and len(self._rows.points[task]):
                    self._find_size(number)
                number += len(self._rows.points[task])

    def _add_problems(self, number: int, error: InvalidInput) -> None:
        """Add the problems of evaluating the size of an output, with the path of the output."""
        name = self._rows.tasks[self._rows.template[self._row[number]]].name
        self._rows.add_problem(("tasks", name, "outputs", self._output[number].file), error)

    def _connect_growth(self, task: int) -> None:
        """Add the edges from the writers of a file to the subtasks of a sweep over the lines of that file."""
        sweep = self._rows.tasks[task].sweep
        assert sweep is not None
        files = [(name, file) for name, values in sweep.variables if (file := growth_file(values))]
        for name, file in dict.fromkeys((*files, *sweep.grown)):
            if not (writers := self._growth_writers(task, file)):
                self._refuse_growth(task, name, file)
            readers = np.array(self._rows.rows_of(task), dtype=np.int64)
            self._rows.count(ENTRIES, len(writers) * len(readers))
            there, here = (
                np.tile(np.array(writers, dtype=np.int64), len(readers)),
                np.repeat(readers, len(writers)),
            )
            self._edges.add_many(there, here)

    def _growth_writers(self, task: int, file: str) -> list[int]:
        """Return the rows that may write the file whose lines are the values of a sweep of ``task``.

        A task is not the writer of the file that defines its own subtasks, whatever the names of its outputs.
        """
        if (named := find_named_writer(self._rows.tasks, file)) is not None:
            rows = list(self._rows_named(named))
        else:
            numbers = self._numbers(file) or self._possible_numbers(file)
            rows = [self._row[number] for number in numbers]
        return [row for row in rows if self._rows.template[row] != task]

    def _refuse_growth(self, task: int, variable: str, file: str) -> None:
        """Add the problem that no task writes the file of a sweep.

        In a graph that has grown before, the file may be one that lines of another file could have named.
        """
        if any(each.sweep is not None and each.sweep.from_file for each in self._rows.tasks):
            return
        name = self._rows.tasks[task].name
        what = f"the values of {variable} are the lines of {shorten(file)!r}, which no other task writes"
        rule = "`lines(split.parts)` names an output of another task, by its name or as TASK.OUTPUT"
        advice = "add the file to the `outputs` of the task that writes it, or list the values"
        path: DocumentPath = ("tasks", name, "sweep", variable)
        self._rows.problems.append(Problem(what=what, rule=rule, advice=advice, path=path))

    def _connect_undecided(self, task: int) -> None:
        """Add the edges from a growing sweep to the readers of files that its subtasks may turn out to write.

        A task on which the sweep depends does not wait for it: what it reads exists without the sweep. So no
        cycle arises.
        """
        earlier = self._edges.find_ancestors(self._rows.rows_of(task), len(self._rows.names))
        for row, name, given in self._undecided:
            if not earlier[row] and (numbers := self._unknown[task].match(name, self._rows)):
                self._connect_writers(row, name, given, numbers)

    def _rows_named(self, name: str) -> list[int]:
        found = [index for index, described in enumerate(self._rows.tasks) if described.name == name]
        return [row for index in found for row in self._rows.rows_of(index)]


def _plain_bytes(output: Output) -> float:
    """Return the stated size of an output in bytes.

    The result is _UNSIZED if no size is stated, and NaN if the size must be evaluated or is invalid.
    """
    if output.seconds is not None or isinstance(output.size, Expression):
        return math.nan
    if output.size is None:
        return _UNSIZED
    return float(output.size) if output.size >= 0 else math.nan


def _at_least_0(number: float) -> float:
    if not number >= 0:
        raise InvalidInput(f"size {number:g}", rule="must be at least 0")
    return float(number)


class MergedEdges:
    """Edges as columns, sorted by target and then source, with one edge per pair of tasks."""

    def __init__(self, edges: EdgeList, tasks: int) -> None:
        self.tasks = tasks
        plain = _sort_distinct(_keys(edges.source, edges.target, tasks))
        data = _keys(edges.data_source, edges.data_target, tasks)
        key = _sort_distinct(np.concatenate((plain, data))) if len(data) else plain
        self.source = (key % max(tasks, 1)).astype(np.uint32)
        self.target = (key // max(tasks, 1)).astype(np.uint32)
        group = np.searchsorted(key, data)
        self.bytes = _sums(group, edges.bytes, len(key))
        self.files = _sums(group, edges.files, len(key))
        self.seconds = _sums(group, edges.seconds, len(key))
        self.only_data = np.ones(len(key), dtype=bool)
        """Per edge: whether it comes only from files, not from ``after``."""
        self.only_data[np.searchsorted(key, plain) if len(data) else slice(None)] = False

    def successors(self) -> Adjacency:
        """Return the successors of every task, in ascending order."""
        return Adjacency(self.source, self.target, self.tasks)

    def predecessors(self) -> Adjacency:
        """Return the predecessors of every task, in ascending order."""
        return Adjacency(self.target, self.source, self.tasks)

    def keep(self, kept: NDArray[Any]) -> None:
        """Select or reorder edges by a mask or an array of positions."""
        for name in ("source", "target", "bytes", "files", "seconds", "only_data"):
            setattr(self, name, getattr(self, name)[kept])

    def order(self) -> Sequence[int] | None:
        """Return a topological order; None if there is a cycle."""
        if bool((self.source < self.target).all()):
            return range(self.tasks)  # program order is topological
        return topological_order(self.successors())

    def renumber(self, position: NDArray[np.uint32]) -> None:
        """Renumber the tasks: task i becomes ``position[i]``; the edges are sorted again."""
        self.source, self.target = position[self.source], position[self.target]
        self.keep(np.lexsort((self.source, self.target)))

    def positions(self, sources: NDArray[Any], targets: NDArray[Any]) -> _Integers:
        """Return the positions of edges in the columns."""
        return np.searchsorted(
            _edge_keys(self.source, self.target, self.tasks), _edge_keys(sources, targets, self.tasks)
        )

    def contains(self, pairs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
        """Return per edge whether it is one of these pairs of source and target."""
        found = np.zeros(len(self.source), dtype=bool)
        chosen = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        found[self.positions(chosen[:, 0], chosen[:, 1])] = True
        return found


class Adjacency(Sequence[Sequence[int]]):
    """The neighbours of every node in compact columns; ``graph[node]`` is an array of nodes."""

    def __init__(self, tails: NDArray[np.uint32], heads: NDArray[np.uint32], nodes: int) -> None:
        counts = np.bincount(tails, minlength=nodes)
        self._pointer = array("q", np.concatenate(([0], np.cumsum(counts))).tobytes())
        self._heads = array("I")
        extend_column(self._heads, heads[np.argsort(tails, kind="stable")])

    def __len__(self) -> int:
        return len(self._pointer) - 1

    def __getitem__(self, node: Any) -> Any:
        return self._heads[self._pointer[node] : self._pointer[node + 1]]

    def reach(self, starts: Sequence[int], stops: Sequence[int] = ()) -> NDArray[np.bool_]:
        """Return a mask of the nodes reachable from the starts, including them; paths end at ``stops``."""
        pointer, heads = np.frombuffer(self._pointer, np.int64), np.frombuffer(self._heads, np.uint32)
        seen = np.zeros(len(self), dtype=bool)
        seen[np.asarray(starts, dtype=np.int64)] = True
        ends = np.zeros(len(self), dtype=bool)
        ends[np.asarray(stops, dtype=np.int64)] = True
        frontier = np.flatnonzero(seen)
        while len(frontier):
            if len(frontier) < _FEW_NODES:
                frontier = np.array(self._step(frontier.tolist(), seen, ends), dtype=np.int64)
                continue
            frontier = frontier[~ends[frontier]]
            owner, number = _repeat(pointer[frontier + 1] - pointer[frontier])
            found = heads[pointer[frontier][owner] + number]
            frontier = _sort_distinct(found[~seen[found]].astype(np.int64))
            seen[frontier] = True
        return seen

    def _step(self, queue: list[int], seen: NDArray[np.bool_], ends: NDArray[np.bool_]) -> list[int]:
        """Search one by one until no node is left, or so many that arrays are faster; return these."""
        position = 0
        while position < len(queue) and len(queue) - position < _FEW_NODES:
            node = queue[position]
            position += 1
            for child in () if ends[node] else self[node]:
                if not seen[child]:
                    seen[child] = True
                    queue.append(child)
        return queue[position:]


_FEW_NODES = 64


def _keys(source: array[int], target: array[int], tasks: int) -> _Integers:
    """Return one number per edge, and empty the columns: they may be large."""
    found = _edge_keys(np.array(source), np.array(target), tasks)
    del source[:], target[:]
    return found


def _edge_keys(source: NDArray[Any], target: NDArray[Any], tasks: int) -> _Integers:
    """Return one number per edge; they are sorted like (target, source)."""
    key = target.astype(np.int64)
    key *= max(tasks, 1)
    key += source
    return key


def _sort_distinct(numbers: _Integers) -> _Integers:
    """Return different numbers in ascending order; ``np.unique`` is slow and large for numbers in order."""
    if not len(numbers) or (numbers[1:] > numbers[:-1]).all():
        return numbers
    found = np.sort(numbers)
    return found[np.concatenate(([True], found[1:] != found[:-1]))]


def _sums(group: _Integers, values: array[float], count: int) -> NDArray[np.float64]:
    if not len(group):
        return np.zeros(count)
    return np.bincount(group, weights=np.array(values, dtype=float), minlength=count).astype(float)
