"""Mutation (docs/papers/dynamic-grid.md, section 4.6; moldable.md, section 8)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.randomness import generator
from weft.search.operators import draw_hits, mutate
from weft.search.space import make_space


@given(st.integers(1, 300), st.floats(0, 1), st.integers(0, 2**32))
def test_mutated_positions_are_distinct_and_ascending(number, rate, seed):
    found = draw_hits(number, rate, generator(seed, "mutation"))
    assert (np.diff(found) > 0).all()
    assert ((found >= 0) & (found < number)).all()


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5])
def test_every_position_is_mutated_independently_with_the_given_rate(rate):
    rng, rounds = generator(4, "mutation"), 20_000
    found = [draw_hits(5, rate, rng) for _ in range(rounds)]
    per_place = np.bincount(np.concatenate(found), minlength=5) / rounds
    assert per_place == pytest.approx([rate] * 5, abs=4 * (rate / rounds) ** 0.5)
    # The number of hits has the variance of a binomial distribution.
    counts = np.array([len(one) for one in found])
    assert counts.var() == pytest.approx(5 * rate * (1 - rate), rel=0.25)


def test_rate_0_mutates_no_gene_and_rate_1_every_gene():
    assert len(draw_hits(100, 0.0, generator(1))) == 0
    assert draw_hits(4, 1.0, generator(1)).tolist() == [0, 1, 2, 3]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.floats(0, 1), st.integers(0, 2**32))
def test_mutated_genes_are_valid(sizes, rate, seed):
    space, rng = make_space(sizes), generator(seed, "mutation")
    points = space.draw(rng, 10)
    mutate(points, space, rate, rng)
    assert (points < space.sizes).all()


def test_new_values_are_drawn_uniformly():
    space = make_space([3])
    points = np.zeros((9000, 1), dtype=np.uint32)
    mutate(points, space, 1.0, generator(6, "mutation"))
    assert np.bincount(points[:, 0]) == pytest.approx([3000] * 3, rel=0.06)
