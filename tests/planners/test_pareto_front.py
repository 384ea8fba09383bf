"""Pareto fronts: no entry is dominated by any offered plan, in whatever order plans are offered."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import instance, planned, platform
from weft.planners.pareto_front import (
    FrontEntry,
    ParetoArchive,
    covers,
    decode_genome,
    hypervolume_share,
    make_entry,
    thin_front,
)
from weft.schedule.verification import verify

NUMBERS = st.one_of(st.integers(0, 6).map(float), st.floats(0, 1e6))
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30)
"""Strategy of lists of pairs, with many ties and many dominated pairs."""


def entry(makespan_s: float, amount: float) -> FrontEntry:
    return FrontEntry(
        makespan_s=makespan_s, amount=amount, schedule=None, genome=None, decoder="append", alpha=None, by=""
    )


def archive_of(pairs) -> tuple[ParetoArchive, list[FrontEntry]]:
    offered = [entry(*pair) for pair in pairs]
    archive = ParetoArchive()
    for one in offered:
        archive.offer(one)
    return archive, offered


def numbers(entries) -> list[tuple[float, float]]:
    return [(one.makespan_s, one.amount) for one in entries]


@given(PAIRS)
def test_no_entry_dominates_another_entry_and_an_entry_covers_every_offered_plan(pairs) -> None:
    archive, offered = archive_of(pairs)
    for one in archive.entries:
        assert not any(covers(other, one) for other in archive.entries if other is not one)
    for one in offered:
        assert any(
            kept.makespan_s <= one.makespan_s * (1 + 1e-7) + 1e-9
            and kept.amount <= one.amount * (1 + 1e-7) + 1e-9
            for kept in archive.entries
        )


@given(PAIRS)
def test_entries_are_sorted_by_rising_time_and_falling_amount(pairs) -> None:
    entries = archive_of(pairs)[0].entries
    for fast, slow in pairwise(entries):
        assert fast.makespan_s < slow.makespan_s
        assert fast.amount > slow.amount


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30), st.randoms())
def test_integer_pairs_give_the_nondominated_set(pairs, shuffler) -> None:
    archive, _ = archive_of(pairs)
    best = {
        (time, paid)
        for time, paid in pairs
        if not any(t <= time and p <= paid and (t, p) != (time, paid) for t, p in pairs)
    }
    assert numbers(archive.entries) == sorted(best)
    shuffled = list(pairs)
    shuffler.shuffle(shuffled)
    assert numbers(archive_of(shuffled)[0].entries) == sorted(best)


def test_first_of_several_entries_that_differ_only_by_rounding_is_kept() -> None:
    first, second = entry(10.0, 5.0), entry(10.0 * (1 - 1e-12), 5.0 * (1 + 1e-12))
    archive = ParetoArchive()
    assert archive.offer(first)
    assert not archive.offer(second)
    assert archive.entries == (first,)
    assert archive.offer(entry(10.0 * (1 - 1e-6), 5.0))


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=30), st.integers(2, 8)
)
def test_thinning_keeps_the_end_points_and_removes_points_with_the_least_hypervolume(pairs, most) -> None:
    entries = archive_of(pairs)[0].entries
    kept = thin_front(entries, most)
    assert len(kept) == min(most, len(entries))
    assert set(kept) <= set(entries)
    assert (kept[0], kept[-1]) == (entries[0], entries[-1])
    if len(entries) == most + 1:
        others = [entries[:place] + entries[place + 1 :] for place in range(1, most)]
        assert hypervolume_share(kept) == pytest.approx(max(map(hypervolume_share, others)))


def test_hypervolume_share_equals_a_computation_by_hand() -> None:
    # Between (0, 10) and (10, 0) the point (2, 4) covers 8 x 6 of 100.
    assert hypervolume_share(archive_of([(0, 10), (2, 4), (10, 0)])[0].entries) == pytest.approx(0.48)
    assert hypervolume_share(archive_of([(0, 10), (10, 0)])[0].entries) == 0.0
    assert hypervolume_share(archive_of([(3, 3)])[0].entries) == 0.0


def test_entry_of_a_front_is_the_decoded_genome_and_not_longer_than_the_offered_plan() -> None:
    tasks = {
        "a": {"work": 40, "nodes": "1..4"},
        "b": {"work": 30, "nodes": "1..4"},
        "c": {"after": "a", "work": 9},
    }
    made = instance(tasks, platform({"nodes": 4}))
    schedule = planned(made, "heft-moldable")
    late = type(schedule)(
        tasks=schedule.tasks, machines=schedule.machines, machine=schedule.machine, nodes=schedule.nodes,
        start_s=schedule.start_s * 2 + 1, finish_s=schedule.finish_s + schedule.start_s + 1,
    )  # fmt: skip
    found = make_entry(made, late, lambda one: one.makespan_s, alpha=0.5, by="me")
    assert found.makespan_s < late.makespan_s
    assert found.amount == found.makespan_s == found.schedule.makespan_s
    again = decode_genome(made, found.genome, "append")
    assert np.array_equal(again.start_s, found.schedule.start_s)
    assert np.array_equal(again.finish_s, found.schedule.finish_s)
    assert verify(found.schedule, made.graph, made.platform) == []
