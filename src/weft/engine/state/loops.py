"""The loops of a run: which tasks repeat together, and which edges wait until a loop is left.

A loop whose first and last task have the same sweep runs per point: each point has a body of its own. Bodies
that share a task are one. Since every task of a body comes before its last task, an iteration is over when
the last task has ended: two iterations of one loop are never under way at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.engine.state.known import Known
from weft.errors import InvalidInput
from weft.workflow.records.loop import Loop
from weft.workflow.records.quantity import value_of
from weft.workflow.unfolding.task_graph import LoopBody

__all__ = ["Body", "Loops", "loops_of"]


@dataclass(slots=True)
class Body:
    """One body of a loop."""

    index: int
    loop: Loop
    tasks: tuple[int, ...]
    """Ascending, so in topological order."""
    lasts: tuple[int, ...]
    """The tasks at whose end the condition is judged."""
    most: int | None
    """The largest number of iterations; None: no limit."""
    leaving: tuple[tuple[int, int], ...] = ()
    """Edges (task, successor) that are released when this loop is left."""
    inner: tuple[int, ...] = ()
    """Bodies inside this one: they begin anew with each iteration."""
    iteration: int = 1
    left: bool = False


class Loops:
    """The bodies of one run."""

    def __init__(self, bodies: list[Body]) -> None:
        self.bodies = bodies
        self.around: dict[int, tuple[int, ...]] = {}
        """Per task in a body: the bodies it is in, innermost first."""
        by_size = sorted(bodies, key=lambda body: (len(body.tasks), body.index))
        for body in by_size:
            for task in body.tasks:
                self.around[task] = (*self.around.get(task, ()), body.index)
        self.ended_by = {task: body.index for body in reversed(by_size) for task in body.lasts}
        """Per last task: the innermost body it ends."""

    def iteration(self, task: int) -> int:
        """Give the current iteration of a task's innermost loop; 1 outside of loops."""
        around = self.around.get(task)
        return self.bodies[around[0]].iteration if around else 1

    def held_back_by(self, task: int, successor: int) -> int | None:
        """Give the outermost body that holds a task but not its successor; None: the edge leaves no loop."""
        beyond = self.around.get(successor, ())
        outside = [index for index in self.around.get(task, ()) if index not in beyond]
        return outside[-1] if outside else None

    def waits_for_end(self, task: int, successor: int) -> bool:
        """Say whether an edge is released only later, when a loop that is still under way is left."""
        held = self.held_back_by(task, successor)
        return held is not None and not self.bodies[held].left


def loops_of(known: Known) -> Loops:
    """Find the bodies of a workflow's loops."""
    bodies: list[Body] = []
    for declared in known.graph.loops:
        for tasks, lasts in _parts(known, declared):
            most = _most(known, declared.loop)
            bodies.append(Body(index=len(bodies), loop=declared.loop, tasks=tasks, lasts=lasts, most=most))
    loops = Loops(bodies)
    if bodies:
        _find_leaving(known, loops)
    return loops


def _most(known: Known, loop: Loop) -> int | None:
    if loop.max_iterations is None:
        return None
    try:
        return int(value_of(loop.max_iterations, known.graph.params))
    except InvalidInput:  # told when the workflow was checked
        return None


def _parts(known: Known, declared: LoopBody) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Split a declared body into parts that share no task and no edge: one per point of a common sweep."""
    tasks = [int(task) for task in declared.tasks]
    inside = set(tasks)
    parent = {task: task for task in tasks}

    def root(task: int) -> int:
        while parent[task] != task:
            parent[task] = parent[parent[task]]
            task = parent[task]
        return task

    for task in tasks:
        for successor in known.after(task):
            if successor in inside:
                one, other = sorted((root(task), root(successor)))
                parent[other] = one
    parts: dict[int, list[int]] = {}
    for task in tasks:
        parts.setdefault(root(task), []).append(task)
    template = known.graph.template
    names = [description.name for description in known.graph.workflow.tasks]
    last = names.index(declared.loop.last)
    ends = np.asarray(template)
    return [
        (tuple(part), tuple(task for task in part if int(ends[task]) == last))
        for _, part in sorted(parts.items())
    ]


def _find_leaving(known: Known, loops: Loops) -> None:
    leaving: dict[int, list[tuple[int, int]]] = {}
    for task in sorted(loops.around):
        for successor in known.after(task):
            held = loops.held_back_by(task, successor)
            if held is not None:
                leaving.setdefault(held, []).append((task, successor))
    for body in loops.bodies:
        body.leaving = tuple(leaving.get(body.index, ()))
        members = set(body.tasks)
        body.inner = tuple(
            other.index
            for other in loops.bodies
            if other.index != body.index
            and len(other.tasks) < len(body.tasks)
            and members.issuperset(other.tasks)
        )
