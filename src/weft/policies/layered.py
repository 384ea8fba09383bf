"""Layered: decisions in layers that combine freely (unified section 5).

Whose turn it is among workflows (``inter``), who is collected in a round (``rounds``), which task is next
inside a workflow (``intra``), on how many nodes it runs (``sizing``) and where (``placement``). The policies
of S5 in ``sharing.py`` and that of S3 in ``matching.py`` are settings of it.

In rounds by tasks a workflow offers its tasks in its own order, and their upward ranks decide between
workflows; so with ``intra=rank`` the ready task of the highest priority of all is next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.orders import ORDERS, Intra
from weft.policies.placement import ModePlacer, Placement, Sizing, send_transfers
from weft.policies.policy import Place, TaskOrder, View
from weft.policies.rounds import PRIORITIES, ROUNDS, Inter, Rounds

__all__ = ["LayeredPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredPolicy:
    """Every layer as you like it."""

    name: ClassVar[str] = "layered"
    title: ClassVar[str] = "any order of workflows, order of tasks, sizing and placement, combined"
    needs_plan: ClassVar[bool] = False

    inter: Inter = "fcfs"
    """The priority of workflows: that of the policy of this name."""
    rounds: Rounds = "workflows"
    """Who is collected in a round: all ready tasks, or the first of each workflow."""
    intra: Intra = "rank"
    """The order inside a workflow: highest upward rank, task index, or pM-S priority."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest that is free, or the smallest within 5 % of it."""
    placement: Placement = "finish"
    """The machine: where the task ends first, or where its own rank expression is highest."""

    @property
    def order(self) -> TaskOrder:
        """Give the order inside a workflow."""
        return ORDERS[self.intra]

    def decide(self, view: View) -> Iterator[Place]:
        """Go through the rounds while something is free."""
        yield from send_transfers(view)
        if view.any_free:
            placing = ModePlacer(sizing=self.sizing, placement=self.placement)
            yield from ROUNDS[self.rounds](view, PRIORITIES[self.inter], placing)
