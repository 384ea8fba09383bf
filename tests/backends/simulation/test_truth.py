"""True durations follow their distribution and are determined by seed, run, iteration and task."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.backends.simulation.scenario import Durations
from weft.backends.simulation.truth import TrueDurations

NOISY = Durations(noise=0.3, bias=1.5)


def truth(durations=NOISY, labels=(), seed=1, run=0):
    return TrueDurations(durations, labels, seed=seed, run=run)


def test_without_noise_true_durations_equal_their_estimates():
    assert truth(Durations()).seconds(5, 12.5) == 12.5
    assert truth(Durations(bias=2.0)).seconds(5, 12.5, iteration=3) == 25.0


def test_noise_keeps_the_mean_duration_and_sets_the_deviation():
    drawn = np.array(list(map(truth().factor, range(40_000))))
    # Four standard errors; the median of a lognormal distribution is below its mean.
    assert drawn.mean() == pytest.approx(1.5, abs=4 * 1.5 * 0.3 / math.sqrt(40_000))
    assert drawn.std() == pytest.approx(1.5 * 0.3, rel=0.03)
    assert np.median(drawn) == pytest.approx(1.5 / math.sqrt(1.09), rel=0.01)
    assert np.log(drawn).std() == pytest.approx(math.sqrt(math.log(1.09)), rel=0.02)
    assert drawn.min() > 0


@given(st.permutations([(task, iteration) for task in (0, 7, 1023, 1024, 5000) for iteration in (0, 1, 4)]))
def test_true_durations_do_not_depend_on_the_order_of_calls(requested):
    mine, theirs = truth(), truth()
    expected = {each: mine.factor(*each) for each in sorted(requested)}
    assert {each: theirs.factor(*each) for each in requested} == expected
    assert len(set(expected.values())) == len(expected)


def test_durations_of_different_runs_seeds_and_iterations_are_independent():
    columns = [
        [one.factor(task, iteration) for task in range(2000)]
        for one, iteration in (
            (truth(), 0),
            (truth(), 1),
            (truth(run=1), 0),
            (truth(seed=2), 0),
            (truth(run=11), 0),
        )
    ]
    correlation = np.corrcoef(columns)
    assert np.abs(correlation - np.eye(len(columns))).max() < 0.1


def test_a_task_can_have_its_own_noise_and_bias():
    durations = Durations(noise=0.1, tasks={"a": Durations(bias=3.0), "b[2]": Durations(noise=0.1, bias=2.0)})
    labels = ["a[1]", "b[1]", "b[2]"]
    found, plain = truth(durations, labels), truth(Durations(noise=0.1))
    assert found.factor(0) == 3.0
    assert found.factor(1) == plain.factor(1)
    assert found.factor(2) == pytest.approx(2 * plain.factor(2))
    labels.append("a[2]")
    assert found.factor(3) == 3.0, "a list of names may grow"
