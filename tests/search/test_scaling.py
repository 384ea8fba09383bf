"""Linear fitness scaling equals its formulas (docs/papers/dynamic-grid.md, section 4.3; A1.4)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.search.operators import compute_fitness, scale_fitness

FITNESS = st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=2, max_size=30)
FACTORS = st.sampled_from([1.2, 1.5, 2.0, 3.0])


def reference(fitness, factor):
    """Scale the values one by one, as published; return them and the branch of the formula."""
    mean, most, least = sum(fitness) / len(fitness), max(fitness), min(fitness)
    if least > (factor * mean - most) / (factor - 1):
        delta, branch = most - mean, "best"
        a, b = (factor - 1) * mean / delta, mean * (most - factor * mean) / delta
    else:
        delta, branch = mean - least, "worst"
        a, b = mean / delta, -least * mean / delta
    return [a * one + b for one in fitness], branch


@pytest.mark.parametrize("factor", [1.5, 2.0])
def test_scaling_makes_the_best_fitness_a_multiple_of_the_unchanged_mean(factor):
    fitness = np.array([8.0, 9.0, 10.0, 12.0])
    found = scale_fitness(fitness, factor)
    assert reference(fitness.tolist(), factor)[1] == "best"
    assert found.mean() == pytest.approx(fitness.mean(), rel=1e-14)
    assert found.max() == pytest.approx(factor * fitness.mean(), rel=1e-14)


def test_worst_fitness_that_would_become_negative_becomes_0():
    fitness = np.array([0.5, 9.0, 10.0, 10.5])
    found = scale_fitness(fitness, 2.0)
    assert reference(fitness.tolist(), 2.0)[1] == "worst"
    assert found.min() == 0.0
    assert found.mean() == pytest.approx(fitness.mean(), rel=1e-14)


@given(FITNESS, FACTORS)
def test_scaling_equals_the_formulas(fitness, factor):
    found = scale_fitness(np.array(fitness), factor)
    assert (found >= 0).all()
    if max(fitness) - min(fitness) > 1e-6 * max(fitness):
        assert found.mean() == pytest.approx(np.mean(fitness), rel=1e-6)
        assert found == pytest.approx(reference(fitness, factor)[0], rel=1e-6, abs=1e-6 * max(fitness))


@given(FITNESS)
def test_a_factor_of_1_disables_scaling(fitness):
    assert scale_fitness(np.array(fitness), 1.0).tolist() == fitness


@pytest.mark.parametrize("fitness", [[3.0, 3.0, 3.0], [0.0, 0.0], [21846.019861666507] * 3])
def test_equal_fitness_is_not_scaled(fitness):
    assert scale_fitness(np.array(fitness), 2.0).tolist() == fitness


def test_scaled_fitness_is_never_negative():
    assert compute_fitness(np.array([-3.0, -12.0, -np.inf]), 10.0).tolist() == [7.0, 0.0, 0.0]
