"""The genetic algorithm as a whole: settings, stopping rules, elites and counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_problems import PLANE, Asked, wave
from weft.errors import InvalidInput
from weft.randomness import generator
from weft.search.genetic import PRESETS, GeneticAlgorithm, GeneticSettings
from weft.search.operators import SELECTIONS
from weft.search.space import make_space

S1, S2 = PRESETS["s1-tuned"], PRESETS["s2-recommended"]


def run(chosen, evaluate=wave, space=PLANE, seed=1, **options):
    return GeneticAlgorithm(settings=chosen).optimise(
        space, evaluate, rng=generator(seed, "genetic"), **options
    )


def test_presets_equal_the_settings_of_the_papers():
    chosen = (S1.population, S1.crossover_rate, S1.mutation_rate, S1.generations, S1.steady_share, S1.scaling)
    assert chosen == (150, 0.9, 0.001, 500, 0.2, 2.0)
    assert (S1.elitist, S1.selection, S1.crossover, S1.elite_share) == (True, "remainder", "single-point", 0)
    assert (S2.selection, S2.crossover, S2.crossover_rate) == ("steady-state", "uniform", 0.7)
    assert (S2.mutation_rate, S2.elite_share, S2.parent_share, S2.population) == (0.01, 0.05, 0.5, 50)


@pytest.mark.parametrize("elitism", [{"elitist": True, "elite_share": 0.0}, {"elite_share": 0.05}])
@pytest.mark.parametrize("selection", SELECTIONS)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32))
def test_best_value_never_gets_worse_with_elitism(selection, elitism, seed):
    chosen = GeneticSettings(population=12, generations=15, selection=selection, mutation_rate=0.3, **elitism)
    requested = Asked(wave)
    found = run(chosen, requested, seed=seed)
    best = [float(wave(points).max()) for points in requested.points]
    if chosen.elite_share:
        assert (np.diff(best) >= 0).all(), "the best is in every generation"
    assert float(wave(found.last).max()) == found.value == max(best)


def test_without_elitism_the_best_point_can_be_lost():
    chosen = GeneticSettings(population=6, generations=60, mutation_rate=0.5, elite_share=0.0)
    requested = Asked(wave)
    run(chosen, requested)
    best = np.array([float(wave(points).max()) for points in requested.points])
    assert (np.diff(best) < 0).any()


def test_number_of_visited_points_is_population_times_generations():
    found = run(replace(S1, population=30, generations=20, steady_share=0.0))
    assert (found.visited, found.generations, found.cut) == (600, 20, False)


def test_search_stops_after_a_share_of_the_generations_without_improvement():
    found = run(replace(S1, generations=50, steady_share=0.2), lambda points: np.zeros(len(points)))
    assert found.generations == 11, "the first, and a fifth of 50 without news"
    found = run(replace(S1, generations=50, steady_share=0.0), lambda points: np.zeros(len(points)))
    assert found.generations == 50


def test_field_first_best_is_the_best_value_of_the_first_generation():
    requested = Asked(wave)
    found = run(S2, requested)
    assert found.first_best == float(wave(requested.points[0]).max()) == found.history[0]


def test_fitness_scaling_restores_selection_pressure_if_values_have_a_large_constant_part():
    """Without scaling, a metric far above 0 gives little selection pressure (docs/papers/dynamic-grid.md,
    section 12: Const 10 times).
    """
    space = make_space([50] * 20)

    def metric(points):
        return -(1000.0 + points.sum(axis=1))

    plain = replace(S1, population=60, generations=60, scaling=1.0, elitist=False, steady_share=0.0)
    runs = [
        run(chosen, metric, space)
        for chosen in (replace(plain, const_factor=10.0), replace(plain, scaling=2.0))
    ]
    assert runs[0].value < runs[1].value - 50


def test_positive_values_are_used_as_fitness():
    """Remainder sampling gives the best of positive values its share of copies: 3 of 4 here."""
    space = make_space([2])
    chosen = replace(S1, population=4, generations=2, mutation_rate=0.0, scaling=1.0, elitist=False)
    requested = Asked(lambda points: np.where(points[:, 0] == 1, 3.0, 1 / 3))
    run(chosen, requested, space, starts=[[1], [0], [0], [0]])
    assert requested.points[1].sum() == 3


def test_without_mutation_all_genes_come_from_parents():
    space = make_space([100] * 5)
    requested = Asked(lambda points: points.sum(axis=1).astype(float))
    run(replace(S2, population=10, generations=8, mutation_rate=0.0), requested, space)
    for before, after in zip(requested.points, requested.points[1:], strict=False):
        for gene in range(5):
            assert set(after[:, gene]) <= set(before[:, gene])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"population": 1}, "population .* is 1; must be at least 2"),
        ({"generations": 0}, "generations"),
        ({"selection": "best"}, "must be one of remainder"),
        ({"crossover": "none"}, "must be one of single-point"),
        ({"mutation_rate": 1.5}, "mutation_rate .* must be from 0 to 1"),
        ({"elite_share": float("nan")}, "elite_share"),
        ({"scaling": 0.5}, "scaling"),
        ({"const_factor": 0.0}, "const_factor"),
    ],
)
def test_invalid_settings_are_refused(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        GeneticSettings(**wrong)
