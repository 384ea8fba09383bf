"""Every optimiser of the registry implements the interface; new ones are tested automatically."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from search_problems import HILLS, LINE, PLANE, VALUES, Asked, wave
from weft.randomness import generator
from weft.search import OPTIMISERS
from weft.search.optimiser import StepLimit
from weft.search.space import make_numeric_space

MOST = 600
"""Maximum number of evaluated points; some optimisers would evaluate many more."""


@pytest.fixture(params=list(OPTIMISERS))
def optimiser(request):
    return OPTIMISERS.load(request.param)()


def run(optimiser, space=PLANE, evaluate=wave, *, seed=3, most=MOST, **options):
    return optimiser.optimise(
        space, evaluate, rng=generator(seed, "conformance"), limit=StepLimit(most=most), **options
    )


def facts(found):
    """Return the parts of a result that must be reproducible."""
    numbers = (found.value, found.visited, found.generations, found.generation_of_best, found.first_best)
    return (*numbers, found.best.tolist(), found.history.tolist(), found.last.tolist(), found.cut)


def test_an_optimiser_has_its_registered_name_and_a_title(optimiser):
    assert OPTIMISERS.load(optimiser.name) is type(optimiser)
    assert len(optimiser.title) > 10
    assert optimiser.refuses(PLANE) is None


def test_the_same_seed_gives_the_same_result(optimiser):
    assert facts(run(optimiser)) == facts(run(optimiser))


def test_the_result_is_a_valid_point_with_the_reported_value(optimiser):
    requested = Asked(wave)
    found = run(optimiser, evaluate=requested)
    seen = np.concatenate(requested.points)
    assert seen.dtype == np.uint32
    assert (seen < PLANE.sizes).all()
    assert (found.best < PLANE.sizes).all()
    assert (found.last < PLANE.sizes).all()
    assert float(wave(found.best[None])[0]) == found.value == float(wave(seen).max())


def test_visited_points_and_history_are_recorded(optimiser):
    requested = Asked(wave)
    found = run(optimiser, evaluate=requested)
    assert found.visited == sum(map(len, requested.points))
    assert len(found.history) == found.generations
    assert (np.diff(found.history) >= 0).all()
    assert found.history[-1] == found.value
    assert found.history[found.generation_of_best] == found.value
    assert found.first_best <= found.value


def test_result_is_not_worse_than_the_start_points(optimiser):
    # The best point there is, given as the second of two starts.
    best = np.array([np.argmax(numbers) for numbers in VALUES], dtype=np.uint32)
    found = run(optimiser, starts=[[0] * len(VALUES), best], most=1)
    assert found.value == float(wave(best[None])[0])
    assert found.best.tolist() == best.tolist()


def test_start_points_outside_the_search_space_are_moved_into_it(optimiser):
    found = run(optimiser, starts=[[-5, 10**6] * (len(VALUES) // 2)], most=1)
    assert (found.best < PLANE.sizes).all()


def test_search_ends_soon_after_its_limit_and_reports_that_the_limit_was_reached(optimiser):
    found = run(optimiser, space=LINE, evaluate=partial(np.sum, axis=1, dtype=float), most=20)
    assert found.cut
    assert 20 <= found.visited <= 20 + 1100, "at most one generation more"
    fine = run(optimiser, most=40, batch=8, starts=[[1] * len(VALUES)])
    assert fine.cut
    assert fine.visited <= 40 + 120, "a generation is left in the middle"


def test_interruption_returns_the_best_point_so_far(optimiser):
    requested = Asked(wave, interrupted_at=4)
    found = run(optimiser, evaluate=requested, most=10**6, batch=7)
    assert found.cut
    assert found.value == float(wave(np.concatenate(requested.points[:3])).max())


def test_interruption_before_the_first_evaluation_propagates(optimiser):
    with pytest.raises(KeyboardInterrupt):
        run(optimiser, evaluate=Asked(wave, interrupted_at=1))


def test_progress_is_reported_after_every_generation(optimiser):
    reported = []
    found = run(optimiser, on_progress=reported.append)
    assert [one.generations for one in reported] == list(range(1, found.generations + 1))
    assert [one.value for one in reported] == found.history.tolist()
    assert reported[-1].visited == found.visited
    assert reported[-1].best.tolist() == found.best.tolist()


class Three:
    """A pool of three workers that computes items in any order and returns the results in order."""

    workers = 3

    def map(self, function, items):
        given = list(items)
        done = {number: function(given[number]) for number in reversed(range(len(given)))}
        return iter([done[number] for number in range(len(given))])


def test_pool_does_not_change_the_result_of_an_optimiser(optimiser):
    assert facts(run(optimiser, pool=Three())) == facts(run(optimiser))


def test_search_of_a_space_with_one_point_returns_that_point(optimiser):
    only = make_numeric_space([[4.0], [1.0]])
    found = run(optimiser, space=only, evaluate=lambda points: np.full(len(points), 7.0), most=200)
    assert found.value == 7.0
    assert found.best.tolist() == [0, 0]


def test_infeasible_points_are_never_preferred(optimiser):
    def guarded(points):
        values = wave(points)
        return np.where(points[:, 0] % 2 == 1, -np.inf, values)

    found = run(optimiser, evaluate=guarded, starts=[[0] * len(VALUES)])
    assert found.best[0] % 2 == 0
    assert np.isfinite(found.value)


@pytest.mark.parametrize("name", HILLS)
def test_optimum_of_a_smooth_function_is_found(optimiser, name):
    space, hill, top = HILLS[name]
    found = run(optimiser, space=space, evaluate=hill, most=20_000)
    assert found.value == pytest.approx(top, abs=1e-12)
