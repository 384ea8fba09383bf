"""Loops in the unfolded graph: one iteration of each is kept, and its tasks are its body.

S1 (Prodan and Fahringer 2005), spec s1 section 10: the graph planned first is one iteration, without the
declared back edges. Deviations: a file of a previous iteration needs no declared edge, the search finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from weft.errors import InvalidInput, Problem
from weft.workflow.records.loop import Loop
from weft.workflow.records.quantity import value_of
from weft.workflow.unfolding.cycles import back_edges, reachable, reversed_edges
from weft.workflow.unfolding.merging import Merged
from weft.workflow.unfolding.subtasks import Rows

__all__ = ["Body", "bodies_of", "cut_loops"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The rows of one iteration of a loop, and how many iterations are expected."""

    loop: Loop
    rows: frozenset[int]
    expect: int | None


def _rows_named(rows: Rows, name: str) -> range:
    index = next((i for i, task in enumerate(rows.tasks) if task.name == name), None)
    return range(0) if index is None else rows.rows_of(index)


def cut_loops(rows: Rows, merged: Merged, loops: tuple[Loop, ...]) -> None:
    """Remove the edges that carry data from one iteration of a declared loop to the next.

    The declared back edges are no edges of the graph to begin with. A file that a later task of the body
    writes and an earlier one reads comes from the previous iteration: depth-first search from the loop's head
    finds it.
    """
    if not loops or merged.order() is not None:
        return
    successors = merged.successors()
    predecessors = reversed_edges(successors)
    heads = [row for loop in loops for row in _rows_named(rows, loop.first)]
    inside = np.zeros(len(rows.names), dtype=bool)
    for loop in loops:
        forward = reachable(successors, _rows_named(rows, loop.first))
        backward = reachable(predecessors, _rows_named(rows, loop.last))
        inside[sorted(forward & backward)] = True
    removed = set(back_edges(successors, heads))
    pairs = zip(merged.source.tolist(), merged.target.tolist(), strict=True)
    back = np.asarray([pair in removed for pair in pairs], dtype=bool)
    merged.keep(~(back & merged.only_data & inside[merged.source] & inside[merged.target]))


def bodies_of(rows: Rows, merged: Merged, loops: tuple[Loop, ...]) -> tuple[list[Body], list[Problem]]:
    """Collect the tasks on a way from each loop's first to its last task, and what is wrong with loops."""
    if not loops:
        return [], []
    successors = merged.successors()
    predecessors = reversed_edges(successors)
    bodies: list[Body] = []
    problems: list[Problem] = []
    for loop in loops:
        firsts, lasts = _rows_named(rows, loop.first), _rows_named(rows, loop.last)
        found = reachable(successors, firsts) & reachable(predecessors, lasts)
        if firsts and lasts and not found:
            what = f"loop {loop.name}: {loop.last} does not come after {loop.first}"
            advice = "`to` is the first task of the body, `from` the last"
            rule = "the body leads from `to` to `from`"
            problems.append(Problem(what=what, rule=rule, advice=advice, path=("loops", loop.name)))
        expect = _count(rows, loop, "expect", problems)
        _count(rows, loop, "max_iterations", problems)
        bodies.append(Body(loop=loop, rows=frozenset(found), expect=expect))
    problems += _nesting_problems(bodies)
    return bodies, problems


def _count(rows: Rows, loop: Loop, key: str, problems: list[Problem]) -> int | None:
    """Give a number of iterations; None if it is not said or not a number of iterations."""
    quantity = loop.expect if key == "expect" else loop.max_iterations
    if quantity is None:
        return None
    path = ("loops", loop.name, key)
    try:
        number = value_of(quantity, rows.params)
    except InvalidInput as error:
        problems += [replace(problem, path=path, place=None) for problem in error.problems]
        return None
    if not (number >= 1 and number % 1 == 0):
        rule = "must be a whole number, at least 1"
        problems.append(Problem(what=f"{key} {number:g}", rule=rule, path=path))
        return None
    return int(number)


def _nesting_problems(bodies: list[Body]) -> Iterator[Problem]:
    for position, outer in enumerate(bodies):
        for inner in bodies[position + 1 :]:
            shared = outer.rows & inner.rows
            if shared and shared not in (outer.rows, inner.rows):
                what = f"loops {outer.loop.name} and {inner.loop.name} overlap"
                rule = "loops nest only if one contains the other"
                yield Problem(what=what, rule=rule, path=("loops", inner.loop.name))
