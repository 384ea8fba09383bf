"""Edges between subtasks: by ``after``, by files, and through transfer tasks (unified section 7, C4)."""

from __future__ import annotations

import bisect
import fnmatch
from array import array
from collections.abc import Iterator
from dataclasses import replace

from weft.errors import InvalidInput, Path, Problem, shorten
from weft.expressions import Expression, Value, evaluate, evaluate_number
from weft.workflow.records.data import Output
from weft.workflow.records.dependency import ALL, Dependency, IndexRange
from weft.workflow.records.loop import Loop
from weft.workflow.records.quantity import Context, value_of
from weft.workflow.records.task import Task
from weft.workflow.templates import fill, shown
from weft.workflow.unfolding.subtasks import Rows

__all__ = ["MAX_EDGES", "Edges", "connect"]

MAX_EDGES = 50_000_000
"""More edges than this come from all-to-all dependencies that want a virtual task between them."""


class Edges:
    """Edges in the order they were found; the same pair may occur several times and is merged later."""

    def __init__(self) -> None:
        self.source = array("I")
        self.target = array("I")
        self.bytes = array("d")
        self.files = array("d")
        self.seconds = array("d")
        self.by_data = array("B")
        """1 for an edge that only a file makes: such an edge may come from the previous iteration of a loop."""
        self.conditions: dict[tuple[int, int], Expression] = {}
        self.unsized = 0

    def add(self, source: int, target: int) -> None:
        """Add a plain precedence."""
        self.add_data(source, target, 0.0, 0.0, 0.0, by_data=0)

    def add_data(
        self, source: int, target: int, size: float, files: float, seconds: float, by_data: int = 1
    ) -> None:
        """Add an edge that carries a file."""
        self.source.append(source)
        self.target.append(target)
        self.bytes.append(size)
        self.files.append(files)
        self.seconds.append(seconds)
        self.by_data.append(by_data)


def connect(rows: Rows, loops: tuple[Loop, ...]) -> Edges:
    """Find all edges. What cannot be resolved is a problem in ``rows.problems``."""
    edges = Edges()
    by_name = {task.name: index for index, task in enumerate(rows.tasks)}
    by_name |= {loop.name: by_name[loop.last] for loop in loops if loop.last in by_name}
    finder = _Finder(rows)
    for index, task in enumerate(rows.tasks):
        for position, dependency in enumerate(task.after):
            source = by_name.get(dependency.task)
            if source is None:
                continue  # checks reports it
            path: Path = ("tasks", task.name, "after", position)
            _connect_after(rows, edges, finder, dependency, source, index, path)
    _connect_files(rows, edges)
    return edges


def _connect_after(rows: Rows, edges: Edges, finder: _Finder, dependency: Dependency, source: int, target: int,
                   path: Path) -> None:  # fmt: skip
    sources, targets = rows.rows_of(source), rows.rows_of(target)
    if len(edges.source) + len(sources) > MAX_EDGES or (
        dependency.index is None and dependency.pairs is None
        and len(edges.source) + len(sources) * len(targets) > MAX_EDGES
    ):  # fmt: skip
        what = f"{len(sources)} x {len(targets)} edges from {dependency.task}"
        advice = "put a task of `kind: virtual` between the two sweeps"
        rows.problems.append(Problem(what=what, rule=f"at most {MAX_EDGES} edges", advice=advice, path=path))
        return
    pairs: Iterator[tuple[int, int]]
    if dependency.pairs is not None:
        pairs = _explicit_pairs(rows, finder, dependency, source, target, path)
    elif dependency.index is None:
        pairs = ((there, here) for here in targets for there in sources if there != here)
    else:
        pairs = _indexed_pairs(rows, finder, dependency, source, target, path)
    for there, here in pairs:
        edges.add(there, here)
        if dependency.condition is not None:
            edges.conditions[there, here] = dependency.condition


