"""Results of other tasks that a command speaks of: which tasks they are (``{conv.result.delta}``)."""

from __future__ import annotations

import numpy as np

from weft.backends.jobs.problem import JobProblem
from weft.engine.state.known import Known
from weft.expressions import Value

__all__ = ["OtherResults"]

_Point = tuple[Value, ...]


class OtherResults:
    """Finds the subtask of one workflow that is meant by the name of its description."""

    def __init__(self, known: Known) -> None:
        self._places = {task.name: place for place, task in enumerate(known.graph.workflow.tasks)}
        self._rows: dict[str, list[int]] = {}
        self._by_point: dict[tuple[str, tuple[str, ...]], dict[_Point, list[int]]] = {}

    def of(self, known: Known, task: int, names: tuple[str, ...]) -> dict[str, int]:
        """Give the task behind every dotted name of a template, by the name of its description."""
        found: dict[str, int] = {}
        for name in names:
            head, dot, _ = name.partition(".")
            if dot and head in self._places and head not in found:
                found[head] = self._meant(known, head, task)
        return found

    def _meant(self, known: Known, name: str, task: int) -> int:
        rows = self._rows.get(name)
        if rows is None:
            rows = self._rows[name] = np.flatnonzero(known.graph.template == self._places[name]).tolist()
        if len(rows) != 1:
            rows = self._at_same_point(known, name, task)
        if len(rows) != 1:
            raise JobProblem(
                f"{known.names[task]} asks for the result of {name}, of which it may mean {len(rows)}",
                rule="the sweep variables that both have must tell which one is meant",
                advice=f"give both the variables of {name}",
            )
        return rows[0]

    def _at_same_point(self, known: Known, name: str, task: int) -> list[int]:
        """List the subtasks that have the same values of the sweep variables which both tasks have."""
        there, here = known.graph.workflow.tasks[self._places[name]].sweep, known.description(task).sweep
        if there is None or here is None:
            return self._rows[name]
        shared = tuple(variable for variable in there.names if variable in here.names)
        table = self._by_point.get((name, shared))
        if table is None:
            places = [there.names.index(variable) for variable in shared]
            table = {}
            for row in self._rows[name]:
                point = known.graph.points[row]
                table.setdefault(tuple(point[place] for place in places), []).append(row)
            self._by_point[name, shared] = table
        own = known.graph.points[task]
        return table.get(tuple(own[here.names.index(variable)] for variable in shared), [])
