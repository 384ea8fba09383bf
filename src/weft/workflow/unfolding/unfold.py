"""Unfolding: from the workflow a user wrote to the acyclic, indexed task graph planners read.

Sweeps are expanded, loops are cut into one iteration (S1's initial graph, spec s1 section 10), files become
edges. Complexity O(v log v + e).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.documents import placed
from weft.errors import InvalidInput, Problem
from weft.expressions import Expression
from weft.workflow.records.quantity import value_of
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.clashes import name_problems, writer_problems
from weft.workflow.unfolding.cycles import find_cycle
from weft.workflow.unfolding.edges import Edges, connect_tasks
from weft.workflow.unfolding.file_edges import FileEdges
from weft.workflow.unfolding.iterations import Body, bodies_of, cut_loops
from weft.workflow.unfolding.merging import Merged
from weft.workflow.unfolding.parameters import evaluate_params
from weft.workflow.unfolding.subtasks import Rows, expand
from weft.workflow.unfolding.task_graph import LoopBody, TaskGraph

__all__ = ["try_unfold", "unfold"]


def unfold(workflow: Workflow) -> TaskGraph:
    """Unfold a workflow that passes ``checks``. Raises InvalidInput with all that stands in the way."""
    graph, problems = try_unfold(workflow)
    if graph is None:
        raise InvalidInput(list(placed(problems, workflow.document)))
    return graph


def try_unfold(workflow: Workflow, *, strictly: bool = False) -> tuple[TaskGraph | None, list[Problem]]:
    """Give the graph or the problems; ``strictly``: also those of what can be unfolded, but not run."""
    params, problems = evaluate_params(workflow.params)
    if problems:
        return None, problems
    rows = expand(workflow.tasks, params)
    edges = Edges()
    connect_tasks(rows, workflow.loops, edges)
    files = FileEdges(rows, edges)
    files.connect()
    budgets = _budgets(rows, workflow)
    problems = rows.problems
    if strictly:
        problems += name_problems(rows)
        shared = files.shared_names()
        problems += writer_problems(rows, shared, branches=_branches(workflow)) if shared else ()
    merged = Merged(edges, len(rows.names))
    cut_loops(rows, merged, workflow.loops)
    order = merged.order()
    if order is None:
        problems.append(_cycle_problem(rows, merged))
        return None, problems
    bodies, found = bodies_of(rows, merged, workflow.loops)
    problems += found
    if problems:
        return None, problems
    return _assemble(workflow, rows, budgets, files, edges, merged, order, bodies), []


def _budgets(rows: Rows, workflow: Workflow) -> dict[str, float]:
    """Evaluate the budgets, by name in alphabetical order."""
    found: dict[str, float] = {}
    for name, budget in sorted(workflow.budgets.items()):
        path = ("budgets", name)
        try:
            found[name] = float(value_of(budget, rows.params))
        except InvalidInput as error:
            rows.complain(path, error)
            continue
        if not 0 <= found[name] < math.inf:
            what = f"{budget} gives {found[name]:g}"
            rows.problems.append(Problem(what=what, rule="must be a number, at least 0", path=path))
    return found


def _branches(workflow: Workflow) -> bool:
    """Say whether a file may have several writers of which one run sees only one at a time."""
    return bool(workflow.loops) or any(
        dependency.condition is not None for task in workflow.tasks for dependency in task.after
    )


def _cycle_problem(rows: Rows, merged: Merged) -> Problem:
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
    workflow: Workflow,
    rows: Rows,
    budgets: dict[str, float],
    files: FileEdges,
    edges: Edges,
    merged: Merged,
    order: Sequence[int],
    bodies: list[Body],
) -> TaskGraph:
    """Renumber everything into topological order and build the compressed rows."""
    tasks = len(order)
    kept = np.asarray(order, dtype=np.int64)
    position = np.empty(tasks, dtype=np.int64)
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
        points=_ordered(rows.points, order),
        kind=np.asarray(rows.kind, dtype=np.uint8)[kept],
        work=np.asarray(rows.work, dtype=float)[kept],
        **_explicit(rows, order),
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
        predecessor=source.astype(np.uint32),
        successor_pointer=np.concatenate(([0], np.cumsum(np.bincount(source, minlength=tasks)))),
        successor=target[by_source].astype(np.uint32),
        successor_edge=by_source.astype(np.uint32),
        edge_bytes=merged.bytes,
        edge_files=merged.files,
        edge_seconds=merged.seconds,
        edge_condition=_conditions(edges, position, merged),
        loops=tuple(
            LoopBody(
                loop=body.loop,
                tasks=np.sort(position[sorted(body.rows)]).astype(np.uint32),
                expect=body.expect,
            )
            for body in bodies
        ),
        unsized_files=edges.unsized,
    )


_Item = TypeVar("_Item")


def _ordered(items: list[_Item], order: Sequence[int]) -> tuple[_Item, ...]:
    return tuple(items) if isinstance(order, range) else tuple([items[row] for row in order])


def _column(values: Mapping[int, float], count: int, default: float) -> NDArray[np.float64]:
    column = np.full(count, float(default))
    column[list(values)] = list(values.values())
    return column


def _explicit(rows: Rows, order: Sequence[int]) -> dict[str, Any]:
    names = sorted({machine for given in rows.explicit.values() for machine, _ in given})
    index = {name: position for position, name in enumerate(names)}
    given = [rows.explicit.get(row, ()) for row in order] if rows.explicit else []
    flat = [entry for entries in given for entry in entries]
    lengths = [len(entries) for entries in given] if given else np.zeros(len(order), dtype=np.int64)
    return {
        "explicit_pointer": np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))),
        "explicit_machine": np.array([index[machine] for machine, _ in flat], dtype=np.uint32),
        "explicit_seconds": np.array([seconds for _, seconds in flat], dtype=float),
        "explicit_names": tuple(names),
    }


def _conditions(edges: Edges, position: NDArray[np.int64], merged: Merged) -> dict[int, Expression]:
    """Give the conditions by the edge's place among the merged ones."""
    return {
        merged.place(int(position[there]), int(position[here])): condition
        for (there, here), condition in edges.conditions.items()
    }
