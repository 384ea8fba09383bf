"""Static DAG generation at run time: what is left of this iteration and one more, without cycles.

R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid: A Case Study, SAC
2005; the sets as corrected in spec s1 section 10.

Deviations: of the edges on cycles, those whose first task has completed in the iteration in which the second
is to run are cut before the depth-first search: they are served, what re-enters is the iteration after. The
search alone may enter a waiting task through such an edge and then cut what the rest of this iteration waits
for (in WIEN2k: SUMPARA would no longer wait for LAPW2 of a k-point whose LAPW1 is done).

O(v + e), iterative; see ``reexecution`` for many re-bound machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.engine.window.bindings import Bindings, bind
from weft.engine.window.components import components
from weft.engine.window.graph import Edge, initial_dag
from weft.engine.window.members import Members, members_of
from weft.engine.window.situation import Situation, Standing
from weft.workflow.unfolding.cycles import back_edges

__all__ = ["Window", "initial_dag", "static_dag"]

_Adjacency = list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """An acyclic graph of what remains. Tasks and edges ascend; in brackets the paper's names."""

    moving: tuple[int, ...]
    """Tasks that failed or broke their contract, and those that must run again for them [Nodes_Migr]."""
    queued: tuple[int, ...]
    """Everything else that is to run; properly running tasks are left out [Nodes_Queued]."""
    inner: tuple[Edge, ...]
    """Edges between tasks of the window [Edges_DAG]."""
    cut_moving: tuple[Edge, ...]
    """Edges on cycles from the next iteration to moving tasks [Edges_Migr]."""
    cut_queued: tuple[Edge, ...]
    """Back edges of the rest [Edges_Queued]."""
    edges: tuple[Edge, ...]
    """What is left: acyclic [Edges_t]."""
    unreached: tuple[int, ...]
    """Queued tasks that only decided edges lead to: they will not run."""
    fresh: tuple[int, ...]
    """Completed tasks that re-enter for the next iteration, with a binding variable of their own for it."""
    repeated: tuple[int, ...]
    """Completed tasks outside of loops that come after one that runs again: the paper's rule repeats them."""
    bindings: Bindings

    @property
    def tasks(self) -> tuple[int, ...]:
        """All tasks of the window [Nodes_t]."""
        return tuple(sorted(self.moving + self.queued))


def static_dag(situation: Situation) -> Window:
    """Make the window of a situation."""
    members = members_of(situation)
    moving, queued, fresh = members.moving, members.queued, members.fresh
    iteration = situation.iteration
    inside = moving | queued

    inner = [
        [child for child in children if child in inside] if task in inside else []
        for task, children in enumerate(members.present)
    ]
    cut_moving = {(tail, head) for tail, head in _on_cycles(inner) if tail in fresh and head in moving}
    left = _minus(inner, cut_moving)
    served = {
        (tail, head)
        for tail, head in _on_cycles(left)
        if tail in fresh and iteration[tail] == iteration[head] + (head in fresh)
    }
    left = _minus(left, served)
    searched = set(back_edges(left, _frontier(situation, members)))
    left = _minus(left, searched)

    edges = _listed(left)
    return Window(
        moving=tuple(sorted(moving)),
        queued=tuple(sorted(queued)),
        inner=_listed(inner),
        cut_moving=tuple(sorted(cut_moving)),
        cut_queued=tuple(sorted(served | searched)),
        edges=edges,
        unreached=tuple(sorted(members.unreached)),
        fresh=tuple(sorted(fresh)),
        repeated=tuple(sorted(members.repeated)),
        bindings=bind(situation, members, frozenset(edges)),
    )


def _frontier(situation: Situation, members: Members) -> list[int]:
    """List where the search starts: moving tasks, then those that can run next, each in program order."""
    blocked: set[int] = set()
    following: set[int] = set()
    for task, children in enumerate(members.present):
        if task in members.running:
            following.update(children)
        if situation.standing[task] is not Standing.COMPLETED:
            blocked.update(child for child in children if (task, child) not in situation.graph.back)
    ready = {
        task for task in members.queued if situation.standing[task] is Standing.QUEUED and task not in blocked
    }
    return sorted(members.moving) + sorted(ready | (following & members.queued))


def _on_cycles(successors: _Adjacency) -> Iterator[Edge]:
    """Go through the edges that lie on a cycle."""
    component = components(successors)
    for tail, heads in enumerate(successors):
        for head in heads:
            if component[tail] == component[head]:
                yield tail, head


def _minus(successors: _Adjacency, removed: set[Edge]) -> _Adjacency:
    if not removed:
        return successors
    return [[head for head in heads if (tail, head) not in removed] for tail, heads in enumerate(successors)]


def _listed(successors: _Adjacency) -> tuple[Edge, ...]:
    return tuple((tail, head) for tail, heads in enumerate(successors) for head in heads)
