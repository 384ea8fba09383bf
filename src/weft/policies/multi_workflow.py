"""Heuristics for many workflows of many users on one platform.

R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on List-Scheduling
Algorithms (docs/papers/many-workflows.md, sections 2 and 3). The policies place tasks in rounds over free
machines. A priority decides between workflows (``rounds.py``), the upward rank within a workflow; a task runs
on the machine where it finishes first. ``basic`` is the reference without coordination: every workflow is
handled alone, and its tasks wait in the queues of machines.

Deviations: see ``rounds.py``. The node count of moldable tasks follows from ``sizing``; the paper has no
moldable tasks. Costs: see ``rounds.py``, and for ``foft`` ``forecast.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.placement import ModePlacer, send_transfers
from weft.policies.policy import Place, View
from weft.policies.rounds import Inter, RoundPolicy, Rounds, place_first


@dataclass(frozen=True, slots=True, kw_only=True)
class _PriorityPolicy(RoundPolicy):
    """Base of policies that place tasks in rounds with a fixed priority between workflows."""

    inter: ClassVar[Inter]
    rounds: ClassVar[Rounds]

    def decide(self, view: View) -> Iterator[Place]:
        """Yield placements in rounds while a machine is free."""
        return self.place_in_rounds(view, self.inter, self.rounds)


class GHeft(_PriorityPolicy):
    """The ready task with the highest upward rank comes first; the last tasks of workflows may starve."""

    name = "g-heft"
    title = "highest rank of all ready tasks first (Bolze et al., G-HEFT)"
    inter = "g-heft"
    rounds = "tasks"


class Aging(_PriorityPolicy):
    """G-HEFT with ranks that grow with the age of the workflow."""

    name = "aging"
    title = "rank grows with the workflow's age (Bolze et al., AGING G-HEFT)"
    inter = "aging"
    rounds = "tasks"


class AgingE(_PriorityPolicy):
    """G-HEFT with ranks that grow exponentially with the age of the workflow."""

    name = "aging-e"
    title = "rank grows exponentially with the workflow's age (Bolze et al., AGING e G-HEFT)"
    inter = "aging-e"
    rounds = "tasks"


class Fcfs(_PriorityPolicy):
    """First come, first served: the workflow that arrived first comes first."""

    name = "fcfs"
    title = "workflows first come, first served (Bolze et al., FCFS)"
    inter = "fcfs"
    rounds = "workflows"


class Srpt(_PriorityPolicy):
    """Shortest remaining processing time first: best mean slowdown, but long workflows are delayed."""

    name = "srpt"
    title = "the workflow with the least work left first (Bolze et al., SRPT)"
    inter = "srpt"
    rounds = "workflows"


class Foft(_PriorityPolicy):
    """Fairness on finish times: the workflow with the largest expected slowdown comes first."""

    name = "foft"
    title = "the most delayed workflow first (Bolze et al., FOFT)"
    inter = "foft"
    rounds = "workflows"


class Basic(RoundPolicy):
    """No coordination: every ready task is queued at once on the machine where it finishes first.

    The estimate of when a machine becomes free includes all queued tasks. Of more than 64 equal machines only
    the 16 that become free first are considered. In the queue of a multi-node machine, the first 64 tasks are
    simulated one by one; the others count with their node-seconds.
    """

    name = "basic"
    title = "each workflow alone, tasks wait in the machines' queues (Bolze et al., BASIC)"

    def decide(self, view: View) -> Iterator[Place]:
        """Yield a placement for every ready task that some machine can run.

        If the machine is busy, the task waits in the queue of the machine.
        """
        yield from send_transfers(view)
        placing = ModePlacer(sizing=self.sizing, queue=True)
        for run in list(view.runs):
            refused: set[int] = set()
            while (place := place_first(view, run, refused, placing, free=False)) is not None:
                yield place
