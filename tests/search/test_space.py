"""Search spaces: random points, repair, coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from weft.errors import InvalidInput
from weft.randomness import generator
from weft.search.descent import Coordinates
from weft.search.space import make_numeric_space, make_space

SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=12)


@given(SIZES, st.data())
def test_repair_returns_valid_points_and_keeps_valid_genes(sizes, data):
    space = make_space(sizes)
    rows = data.draw(arrays.arrays(np.int64, (3, len(sizes)), elements=st.integers(-(2**40), 2**40)))
    repaired = space.repair(rows)
    assert repaired.dtype == np.uint32
    assert (repaired < space.sizes).all()
    expected = [[min(max(gene, 0), size - 1) for gene, size in zip(row, sizes, strict=True)] for row in rows]
    assert repaired.tolist() == expected
    assert space.repair(repaired).tolist() == repaired.tolist()


def test_repair_rounds_to_the_nearest_integer():
    assert make_space([5, 5, 5]).repair([1.6, -0.4, 9.9]).tolist() == [2, 0, 4]


@given(SIZES, st.integers(0, 2**32))
def test_drawn_genes_are_valid(sizes, seed):
    space = make_space(sizes)
    drawn = space.draw(generator(seed, "space"), 20)
    assert drawn.shape == (20, len(sizes))
    assert (drawn < space.sizes).all()


def test_values_are_drawn_uniformly():
    drawn = make_space([4, 3]).draw(generator(1, "space"), 12_000)
    assert np.bincount(drawn[:, 0]) == pytest.approx([3000] * 4, rel=0.06)
    assert np.bincount(drawn[:, 1]) == pytest.approx([4000] * 3, rel=0.06)


def test_number_of_points_of_a_large_space_does_not_overflow():
    assert make_space([314] * 56).points == 314**56


def test_first_points_are_the_starts_followed_by_random_points():
    space = make_space([10, 10])
    points = space.first_points(generator(2, "space"), 4, [[1, 2], [3, 99]])
    assert points[:2].tolist() == [[1, 2], [3, 9]]
    assert points.shape == (4, 2)
    assert space.first_points(generator(2, "space"), 1, [[1, 2], [3, 4]]).tolist() == [[1, 2]]


@pytest.mark.parametrize("sizes", [[], [3, 0]])
def test_a_space_without_points_is_refused(sizes):
    with pytest.raises(InvalidInput, match="at least one value"):
        make_space(sizes)


def test_points_with_a_wrong_number_of_genes_are_refused():
    with pytest.raises(InvalidInput, match="2 genes"):
        make_space([3, 3]).repair([1, 2, 3])


def test_nearest_point_is_determined_by_value_not_by_index():
    space = make_numeric_space([[1.0, 2.0, 100.0], [7.0], [0.0, 0.5]])
    axes = Coordinates(space)
    assert len(axes) == 2, "a gene with one value has no axis"
    assert axes.nearest(np.array([0.3, 0.9])).tolist() == [1, 0, 1]
    assert axes.nearest(np.array([0.6, 0.1])).tolist() == [2, 0, 0]
    for point in ([0, 0, 0], [1, 0, 1], [2, 0, 0]):
        assert axes.nearest(axes.of(np.array(point, dtype=np.uint32))).tolist() == point
