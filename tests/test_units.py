"""Formatting of quantities."""

from __future__ import annotations

import pytest

from weft.units import format_change, format_seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3 ms"), (0.99949, "999 ms"), (0.9995, "0.9995 s"), (1 - 1e-9, "1 s"), (-0.9999999, "-1 s")],
)
def test_a_second_is_not_shown_as_1000_milliseconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (-1e-12, "+0.0%"),
        (0.0, "+0.0%"),
        (-0.0004, "+0.0%"),
        (-0.0006, "-0.1%"),
        (0.125, "+12.5%"),
        (1.5, "+150.0%"),
    ],
)
def test_a_change_that_rounds_to_zero_has_no_minus_sign(change: float, text: str) -> None:
    assert format_change(change) == text
