"""Unfolding: the task graph of a workflow. Complexity O(v log v + e).

Sweeps are expanded, files become edges, and each loop is cut to one iteration, the initial graph of Prodan
and Fahringer 2005 (docs/papers/dynamic-grid.md, section 10). Deviations: data of a previous iteration need no
declared edge; the depth-first search finds such edges.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.documents import locate_problems
from weft.errors import InvalidInput, Problem, shorten
from weft.expressions import Expression, Value, limit_document_entries
from weft.records import dataclass
from weft.workflow.cycles import back_edges, find_cycle
from weft.workflow.edges import EdgeList, FileDependencies, MergedEdges, connect_tasks
from weft.workflow.quantity import SweepPoints, evaluate_quantity
from weft.workflow.subtasks import SEARCHES, SubtaskTable, expand_tasks
from weft.workflow.task_graph import LoopBody, TaskGraph, TaskPoints
from weft.workflow.templates import format_value
from weft.workflow.workflow import Loop, Workflow, evaluate_params


def _duplicate_name_problems(rows: SubtaskTable) -> Iterator[Problem]:
    """Yield a problem for each task whose sweep contains a point twice."""
    for index, task in enumerate(rows.tasks):
        if task.sweep is None or _has_unique_names(rows.points[index]):
            continue
        counted = Counter(rows.names[row] for row in rows.rows_of(index))
        twice = next((name for name, count in counted.items() if count > 1), None)
        if twice is not None:
            what = f"the sweep contains {shorten(twice)} twice"
            rule = "the points of a sweep must be unique"
            yield Problem(what=what, rule=rule, path=("tasks", task.name, "sweep"))


def _has_unique_names(points: SweepPoints) -> bool:
    """Return whether the values show that no two points of a sweep have the same name."""
    if points.paired:
        return False
    ranges = (isinstance(column, range) for column in points.columns)
    return all(ranges) or all(map(_has_unique_texts, points.columns))


def _has_unique_texts(column: Sequence[Value]) -> bool:
    # A comma in a text could be taken for the one between two values.
    texts = set(map(format_value, column))
    return len(texts) == len(column) and not any("," in text for text in texts)


def _writer_problems(
    rows: SubtaskTable, shared: Iterable[tuple[str, list[int]]], *, branches: bool
) -> Iterator[Problem]:
    """Yield a problem for each file of ``shared`` that a run writes several times.

    ``shared`` contains pairs of a file and the rows that write it. ``branches`` states whether the workflow
    has loops or conditions, so that a run may execute only one of several tasks that write a file. Then only
    subtasks of the same task are a problem.
    """
    reported: set[tuple[int, int]] = set()
    for file, writers in shared:
        first, *others = (rows.template[row] for row in writers)
        other = next((task for task in others if task == first or not branches), None)
        if other is None or (first, other) in reported:
            continue
        reported.add((first, other))
        yield _writer_problem(rows, shorten(file), first, other)


def _writer_problem(rows: SubtaskTable, file: str, first: int, other: int) -> Problem:
    one, two = rows.tasks[first], rows.tasks[other]
    if first == other and one.sweep is not None:
        what = f"several subtasks of {one.name} write {file!r}"
        advice = f"add the sweep variables to the name, such as {{{one.sweep.names[0]}}}"
    elif first == other:
        what, advice = f"{one.name} writes {file!r} twice", "name the file once"
    else:
        what, advice = (
            f"{file!r} is written by {one.name} and by {two.name}",
            "give the files different names",
        )
    return Problem(
        what=what,
        rule="only one task may write a file",
        advice=advice,
        path=("tasks", two.name, "outputs", file),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoopRows:
    """The rows of one iteration of a loop, and the expected number of iterations."""

    loop: Loop
    rows: NDArray[np.bool_]
    """Per row: whether it belongs to the loop."""
    expect: int | None


def _rows_named(rows: SubtaskTable, name: str) -> range:
    index = next((i for i, task in enumerate(rows.tasks) if task.name == name), None)
    return range(0) if index is None else rows.rows_of(index)


def _cut_loops(rows: SubtaskTable, merged: MergedEdges, loops: tuple[Loop, ...]) -> None:
    """Remove the edges that carry data from one iteration of a declared loop to the next.

    A declared back edge is not an edge of the graph. If a later task of the loop's body writes a file that an
    earlier task reads, the file comes from the previous iteration. A depth-first search from the first task
    of the body finds these edges. Outer loops are searched first: a search from an inner loop would mistake
    the edges that enter the inner loop for back edges.
    """
    if not loops or merged.order() is not None:
        return
    successors, predecessors = merged.successors(), merged.predecessors()
    inside = np.zeros(len(rows.names), dtype=bool)
    size: dict[str, int] = {}
    for loop in loops:
        firsts, lasts = _rows_named(rows, loop.first), _rows_named(rows, loop.last)
        forward = successors.reach(firsts)
        inside |= forward & predecessors.reach(lasts)
        # The size of one iteration, without the edges that lead back to the first tasks.
        size[loop.name] = int((forward & predecessors.reach(lasts, stops=firsts)).sum())
    by_size = sorted(loops, key=lambda loop: -size[loop.name])
    heads = [row for loop in by_size for row in _rows_named(rows, loop.first)]
    back = merged.contains(back_edges(successors, heads))
    merged.keep(~(back & merged.only_data & inside[merged.source] & inside[merged.target]))


def _count_searches(rows: SubtaskTable, loops: tuple[Loop, ...]) -> None:
    """Count the tasks among which the bodies of loops are searched; add a problem if there are too many."""
    try:
        rows.count(SEARCHES, len(loops) * len(rows.names))
    except InvalidInput as error:
        rows.add_problem(("loops", loops[-1].name), error)


def _find_loop_bodies(
    rows: SubtaskTable, merged: MergedEdges, loops: tuple[Loop, ...]
) -> tuple[list[_LoopRows], list[Problem]]:
    """Return each loop's body (the rows on paths from its first to its last task), and all problems."""
    if not loops:
        return [], []
    successors, predecessors = merged.successors(), merged.predecessors()
    bodies: list[_LoopRows] = []
    problems: list[Problem] = []
    for loop in loops:
        firsts, lasts = _rows_named(rows, loop.first), _rows_named(rows, loop.last)
        found = successors.reach(firsts) & predecessors.reach(lasts)
        if firsts and lasts and not found.any():
            what = f"loop {loop.name}: {loop.last} does not depend on {loop.first}"
            advice = "`to` is the first task of the body, `from` the last"
            rule = "there must be a path from `to` to `from`"
            problems.append(Problem(what=what, rule=rule, advice=advice, path=("loops", loop.name)))
        expect = _count(rows, loop, "expect", problems)
        _count(rows, loop, "max_iterations", problems)
        bodies.append(_LoopRows(loop=loop, rows=found, expect=expect))
    problems += _nesting_problems(bodies)
    return bodies, problems


