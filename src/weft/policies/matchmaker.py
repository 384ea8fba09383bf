"""Matchmaker: each job runs on the free machine with the highest value of its own rank expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.orders import Intra
from weft.policies.policy import Place, View
from weft.policies.rounds import RoundPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Matchmaker(RoundPolicy):
    """Runs each job on the free machine with the highest value of the job's rank expression.

    E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids
    (docs/papers/adaptive-jobs.md, section 3): machines that do not meet the requirements of a job are
    excluded, and the others are ranked. Without a rank expression, machines are ranked by estimated
    turnaround (execution and transfers). Requirements and rank expressions have this effect under all
    policies. This policy adds GridWay's order: jobs are considered by arrival of their workflow, then by
    index; a job without a free machine does not block later jobs.

    Deviations: discovery, authorisation and the two caches of the pipeline are part of the engine, for every
    policy. A decision costs O(active workflows + kinds x machine classes).
    """

    name: ClassVar[str] = "rank"
    title: ClassVar[str] = "each job on the free machine it ranks highest (Huedo et al., GridWay)"

    intra: Intra = "index"
    """The order within a workflow: highest upward rank, task index (GridWay), or pM-S priority."""

    def decide(self, view: View) -> Iterator[Place]:
        """Yield placements of ready jobs while a machine is free."""
        return self.place_in_rounds(view, "fcfs", "tasks")
