"""Estimates for remaining work at current speeds, in every mode and layout."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planning_examples import instance, platform
from weft.predictors.seconds import ClassSeconds, rescale_seconds

LAYOUTS = {
    "related": {f"t{number}": {"work": number + 1, "nodes": [1, 2]} for number in range(5)},
    "table": {f"t{number}": {"seconds": {"m0": number + 1, "m2": 2 * number + 1}} for number in range(5)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_mode_is_scaled_by_remaining_work_and_speed(layout):
    on = platform({"nodes": 2, "speed": 2.0}, {"nodes": 2}, {"nodes": 4, "speed": 3.0})
    whole = instance(LAYOUTS[layout], on).seconds
    rows = np.array([4, 1, 1, 3], dtype=np.uint32)
    left, speed = np.array([0.5, 1.0, 0.25, 0.75]), np.array([1.0, 0.25, 2.0])
    part = rescale_seconds(whole, rows, left, speed)
    assert part.layout == whole.layout
    for row, task in enumerate(rows.tolist()):
        for machine in range(3):
            for count in (1, 2, 3):
                expected = whole.at(task, machine, count) * left[row] / speed[machine]
                assert part.at(row, machine, count) == pytest.approx(expected, rel=1e-12, nan_ok=True)
        found = zip(*(column.tolist() for column in part.modes(row)), strict=True)
        assert [mode[:2] for mode in found] == [
            mode[:2] for mode in zip(*(column.tolist() for column in whole.modes(task)), strict=True)
        ]


def test_classes_are_split_by_remaining_work_and_speed():
    whole = ClassSeconds(
        sources=("measured",),
        source=np.zeros(3, dtype=np.uint8),
        spread=np.full(3, math.nan),
        task_class=np.array([0, 0, 1], dtype=np.uint32),
        machine_class=np.array([0, 0, 1], dtype=np.uint32),
        seconds=np.array([[[math.nan, 8.0], [math.nan, 4.0]], [[math.nan, 6.0], [math.nan, math.nan]]]),
    )
    rows = np.array([2, 0, 1], dtype=np.uint32)
    left, speed = np.array([1.0, 0.5, 1.0]), np.array([1.0, 0.5, 2.0])
    part = rescale_seconds(whole, rows, left, speed)
    found = [[part.at(row, machine, 1) for machine in range(3)] for row in range(3)]
    expected = [
        [whole.at(task, machine, 1) * left[row] / speed[machine] for machine in range(3)]
        for row, task in enumerate(rows.tolist())
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert math.isnan(found[0][2])
