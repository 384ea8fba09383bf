"""One run of the genetic search: to its end, to the optimum, or interrupted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.papers.search import run_search
from weft.randomness import generator
from weft.search.genetic import PRESETS
from weft.search.space import make_space

SETTINGS = replace(PRESETS["s2-recommended"], population=10, generations=200)
SPACE = make_space([4] * 6)


def value(points):
    return points.sum(axis=1).astype(np.float64)


def test_search_without_a_given_optimum_runs_all_generations():
    found = run_search(SETTINGS, SPACE, value, generator(1, "run"))
    assert (found.generations, found.visited, found.cut) == (200, 2000, False)


def test_search_with_a_given_optimum_stops_there_with_equal_results():
    whole = run_search(SETTINGS, SPACE, value, generator(1, "run"))
    found = run_search(SETTINGS, SPACE, value, generator(1, "run"), optimum=18.0)
    assert found.value == whole.value == 18.0
    assert found.generation_of_best == whole.generation_of_best == found.generations - 1 < 199


def test_given_optimum_that_is_not_reached_has_no_effect():
    found = run_search(SETTINGS, SPACE, value, generator(1, "run"), optimum=18.5)
    assert (found.generations, found.cut) == (200, False)


@pytest.mark.parametrize("optimum", [None, 18.5])
def test_an_interrupted_search_raises_keyboard_interrupt(optimum):
    calls = []

    def interrupted(points):
        calls.append(len(points))
        if len(calls) == 5:
            raise KeyboardInterrupt
        return value(points)

    with pytest.raises(KeyboardInterrupt):
        run_search(SETTINGS, SPACE, interrupted, generator(1, "run"), optimum=optimum)
    assert len(calls) == 5
