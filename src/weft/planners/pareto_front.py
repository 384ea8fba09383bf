"""Fronts: the schedules of which none is better than another both in time and in what it takes for it.

What differs by rounding is equal, and of equals the first is kept. Complexity O(n) per schedule that is
offered to n others.

Trades: what is given for time on a front, and the linear objectives that lead along it.

S2: M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (spec s2 sections 4 and
9) draws makespan against cost and makespan against the share of idle node-time, found under five weights.
Here weights follow from what is known: those under which two neighbours of a front are worth the same lead
to whatever lies below the line between them (Y. P. Aneja, K. P. K. Nair, Management Science 25, 1979).

Cost is the price of all node-seconds taken; where no machine has a price, node-seconds themselves. The idle
share ``1 - c / (P * makespan)`` is no sum, but it is smallest where ``makespan - s * c / P`` is, with ``s``
one over the largest used share (W. Dinkelbach, Management Science 13, 1967); this is ``static-literal`` with
``s = (1 - alpha) / alpha``. Idle nodes count alike, whatever their price.

Mixing: plans between two others, which take some choices from the one and the rest from the other.

Whoever goes from one plan to the other choice by choice passes what lies between them (path relinking, F.
Glover, M. Laguna, R. Marti, Control and Cybernetics 29, 2000). Here the choices of the first tasks, or of the
last, in the order of one of the plans are taken from the other: where levels wait for each other, each is
then done in the one way or the other.

Complexity O(v + e) for every mixture of v tasks with e edges, and as decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from weft.instance.instance import Instance
from weft.planners.decoding import DecodedPopulation, Genome, decode, encode_schedule
from weft.planners.evaluation import linearise_objective
from weft.planners.queue_decoding import run_queue
from weft.schedule.costs import schedule_cost
from weft.schedule.objective import Objective, make_objective
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats, Indices

__all__ = [
    "TOLERANCE",
    "Against",
    "CostTradeoff",
    "FrontDecoder",
    "FrontEntry",
    "IdleTradeoff",
    "ParetoArchive",
    "Tradeoff",
    "Unit",
    "covers",
    "decode_genome",
    "hypervolume_share",
    "make_entry",
    "make_tradeoff",
    "mix_genomes",
    "thin_front",
]


TOLERANCE = 1e-9
"""Share by which equal sums may differ."""
_TINY = 1e-12
"""And so much where sums are 0."""

FrontDecoder = Literal["append", "queue"]
"""What makes the schedule of a genome: tasks in its order, or the queue of the only machine."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrontEntry:
    """A schedule, and what stands for it on a front."""

    makespan_s: float
    amount: float
    """What is to be small beside the makespan."""
    schedule: Schedule
    genome: Genome
    decoder: FrontDecoder
    alpha: float | None
    """Weight of time under which it was found; None: nobody weighed."""
    by: str
    """Who found it."""


def make_entry(
    instance: Instance,
    schedule: Schedule,
    amount_of: Callable[[Schedule], float],
    *,
    alpha: float | None,
    by: str,
    decoder: FrontDecoder = "append",
) -> FrontEntry:
    """Make an entry whose genome gives exactly its schedule.

    Appending never makes a schedule longer (``encode_schedule``), and what it takes stays the same.
    """
    genome = encode_schedule(instance, schedule)
    kept = decode_genome(instance, genome, decoder)
    return FrontEntry(
        makespan_s=kept.makespan_s,
        amount=amount_of(kept),
        schedule=kept,
        genome=genome,
        decoder=decoder,
        alpha=alpha,
        by=by,
    )


def decode_genome(instance: Instance, genome: Genome, decoder: FrontDecoder) -> Schedule:
    """Give the schedule of a genome."""
    if decoder == "append":
        return decode(instance, *genome)
    counts = [
        int(instance.groups[group].count[mode]) if group >= 0 else 1
        for group, mode in zip(instance.group.tolist(), genome.modes.tolist(), strict=True)
    ]
    return run_queue(instance, counts)