def _count(rows: SubtaskTable, loop: Loop, key: str, problems: list[Problem]) -> int | None:
    """Return the number of iterations under a key of a loop; None if it is not stated or invalid."""
    quantity = loop.expect if key == "expect" else loop.max_iterations
    if quantity is None:
        return None
    path = ("loops", loop.name, key)
    try:
        number = evaluate_quantity(quantity, rows.params)
    except InvalidInput as error:
        problems += [replace(problem, path=path, location=None) for problem in error.problems]
        return None
    if not (number >= 1 and number % 1 == 0):
        rule = "must be a whole number, at least 1"
        problems.append(Problem(what=f"{key} {number:g}", rule=rule, path=path))
        return None
    return int(number)


def _nesting_problems(bodies: list[_LoopRows]) -> Iterator[Problem]:
    for position, outer in enumerate(bodies):
        for inner in bodies[position + 1 :]:
            shared = outer.rows & inner.rows
            whole = np.array_equal(shared, outer.rows) or np.array_equal(shared, inner.rows)
            if shared.any() and not whole:
                what = f"loops {outer.loop.name} and {inner.loop.name} overlap"
                rule = "two loops are disjoint, or one contains the other"
                yield Problem(what=what, rule=rule, path=("loops", inner.loop.name))


def unfold(workflow: Workflow) -> TaskGraph:
    """Return the task graph of a valid workflow, or raise InvalidInput with the problems of unfolding."""
    graph, problems = try_unfold(workflow)
    if graph is None:
        raise InvalidInput(list(locate_problems(problems, workflow.document)))
    return graph


@limit_document_entries()
def try_unfold(workflow: Workflow, *, strictly: bool = False) -> tuple[TaskGraph | None, list[Problem]]:
    """Return the task graph and an empty list, or None and the problems.

    With ``strictly``, duplicate subtasks and files with several writers are problems too.
    """
    params, problems = evaluate_params(workflow.params)
    if problems:
        return None, problems
    rows = expand_tasks(workflow.tasks, params)
    edges = EdgeList()
    files = FileDependencies(rows, edges)
    if not rows.is_full:
        connect_tasks(rows, workflow.loops, edges)
        files.connect()
        _count_searches(rows, workflow.loops)
    if rows.is_full:
        return None, rows.problems
    budgets = _budgets(rows, workflow)
    problems = rows.problems
    if strictly:
        problems += _duplicate_name_problems(rows)
        shared = files.shared_names()
        problems += _writer_problems(rows, shared, branches=_branches(workflow)) if shared else ()
    merged = MergedEdges(edges, len(rows.names))
    _cut_loops(rows, merged, workflow.loops)
    if (order := merged.order()) is None:
        problems.append(_cycle_problem(rows, merged))
        return None, problems
    bodies, found = _find_loop_bodies(rows, merged, workflow.loops)
    problems += found
    if problems:
        return None, problems
    return _assemble(workflow, rows, budgets, files, edges, merged, order, bodies), []


def _budgets(rows: SubtaskTable, workflow: Workflow) -> dict[str, float]:
    """Return the values of the budgets, sorted by name."""
    found: dict[str, float] = {}
    for name, budget in sorted(workflow.budgets.items()):
        path = ("budgets", name)
        try:
            found[name] = float(evaluate_quantity(budget, rows.params))
        except InvalidInput as error:
            rows.add_problem(path, error)
            continue
        if not 0 <= found[name] < math.inf:
            what = f"{budget} gives {found[name]:g}"
            rows.problems.append(Problem(what=what, rule="must be a number, at least 0", path=path))
    return found


