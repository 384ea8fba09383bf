"""Pareto fronts of time against another amount: entries, archive, tradeoffs, and mixtures of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, suggest
from weft.instance.instance import Instance, find_exceeded
from weft.planners.decoding import DecodedPopulation, Genome, decode, encode_schedule
from weft.planners.evaluation import evaluate_formula, linearise_objective, needs_no_schedule
from weft.planners.queue_decoding import run_queue
from weft.planners.rank_binding import bind_by_rank
from weft.schedule.costs import schedule_cost, sequential_execution
from weft.schedule.objective import OBJECTIVES, QUANTITIES, Objective, make_objective
from weft.schedule.schedule import Schedule
from weft.workflow.task_graph import Floats, Indices

FrontDecoder = Literal["append", "queue"]
"""How a genome becomes a schedule.

``append`` places the tasks in the order of the genome. ``queue`` simulates the queue of the only machine.
"""
Against = str
"""What is traded against time: ``cost``, ``idle``, or a formula over the quantities of a schedule."""
MEASURES = ("cost", "idle")
Unit = Literal["price", "node-seconds", "share", "formula"]
"""The unit of the amount that is traded against time; with ``formula`` the unit is that of the formula."""

_TOLERANCE = 1e-9
"""Relative difference up to which two numbers count as equal."""
_TINY = 1e-12
"""Absolute difference up to which two numbers count as equal."""
_LEAST_ALPHA = 1e-4
"""Weight of time in the objective of least cost; it makes the shorter of two equally cheap plans better."""
_MAX_MIXTURES = 32
"""Largest number of mixtures of two plans."""
_TASK_S, _BATCH_S = 5e-6, 0.1
"""Approximate seconds to decode a task in plain Python; seconds allowed for all mixtures of two plans."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrontEntry:
    """A schedule on a Pareto front, with its makespan and the amount that is traded against time."""

    makespan_s: float
    amount: float
    """Cost, idle share or value of the formula, in the unit of the tradeoff."""
    schedule: Schedule
    genome: Genome
    decoder: FrontDecoder
    alpha: float | None
    """Weight of time in the objective of the search that found the schedule; None if there was no weight."""
    by: str
    """Name of the planner that found the schedule, "a list planner", or "mixing" for mixtures of plans."""