def _indexed_pairs(rows: Rows, finder: _Finder, dependency: Dependency, source: int, target: int,
                   path: Path) -> Iterator[tuple[int, int]]:  # fmt: skip
    assert dependency.index is not None
    for here in rows.rows_of(target):
        try:
            context = rows.context(here)
            found = finder.find(source, dependency.index, context)
        except InvalidInput as error:
            rows.complain(path, error)
            return
        for there in found:
            if there != here:
                yield there, here


def _explicit_pairs(rows: Rows, finder: _Finder, dependency: Dependency, source: int, target: int,
                    path: Path) -> Iterator[tuple[int, int]]:  # fmt: skip
    for there_value, here_value in dependency.pairs or ():
        there = finder.row(source, _as_point(there_value))
        here = finder.row(target, _as_point(here_value))
        if there is None or here is None:
            task, value = (source, there_value) if there is None else (target, here_value)
            what = f"pair [{shorten(there_value)}, {shorten(here_value)}]: {rows.tasks[task].name} has no {shorten(value)}"
            rows.problems.append(Problem(what=what, rule="pairs name values of the two sweeps", path=path))
            return
        yield there, here


def _as_point(value: Value) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def _key(value: Value) -> Value:
    """Make values comparable that a reader takes for equal: 0.1 + 0.2 and 0.3."""
    return float(f"{value:.12g}") if isinstance(value, float) else value


