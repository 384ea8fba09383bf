"""Labels for a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.reports.text import fitted, printable, shown_width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 4, "abc…"),
        ("", 2, "  "),
        ("机器", 3, "机…"),
        ("机器一", 4, "机… "),
        ("é", 1, "é"),
    ],
)
def test_fitted_label_is_cut_or_padded(text: str, width: int, expected: str) -> None:
    assert fitted(text, width) == expected


@given(st.text(), st.integers(1, 20))
def test_fitted_label_has_the_requested_width(text: str, width: int) -> None:
    assert shown_width(fitted(printable(text), width)) == width


def test_label_is_cut_with_an_ascii_mark_if_only_ascii_is_allowed() -> None:
    assert fitted("abcdef", 4, ascii_only=True) == "abc~"


def test_control_characters_are_replaced() -> None:
    assert printable("a\x1b[31m\nb") == "a?[31m?b"
    assert printable("größe", ascii_only=True) == "gr??e"
