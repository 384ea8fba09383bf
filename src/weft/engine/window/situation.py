"""How a run stands at one moment, in S1's words: what the window is made from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from weft.engine.window.graph import Edge, Graph

__all__ = ["Situation", "Standing"]


class Standing(Enum):
    """Where a task stands (spec s1 section 2; spec unified section 2 maps the engine's states to it)."""

    QUEUED = "queued"
    """Not started in its iteration."""
    RUNNING = "running"
    COMPLETED = "completed"
    """Ended well in its iteration; a loop may ask for it again."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Situation:
    """A graph and where its tasks stand."""

    graph: Graph
    standing: tuple[Standing, ...]
    iteration: tuple[int, ...]
    """Per task: the iteration in which it stands so."""
    violating: frozenset[int] = frozenset()
    """Running tasks that broke their contract."""
    decided: frozenset[Edge] = frozenset()
    """Edges that will not be followed: loops that were left or are exhausted, branches not taken."""
