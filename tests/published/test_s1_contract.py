"""The table of the performance contract (Prodan and Fahringer 2005; docs/papers/dynamic-grid.md, A1.2)."""

from __future__ import annotations

import math

import pytest

from weft.engine.reactions.contracts import PerformanceContract, PerformanceSample, compute_ratio, find_breach

HALF = PerformanceContract(limit=0.5)


@pytest.mark.parametrize(
    ("done", "now_s", "expected"),
    [(0.4, 40, 0.0), (0.2, 40, 1.0), (0.8, 40, -0.5), (None, 150, 0.5)],
    ids=["on schedule", "half the speed", "double speed", "unknown at 1.5 T"],
)
def test_performance_ratios_equal_the_table(done, now_s, expected):
    assert compute_ratio(PerformanceSample(started_s=0, predicted_s=100, done=done), now_s) == expected
    assert compute_ratio(PerformanceSample(started_s=64, predicted_s=100, done=done), 64 + now_s) == expected


@pytest.mark.parametrize("predicted_s", [100, 0.7, 1 / 3, 77.376, 1e-9, 1e12])
@pytest.mark.parametrize("started_s", [0, 0.1, 1e6 + 1 / 7])
def test_attempt_without_progress_violates_its_contract_after_1_5_times_the_prediction(
    predicted_s, started_s
):
    watched = PerformanceSample(started_s=started_s, predicted_s=predicted_s)
    last_s = started_s + 1.5 * predicted_s
    assert find_breach(watched, HALF, last_s) is None
    assert find_breach(watched, HALF, math.nextafter(last_s, math.inf)) is not None


def test_half_of_the_predicted_speed_violates_the_contract_and_two_thirds_do_not():
    watched = PerformanceSample(started_s=0, predicted_s=90, work=6, done=2)
    assert find_breach(watched, HALF, 45) is None  # projected total 135 s, exactly 1.5 times the prediction
    assert find_breach(watched, HALF, math.nextafter(45, 46)) is not None
    assert find_breach(PerformanceSample(started_s=0, predicted_s=90, work=6, done=1), HALF, 30) is not None
