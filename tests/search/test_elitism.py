"""Elitism keeps the best points (docs/papers/dynamic-grid.md, section 4.7; moldable.md, section 8)."""

from __future__ import annotations

import numpy as np

from weft.search.operators import keep_best, select_elite

POINTS = np.arange(8, dtype=np.uint32).reshape(4, 2)


def test_best_point_so_far_replaces_the_worst_of_a_worse_generation():
    points, values = POINTS.copy(), np.array([4.0, 1.0, 3.0, 1.0])
    keep_best(points, values, np.array([90, 91], dtype=np.uint32), 5.0)
    assert points.tolist() == [[0, 1], [90, 91], [4, 5], [6, 7]]
    assert values.tolist() == [4.0, 5.0, 3.0, 1.0]


def test_generation_that_contains_an_equally_good_point_is_not_changed_by_elitism():
    points, values = POINTS.copy(), np.array([4.0, 1.0, 5.0, 1.0])
    keep_best(points, values, np.array([90, 91], dtype=np.uint32), 5.0)
    assert points.tolist() == POINTS.tolist()


def test_elites_are_the_best_points_in_order_of_index():
    assert select_elite(POINTS, np.array([2.0, 7.0, 2.0, 9.0]), 3).tolist() == [[6, 7], [2, 3], [0, 1]]
