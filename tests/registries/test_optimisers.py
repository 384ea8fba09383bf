"""Every optimiser on the registry keeps the contract; new ones are picked up by themselves."""

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
"""Points; some optimisers go on much longer by themselves."""


@pytest.fixture(params=list(OPTIMISERS))
def optimiser(request):
    return OPTIMISERS.load(request.param)()


def run(optimiser, space=PLANE, evaluate=wave, *, seed=3, most=MOST, **options):
    return optimiser.optimise(
        space, evaluate, rng=generator(seed, "conformance"), limit=StepLimit(most=most), **options
    )


def facts(found):
    """Give everything of a result that must be the same another time."""
    numbers = (found.value, found.visited, found.generations, found.generation_of_best, found.first_best)
    return (*numbers, found.best.tolist(), found.history.tolist(), found.last.tolist(), found.cut)


def test_it_says_who_it_is(optimiser):
    assert OPTIMISERS.load(optimiser.name) is type(optimiser)
    assert len(optimiser.title) > 10
    assert optimiser.refuses(PLANE) is None


def test_the_same_seed_gives_the_same_result(optimiser):
    assert facts(run(optimiser)) == facts(run(optimiser))


def test_what_it_finds_is_legal_and_worth_what_it_says(optimiser):
    asked = Asked(wave)
    found = run(optimiser, evaluate=asked)
    seen = np.concatenate(asked.points)
    assert seen.dtype == np.uint32
    assert (seen < PLANE.sizes).all()
    assert (found.best < PLANE.sizes).all()
    assert (found.last < PLANE.sizes).all()
    assert float(wave(found.best[None])[0]) == found.value == float(wave(seen).max())


def test_it_counts_what_it_visits_and_keeps_the_story(optimiser):
    asked = Asked(wave)
    found = run(optimiser, evaluate=asked)
    assert found.visited == sum(map(len, asked.points))
    assert len(found.history) == found.generations
    assert (np.diff(found.history) >= 0).all()
    assert found.history[-1] == found.value
    assert found.history[found.generation_of_best] == found.value
    assert found.first_best <= found.value


def test_it_is_never_worse_than_where_it_starts(optimiser):
    # The best point there is, given as the second of two starts.
    best = np.array([np.argmax(numbers) for numbers in VALUES], dtype=np.uint32)
    found = run(optimiser, starts=[[0] * len(VALUES), best], most=1)
    assert found.value == float(wave(best[None])[0])
    assert found.best.tolist() == best.tolist()


def test_starts_outside_of_the_space_are_repaired(optimiser):
    found = run(optimiser, starts=[[-5, 10**6] * (len(VALUES) // 2)], most=1)
    assert (found.best < PLANE.sizes).all()


def test_it_ends_soon_after_the_limit_and_says_so(optimiser):
    found = run(optimiser, space=LINE, evaluate=partial(np.sum, axis=1, dtype=float), most=20)
    assert found.cut
    assert 20 <= found.visited <= 20 + 1100, "at most one generation more"
    fine = run(optimiser, most=40, batch=8, starts=[[1] * len(VALUES)])
    assert fine.cut
    assert fine.visited <= 40 + 120, "a generation is left in the middle"


def test_an_interruption_gives_the_best_so_far(optimiser):
    asked = Asked(wave, interrupted_at=4)
    found = run(optimiser, evaluate=asked, most=10**6, batch=7)
    assert found.cut
    assert found.value == float(wave(np.concatenate(asked.points[:3])).max())


def test_an_interruption_before_anything_is_known_is_passed_on(optimiser):
    with pytest.raises(KeyboardInterrupt):
        run(optimiser, evaluate=Asked(wave, interrupted_at=1))


def test_it_tells_how_far_it_is_after_every_generation(optimiser):
    told = []
    found = run(optimiser, tell=told.append)
    assert [one.generations for one in told] == list(range(1, found.generations + 1))
    assert [one.value for one in told] == found.history.tolist()
    assert told[-1].visited == found.visited
    assert told[-1].best.tolist() == found.best.tolist()


class Three:
    """A pool that works on three pieces at a time, in any order, and gives back the results in order."""

    workers = 3

    def map(self, function, items):
        given = list(items)
        done = {number: function(given[number]) for number in reversed(range(len(given)))}
        return iter([done[number] for number in range(len(given))])


def test_a_pool_changes_nothing(optimiser):
    assert facts(run(optimiser, pool=Three())) == facts(run(optimiser))


def test_a_space_of_one_point_is_searched_at_once(optimiser):
    only = make_numeric_space([[4.0], [1.0]])
    found = run(optimiser, space=only, evaluate=lambda points: np.full(len(points), 7.0), most=200)
    assert found.value == 7.0
    assert found.best.tolist() == [0, 0]


def test_points_that_are_not_allowed_are_never_preferred(optimiser):
    def guarded(points):
        values = wave(points)
        return np.where(points[:, 0] % 2 == 1, -np.inf, values)

    found = run(optimiser, evaluate=guarded, starts=[[0] * len(VALUES)])
    assert found.best[0] % 2 == 0
    assert np.isfinite(found.value)


@pytest.mark.parametrize("name", HILLS)
def test_it_finds_the_top_of_a_smooth_hill(optimiser, name):
    space, hill, top = HILLS[name]
    found = run(optimiser, space=space, evaluate=hill, most=20_000)
    assert found.value == pytest.approx(top, abs=1e-12)