def covers(first: FrontEntry, second: FrontEntry) -> bool:
    """Say whether nothing speaks for the second: the first is as good in both, within rounding."""
    return _at_most(first.makespan_s, second.makespan_s) and _at_most(first.amount, second.amount)


def _at_most(number: float, other: float) -> bool:
    return number <= other + TOLERANCE * abs(other) + _TINY


class ParetoArchive:
    """The best entries so far: none of them covers another."""

    def __init__(self) -> None:
        self._entries: list[FrontEntry] = []

    @property
    def entries(self) -> tuple[FrontEntry, ...]:
        """Give the entries, the fastest first; what they take falls from one to the next."""
        return tuple(self._entries)

    def offer(self, entry: FrontEntry) -> bool:
        """Take an entry if no other covers it, and let go of those that it covers."""
        if any(covers(known, entry) for known in self._entries):
            return False
        kept = [known for known in self._entries if not covers(entry, known)]
        self._entries = sorted([*kept, entry], key=lambda known: known.makespan_s)
        return True


def hypervolume_share(entries: Sequence[FrontEntry]) -> float:
    """Say which share of the rectangle between the ends of a front is worse than some entry (hypervolume)."""
    if len(entries) < 2:
        return 0.0
    first, last = entries[0], entries[-1]
    whole = (last.makespan_s - first.makespan_s) * (first.amount - last.amount)
    area = sum(
        (right.makespan_s - left.makespan_s) * (first.amount - left.amount)
        for left, right in pairwise(entries)
    )
    return area / whole


def thin_front(entries: Iterable[FrontEntry], most: int) -> tuple[FrontEntry, ...]:
    """Leave out those between the ends that add least to the hypervolume, until there are few enough."""
    kept = list(entries)
    while len(kept) > max(2, most):
        added = [
            (after.makespan_s - own.makespan_s) * (before.amount - own.amount)
            for before, own, after in zip(kept, kept[1:], kept[2:], strict=False)
        ]
        del kept[1 + added.index(min(added))]
    return tuple(kept[: max(1, most)])


Against = Literal["cost", "idle"]
Unit = Literal["price", "node-seconds", "share"]
"""What amounts are counted in."""

_LEAST_ALPHA = 1e-4
"""Weight of time where cost comes first, so that of equally cheap plans the shorter one wins."""


