"""Which tasks belong to the window: those that move, those that are to run, those that run on.

S1 (Prodan and Fahringer 2005), spec s1 section 10: Nodes_Migr and Nodes_Queued, made disjoint (gaps G5, G6).
Deviations: none. O(v + e).
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.engine.window.reexecution import tied_ancestors
from weft.engine.window.situation import Situation, Standing
from weft.workflow.unfolding.cycles import reachable

__all__ = ["Members", "members_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Members:
    """The tasks of a window by what happens to them, and the edges that may still be followed."""

    present: list[list[int]]
    """Per task: successors, without decided edges and what only they lead to."""
    unreached: frozenset[int]
    """Queued tasks that only decided edges lead to."""
    moved: frozenset[int]
    """Tasks that failed or broke their contract."""
    moving: frozenset[int]
    """These, and what must run again for them [Nodes_Migr]."""
    running: frozenset[int]
    """Properly running tasks: left where they are, out of the window."""
    queued: frozenset[int]
    """Everything else that is to run [Nodes_Queued]."""
    fresh: frozenset[int]
    """Queued ones that are completed in this iteration and re-enter for the next, through a back edge."""
    repeated: frozenset[int]
    """Queued ones that are completed and in no loop: they come after a task that must run again."""


def members_of(situation: Situation) -> Members:
    """Sort the tasks of a situation."""
    unreached = _unreached(situation)
    present = _present(situation, unreached)
    running = _standing(situation, Standing.RUNNING)
    moved = _standing(situation, Standing.FAILED) | (running & situation.violating)
    moving = moved | tied_ancestors(situation, present, moved)
    waiting = _standing(situation, Standing.QUEUED) - unreached
    active = running | waiting | moving
    descendants = reachable(present, {child for task in active for child in present[task]})
    queued = (waiting | descendants) - moving - running
    completed = queued & _standing(situation, Standing.COMPLETED)
    fresh = completed & _next_iteration(situation, present, active | descendants)
    return Members(
        present=present,
        unreached=unreached,
        moved=moved,
        moving=moving,
        running=running - moved,
        queued=queued,
        fresh=fresh,
        repeated=completed - fresh,
    )


def _next_iteration(situation: Situation, present: list[list[int]], leading: frozenset[int]) -> set[int]:
    """Collect what some tasks lead to by way of a back edge."""
    undecided = situation.graph.back - situation.decided
    return reachable(present, {head for tail, head in undecided if tail in leading})


def _standing(situation: Situation, asked: Standing) -> frozenset[int]:
    return frozenset(task for task, standing in enumerate(situation.standing) if standing is asked)


def _unreached(situation: Situation) -> frozenset[int]:
    """Find the queued tasks that nothing leads to but branches not taken.

    The head of a loop that was left does not count: it was reached before the loop came back to it.
    """
    graph = situation.graph
    refused = {head for tail, head in situation.decided if (tail, head) not in graph.back}
    if not refused:
        return frozenset()
    present = _present(situation, frozenset())
    doubtful = reachable(present, refused) & _standing(situation, Standing.QUEUED)
    return frozenset(doubtful - reachable(present, set(range(len(graph))) - doubtful))


def _present(situation: Situation, unreached: frozenset[int]) -> list[list[int]]:
    """Give the successors that may still be followed."""
    decided = situation.decided
    return [
        [child for child in children if child not in unreached and (task, child) not in decided]
        if task not in unreached
        else []
        for task, children in enumerate(situation.graph.successors)
    ]
