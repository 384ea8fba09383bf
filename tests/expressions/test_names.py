"""Built-in names and lookup of variables."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from weft.expressions.operations import FUNCTIONS
from weft.expressions.values import BUILT_IN, MISSING, UNITS, Refusal, find_variable, look_up


def test_units_are_bytes_and_seconds() -> None:
    assert (UNITS["kB"], UNITS["KiB"], UNITS["PB"], UNITS["PiB"]) == (1000, 1024, 10**15, 2**50)
    assert (UNITS["us"], UNITS["minute"], UNITS["hour"], UNITS["day"]) == (1e-6, 60, 3600, 86400)


def test_ambiguous_abbreviations_are_not_units() -> None:
    assert not {"m", "h", "d", "min"} & set(UNITS)


def test_functions_and_built_in_names_are_disjoint() -> None:
    assert not set(FUNCTIONS) & set(BUILT_IN)


@pytest.mark.parametrize(
    ("name", "context", "expected"),
    [
        ("a", {"a": 1}, 1),
        ("a.b", {"a.b": 1, "a": {"b": 2}}, 1),
        ("a.b", {"a": {"b": 2}}, 2),
        ("a.b", {"a": 3}, MISSING),
        ("a.real", {"a": 3}, MISSING),
        ("a.b.c", {"a": {"b": None}}, MISSING),
        ("a", {"a": None}, None),
        ("b", {"a": 1}, MISSING),
    ],
)
def test_find_variable_returns_the_value_or_none(
    name: str, context: Mapping[str, object], expected: object
) -> None:
    assert find_variable(name, context) is expected


def test_look_up_rejects_undefined_names() -> None:
    assert look_up("GB", {}) == 10**9
    assert look_up("GB", {"GB": 1}) == 1
    with pytest.raises(Refusal, match="unknown name 'gigabytes'"):
        look_up("gigabytes", {})