def _branches(workflow: Workflow) -> bool:
    """Return whether the workflow has loops or conditions, so that a run may skip a writer of a file."""
    return bool(workflow.loops) or any(
        dependency.condition is not None for task in workflow.tasks for dependency in task.after
    )


def _cycle_problem(rows: SubtaskTable, merged: MergedEdges) -> Problem:
    cycle = find_cycle(merged.successors()) or []
    names = [rows.names[row] for row in cycle]
    shown = " → ".join([*names[:8], *(["…"] if len(names) > 8 else []), names[0]])
    return Problem(
        what=f"a cycle: {shown}",
        rule="dependencies must not form a cycle",
        advice="to repeat these tasks, declare a loop under `loops:` with from, to and until",
        path=("tasks", rows.tasks[rows.template[cycle[0]]].name),
    )


def _assemble(
    workflow: Workflow,
    rows: SubtaskTable,
    budgets: dict[str, float],
    files: FileDependencies,
    edges: EdgeList,
    merged: MergedEdges,
    order: Sequence[int],
    bodies: list[_LoopRows],
) -> TaskGraph:
    """Return the task graph of the rows and edges, with tasks in topological order."""
    tasks = len(order)
    kept = np.asarray(order, dtype=np.int64)
    position = np.empty(tasks, dtype=np.uint32)
    position[kept] = np.arange(tasks)
    if not isinstance(order, range):
        merged.renumber(position)
    source, target = merged.source, merged.target
    by_source = np.argsort(source, kind="stable")
    demand, demand_by_count = rows.demand.columns(rows.demand.names, kept)
    consumption, consumption_by_count = rows.consumption.columns(tuple(budgets), kept)
    return TaskGraph(
        workflow=workflow,
        params=rows.params,
        names=_ordered(rows.names, order),
        template=np.asarray(rows.template, dtype=np.uint32)[kept],
        points=_task_points(rows, kept),
        kind=np.asarray(rows.kind, dtype=np.uint8)[kept],
        work=np.asarray(rows.work, dtype=float)[kept],
        **rows.explicit.columns(kept),
        counts=np.asarray(rows.counts, dtype=np.uint32)[kept],
        count_sets=tuple(rows.count_sets),
        cores=np.asarray(rows.cores, dtype=float)[kept],
        resource_names=rows.demand.names,
        demand=demand,
        demand_by_count=demand_by_count,
        budget_names=tuple(budgets),
        budgets=np.array(list(budgets.values()), dtype=np.float64),
        consumption=consumption,
        consumption_by_count=consumption_by_count,
        variable=np.asarray(rows.variable, dtype=np.uint32)[kept],
        source_variable=_column(files.source_variable, tasks, len(rows.variables)).astype(np.uint32)[kept],
        variables=tuple(rows.variables),
        transfer_bytes=_column(files.transfer_bytes, tasks, 0.0)[kept],
        predecessor_pointer=np.concatenate(([0], np.cumsum(np.bincount(target, minlength=tasks)))),
        predecessor=source,
        successor_pointer=np.concatenate(([0], np.cumsum(np.bincount(source, minlength=tasks)))),
        successor=target[by_source],
        successor_edge=by_source.astype(np.uint32),
        edge_bytes=merged.bytes,
        edge_files=merged.files,
        edge_seconds=merged.seconds,
        edge_condition=_conditions(edges, position, merged),
        loops=tuple(
            LoopBody(
                loop=body.loop,
                tasks=np.sort(position[body.rows]),
                expect=body.expect,
            )
            for body in bodies
        ),
        unsized_files=edges.unsized,
    )


_Item = TypeVar("_Item")


def _ordered(items: list[_Item], order: Sequence[int]) -> tuple[_Item, ...]:
    return tuple(items) if isinstance(order, range) else tuple([items[row] for row in order])


def _task_points(rows: SubtaskTable, kept: NDArray[np.int64]) -> TaskPoints:
    template = np.asarray(rows.template, dtype=np.uint32)
    offset = np.arange(len(template)) - np.asarray(rows.first, dtype=np.int64)[template]
    sweeps = [points if task.sweep else None for task, points in zip(rows.tasks, rows.points, strict=True)]
    return TaskPoints(sweeps, template[kept], offset[kept].astype(np.uint32))


def _column(values: Mapping[int, float], count: int, default: float) -> NDArray[np.float64]:
    column = np.full(count, float(default))
    column[list(values)] = list(values.values())
    return column


def _conditions(edges: EdgeList, position: NDArray[np.uint32], merged: MergedEdges) -> dict[int, Expression]:
    """Return the conditions by the positions of their edges."""
    found: dict[int, Expression] = {}
    for sources, targets, condition in edges.conditions:
        found |= dict.fromkeys(merged.positions(position[sources], position[targets]).tolist(), condition)
    return found
