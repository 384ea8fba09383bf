"""Layered: a policy composed of four independent choices (docs/papers/unified.md, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from weft.policies.policy import Place, View
from weft.policies.rounds import Inter, RoundPolicy, Rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredPolicy(RoundPolicy):
    """A policy composed of four choices that can be combined freely.

    They are the priority between workflows (``inter``), the tasks considered in a round (``rounds``), the
    order within a workflow (``intra``) and the number of nodes (``sizing``). The policies in
    ``multi_workflow.py`` and ``matchmaker.py`` are special cases.

    In rounds by tasks, each workflow offers its tasks in its own order, and the priorities (``inter``) of the
    offered tasks decide between workflows. With ``intra=rank`` the ready task with the highest priority of
    all is therefore next.
    """

    name: ClassVar[str] = "layered"
    title: ClassVar[str] = "any order of workflows, order of tasks and sizing, combined"

    inter: Inter = "fcfs"
    """The priority between workflows, named after the policy that uses it (``PRIORITIES``)."""
    rounds: Rounds = "workflows"
    """The tasks considered in a round: all ready tasks, or the first ready task of each workflow."""
    placement: Literal["finish", "rank"] = "finish"
    """Without effect, accepted for compatibility: the rank of a task always decides.

    Tasks without a rank run where they finish first.
    """

    def decide(self, view: View) -> Iterator[Place]:
        """Yield placements in rounds while a machine is free."""
        return self.place_in_rounds(view, self.inter, self.rounds)
