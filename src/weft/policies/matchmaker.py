"""Matching: each job on the free machine that its own ranking expression puts highest.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (S3
section 3): machines that fail a job's requirements are dropped, the others ranked; a job without an
expression is ranked by its estimated turnaround, execution and transfers together. Jobs go by arrival of
their workflow, then by index; a job that finds no machine does not hold up those behind it.

Deviations: discovery, authorisation and the two caches of the pipeline are the engine's, so that every policy
has them. A decision costs O(active workflows + kinds x classes of machines).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.orders import ORDERS, Intra
from weft.policies.placement import ModePlacer, Sizing, send_transfers
from weft.policies.policy import Place, TaskOrder, View
from weft.policies.rounds import PRIORITIES, ROUNDS

__all__ = ["Matchmaker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matchmaker:
    """Matches jobs and machines by what each job says it prefers."""

    name: ClassVar[str] = "rank"
    title: ClassVar[str] = "each job on the free machine it ranks highest (Huedo et al., GridWay)"
    needs_plan: ClassVar[bool] = False

    intra: Intra = "index"
    """The order inside a workflow: highest upward rank, task index (GridWay), or pM-S priority."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest that is free, or the smallest within 5 % of it."""

    @property
    def order(self) -> TaskOrder:
        """Give the order inside a workflow."""
        return ORDERS[self.intra]

    def decide(self, view: View) -> Iterator[Place]:
        """Go through all jobs while something is free."""
        yield from send_transfers(view)
        if view.any_free:
            placing = ModePlacer(sizing=self.sizing, placement="rank")
            yield from ROUNDS["tasks"](view, PRIORITIES["fcfs"], placing)
