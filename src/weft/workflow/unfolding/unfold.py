"""Unfolding: from the workflow a user wrote to the acyclic, indexed task graph planners read.

Sweeps are expanded, loops are cut into one iteration (S1's initial graph, spec s1 section 10), files become edges.
Complexity O(v log v + e).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.documents import placed
from weft.errors import InvalidInput, Problem
from weft.expressions import Expression
from weft.workflow.records.loop import Loop
from weft.workflow.records.quantity import value_of
from weft.workflow.records.workflow import Workflow
from weft.workflow.templates import fill
from weft.workflow.unfolding.cycles import back_edges, find_cycle, reachable, topological_order
from weft.workflow.unfolding.edges import Edges, connect
from weft.workflow.unfolding.parameters import evaluate_params
from weft.workflow.unfolding.subtasks import Rows, expand
from weft.workflow.unfolding.task_graph import LoopBody, TaskGraph

__all__ = ["try_unfold", "unfold"]


def unfold(workflow: Workflow) -> TaskGraph:
    """Unfold a workflow that passes ``checks``. Raises InvalidInput with everything that stands in the way."""
    graph, problems = try_unfold(workflow)
    if graph is None or problems:
        raise InvalidInput(list(placed(problems, workflow.document)))
    return graph


def try_unfold(workflow: Workflow) -> tuple[TaskGraph | None, list[Problem]]:
    """Unfold as far as possible; list what only unfolding shows: empty sweeps, missing subtasks, cycles."""
    params, problems = evaluate_params(workflow.params)
    rows = expand(workflow.tasks, params)
    edges = connect(rows, workflow.loops)
    problems += rows.problems
    merged = _Merged(edges, len(rows.names))
    _cut_loops(rows, merged, workflow.loops)
    order = merged.order()
    if order is None:
        problems.append(_cycle_problem(rows, merged))
        return None, problems
    if problems:
        return None, problems
    return _assemble(workflow, rows, edges, merged, np.asarray(order, dtype=np.int64)), []


class _Merged:
    """Edges with equal ends put together, sorted by target and then source."""

    def __init__(self, edges: Edges, tasks: int) -> None:
        self.tasks = tasks
        source = np.frombuffer(edges.source, dtype=np.uint32) if edges.source else np.empty(0, np.uint32)
        target = np.frombuffer(edges.target, dtype=np.uint32) if edges.target else np.empty(0, np.uint32)
        key = target.astype(np.int64) * max(tasks, 1) + source
        unique, inverse = np.unique(key, return_inverse=True)
        self.source: NDArray[Any] = (unique % max(tasks, 1)).astype(np.uint32)
        self.target: NDArray[Any] = (unique // max(tasks, 1)).astype(np.uint32)
        count = len(unique)
        self.bytes = np.bincount(inverse, weights=np.asarray(edges.bytes), minlength=count)
        self.files = np.bincount(inverse, weights=np.asarray(edges.files), minlength=count)
        self.seconds = np.bincount(inverse, weights=np.asarray(edges.seconds), minlength=count)
        plain = np.bincount(inverse, weights=1.0 - np.asarray(edges.by_data, dtype=float), minlength=count)
        self.only_data = plain == 0

    def successors(self) -> list[list[int]]:
        """Give the successor lists, each in ascending order."""
        lists: list[list[int]] = [[] for _ in range(self.tasks)]
        for source, target in zip(self.source.tolist(), self.target.tolist(), strict=True):
            lists[source].append(target)
        return lists

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Drop some edges."""
        for name in ("source", "target", "bytes", "files", "seconds", "only_data"):
            setattr(self, name, getattr(self, name)[kept])

    def order(self) -> Sequence[int] | None:
        """Give a topological order; None if there is a cycle."""
        if bool((self.source < self.target).all()):
            return range(self.tasks)  # program order already is one
        return topological_order(self.successors())


