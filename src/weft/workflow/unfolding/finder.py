"""Finding subtasks by the values of their sweep variables: ``a[k]``, ``a[k-1..k+1]``, ``a[i, *]``."""

from __future__ import annotations

import bisect

from weft.errors import InvalidInput, Problem
from weft.expressions import Expression, Value, evaluate
from weft.workflow.records.dependency import ALL, IndexRange
from weft.workflow.records.quantity import Context, value_of
from weft.workflow.templates import shown
from weft.workflow.unfolding.subtasks import Rows

__all__ = ["Finder"]

_Column = tuple[list[float], dict[Value, list[int]]]
"""The numbers among the values of a sweep variable, ascending, and the rows of every value."""

_ROUNDING = 1e-9


class Finder:
    """Finds rows by points; tables are made when a description is first asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._by_point: dict[int, dict[tuple[Value, ...], int]] = {}
        self._columns: dict[int, list[_Column]] = {}

    def row(self, task: int, point: tuple[Value, ...]) -> int | None:
        """Find the subtask at a point; None if there is none."""
        if task not in self._by_point:
            points = self._rows.points
            self._by_point[task] = {tuple(map(_key, points[row])): row for row in self._rows.rows_of(task)}
        key = tuple(map(_key, point))
        try:
            return self._by_point[task].get(key)
        except TypeError:
            return None  # a list or mapping, which no sweep variable can be

    def find(
        self, task: int, index: tuple[Expression | IndexRange | str, ...], context: Context
    ) -> list[int]:
        """Find the subtasks an index means, in row order. One that does not exist is an error."""
        described = self._rows.tasks[task]
        names = described.sweep.names if described.sweep is not None else ()
        if len(names) != len(index):
            have = f"{len(names)} sweep variables" if names else "no sweep"
            what = f"{described.name}[...] has {len(index)} indices, but {described.name} has {have}"
            raise InvalidInput(Problem(what=what, advice="give one index per sweep variable; * means all"))
        exact = [evaluate(part, context) for part in index if isinstance(part, Expression)]
        if len(exact) < len(index):
            return self._several(task, index, context)
        row = self.row(task, tuple(exact))
        if row is None:
            what = f"{described.name}[{','.join(map(shown, exact))}] does not exist"
            advice = "a range such as a[k-1..k] leaves out what does not exist"
            raise InvalidInput(Problem(what=what, advice=advice))
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
            low, high = value_of(part.low, context), value_of(part.high, context)
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
            self._columns[task] = [_indexed(points, place) for place in range(width)]
        return self._columns[task][position]


def _indexed(points: dict[int, tuple[Value, ...]], place: int) -> _Column:
    rows_by_value: dict[Value, list[int]] = {}
    for row, point in points.items():
        rows_by_value.setdefault(_key(point[place]), []).append(row)
    return sorted(value for value in rows_by_value if isinstance(value, int | float)), rows_by_value


def _key(value: Value) -> Value:
    """Make values comparable that a reader takes for equal: 0.1 + 0.2 and 0.3."""
    return float(f"{value:.12g}") if isinstance(value, float) else value
