"""Selection of parents (docs/papers/dynamic-grid.md, section 4.4 with A1.5; moldable.md, section 8)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.randomness import generator
from weft.search.operators import (
    SELECTIONS,
    select_by_rank,
    select_by_remainder,
    select_by_roulette,
    select_by_tournament,
    select_steady_state,
)

FITNESS = st.lists(st.floats(0, 100) | st.integers(0, 3).map(float), min_size=2, max_size=40)
MANY = 30_000


@given(FITNESS, st.integers(0, 2**32))
def test_remainder_selection_selects_each_point_at_least_the_integer_part_of_its_expectation(fitness, seed):
    number = len(fitness)
    chosen = select_by_remainder(np.array(fitness), number, generator(seed, "selection"))
    copies = np.bincount(chosen, minlength=number)
    assert copies.sum() == number
    exact = [Fraction(one) for one in fitness]
    total = sum(exact) or Fraction(1)
    assert all(own >= number * one // total for one, own in zip(exact, copies.tolist(), strict=True))


def test_remainder_selection_draws_remaining_parents_in_proportion_to_the_fractions():
    fitness = np.array([2.5, 1.5, 0.75, 0.25])  # their mean is 1.25: 2, 1.2, 0.6 and 0.2 copies
    rng = generator(5, "selection")
    copies = sum(np.bincount(select_by_remainder(fitness, 4, rng), minlength=4) for _ in range(4000)) / 4000
    assert copies == pytest.approx([2.0, 1.2, 0.6, 0.2], abs=0.03)


@pytest.mark.parametrize("name", SELECTIONS)
@given(fitness=FITNESS, number=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_every_selection_returns_the_requested_number_of_valid_parents(name, fitness, number, seed):
    requested = min(number, len(fitness)) if name == "steady-state" else number
    chosen = SELECTIONS[name](np.array(fitness), requested, generator(seed, "selection"))
    assert len(chosen) == requested
    assert ((chosen >= 0) & (chosen < len(fitness))).all()


def test_steady_state_selection_takes_the_best_points_and_breaks_ties_by_index():
    fitness = np.array([1.0, 5.0, 3.0, 5.0, 3.0])
    assert select_steady_state(fitness, 3, generator(0)).tolist() == [1, 3, 2]


def shares(select, fitness):
    chosen = select(np.array(fitness), MANY, generator(3, "selection"))
    return np.bincount(chosen, minlength=len(fitness)) / MANY


def test_roulette_selection_draws_parents_in_proportion_to_fitness():
    assert shares(select_by_roulette, [1.0, 0.0, 3.0]) == pytest.approx([0.25, 0.0, 0.75], abs=0.01)


def test_rank_selection_depends_only_on_the_order():
    assert shares(select_by_rank, [1.0, 1e9, 2.0]) == pytest.approx([1 / 6, 3 / 6, 2 / 6], abs=0.01)


def test_a_tournament_selects_the_best_of_three():
    # The worst of three wins only if it is drawn three times.
    assert shares(select_by_tournament, [1.0, 2.0, 3.0]) == pytest.approx([1 / 27, 7 / 27, 19 / 27], abs=0.01)


@pytest.mark.parametrize("select", [select_by_remainder, select_by_roulette])
def test_selection_is_uniform_when_all_fitness_is_0(select):
    assert shares(select, [0.0, 0.0]) == pytest.approx([0.5, 0.5], abs=0.02)
