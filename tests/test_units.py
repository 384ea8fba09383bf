"""Formatting of quantities."""

from __future__ import annotations

import pytest

from weft.units import format_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3 ms"), (0.99949, "999 ms"), (0.9995, "0.9995 s"), (1 - 1e-9, "1 s"), (-0.9999999, "-1 s")],
)
def test_a_second_is_not_shown_as_1000_milliseconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
