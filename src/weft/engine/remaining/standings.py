"""How a run stands, in S1's words: queued, running, completed or failed (spec s1 section 2).

What has not started is queued, whether it already waits at a machine or not. A task that is being migrated
has its new machine and counts as running. A task that failed and is to be tried again is queued; one that
failed for good, or was given up or left out, will not run again in this iteration and counts as completed.
"""

from __future__ import annotations

import numpy as np

from weft.engine.state.loops import Body
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.engine.state.states import FINAL, TaskState
from weft.engine.window.graph import Edge, Graph, graph_of
from weft.engine.window.situation import Situation, Standing
from weft.workflow.unfolding.task_graph import TRANSFER

__all__ = ["situation_of", "violators"]

_RUNNING = frozenset(
    {
        TaskState.SUBMITTED,
        TaskState.RUNNING,
        TaskState.EPILOG,
        TaskState.MIGRATING,
        TaskState.SUSPENDED,
    }
)


def situation_of(state: State, run: Run, *, migrating: bool = True) -> Situation:
    """Say how a run stands; ``migrating``: whether tasks that break their contracts may move."""
    return Situation(
        graph=_graph(run),
        standing=tuple(_standing(run, task) for task in range(len(run))),
        iteration=tuple(run.loops.iteration(task) for task in range(len(run))),
        violating=frozenset(violators(state, run)) if migrating else frozenset(),
        decided=frozenset(
            edge for body in run.loops.bodies if _over(body) for edge in _back_edges(run, body)
        ),
    )


def violators(state: State, run: Run) -> list[int]:
    """List the running tasks that break their contracts and are not on the move yet, ascending."""
    found = []
    for task, number in run.attempt_of.items():
        attempt = state.attempts[number]
        leaving = attempt.cancelled or attempt.replaced_by is not None
        if attempt.violating and not leaving and run.state[task] == TaskState.RUNNING:
            found.append(task)
    return sorted(found)


def _standing(run: Run, task: int) -> Standing:
    state = run.state[task]
    if state in FINAL:
        return Standing.COMPLETED
    return Standing.RUNNING if state in _RUNNING else Standing.QUEUED


def _graph(run: Run) -> Graph:
    graph = run.known.graph
    heads = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer)).tolist()
    sources = (
        int(source) if kind == TRANSFER else None
        for source, kind in zip(graph.source_variable.tolist(), graph.kind.tolist(), strict=True)
    )
    return graph_of(
        machine=graph.variable.tolist(),
        source=tuple(sources),
        edges=zip(graph.predecessor.tolist(), heads, strict=True),
        declared=[edge for body in run.loops.bodies for edge in _back_edges(run, body)],
    )


def _back_edges(run: Run, body: Body) -> list[Edge]:
    """Give the edges from the end of a loop's body to its begin."""
    firsts = [task for task in body.tasks if run.known.graph.description(task).name == body.loop.first]
    return [(last, first) for last in body.lasts for first in firsts]


def _over(body: Body) -> bool:
    """Say whether a loop will not begin another iteration."""
    return body.left or (body.most is not None and body.iteration >= body.most)