def _rows_named(rows: Rows, name: str) -> range:
    index = next((i for i, task in enumerate(rows.tasks) if task.name == name), None)
    return range(0) if index is None else rows.rows_of(index)


def _cut_loops(rows: Rows, merged: _Merged, loops: tuple[Loop, ...]) -> None:
    """Remove the edges that carry data from one iteration of a declared loop to the next.

    The declared back edges are no edges of the graph to begin with. A file that a later task of the body writes and
    an earlier one reads comes from the previous iteration: depth-first search from the loop's head finds it.
    """
    if not loops or merged.order() is not None:
        return
    successors = merged.successors()
    heads = [row for loop in loops for row in _rows_named(rows, loop.first)]
    allowed = np.zeros(rows.template.__len__(), dtype=bool)
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, children in enumerate(successors):
        for child in children:
            predecessors[child].append(node)
    for loop in loops:
        forward = reachable(successors, _rows_named(rows, loop.first))
        backward = reachable(predecessors, _rows_named(rows, loop.last))
        allowed[sorted(forward & backward)] = True
    removed = set(back_edges(successors, heads))
    pairs = zip(merged.source.tolist(), merged.target.tolist(), merged.only_data.tolist(), strict=True)
    kept = [not (d and (s, t) in removed and allowed[s] and allowed[t]) for s, t, d in pairs]
    merged.keep(np.asarray(kept, dtype=bool))


def _cycle_problem(rows: Rows, merged: _Merged) -> Problem:
    cycle = find_cycle(merged.successors()) or []
    names = [rows.names[row] for row in cycle]
    shown = " → ".join([*names[:8], *(["…"] if len(names) > 8 else []), names[0]])
    return Problem(
        what=f"a cycle: {shown}",
        rule="tasks cannot wait for each other",
        advice="if it is meant to repeat, declare it under `loops:` with from, to and until",
        path=("tasks", rows.tasks[rows.template[cycle[0]]].name),
    )


def _assemble(
    workflow: Workflow, rows: Rows, edges: Edges, merged: _Merged, order: NDArray[np.int64]
) -> TaskGraph:
    """Renumber everything into topological order and build the compressed rows."""
    tasks = len(order)
    position = np.empty(tasks, dtype=np.int64)
    position[order] = np.arange(tasks)
    source, target = position[merged.source], position[merged.target]
    by_target = np.lexsort((source, target))
    source, target = source[by_target], target[by_target]
    by_source = np.lexsort((target, source))
    indices = order.tolist()
    source_variable = _source_variables(rows)
    transfer_bytes, unsized = _transfer_bytes(rows)
    explicit = _explicit(rows, indices)
    names = tuple(sorted(rows.demands))
    return TaskGraph(
        workflow=workflow,
        params=rows.params,
        names=tuple([rows.names[row] for row in indices]),
        template=np.asarray(rows.template, dtype=np.uint32)[order],
        points=tuple([rows.points[row] for row in indices]),
        kind=np.asarray(rows.kind, dtype=np.uint8)[order],
        work=np.asarray(rows.work, dtype=float)[order],
        **explicit,
        counts=np.asarray(rows.counts, dtype=np.uint32)[order],
        count_sets=tuple(rows.count_sets),
        cores=np.asarray(rows.cores, dtype=float)[order],
        resource_names=names,
        demand=_demand(rows, names, tasks)[order],
        variable=np.asarray(rows.variable, dtype=np.uint32)[order],
        source_variable=source_variable[order],
        variables=tuple(rows.variables),
        transfer_bytes=transfer_bytes[order],
        predecessor_pointer=np.concatenate(([0], np.cumsum(np.bincount(target, minlength=tasks)))),
        predecessor=source.astype(np.uint32),
        successor_pointer=np.concatenate(([0], np.cumsum(np.bincount(source, minlength=tasks)))),
        successor=target[by_source].astype(np.uint32),
        successor_edge=by_source.astype(np.uint32),
        edge_bytes=merged.bytes[by_target],
        edge_files=merged.files[by_target],
        edge_seconds=merged.seconds[by_target],
        edge_condition=_conditions(edges, position, source, target, tasks),
        loops=tuple(_body(rows, loop, merged, position) for loop in workflow.loops),
        unsized_files=edges.unsized + unsized,
    )


