"""Round times on an axis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.reports.charts import tick_label, tick_times


@pytest.mark.parametrize(
    ("end_s", "most", "labels"),
    [
        (80, 7, ["0 s", "20 s", "40 s", "60 s", "80 s"]),
        (7000, 7, ["0 s", "30m", "1h", "1h 30m"]),
        (300, 6, ["0 s", "60 s", "2m", "3m", "4m", "5m"]),
        (0.05, 5, ["0 s", "10 ms", "20 ms", "30 ms", "40 ms", "50 ms"]),
        (4.1, 5, ["0 s", "1 s", "2 s", "3 s", "4 s"]),
        (86400 * 3.5, 4, ["0 s", "1d", "2d", "3d"]),
        (86400 * 100, 6, ["0 s", "20d", "40d", "60d", "80d", "100d"]),
        (0, 5, ["0 s"]),
    ],
)
def test_tick_labels_are_round_times(end_s: float, most: int, labels: list[str]) -> None:
    assert [tick_label(time) for time in tick_times(end_s, most)] == labels


@given(st.floats(1e-6, 1e12), st.integers(1, 20))
def test_ticks_stay_within_the_limit_and_the_end(end_s: float, most: int) -> None:
    times = tick_times(end_s, most)
    assert times[0] == 0
    assert len(times) <= most + 1
    assert times[-1] <= end_s * (1 + 1e-9)
