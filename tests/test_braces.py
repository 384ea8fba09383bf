from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.documents import expand_braces, has_range
from weft.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("altix{1..3}", ["altix1", "altix2", "altix3"]),
        ("{01..03}.txt", ["01.txt", "02.txt", "03.txt"]),
        ("n{08..10}", ["n08", "n09", "n10"]),
        ("n{8..010}", ["n008", "n009", "n010"]),
        ("r{1..2}n{1..2}", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("{-1..1}", ["-1", "0", "1"]),
        ("{5..5}", ["5"]),
        ("plain", ["plain"]),
        ("", [""]),
        ("{name}", ["{name}"]),
        ("{1..n}", ["{1..n}"]),
        ("{1...3}", ["{1...3}"]),
        ("{{1..3}}", ["{{1..3}}"]),
        ("${1..3}", ["${1..3}"]),
        ("awk '{print $1}' {1..2}", ["awk '{print $1}' 1", "awk '{print $1}' 2"]),
    ],
)
def test_a_range_expands_to_its_numbers(text: str, names: list[str]) -> None:
    assert expand_braces(text) == names
    assert has_range(text) == (names != [text])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x{3..1}", "is descending"),
        ("x{1..1000001}", "at most 1,000,000 names"),
        ("x{1..1000000000000}", "at most 1,000,000 names"),
        ("x{1..2000}y{1..2000}", "at most 1,000,000 names"),
        ("{0..9}" * 400, "at most 1,000,000 names"),
        ("x{1.." + "9" * 5000 + "}", "at most 18 digits"),
        ("y" * 1000 + "{1..200000}", "at most 100,000,000 characters"),
    ],
)
def test_expansions_that_are_too_large_are_rejected(text: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        expand_braces(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_million_names_are_allowed() -> None:
    names = expand_braces("m{1..1000000}")
    assert (len(names), names[-1]) == (1_000_000, "m1000000")


@given(st.integers(-50, 50), st.integers(0, 60), st.text("ab./", max_size=4), st.text("ab./", max_size=4))
def test_every_number_of_a_range_occurs_once_and_in_order(
    first: int, more: int, head: str, tail: str
) -> None:
    names = expand_braces(f"{head}{{{first}..{first + more}}}{tail}")
    assert names == [f"{head}{number}{tail}" for number in range(first, first + more + 1)]
