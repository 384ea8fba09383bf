"""Functions of expressions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.expressions import (
    ExpressionError,
    Value,
    evaluate,
    evaluate_columns,
    find_unknown_names,
    parse,
)
from weft.expressions.operations import FUNCTIONS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("min(3, 1, 2.5)", 1),
        ("max([3, 1])", 3),
        ("max(4)", 4),
        ("abs(-3)", 3),
        ("ceil(1.2)", 2),
        ("floor(-1.2)", -2),
        ("round(2.567, 2)", 2.57),
        ("round(2.5)", 2),
        ("round(1234, -2)", 1200),
        ("sqrt(16)", 4.0),
        ("log(1)", 0.0),
        ("log(8, 2)", 3.0),
        ("log2(8)", 3.0),
        ("log10(1000)", 3.0),
        ("exp(0)", 1.0),
        ("len([1, 2])", 2),
        ("len('abc')", 3),
        ("len(table)", 1),
        ("sum([1, 2.5])", 3.5),
        ("sum([])", 0),
        ("any([False, True])", True),
        ("all([true, false])", False),
        ("all([])", True),
        ("int(2.9)", 2),
        ("int(-2.9)", -2),
        ("int('12')", 12),
        ("int(True)", 1),
        ("float('1e3')", 1000.0),
        ("str(3)", "3"),
        ("str(0.5)", "0.5"),
        ("str(1 < 2)", "true"),
        ("matches('altix3', 'altix*')", True),
        ("matches('Altix3', 'altix*')", False),
        ("matches('a', '[!a]')", False),
        ("startswith('altix', 'al')", True),
        ("endswith('altix', 'al')", False),
        ("lower('AbC') + upper('x')", "abcX"),
        ("range(1, 3)", [1, 2, 3]),
        ("range(3, 1)", []),
        ("min([1, null]) == 1", False),
        ("matches(null, 'a')", False),
        ("str(null)", None),
        ("range(1, null)", None),
        ("default(3, 4)", 3),
        ("default(null, 4)", 4),
        ("default(nobody, 'x')", "x"),
        ("default(nobody.knows, null)", None),
        ("default(table.x, 7)", 1),
        ("default(default(nobody, null), 2) > 1", True),
        ("default(false, true)", False),
    ],
)
def test_functions_give_the_expected_values(text: str, expected: Value) -> None:
    result = evaluate(parse(text), {"table": {"x": 1}})
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("sqrt(-1)", 6, "at least 0"),
        ("log(0)", 5, "above 0"),
        ("log2(-1)", 6, "above 0"),
        ("log(2, 1)", 8, "base"),
        ("log(2, -3)", 8, "base"),
        ("exp(1000)", 1, "too large"),
        ("1 + abs('x')", 9, "takes a number"),
        ("abs(True)", 5, "takes a number"),
        ("min([])", 5, "empty list"),
        ("min(['a'])", 5, "numbers"),
        ("min(1, [2])", 8, "takes a number"),
        ("sum([1, 'a'])", 1, "arithmetic takes two numbers"),
        ("sum(3)", 5, "takes a list"),
        ("any([1])", 1, "condition"),
        ("len(3)", 5, "string or list or mapping"),
        ("int('x')", 5, "must contain a number"),
        ("int([1])", 5, "is a list"),
        ("float('nan')", 7, "must contain a number"),
        ("float('inf')", 7, "must contain a number"),
        ("round(1.5, 1000)", 12, "whole number from"),
        ("round(1.5, 0.5)", 12, "whole number from"),
        ("range(1, 2000000)", 1, "too long"),
        ("range(1, 10**300)", 1, "too long"),
        ("range(1, 2.5)", 1, "whole numbers"),
        ("matches('a', 3)", 14, "takes a string"),
        ("str([1])", 5, "is a list of 1"),
        ("float(10**400)", 1, "too large"),
        ("lines('f')", 1, "before the file exists"),
        ("default(nobody + 1, 4)", 9, "unknown name 'nobody'"),
        ("default(1, nobody)", 12, "unknown name 'nobody'"),
        ("default(1)", 1, "takes 2 arguments"),
    ],
)
def test_wrong_arguments_of_functions_are_reported(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse(text), {})
    assert caught.value.column == column
    assert message in str(caught.value)


def test_pattern_matching_has_limits_and_is_fast() -> None:
    assert evaluate(parse("matches(t, p)"), {"t": "a" * 10_000, "p": "*a" * 99 + "b"}) is False
    with pytest.raises(ExpressionError, match="at most 200 characters"):
        evaluate(parse("matches(t, p)"), {"t": "a", "p": "*" * 201})
    with pytest.raises(ExpressionError, match="at most 10000 characters"):
        evaluate(parse("matches(t, p)"), {"t": "a" * 10_001, "p": "*"})


def test_sums_add_from_left_to_right() -> None:
    values = [0.1] * 10
    total = 0.0
    for value in values:
        total += value
    assert evaluate(parse("sum(x)"), {"x": values}) == total


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"lines"}))
def test_every_function_accepts_unknown_arguments(name: str) -> None:
    function = FUNCTIONS[name]
    result = function(*[None] * function.needed)
    assert result is None or result is False or (isinstance(result, float) and math.isnan(result))


def test_function_default_allows_an_undefined_name_only_as_first_argument() -> None:
    requested = parse("default(mhz, base) > limit")
    assert [error.message for error in find_unknown_names(requested, {"base"})] == ["unknown name 'limit'"]
    assert find_unknown_names(requested, {"base", "limit"}) == []


def test_function_default_over_columns_replaces_unknown_rows() -> None:
    columns = {
        "mhz": np.array([2400.0, np.nan, 500.0]),
        "arch": np.array(["a", None, "b"], dtype=object),
        "box": np.array([{"x": 1}, {}, {"x": 3}], dtype=object),
    }
    assert evaluate_columns(parse("default(mhz, 0)"), columns, 3).tolist() == [2400.0, 0.0, 500.0]
    assert evaluate_columns(parse("default(arch, 'any')"), columns, 3).tolist() == ["a", "any", "b"]
    assert evaluate_columns(parse("default(box.x, 2)"), columns, 3).tolist() == [1, 2, 3]
    assert evaluate_columns(parse("default(nobody, 0) < 1"), columns, 3).tolist() == [True, True, True]
    assert evaluate_columns(parse("default(nobody, null) != 'x'"), columns, 3).tolist() == [False] * 3