def make_entry(
    instance: Instance,
    schedule: Schedule,
    amount_of: Callable[[Schedule], float],
    *,
    alpha: float | None,
    by: str,
    decoder: FrontDecoder = "append",
) -> FrontEntry:
    """Return the entry of a schedule.

    The schedule is encoded and decoded again, so that genome and schedule of the entry agree. Decoding with
    ``append`` never makes the schedule longer (``encode_schedule``).
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
    """Return the schedule of a genome, built by the named decoder."""
    if decoder == "append":
        return decode(instance, *genome)
    counts = [
        int(instance.groups[group].count[mode]) if group >= 0 else 1
        for group, mode in zip(instance.group.tolist(), genome.modes.tolist(), strict=True)
    ]
    return run_queue(instance, counts)


def covers(first: FrontEntry, second: FrontEntry) -> bool:
    """Return whether the first entry is at least as good as the second in makespan and in amount.

    Differences within rounding errors are ignored, so that two equal entries cover each other.
    """
    return _at_most(first.makespan_s, second.makespan_s) and _at_most(first.amount, second.amount)


def _at_most(number: float, other: float) -> bool:
    return number <= other + _TOLERANCE * abs(other) + _TINY


class ParetoArchive:
    """The entries found so far that no other entry covers (see ``covers``).

    Offering an entry to an archive of n entries takes O(n).
    """

    def __init__(self) -> None:
        self._entries: list[FrontEntry] = []

    @property
    def entries(self) -> tuple[FrontEntry, ...]:
        """Return the entries by ascending makespan and descending amount."""
        return tuple(self._entries)

    def offer(self, entry: FrontEntry) -> bool:
        """Add an entry unless a known entry covers it; return whether it was added.

        Known entries that the new entry covers are removed.
        """
        if any(covers(known, entry) for known in self._entries):
            return False
        kept = [known for known in self._entries if not covers(entry, known)]
        self._entries = sorted([*kept, entry], key=lambda known: known.makespan_s)
        return True


def follow_ranks(
    instance: Instance, tradeoff: Tradeoff, entries: Sequence[FrontEntry]
) -> tuple[FrontEntry, ...]:
    """Return a front whose schedules bind every task with a rank expression to its preferred machine.

    During a run the rank expression of a task decides where the task runs (see ``bind_by_rank``).
    """
    bound = [bind_by_rank(instance, entry.schedule) for entry in entries]
    if not any(choices for _, choices in bound):
        return tuple(entries)
    archive = ParetoArchive()
    for entry, (schedule, _) in zip(entries, bound, strict=True):
        archive.offer(make_entry(instance, schedule, tradeoff.amount, alpha=entry.alpha, by=entry.by))
    return archive.entries


def hypervolume_share(entries: Sequence[FrontEntry]) -> float:
    """Return the share of the rectangle between both ends of a front that its entries dominate."""
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
    """Return at most ``most`` entries: both ends of the front and those that add most to the hypervolume."""
    kept = list(entries)
    while len(kept) > max(2, most):
        added = [
            (after.makespan_s - own.makespan_s) * (before.amount - own.amount)
            for before, own, after in zip(kept, kept[1:], kept[2:], strict=False)
        ]
        del kept[1 + added.index(min(added))]
    return tuple(kept[: max(1, most)])


class Tradeoff(Protocol):
    """An amount that is minimised together with the makespan.

    M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows
    (docs/papers/moldable.md, sections 4 and 9) plot makespan against cost and against the share of idle
    node-time, for five weights. Here each weight is computed from two neighbouring points of the front, such
    that both have the same weighted sum. Minimising this sum finds points below the line between the two (Y.
    P. Aneja, K. P. K. Nair, Management Science 25, 1979). Cost is the price of all node-seconds, or the
    node-seconds if no machine has a price. The idle share is ``1 - c / (P * makespan)`` for c used
    node-seconds on P nodes; it is not linear. To minimise it, ``makespan - s * c / P`` is minimised, where
    ``1 / s`` is the largest share of used node-time (W. Dinkelbach, Management Science 13, 1967); this is the
    objective ``static-literal`` with ``s = (1 - alpha) / alpha``. All idle nodes count equally, whatever
    their price.
    """

    against: Against
    unit: Unit
    searched: Instance
    """The instance to search; its prices may be replaced so that objectives on cost minimise the amount."""

    def amount(self, schedule: Schedule) -> float:
        """Return the amount of a schedule in ``unit``."""
        ...

    def amounts(self, decoded: DecodedPopulation) -> Floats | None:
        """Return the amount of each individual of a decoded population.

        Return None if the amount can only be computed from schedules.
        """
        ...

    def between(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Return the objective under which two entries have the same value."""
        ...

    def least(self, amount: float, /) -> Objective:
        """Return an objective that prefers schedules whose amount is below the given one."""
        ...


def make_tradeoff(against: Against, instance: Instance, *, max_cost: float | None) -> Tradeoff:
    """Return the tradeoff of time against cost, idle nodes or a formula.

    Raises InvalidInput if ``against`` is none of these, or a formula that cannot be traded against time.
    """
    if against == "cost":
        return _CostTradeoff(instance)
    if against == "idle":
        return _IdleTradeoff(instance, max_cost=max_cost)
    if against.isidentifier() and against not in {*QUANTITIES, *OBJECTIVES}:
        raise _unknown_measure(against)
    return _FormulaTradeoff(make_objective(against), instance)


def _unknown_measure(against: str) -> InvalidInput:
    rule = f"must be {', '.join(MEASURES)}, or a formula over {', '.join(QUANTITIES)}"
    return InvalidInput(
        f"time cannot be traded against {against!r}", rule=rule, advice=suggest(against, QUANTITIES)
    )


