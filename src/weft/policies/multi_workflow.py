"""Sharing: many workflows of many users on one platform, online.

The heuristics of R. Bolze, F. Desprez, B. Isnard, Evaluation of Online Multi-Workflow Heuristics based on
List-Scheduling Algorithms (S5 sections 2 and 3): rounds over free machines (``rounds.py``), each with its own
priority between workflows (``inter.py``), the upward rank inside a workflow and the earliest finish for the
machine. ``basic`` is what happens without them: every workflow is handled alone and its tasks wait in the
queues of the machines.

Deviations: said in ``rounds.py`` and ``inter.py``. Moldable tasks are sized as ``sizing`` says; the paper has
none.

What a decision costs is said in ``rounds.py``; ``foft`` adds what ``foresight.py`` costs. ``basic`` asks
machines when they will be free, behind all that waits there; of more than 64 that are alike it asks those 16
that are free first. Of a queue for several nodes 64 are looked at one by one; what waits behind them counts
by its node-seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.orders import ORDERS, Intra
from weft.policies.placement import ModePlacer, Sizing, send_transfers
from weft.policies.policy import Place, TaskOrder, View
from weft.policies.rounds import PRIORITIES, ROUNDS, Inter, Rounds, place_first

__all__ = ["Aging", "AgingE", "Basic", "Fcfs", "Foft", "GHeft", "Srpt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MultiWorkflowPolicy:
    """What the heuristics have in common."""

    needs_plan: ClassVar[bool] = False

    intra: Intra = "rank"
    """The order inside a workflow: highest upward rank (the paper), task index, or pM-S priority."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest that is free, or the smallest within 5 % of it."""

    @property
    def order(self) -> TaskOrder:
        """Give the order inside a workflow."""
        return ORDERS[self.intra]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoundPolicy(_MultiWorkflowPolicy):
    """Hands out free machines in rounds."""

    inter: ClassVar[Inter]
    rounds: ClassVar[Rounds]

    def decide(self, view: View) -> Iterator[Place]:
        """Go through the rounds while something is free."""
        yield from send_transfers(view)
        if view.any_free:
            yield from ROUNDS[self.rounds](view, PRIORITIES[self.inter], ModePlacer(sizing=self.sizing))


class GHeft(_RoundPolicy):
    """The longest way to the end first, whoever's it is; starves the ends while new workflows arrive."""

    name = "g-heft"
    title = "highest rank of all ready tasks first (Bolze et al., G-HEFT)"
    inter = "g-heft"
    rounds = "tasks"


class Aging(_RoundPolicy):
    """G-HEFT in which a workflow's tasks gain weight with its age."""

    name = "aging"
    title = "rank grows with the workflow's age (Bolze et al., AGING G-HEFT)"
    inter = "aging"
    rounds = "tasks"


class AgingE(_RoundPolicy):
    """G-HEFT in which the age counts exponentially."""

    name = "aging-e"
    title = "rank grows exponentially with the workflow's age (Bolze et al., AGING e G-HEFT)"
    inter = "aging-e"
    rounds = "tasks"


class Fcfs(_RoundPolicy):
    """First come, first served."""

    name = "fcfs"
    title = "workflows first come, first served (Bolze et al., FCFS)"
    inter = "fcfs"
    rounds = "workflows"


class Srpt(_RoundPolicy):
    """Shortest remaining processing time first: the best mean slowdown, at the cost of long workflows."""

    name = "srpt"
    title = "the workflow with the least work left first (Bolze et al., SRPT)"
    inter = "srpt"
    rounds = "workflows"


class Foft(_RoundPolicy):
    """Fairness on finish times: the workflow first that is delayed most."""

    name = "foft"
    title = "the most delayed workflow first (Bolze et al., FOFT)"
    inter = "foft"
    rounds = "workflows"


class Basic(_MultiWorkflowPolicy):
    """Every workflow alone: a ready task goes at once where it ends first, and waits there in the queue."""

    name = "basic"
    title = "each workflow alone, tasks wait in the machines' queues (Bolze et al., BASIC)"

    def decide(self, view: View) -> Iterator[Place]:
        """Send every ready task away; one that no machine can take stays."""
        yield from send_transfers(view)
        placing = ModePlacer(sizing=self.sizing, queue=True)
        for run in list(view.runs):
            refused: set[int] = set()
            while (place := place_first(view, run, refused, placing, free=False)) is not None:
                yield place
