"""Operators over columns: exact results or None."""

from __future__ import annotations

import numpy as np
import pytest

from weft.expressions.columns import FAST_FUNCTIONS, Column, fast_arithmetic, fast_compare, fast_sign, pack

INTEGERS = np.array([1, 2])
LARGE = np.array([2**60, 1])
FLOATS = np.array([0.5, np.nan])


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        ("*", LARGE, LARGE),
        ("+", LARGE, 2**63),
        ("/", LARGE, 2),
        ("+", LARGE, 0.5),
        ("/", INTEGERS, 0),
        ("%", INTEGERS, INTEGERS - 1),
        ("//", FLOATS, 2),
        ("**", FLOATS, 2),
        ("**", INTEGERS, -1),
        ("**", LARGE, 2),
        ("*", np.array([1e300]), 1e300),
        ("-", np.array([np.inf]), np.inf),
        ("+", INTEGERS, "a"),
        ("+", INTEGERS, True),
        ("+", INTEGERS, None),
        ("+", np.array([True]), 1),
        ("+", np.array([1, None]), 1),
    ],
)
def test_unsupported_arithmetic_is_not_vectorised(operator: str, left: Column, right: Column) -> None:
    assert fast_arithmetic(operator, left, right) is None


def test_arithmetic_that_is_vectorised_is_exact() -> None:
    for operator, right, expected in [
        ("+", 1, [2, 3]),
        ("//", 2, [0, 1]),
        ("%", 2, [1, 0]),
        ("**", 3, [1, 8]),
    ]:
        result = fast_arithmetic(operator, INTEGERS, right)
        assert result is not None
        assert result.dtype == np.int64
        assert result.tolist() == expected
    result = fast_arithmetic("*", FLOATS, INTEGERS)
    assert result is not None
    np.testing.assert_array_equal(result, [0.5, np.nan])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (LARGE, 0.5),
        (np.array(["a"]), 1),
        (np.array(["a"]), "a\0"),
        (INTEGERS, None),
        (np.array([True]), True),
    ],
)
def test_unsupported_comparisons_are_not_vectorised(left: Column, right: Column) -> None:
    assert fast_compare("==", left, right) is None


def test_comparisons_with_nan_are_false() -> None:
    for operator in ("==", "!=", "<", ">="):
        result = fast_compare(operator, FLOATS, FLOATS)
        assert result is not None
        assert not result[1]


def test_the_lowest_integer_is_not_negated() -> None:
    lowest = np.array([-(2**63)])
    assert fast_sign("-", lowest) is None
    assert FAST_FUNCTIONS["abs"](lowest) is None
    assert fast_sign("+", np.array(["a"])) is None


def test_min_and_max_take_columns_of_one_type_and_keep_nan() -> None:
    assert FAST_FUNCTIONS["min"](INTEGERS, 0.5) is None
    result = FAST_FUNCTIONS["max"](FLOATS, 0.75)
    assert result is not None
    np.testing.assert_array_equal(result, [0.75, np.nan])


def test_pack_returns_an_array_with_the_type_of_the_values() -> None:
    assert pack([1, 2]).dtype == np.int64
    assert pack([1.0, 2.0]).dtype == np.float64
    assert pack([True]).dtype == bool
    for mixture in ([1, 2.0], [True, 1], ["a"], [None], [[1], [2]], [2**63]):
        column = pack(mixture)
        assert column.dtype == object
        assert column.shape == (len(mixture),)
        assert column.tolist() == mixture
