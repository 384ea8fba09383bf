"""Edges between subtasks that ``after`` asks for: all to all, by index, by pairs, with conditions."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from weft.errors import InvalidInput, Path, Problem, shorten
from weft.expressions import Expression, Value
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.loop import Loop
from weft.workflow.unfolding.finder import Finder
from weft.workflow.unfolding.subtasks import Rows

__all__ = ["MAX_EDGES", "Edges", "connect_tasks"]

MAX_EDGES = 10_000_000
"""More edges than this come from all-to-all dependencies that want a virtual task between them."""


class Edges:
    """Edges in the order they were found; the same pair may occur several times and is merged later.

    Those that only order tasks and those that carry a file stand apart: only the latter may come from the
    previous iteration of a loop.
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
        """Files whose size nobody says."""

    def add(self, source: int, target: int) -> None:
        """Add a plain precedence."""
        self.source.append(source)
        self.target.append(target)

    def add_many(self, sources: Sequence[int], target: int) -> None:
        """Add a plain precedence from each of several rows."""
        self.source.extend(sources)
        self.target.extend([target] * len(sources))

    def add_data(self, source: int, target: int, size: float, files: float, seconds: float) -> None:
        """Add an edge that carries a file."""
        self.data_source.append(source)
        self.data_target.append(target)
        self.bytes.append(size)
        self.files.append(files)
        self.seconds.append(seconds)


def connect_tasks(rows: Rows, loops: tuple[Loop, ...], edges: Edges) -> None:
    """Add the edges ``after`` asks for. What cannot be resolved is a problem in ``rows.problems``."""
    by_name = {task.name: index for index, task in enumerate(rows.tasks)}
    by_name |= {loop.name: by_name[loop.last] for loop in loops if loop.last in by_name}
    finder = Finder(rows)
    for target, task in enumerate(rows.tasks):
        for position, dependency in enumerate(task.after):
            source = by_name.get(dependency.task)
            if source is None or source in rows.failed or target in rows.failed:
                continue  # reported already
            if dependency.index is None and dependency.pairs is None and dependency.condition is None:
                if source == target:
                    continue  # checks reports it
                if task.sweep is None and rows.tasks[source].sweep is None:
                    edges.add(rows.first[source], rows.first[target])
                    continue
            entry = position if dependency.entry is None else dependency.entry
            path: Path = ("tasks", task.name, "after", entry)
            _connect(rows, edges, _pairs(rows, finder, dependency, source, target, path), dependency, path)


def _connect(
    rows: Rows,
    edges: Edges,
    groups: Iterable[tuple[Sequence[int], int]],
    dependency: Dependency,
    path: Path,
) -> None:
    for sources, here in groups:
        if len(edges.source) + len(sources) > MAX_EDGES:
            what = f"the edges from {dependency.task} are too many"
            advice = "put a task of `kind: virtual` between the two sweeps"
            rows.problems.append(
                Problem(what=what, rule=f"at most {MAX_EDGES:,} edges", advice=advice, path=path)
            )
            return
        edges.add_many(sources, here)
        if dependency.condition is not None:
            edges.conditions |= dict.fromkeys(((there, here) for there in sources), dependency.condition)


def _pairs(
    rows: Rows, finder: Finder, dependency: Dependency, source: int, target: int, path: Path
) -> Iterator[tuple[Sequence[int], int]]:
    """Give the subtasks of this dependency: those waited for, and the one that waits."""
    if dependency.pairs is not None:
        yield from _explicit(rows, finder, dependency.pairs, source, target, path)
    elif dependency.index is None:
        yield from ((rows.rows_of(source), here) for here in rows.rows_of(target))
    else:
        yield from _indexed(rows, finder, dependency.index, source, target, path)


def _indexed(
    rows: Rows, finder: Finder, index: tuple[object, ...], source: int, target: int, path: Path
) -> Iterator[tuple[Sequence[int], int]]:
    window = not all(isinstance(part, Expression) for part in index)
    for here in rows.rows_of(target):
        try:
            found = finder.find(source, index, rows.context(here))  # type: ignore[arg-type]
        except InvalidInput as error:
            rows.complain(path, error)
            return
        # A window over the own sweep, a[k-1..k], means the others in it.
        yield [there for there in found if there != here] if window and source == target else found, here


def _explicit(
    rows: Rows, finder: Finder, pairs: tuple[tuple[Value, Value], ...], source: int, target: int, path: Path
) -> Iterator[tuple[Sequence[int], int]]:
    for there_value, here_value in pairs:
        there, here = finder.row(source, _point(there_value)), finder.row(target, _point(here_value))
        if there is None or here is None:
            task, value = (source, there_value) if there is None else (target, here_value)
            shown = f"[{shorten(there_value)}, {shorten(here_value)}]"
            what = f"pair {shown}: {rows.tasks[task].name} has no {shorten(value)}"
            rows.problems.append(Problem(what=what, rule="pairs name values of the two sweeps", path=path))
            return
        yield (there,), here


def _point(value: Value) -> tuple[Value, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
