"""Requirements and ranks of tasks: expressions over machines, evaluated for some machines at one time.

Names have three sources, the first of which wins: what the platform states about machines, what the task
defines (parameters, sweep variables), and live names. Live names have a value per machine and time
(``LIVE_NAMES``) or, in ranks only, per machine, time and task (``TURNAROUND_NAMES``: the turnaround of
docs/papers/adaptive-jobs.md, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.documents import locate_problems
from weft.errors import InvalidInput, Problem, shorten, suggest
from weft.expressions import Expression, Value, evaluate_columns, find_unknown_names
from weft.expressions.tree import ExpressionNode, FunctionCall, Literal, Name, walk
from weft.platform.arrays import idle_columns, machine_columns
from weft.platform.machine import BUILT_IN_NAMES, LIVE_NAMES, MEASURED_NAMES, Machine
from weft.workflow.task_graph import TaskGraph
from weft.workflow.workflow import Workflow

TURNAROUND_NAMES = ("seconds", "transfer_s", "queue_s")
"""Names that ranks may use for a task on a machine: estimated seconds of the task, seconds to copy its inputs
to the machine, seconds until enough nodes are free.
"""

Columns = Mapping[str, NDArray[Any]]


class MachinePreference:
    """A requirement or rank of a task, prepared for evaluation over machines."""

    __slots__ = ("_context", "_expression", "_stated", "live", "names")

    def __init__(self, expression: Expression, stated: Columns, context: Mapping[str, Value]) -> None:
        """Prepare an expression.

        ``stated`` holds the columns of the platform, ``context`` the names of the task.
        """
        self._expression = expression
        self._stated = stated
        self._context = dict(context)
        self.names = frozenset(expression.names)
        self.live = find_live_names(expression, {*stated, *context})
        """The live names that the expression uses; if there are none, its values never change."""

    @property
    def waits(self) -> bool:
        """Return whether the expression uses ``queue_s``; if so, ranking also considers busy machines."""
        return "queue_s" in self.live

    def values(self, machines: Sequence[int], live: Columns) -> list[Any]:
        """Return the value of the expression per entry of ``machines``; None where it cannot be evaluated.

        ``live`` holds the columns of the live names that the expression uses, for these machines.
        """
        columns = {name: self._stated[name][machines] for name in self.names if name in self._stated}
        columns.update((name, live[name]) for name in self.live)
        context = {name: value for name, value in self._context.items() if name not in self.live}
        try:
            found = evaluate_columns(self._expression, columns, len(machines), context)
        except InvalidInput:
            if len(machines) == 1:
                return [None]
            # An error on one machine, such as a load of 0 in `1 / load`, must not affect the others.
            rows = range(len(machines))
            return [self.values([machines[row]], _take_row(live, row))[0] for row in rows]
        values: list[Any] = found.tolist()
        return values

    def numbers(self, machines: Sequence[int], live: Columns) -> list[float | None]:
        """Return the value of the expression per entry of ``machines``; None where it is no number."""
        return [
            float(value) if isinstance(value, int | float) and not math.isnan(value) else None
            for value in self.values(machines, live)
        ]


def _take_row(columns: Columns, row: int) -> dict[str, NDArray[Any]]:
    return {name: column[row : row + 1] for name, column in columns.items()}


def find_live_names(expression: Expression, defined: Collection[str]) -> tuple[str, ...]:
    """Return the live names that an expression uses and that neither machines nor the task define."""
    names = set(expression.names)
    return tuple(name for name in (*LIVE_NAMES, *TURNAROUND_NAMES) if name in names and name not in defined)


def uses_measurements(expression: Expression | None, defined: Collection[str] = ()) -> bool:
    """Return whether an expression uses a name of MEASURED_NAMES that is not in ``defined``."""
    return expression is not None and any(
        name in MEASURED_NAMES for name in find_live_names(expression, defined)
    )


def measures_machines(graph: TaskGraph, machines: tuple[Machine, ...]) -> bool:
    """Return whether the requirement or rank of some task uses a value measured during the run."""
    stated: set[str] | None = None
    for task in graph.workflow.tasks:
        for expression in (task.requirements, task.rank):
            if not uses_measurements(expression):
                continue
            stated = {*machine_columns(machines), *graph.params} if stated is None else stated
            swept = () if task.sweep is None else task.sweep.names
            if uses_measurements(expression, {*stated, *swept}):
                return True
    return False


def find_rank_problems(graph: TaskGraph, machines: tuple[Machine, ...]) -> list[Problem]:
    """Return the problems of ranks that use an unknown name or evaluate to a text."""
    if not any(task.rank is not None for task in graph.workflow.tasks):
        return []
    stated, idle = machine_columns(machines), idle_columns(machines)
    known = {*stated, *idle, *TURNAROUND_NAMES}
    problems: list[Problem] = []
    for template in np.unique(graph.template).tolist():
        description = graph.workflow.tasks[template]
        if description.rank is None:
            continue
        context = graph.context(int(np.argmax(graph.template == template)))
        unknown = find_unknown_names(description.rank, {*known, *context})
        found = [problem for error in unknown for problem in error.problems]
        if not found:
            found = list(_find_text(description.rank, stated, idle, context))
        path = ("tasks", description.name, "rank")
        problems += [replace(problem, path=path, location=None) for problem in found]
    return list(locate_problems(problems, graph.workflow.document))


def note_unchecked_names(workflow: Workflow) -> list[str]:
    """Return a note for each name in requirements and ranks that only a machine could define.

    Machines may state attributes and resources with any names, so such a name is checked with a platform.
    """
    notes: dict[str, None] = {}
    for task in workflow.tasks:
        swept = () if task.sweep is None else task.sweep.names
        known = {*BUILT_IN_NAMES, *LIVE_NAMES, *workflow.params, *swept}
        for key, expression, more in (
            ("requirements", task.requirements, ()),
            ("rank", task.rank, TURNAROUND_NAMES),
        ):
            unknown = () if expression is None else find_unknown_names(expression, {*known, *more})
            for problem in (each for error in unknown for each in error.problems):
                where = f"tasks.{task.name}.{key}: {problem.what}"
                advice = problem.advice if problem.advice.startswith("did you mean") else ""
                text = f"{where}; machines may state it, which is only checked with `--on PLATFORM`"
                notes[f"{text}; {advice}" if advice else text] = None
    return list(notes)


def note_unstated_attributes(graph: TaskGraph, machines: tuple[Machine, ...]) -> list[str]:
    """Return a note for each optional attribute of a rank that no machine states and that counts as 0.

    GridWay's RANK has such attributes: ``default(NAME, 0)``.
    """
    known = {*machine_columns(machines), *idle_columns(machines), *TURNAROUND_NAMES}
    notes: dict[str, None] = {}
    for task in graph.workflow.tasks:
        for node in walk(task.rank.tree) if task.rank is not None else ():
            if (name := _optional_name(node)) is not None and name not in {*known, *graph.params}:
                advice = suggest(name, known, "state it in `attributes` of the machines")
                notes[f"rank of {task.name}: no machine states {name}, so it counts as 0; {advice}"] = None
    return list(notes)


def _optional_name(node: ExpressionNode) -> str | None:
    """Return NAME if a node is ``default(NAME, 0)``, else None."""
    if not isinstance(node, FunctionCall) or node.function != "default":
        return None
    name, value = node.arguments
    return name.name if isinstance(name, Name) and isinstance(value, Literal) and value.value == 0 else None


def _find_text(
    rank: Expression, stated: Columns, idle: Columns, context: Mapping[str, Value]
) -> Iterator[Problem]:
    """Yield a problem if a rank evaluates to a text on some idle machine."""
    count = len(next(iter(stated.values())))
    turnaround = dict.fromkeys(TURNAROUND_NAMES, np.zeros(count))
    values: Iterable[Any] = MachinePreference(rank, stated, context).values(
        range(count), {**idle, **turnaround}
    )
    text = next((value for value in values if isinstance(value, str)), None)
    if text is not None:
        what = f"rank {rank} evaluates to {shorten(repr(text))}"
        yield Problem(what=what, rule="must evaluate to a number; the highest value is preferred")