def _demand(rows: Rows, names: tuple[str, ...], tasks: int) -> NDArray[np.float64]:
    demand = np.zeros((tasks, len(names)))
    for column, name in enumerate(names):
        for row, amount in rows.demands[name].items():
            demand[row, column] = amount
    return demand


def _source_variables(rows: Rows) -> NDArray[np.uint32]:
    found = {}
    for row, template in enumerate(rows.template):
        transfer = rows.tasks[template].transfer
        if transfer is not None:
            found[row] = rows.abstract_machine(fill(transfer.source, rows.context(row)))
    column = np.full(len(rows.names), len(rows.variables), dtype=np.uint32)
    for row, variable in found.items():
        column[row] = variable
    return column


def _transfer_bytes(rows: Rows) -> tuple[NDArray[np.float64], int]:
    """Give the bytes of every transfer: its own size, else that of the output it moves, else unknown."""
    column, unsized = np.zeros(len(rows.names)), 0
    for row, template in enumerate(rows.template):
        transfer = rows.tasks[template].transfer
        if transfer is None:
            continue
        size = transfer.size
        if size is None:
            sizes = (o.size for task in rows.tasks for o in task.outputs if o.file == transfer.file)
            size = next((found for found in sizes if found is not None), None)
        unsized += size is None
        column[row] = 0.0 if size is None else value_of(size, rows.context(row))
    return column, unsized


def _explicit(rows: Rows, order: list[int]) -> dict[str, Any]:
    names = sorted({machine for given in rows.explicit.values() for machine, _ in given})
    index = {name: position for position, name in enumerate(names)}
    given = [rows.explicit.get(row, ()) for row in order]
    flat = [entry for entries in given for entry in entries]
    return {
        "explicit_pointer": np.concatenate(
            ([0], np.cumsum([len(entries) for entries in given], dtype=np.int64))
        ),
        "explicit_machine": np.array([index[machine] for machine, _ in flat], dtype=np.uint32),
        "explicit_seconds": np.array([seconds for _, seconds in flat], dtype=float),
        "explicit_names": tuple(names),
    }


def _conditions(edges: Edges, position: NDArray[np.int64], source: NDArray[np.int64], target: NDArray[np.int64],
                tasks: int) -> dict[int, Expression]:  # fmt: skip
    if not edges.conditions:
        return {}
    keys = target * tasks + source
    found = {}
    for (there, here), condition in edges.conditions.items():
        key = position[here] * tasks + position[there]
        at = int(np.searchsorted(keys, key))
        if at < len(keys) and keys[at] == key:
            found[at] = condition
    return found


def _body(rows: Rows, loop: Loop, merged: _Merged, position: NDArray[np.int64]) -> LoopBody:
    """Collect the tasks on a way from the loop's first to its last task."""
    successors = merged.successors()
    predecessors: list[list[int]] = [[] for _ in successors]
    for node, children in enumerate(successors):
        for child in children:
            predecessors[child].append(node)
    firsts, lasts = _rows_named(rows, loop.first), _rows_named(rows, loop.last)
    body = (reachable(successors, firsts) & reachable(predecessors, lasts)) | set(firsts) | set(lasts)
    expect = None if loop.expect is None else value_of(loop.expect, rows.params)
    valid = expect is not None and math.isfinite(expect) and expect >= 1
    return LoopBody(
        loop=loop,
        tasks=np.sort(position[sorted(body)]).astype(np.uint32),
        expect=int(expect) if valid and expect is not None else None,
    )