class _CostTradeoff:
    """Time against the price of all node-seconds, or against node-seconds if no machine has a price."""

    against: Against = "cost"

    def __init__(self, instance: Instance) -> None:
        price = instance.price_per_node_s
        priced = bool(price.any())
        self.unit: Unit = "price" if priced else "node-seconds"
        # With a price of 1 the cost equals the node-seconds, also for planners that minimise cost.
        self.searched = instance if priced else replace(instance, price_per_node_s=np.ones(len(price)))
        time, cost = (
            linearise_objective(self.searched, make_objective("on-demand", alpha)) for alpha in (1.0, 0.0)
        )
        assert time is not None
        assert cost is not None
        self._per_second, self._per_amount = time.per_second, cost.per_price

    def amount(self, schedule: Schedule) -> float:
        """Return the cost of a schedule: its price, or its node-seconds if no machine has a price."""
        return schedule_cost(schedule, self.searched)

    def amounts(self, decoded: DecodedPopulation) -> Floats:
        """Return the cost of each individual: price, or node-seconds if no machine has a price."""
        return decoded.cost

    def between(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Return the weighted sum of time and cost that has the same value for both entries."""
        time = self._per_second * (slow.makespan_s - fast.makespan_s)
        cost = self._per_amount * (fast.amount - slow.amount)
        return make_objective("on-demand", cost / (time + cost))

    def least(self, _amount: float) -> Objective:
        """Return the objective of least cost, whatever the given amount."""
        return make_objective("on-demand", _LEAST_ALPHA)


class _IdleTradeoff:
    """Time against the share of node-time in which nodes are idle."""

    against: Against = "idle"
    unit: Unit = "share"

    def __init__(self, instance: Instance, *, max_cost: float | None) -> None:
        price = instance.price_per_node_s
        different = bool((price != price[:1]).any())
        # Objectives weight node-seconds by their price; without prices all nodes weigh the same.
        free = different and max_cost is None
        self.searched = replace(instance, price_per_node_s=np.zeros(len(price))) if free else instance
        self._nodes = float(instance.capacity.sum())

    def amount(self, schedule: Schedule) -> float:
        """Return the idle share of a schedule, from 0 to 1."""
        available = self._nodes * schedule.makespan_s
        used = float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
        return 1.0 - used / available if available > 0 else 0.0

    def amounts(self, decoded: DecodedPopulation) -> Floats:
        """Return the idle share of each individual, from 0 to 1."""
        available = self._nodes * decoded.makespan_s
        used = np.divide(decoded.node_seconds, available, out=np.ones_like(available), where=available > 0)
        shares: Floats = 1.0 - used
        return shares

    def between(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Return the weighted sum of makespan and node-seconds that has the same value for both entries."""
        used = slow.makespan_s * (1.0 - slow.amount) - fast.makespan_s * (1.0 - fast.amount)
        return _literal((slow.makespan_s - fast.makespan_s) / used)

    def least(self, amount: float) -> Objective:
        """Return an objective that prefers schedules whose idle share is below the given one."""
        return _literal(1.0 / (1.0 - amount) if amount < 1.0 else 1.0)


class _FormulaTradeoff:
    """Time against a value that the user wrote as a formula, or against an objective that is minimised."""

    unit: Unit = "formula"

    def __init__(self, measure: Objective, instance: Instance) -> None:
        if measure.sense == "maximise" or measure.is_makespan:
            why = "is the time itself" if measure.is_makespan else "is maximised"
            advice = f"write a formula to minimise, such as `1 - {measure.name}`" if "max" in why else ""
            raise InvalidInput(f"time cannot be traded against {measure.name!r}, which {why}", advice=advice)
        self.against: Against = measure.name
        self.searched = instance
        self._measure = measure
        # Objectives with a hyphen in their names are no formulas.
        self._text = measure.name.replace("-", "_") if measure.formula is None else measure.formula.text
        if measure.formula is None and self._text not in QUANTITIES:
            raise _unknown_measure(measure.name)

    def amount(self, schedule: Schedule) -> float:
        """Return the value of the formula for a schedule."""
        return self._measure.value(schedule, self.searched)

    def amounts(self, decoded: DecodedPopulation) -> Floats | None:
        """Return the value of the formula for each individual; None if the formula needs whole schedules."""
        formula = self._measure.formula
        if formula is None or not needs_no_schedule(self._measure):
            return None
        return evaluate_formula(formula, decoded, self.searched)

    def between(self, fast: FrontEntry, slow: FrontEntry) -> Objective:
        """Return the weighted sum of time and value that is the same for both entries."""
        time, value = slow.makespan_s - fast.makespan_s, fast.amount - slow.amount
        return make_objective(f"makespan * {1.0 / time!r} + ({self._text}) * {1.0 / value!r}")

    def least(self, amount: float) -> Objective:
        """Return the objective of the least formula value; of equal values the shorter plan is better."""
        whole_s = sequential_execution(self.searched).time_s
        tie = _LEAST_ALPHA * max(abs(amount), _TINY) / max(whole_s, _TINY)
        return make_objective(f"({self._text}) + makespan * {tie!r}")


def _literal(slope: float) -> Objective:
    return make_objective("static-literal", 1.0 / (1.0 + slope))


def mix_genomes(instance: Instance, first: Genome, second: Genome) -> tuple[Indices, Indices, Indices]:
    """Return mixtures of two genomes as arrays of orders, bindings and modes, with a row per mixture.

    A path from one plan to another, choice by choice, passes plans between them (path relinking, F. Glover,
    M. Laguna, R. Marti, Control and Cybernetics 29, 2000). Here a mixture has the order of one plan. Its
    first tasks take machines and modes from the other plan, the remaining tasks from the same plan. The share
    of first tasks varies evenly between 0 and 1, and each plan provides the order for half of the mixtures.

    Complexity O(v) per mixture of v tasks.
    """
    number = max(2, min(_MAX_MIXTURES, int(_BATCH_S / (_TASK_S * max(1, len(instance))))))
    rows = [
        _mix_pair(instance, own, other, share)
        for own, other in ((first, second), (second, first))
        for share in np.arange(1, number // 2 + 1) / (number // 2 + 1)
    ]
    orders, bound, modes = (np.stack(columns) for columns in zip(*rows, strict=True))
    return orders, bound, modes


def keep_budgets(instance: Instance, modes: Indices) -> NDArray[np.bool_]:
    """Return for each row of modes whether all tasks together stay within the budgets of the workflow.

    Complexity O(r v b) for r rows, v tasks and b budgets.
    """
    graph = instance.graph
    if not graph.budget_names:
        return np.ones(len(modes), dtype=np.bool_)
    consumed = np.tile(graph.consumption, (len(modes), 1, 1))
    for group in instance.groups:
        if group.consumption is not None:
            consumed[:, group.tasks] = group.consumption[modes[:, group.tasks]]
    return np.logical_not(find_exceeded(graph, consumed.sum(axis=1)).any(axis=1), dtype=np.bool_)


def _mix_pair(instance: Instance, own: Genome, other: Genome, share: float) -> Genome:
    """Return ``own`` with the bindings and modes of ``other`` for its first tasks.

    ``share`` is the number of first tasks, in the order of ``own``, divided by the number of all tasks. If
    one task of a binding variable is among the first tasks, all tasks of the variable take the choices of
    ``other``.
    """
    variable = instance.graph.variable
    place = np.empty(len(instance), dtype=np.int64)
    place[own.order] = np.arange(len(instance))
    earliest = np.full(len(own.bound), len(instance), dtype=np.int64)
    np.minimum.at(earliest, variable, place)
    taken = earliest < share * len(instance)
    return Genome(
        order=own.order,
        bound=np.where(taken, other.bound, own.bound),
        modes=np.where(taken[variable], other.modes, own.modes),
    )