class _Finder:
    """Finds subtasks by the values of their sweep variables."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.by_point: dict[int, dict[tuple[Value, ...], int]] = {}
        self.columns: dict[int, list[tuple[list[Value], dict[Value, list[int]]]]] = {}

    def row(self, task: int, point: tuple[Value, ...]) -> int | None:
        """Find the subtask at a point; None if there is none."""
        if task not in self.by_point:
            points = self.rows.points
            self.by_point[task] = {tuple(map(_key, points[row])): row for row in self.rows.rows_of(task)}
        return self.by_point[task].get(tuple(map(_key, point)))

    def find(
        self, task: int, index: tuple[Expression | IndexRange | str, ...], context: Context
    ) -> list[int]:
        """Find the subtasks an index means, in row order."""
        described: Task = self.rows.tasks[task]
        names = described.sweep.names if described.sweep is not None else ()
        if len(names) != len(index):
            have = f"{len(names)} sweep variables" if names else "no sweep"
            what = f"{described.name}[...] has {len(index)} indices, but {described.name} has {have}"
            raise InvalidInput(Problem(what=what, advice="give one index per sweep variable; * means all"))
        if all(isinstance(part, Expression) for part in index):
            point = tuple(evaluate(part, context) for part in index if isinstance(part, Expression))
            row = self.row(task, point)
            if row is None:
                text = ",".join(map(shown, point))
                what = f"{described.name}[{text}] does not exist"
                advice = "a range such as a[k-1..k] leaves out what does not exist"
                raise InvalidInput(Problem(what=what, advice=advice))
            return [row]
        chosen: set[int] | None = None
        for position, part in enumerate(index):
            rows = self._matching(task, position, part, context)
            chosen = rows if chosen is None else chosen & rows
        return sorted(chosen or ())

    def _column(self, task: int, position: int) -> tuple[list[Value], dict[Value, list[int]]]:
        """Give the sorted numeric values of one sweep variable, and the rows of every value."""
        if task not in self.columns:
            columns = []
            for place in range(len(self.rows.points[self.rows.first[task]])):
                rows_by_value: dict[Value, list[int]] = {}
                for row in self.rows.rows_of(task):
                    rows_by_value.setdefault(_key(self.rows.points[row][place]), []).append(row)
                numbers = sorted(value for value in rows_by_value if isinstance(value, int | float))
                columns.append((numbers, rows_by_value))
            self.columns[task] = columns
        return self.columns[task][position]

    def _matching(
        self, task: int, position: int, part: Expression | IndexRange | str, context: Context
    ) -> set[int]:
        if part == ALL:
            return set(self.rows.rows_of(task))
        numbers, rows_by_value = self._column(task, position)
        if isinstance(part, IndexRange):
            low = evaluate_number(part.low, context)
            high = evaluate_number(part.high, context)
            inside = numbers[
                bisect.bisect_left(numbers, low - 1e-9) : bisect.bisect_right(numbers, high + 1e-9)
            ]  # type: ignore[type-var]
            return {row for value in inside for row in rows_by_value[value]}
        assert isinstance(part, Expression)
        return set(rows_by_value.get(_key(evaluate(part, context)), ()))


def _connect_files(rows: Rows, edges: Edges) -> None:
    """Connect every reader of a file with its writers; a transfer of that file stands between them."""
    writers: dict[str, list[tuple[int, Output]]] = {}
    patterns: list[tuple[str, int, Output]] = []
    for row, name, output in _outputs(rows):
        writers.setdefault(name, []).append((row, output))
        if "*" in name or "?" in name or name.endswith("/"):
            patterns.append((name + "*" if name.endswith("/") else name, row, output))
    carried = _connect_transfers(rows, edges, writers)
    for row, task in enumerate(map(rows.tasks.__getitem__, rows.template)):
        context: Context | None = None
        for given in task.inputs:
            name = given.file
            if "{" in name:
                context = context or rows.context(row)
                name = fill(name, context)
            found = writers.get(name) or [(r, o) for p, r, o in patterns if fnmatch.fnmatchcase(name, p)]
            if not found:
                continue
            transfer = carried.get((name, rows.variable[row]))
            if transfer is not None:
                edges.add_data(transfer, row, 0.0, 0.0, 0.0)
                continue
            for writer, output in found:
                if writer != row:
                    _connect_file(rows, edges, writer, row, output)


def _outputs(rows: Rows) -> Iterator[tuple[int, str, Output]]:
    for row, template in enumerate(rows.template):
        for output in rows.tasks[template].outputs:
            name = output.file
            yield row, fill(name, rows.context(row)) if "{" in name else name, output


def _connect_file(rows: Rows, edges: Edges, writer: int, reader: int, output: Output) -> None:
    try:
        size, seconds = _cost(rows, writer, output)
    except InvalidInput as error:
        rows.problems += [
            replace(
                problem,
                path=("tasks", rows.tasks[rows.template[writer]].name, "outputs", output.file),
                place=None,
            )
            for problem in error.problems
        ]
        return
    if output.seconds is not None:
        edges.add_data(writer, reader, 0.0, 0.0, seconds)
        return
    edges.unsized += size is None
    edges.add_data(writer, reader, size or 0.0, 1.0, 0.0)


def _cost(rows: Rows, writer: int, output: Output) -> tuple[float | None, float]:
    """Give bytes (None: unknown) and fixed seconds of an output, evaluated at its writer's point."""
    size, seconds = output.size, output.seconds
    if isinstance(size, Expression) or isinstance(seconds, Expression):
        context = rows.context(writer)
        size = None if size is None else float(value_of(size, context))
        seconds = None if seconds is None else float(value_of(seconds, context))
    for number in (size, seconds):
        if number is not None and not number >= 0:
            raise InvalidInput(Problem(what=f"size {number:g}", rule="must be at least 0"))
    return size, seconds or 0.0


def _connect_transfers(
    rows: Rows, edges: Edges, writers: dict[str, list[tuple[int, Output]]]
) -> dict[tuple[str, int], int]:
    """Connect writers with the transfers of their files; give (file, destination variable) -> transfer."""
    carried: dict[tuple[str, int], int] = {}
    for row, template in enumerate(rows.template):
        transfer = rows.tasks[template].transfer
        if transfer is None:
            continue
        name = fill(transfer.file, rows.context(row))
        source = rows.abstract_machine(fill(transfer.source, rows.context(row)))
        carried[name, rows.variable[row]] = row
        found = writers.get(name, ())
        at_source = [writer for writer, _ in found if rows.variable[writer] == source]
        for writer in at_source or [writer for writer, _ in found]:
            edges.add_data(writer, row, 0.0, 0.0, 0.0)
    return carried
