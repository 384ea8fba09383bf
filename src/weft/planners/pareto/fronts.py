"""Fronts: the schedules of which none is better than another both in time and in what it takes for it.

What differs by rounding is equal, and of equals the first is kept. Complexity O(n) per schedule that is
offered to n others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from weft.instance.instance import Instance
from weft.planners.decoding import Genome, decode, genome_of, run_queue
from weft.schedule.schedule import Schedule

__all__ = ["TOLERANCE", "Archive", "Decoder", "Entry", "covers", "entry_of", "filled", "rebuilt", "thinned"]

TOLERANCE = 1e-9
"""Share by which equal sums may differ."""
_TINY = 1e-12
"""And so much where sums are 0."""

Decoder = Literal["append", "queue"]
"""What makes the schedule of a genome: tasks in its order, or the queue of the only machine."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """A schedule, and what stands for it on a front."""

    makespan_s: float
    amount: float
    """What is to be small beside the makespan."""
    schedule: Schedule
    genome: Genome
    decoder: Decoder
    alpha: float | None
    """Weight of time under which it was found; None: nobody weighed."""
    by: str
    """Who found it."""


def entry_of(
    instance: Instance,
    schedule: Schedule,
    amount_of: Callable[[Schedule], float],
    *,
    alpha: float | None,
    by: str,
    decoder: Decoder = "append",
) -> Entry:
    """Make an entry whose genome gives exactly its schedule.

    Appending never makes a schedule longer (``genome_of``), and what it takes stays the same.
    """
    genome = genome_of(instance, schedule)
    kept = rebuilt(instance, genome, decoder)
    return Entry(
        makespan_s=kept.makespan_s,
        amount=amount_of(kept),
        schedule=kept,
        genome=genome,
        decoder=decoder,
        alpha=alpha,
        by=by,
    )


def rebuilt(instance: Instance, genome: Genome, decoder: Decoder) -> Schedule:
    """Give the schedule of a genome."""
    if decoder == "append":
        return decode(instance, *genome)
    counts = [
        int(instance.groups[group].count[mode]) if group >= 0 else 1
        for group, mode in zip(instance.group.tolist(), genome.modes.tolist(), strict=True)
    ]
    return run_queue(instance, counts)


def covers(first: Entry, second: Entry) -> bool:
    """Say whether nothing speaks for the second: the first is as good in both, within rounding."""
    return _at_most(first.makespan_s, second.makespan_s) and _at_most(first.amount, second.amount)


def _at_most(number: float, other: float) -> bool:
    return number <= other + TOLERANCE * abs(other) + _TINY


class Archive:
    """The best entries so far: none of them covers another."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Give the entries, the fastest first; what they take falls from one to the next."""
        return tuple(self._entries)

    def offer(self, entry: Entry) -> bool:
        """Take an entry if no other covers it, and let go of those that it covers."""
        if any(covers(known, entry) for known in self._entries):
            return False
        kept = [known for known in self._entries if not covers(entry, known)]
        self._entries = sorted([*kept, entry], key=lambda known: known.makespan_s)
        return True


def filled(entries: Sequence[Entry]) -> float:
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


def thinned(entries: Iterable[Entry], most: int) -> tuple[Entry, ...]:
    """Leave out those between the ends that add least to the hypervolume, until there are few enough."""
    kept = list(entries)
    while len(kept) > max(2, most):
        added = [
            (after.makespan_s - own.makespan_s) * (before.amount - own.amount)
            for before, own, after in zip(kept, kept[1:], kept[2:], strict=False)
        ]
        del kept[1 + added.index(min(added))]
    return tuple(kept[: max(1, most)])
