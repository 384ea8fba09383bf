"""Crossover (docs/papers/dynamic-grid.md, section 4.5; moldable.md, section 8)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.randomness import generator
from weft.search.operators import CROSSOVERS, cross_pairs


def parents(pairs, genes):
    """Return pairs of parents: one has only even and the other only odd genes, all different."""
    return (
        np.arange(2 * pairs * genes, dtype=np.uint32)
        .reshape(pairs, genes, 2)
        .transpose(0, 2, 1)
        .reshape(-1, genes)
    )


@pytest.mark.parametrize("kind", CROSSOVERS)
@given(pairs=st.integers(1, 9), genes=st.integers(1, 9), rate=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_two_children_have_all_genes_of_their_parents(kind, pairs, genes, rate, seed):
    given_ = parents(pairs, genes)
    children = cross_pairs(given_, kind, rate, generator(seed, "crossover"))
    for number in range(0, 2 * pairs, 2):
        before, after = given_[number : number + 2], children[number : number + 2]
        assert np.sort(before, axis=0).tolist() == np.sort(after, axis=0).tolist()


def exchanged(kind, rate, genes=6, pairs=3000):
    """Return, per pair, which genes the first child has from the second parent."""
    children = cross_pairs(parents(pairs, genes), kind, rate, generator(1, "crossover"))
    return children[0::2] % 2 == 1


def test_single_point_crossover_cuts_once_at_a_uniform_position():
    swapped = exchanged("single-point", 1.0)
    assert (np.diff(swapped.astype(int), axis=1) >= 0).all(), "once exchanged, exchanged to the end"
    assert not swapped[:, 0].any()
    assert swapped[:, -1].all()
    cuts = 6 - swapped.sum(axis=1)
    assert np.bincount(cuts, minlength=6)[1:] / 3000 == pytest.approx([0.2] * 5, abs=0.03)


def test_uniform_crossover_exchanges_half_of_the_genes():
    assert exchanged("uniform", 1.0).mean(axis=0) == pytest.approx([0.5] * 6, abs=0.03)


@pytest.mark.parametrize("kind", CROSSOVERS)
def test_crossover_rate_is_the_share_of_pairs_that_exchange_genes(kind):
    assert not exchanged(kind, 0.0).any()
    share = exchanged(kind, 0.7, genes=12).any(axis=1).mean()
    assert share == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("kind", CROSSOVERS)
def test_crossover_does_not_change_the_parents(kind):
    given_ = parents(4, 5)
    kept = given_.copy()
    cross_pairs(given_, kind, 1.0, generator(2, "crossover"))
    assert (given_ == kept).all()
