"""Lookahead placement equals its reference bit for bit, with compiled and plain kernels."""

from __future__ import annotations

import pytest

from kernels.lookahead_reference import LookaheadPlacement
from kernels.random_graphs import faceted, layered
from kernels.two_forms import columns
from planning_examples import planned
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.randomness import generator


def reference(made):
    board = LookaheadPlacement(made, factor=1.05)
    for task in order_by_rank(upward_ranks(made)).tolist():
        board.place(task)
    assert board.is_finished()
    return board.schedule()


@pytest.mark.parametrize("layout", ["related", "classes", "table"])
@pytest.mark.parametrize("integers", [True, False], ids=["ties", "no ties"])
def test_plans_equal_the_reference(form, layout, integers):
    for seed in range(6):
        made = layered(generator(seed, "layered", layout), integers=integers, layout=layout)
        assert columns(planned(made, "lookahead")) == columns(reference(made))


@pytest.mark.parametrize("integers", [True, False], ids=["ties", "no ties"])
def test_transfers_and_node_counts_are_placed_as_by_the_reference(form, integers):
    for seed in range(10):
        made = faceted(generator(seed, "faceted"), integers=integers)
        assert columns(planned(made, "lookahead")) == columns(reference(made))


def test_plans_of_lookahead_differ_from_those_of_heft():
    differing = 0
    for seed in range(6):
        made = layered(generator(seed, "layered", "table"), integers=False, layout="table")
        differing += columns(planned(made, "lookahead")) != columns(planned(made, "heft"))
    assert differing == 6
