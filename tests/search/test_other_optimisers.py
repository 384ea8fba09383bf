"""Properties of annealing, local search, exhaustive search, numeric methods and islands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from search_problems import PLANE, VALUES, Asked, wave
from weft.errors import InvalidInput
from weft.randomness import generator
from weft.search import annealing, local_search
from weft.search.annealing import SimulatedAnnealing
from weft.search.descent import Gradient, Simplex
from weft.search.exhaustive import ExhaustiveSearch
from weft.search.genetic import GeneticAlgorithm, GeneticSettings
from weft.search.islands import Islands
from weft.search.local_search import LocalSearch
from weft.search.optimiser import StepLimit
from weft.search.space import change_one_gene, list_changes, make_numeric_space, make_space

TOP = sum(float(numbers.max()) for numbers in VALUES)


def rng(seed=1):
    return generator(seed, "searches")


def test_exhaustive_search_evaluates_every_point_once_in_order():
    requested, space = Asked(lambda points: -points.sum(axis=1).astype(float)), make_space([3, 2, 400])
    found = ExhaustiveSearch().optimise(space, requested, rng=rng())
    expected = list(itertools.product(range(3), range(2), range(400)))
    assert [tuple(row) for row in np.concatenate(requested.points).tolist()] == expected
    assert (found.visited, found.value, found.best.tolist(), found.cut) == (2400, 0.0, [0, 0, 0], False)


def test_exhaustive_search_finds_the_optimum_and_refuses_huge_spaces():
    assert ExhaustiveSearch().optimise(PLANE, wave, rng=rng()).value == TOP
    assert "too many" in ExhaustiveSearch().refuses(make_space([314] * 56))


@pytest.mark.parametrize("scale", [True, False])
def test_neighbour_differs_in_the_value_of_one_gene(scale):
    space = make_numeric_space([range(5), [1], range(2)]) if scale else make_space([5, 1, 2])
    points = space.draw(rng(), 4000)
    others = change_one_gene(points, space, rng())
    assert (others < space.sizes).all()
    assert ((points != others).sum(axis=1) == 1).all()
    assert 0.4 < (points != others)[:, 0].mean() < 0.6
    step = np.abs(others.astype(int) - points.astype(int))[:, 0]
    # A neighbour is one of four others by chance, and preferred where values are numbers.
    near = (step == 1).sum() / (step > 0).sum()
    assert near == pytest.approx(0.7 if scale else 0.4, abs=0.05)


def test_list_changes_returns_all_points_that_differ_in_one_gene():
    space, point = make_space([3, 1, 2]), np.array([1, 0, 0], dtype=np.uint32)
    gene, value = list_changes(point, space)
    assert list(zip(gene.tolist(), value.tolist(), strict=True)) == [(0, 0), (0, 2), (2, 1)]


@pytest.mark.parametrize("improvement", ["first", "best"])
def test_local_search_ends_at_a_local_optimum(improvement):
    chosen = local_search.LocalSearchSettings(improvement=improvement, restarts=0)
    found = LocalSearch(settings=chosen).optimise(PLANE, wave, rng=rng())
    gene, value = list_changes(found.best, PLANE)
    around = np.repeat(found.best[None], len(gene), axis=0)
    around[np.arange(len(gene)), gene] = value
    assert (wave(around) <= found.value).all()
    assert not found.cut


def test_search_with_perturbation_finds_a_better_point_than_the_local_optimum():
    def two_tops(points):
        total = points.sum(axis=1, dtype=float)
        return np.where(total <= 6, -total, total - 12.0)

    space, start = make_space([4] * 6), [[0] * 6]
    alone = LocalSearch(settings=local_search.LocalSearchSettings(restarts=0)).optimise(
        space, two_tops, rng=rng(), starts=start
    )
    again = LocalSearch(settings=local_search.LocalSearchSettings(restarts=60, shaken=0.9)).optimise(
        space, two_tops, rng=rng(), starts=start
    )
    assert alone.value == 0.0
    assert again.value == 6.0


def test_annealing_accepts_losses_with_the_probability_of_its_temperature():
    """A loss of 1 is accepted with probability exp(-1 / T)."""
    points = np.zeros((40_000, 1), dtype=np.uint32)
    values, tried, new = np.zeros(40_000), points + 1, np.full(40_000, -1.0)
    annealing._accept(points, values, tried, new, rng().standard_exponential(40_000) * 0.5)
    assert points.mean() == pytest.approx(np.exp(-2.0), rel=0.05)
    kept = points.copy()
    annealing._accept(points, values, points + 7, values - 1e-9, np.zeros(40_000))
    assert (points == kept).all()


def test_annealing_uses_all_its_steps():
    found = SimulatedAnnealing(settings=annealing.AnnealingSettings(steps=1000, walkers=10)).optimise(
        PLANE, wave, rng=rng()
    )
    assert 900 <= found.visited <= 1000
    assert not found.cut
    assert found.value == pytest.approx(TOP, abs=0.5)


def test_result_of_islands_depends_only_on_the_seed_and_the_number_of_islands():
    one, two, three = (
        Islands(islands=number, steps_per_round=200, rounds=4).optimise(PLANE, wave, rng=rng())
        for number in (2, 2, 3)
    )
    assert one.visited == two.visited == 2 * 4 * 200
    assert one.history.tolist() == two.history.tolist()
    assert three.visited == 3 * 4 * 200


def test_each_island_continues_from_its_own_points_and_the_best_point_of_all_islands():
    requested = Asked(wave)
    inner = GeneticAlgorithm(settings=GeneticSettings(population=10, generations=100))
    islands = Islands(search=inner, islands=2, steps_per_round=20, rounds=2)
    islands.optimise(PLANE, requested, rng=rng())
    # Two generations per island and round; the third and fourth pair begin with the best of the first four.
    best = max(
        (points[wave(points).argmax()] for points in requested.points[:4]),
        key=lambda row: float(wave(row[None])[0]),
    )
    assert requested.points[4][0].tolist() == best.tolist() == requested.points[6][0].tolist()
    kept = {tuple(row) for row in requested.points[1].tolist()} | {tuple(best.tolist())}
    assert {tuple(row) for row in requested.points[4].tolist()} <= kept


def test_islands_evaluate_only_slightly_more_points_than_a_small_limit():
    inner = GeneticAlgorithm(settings=GeneticSettings(population=10))
    found = Islands(search=inner, islands=3).optimise(PLANE, wave, rng=rng(), limit=StepLimit(most=60))
    assert 60 <= found.visited <= 120


@pytest.mark.parametrize("method", [Simplex(), Gradient()])
def test_numeric_methods_refuse_non_numeric_spaces_and_evaluate_few_points(method):
    assert "not numbers" in method.refuses(make_space([3, 3]))
    axis = np.linspace(-1, 1, 201)

    def hill(points):
        x = axis[points]
        return -((x[:, 0] - 0.3) ** 2) - 2 * (x[:, 1] + 0.5) ** 2

    found = method.optimise(make_numeric_space([axis, axis]), hill, rng=rng(), limit=StepLimit(most=2000))
    assert found.value == pytest.approx(0.0, abs=2e-3)
    assert found.visited < 201 * 201 / 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: Islands(islands=0),
        lambda: Simplex(restarts=-1),
        lambda: Gradient(restarts=-1),
        lambda: annealing.AnnealingSettings(walkers=0),
        lambda: annealing.AnnealingSettings(hot=float("nan")),
        lambda: local_search.LocalSearchSettings(together=0),
        lambda: local_search.LocalSearchSettings(shaken=2.0),
    ],
)
def test_invalid_settings_of_optimisers_are_refused(make):
    with pytest.raises(InvalidInput, match="must be"):
        make()