class Tradeoff(Protocol):
    """Something that is to be small beside the makespan."""

    against: Against
    unit: Unit
    searched: Instance
    """The instance in which searches look for it."""

    def amount(self, schedule: Schedule) -> float:
        """Give how much of it a schedule takes."""
        ...

    def amounts(self, decoded: DecodedPopulation) -> Floats:
        """Give how much of it each of a decoded population takes."""
        ...

    def between(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Give the objective under which two entries are worth the same."""
        ...

    def least(self, amount: float) -> Objective:
        """Give the objective under which schedules that take less than an amount are better."""
        ...


def make_tradeoff(against: Against, instance: Instance, *, max_cost: float | None) -> Tradeoff:
    """Make a trade by its name."""
    return CostTradeoff(instance) if against == "cost" else IdleTradeoff(instance, max_cost=max_cost)


class CostTradeoff:
    """Time against the price of all node-seconds, or against node-seconds where nothing has a price."""

    against: Against = "cost"

    def __init__(self, instance: Instance) -> None:
        price = instance.price_per_node_s
        priced = bool(price.any())
        self.unit: Unit = "price" if priced else "node-seconds"
        # At a price of 1 node-seconds are the cost, also for planners that look for cheap plans.
        self.searched = instance if priced else replace(instance, price_per_node_s=np.ones(len(price)))
        time, cost = (
            linearise_objective(self.searched, make_objective("on-demand", alpha)) for alpha in (1.0, 0.0)
        )
        assert time is not None
        assert cost is not None
        self._per_second, self._per_amount = time.per_second, cost.per_price

    def amount(self, schedule: Schedule) -> float:
        """Give price or node-seconds."""
        return schedule_cost(schedule, self.searched)

    def amounts(self, decoded: DecodedPopulation) -> Floats:
        """Give prices or node-seconds."""
        return decoded.cost

    def between(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Weigh by the line through both."""
        time = self._per_second * (slow.makespan_s - fast.makespan_s)
        cost = self._per_amount * (fast.amount - slow.amount)
        return make_objective("on-demand", cost / (time + cost))

    def least(self, amount: float) -> Objective:  # noqa: ARG002
        """Let cost come first."""
        return make_objective("on-demand", _LEAST_ALPHA)


class IdleTradeoff:
    """Time against the share of node-time in which nodes are idle."""

    against: Against = "idle"
    unit: Unit = "share"

    def __init__(self, instance: Instance, *, max_cost: float | None) -> None:
        price = instance.price_per_node_s
        unlike = bool((price != price[:1]).any())
        # Objectives weigh node-seconds by their price, where there are prices; here they weigh the same.
        free = unlike and max_cost is None
        self.searched = replace(instance, price_per_node_s=np.zeros(len(price))) if free else instance
        self._nodes = float(instance.capacity.sum())

    def amount(self, schedule: Schedule) -> float:
        """Give the idle share."""
        available = self._nodes * schedule.makespan_s
        return 1.0 - _node_s(schedule) / available if available > 0 else 0.0

    def amounts(self, decoded: DecodedPopulation) -> Floats:
        """Give the idle shares."""
        available = self._nodes * decoded.makespan_s
        used = np.divide(decoded.node_seconds, available, out=np.ones_like(available), where=available > 0)
        shares: Floats = 1.0 - used
        return shares

    def between(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Weigh by the line through both, in makespan and node-seconds."""
        used = slow.makespan_s * (1.0 - slow.amount) - fast.makespan_s * (1.0 - fast.amount)
        return _literal((slow.makespan_s - fast.makespan_s) / used)

    def least(self, amount: float) -> Objective:
        """Let every schedule with a larger used share be worth more."""
        return _literal(1.0 / (1.0 - amount) if amount < 1.0 else 1.0)


def _literal(slope: float) -> Objective:
    return make_objective("static-literal", 1.0 / (1.0 + slope))


def _node_s(schedule: Schedule) -> float:
    return float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())


_MOST = 32
"""Mixtures of two plans."""
_TASK_S, _BATCH_S = 5e-6, 0.1
"""What decoding a task takes in plain Python, about, and how long all mixtures of two plans may take."""


def mix_genomes(instance: Instance, first: Genome, second: Genome) -> tuple[Indices, Indices, Indices]:
    """Give genomes between two (rows of orders, bindings and modes): even shares of each, from either end."""
    number = max(2, min(_MOST, int(_BATCH_S / (_TASK_S * max(1, len(instance))))))
    rows = [
        _mix_pair(instance, own, other, share)
        for own, other in ((first, second), (second, first))
        for share in np.arange(1, number // 2 + 1) / (number // 2 + 1)
    ]
    orders, bound, modes = (np.stack(columns) for columns in zip(*rows, strict=True))
    return orders, bound, modes


def _mix_pair(instance: Instance, own: Genome, other: Genome, share: float) -> Genome:
    """Take what the other chooses for the first share of tasks; tasks that share a machine go together."""
    variable = instance.graph.variable
    place = np.empty(len(instance), dtype=np.int64)
    place[own.order] = np.arange(len(instance))
    soonest = np.full(len(own.bound), len(instance), dtype=np.int64)
    np.minimum.at(soonest, variable, place)
    taken = soonest < share * len(instance)
    return Genome(
        order=own.order,
        bound=np.where(taken, other.bound, own.bound),
        modes=np.where(taken[variable], other.modes, own.modes),
    )
