"""Evaluation of an expression in one context."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from weft.expressions import (
    ExpressionError,
    Value,
    evaluate,
    evaluate_boolean,
    evaluate_number,
    limit_document_entries,
    parse,
)

CONTEXT = {
    "a": 7,
    "b": 2.5,
    "name": "altix3",
    "flag": True,
    "nothing": None,
    "nan": math.nan,
    "xs": [3, 1, 2],
    "table": {"one": 1, 2: "two"},
    "conv": {"exit_code": 0, "result": {"delta": 1e-4}},
    "whole.key": 5,
    "whole": {"key": 6, "other": 7},
    "huge": 2**5000,
    "object": SimpleNamespace(secret=1),
    "inf": math.inf,
}


def value(text: str) -> Value:
    return evaluate(parse(text), CONTEXT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 1", 8),
        ("a - b", 4.5),
        ("a * 2", 14),
        ("a / 2", 3.5),
        ("a // 2", 3),
        ("-a // 2", -4),
        ("a % 4", 3),
        ("a ** 2", 49),
        ("2 ** -1", 0.5),
        ("-2 ** 2", -4),
        ("+a", 7),
        ("'x' + name", "xaltix3"),
        ("a > 3 and b < 3", True),
        ("a > 3 and b > 3", False),
        ("a < 3 or b < 3", True),
        ("not flag", False),
        ("1 < 2 < 3", True),
        ("1 < 3 < 2", False),
        ("'b' > 'a'", True),
        ("1 == 1.0", True),
        ("1 == '1'", False),
        ("1 != '1'", True),
        ("True == 1", False),
        ("True != 1", True),
        ("[1, 'x'] == [1, 'x']", True),
        ("[True] == [1]", False),
        ("table == table", True),
        ("2 in xs", True),
        ("5 not in xs", True),
        ("True in [1]", False),
        ("'alt' in name", True),
        ("'one' in table", True),
        ("'x' if flag else 1 / 0", "x"),
        ("xs[0]", 3),
        ("xs[-1]", 2),
        ("table['one'] + xs[1]", 2),
        ("table[2]", "two"),
        ("conv.exit_code == 0", True),
        ("conv.result.delta < 1e-3", True),
        ("whole.key", 5),
        ("whole.other", 7),
        ("4*GB", 4_000_000_000),
        ("GiB / MiB", 1024),
        ("2*hour + 3*minute + 4*s", 7384),
        ("500*ms", 0.5),
        ("true and not false", True),
        ("[a, [b]]", [7, [2.5]]),
        ("2 ** 1024 * 2 ** 1024 > 0", True),
        ("inf > 3 and -inf < 3", True),
        ("inf + 1", math.inf),
    ],
)
def test_expressions_give_the_expected_values(text: str, expected: Value) -> None:
    result = value(text)
    assert result == expected
    assert isinstance(result, bool) == isinstance(expected, bool)


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
@pytest.mark.parametrize("unknown", ["nothing", "nan", "null", "None"])
def test_comparisons_with_unknown_values_are_false(operator: str, unknown: str) -> None:
    assert value(f"{unknown} {operator} [1]") is False
    assert value(f"1 {operator} {unknown}") is False
    assert value(f"{unknown} {operator} {unknown}") is False


@pytest.mark.parametrize(
    "text", ["nothing + 1", "2 ** nothing", "-nan", "nan // 0", "+null", "'a' + null", "abs(null)"]
)
def test_arithmetic_with_unknown_values_is_nan(text: str) -> None:
    result = value(text)
    assert isinstance(result, float)
    assert math.isnan(result)


def test_unknown_value_counts_as_false_and_its_items_are_unknown() -> None:
    assert value("not nothing") is True
    assert value("1 if nan else 2") == 2
    assert value("nothing or flag") is True
    assert value("nothing[0]") is None
    assert value("xs[nothing]") is None


def test_and_or_and_conditionals_evaluate_only_the_needed_operands() -> None:
    assert value("a < 0 and 1 / 0 > 0") is False
    assert value("a > 0 or missing") is True
    assert value("2 < 1 < missing") is False


def test_variables_take_precedence_over_units_and_constants() -> None:
    assert evaluate(parse("s + 1"), {"s": 41}) == 42
    assert evaluate(parse("true"), {"true": "yes"}) == "yes"


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 + a / 0", 7, "division by zero"),
        ("a % (1 - 1)", 3, "division by zero"),
        ("0 ** -1", 3, "division by zero"),
        ("True + 1", 6, "truth value True"),
        ("a * name", 3, "the string 'altix3'"),
        ("'a' * 3", 5, "arithmetic takes two numbers"),
        ("[0] * 3", 5, "a list of 1"),
        ("[0] + [1]", 5, "two strings"),
        ("-name", 1, "unary + and - need a number"),
        ("a < name", 3, "order"),
        ("flag < flag", 6, "order"),
        ("1 < 2 < name", 7, "order"),
        ("1 in 2", 3, "`in`"),
        ("1 in name", 3, "`in`"),
        ("a and flag", 1, "condition"),
        ("flag and name", 10, "condition"),
        ("not a", 5, "condition"),
        ("1 if xs else 2", 6, "condition"),
        ("xs[3]", 1, "positions 0 to 2"),
        ("xs[-4]", 1, "outside the list"),
        ("xs[1.0]", 1, "whole numbers"),
        ("xs[flag]", 1, "whole numbers"),
        ("[][0]", 1, "the list is empty"),
        ("table['ones']", 1, "did you mean 'one'?"),
        ("table[xs]", 1, "keys are strings or numbers"),
        ("name[0]", 1, "only lists and mappings"),
        ("1 + nam", 5, "did you mean 'name'?"),
        ("conv.exit", 1, "unknown name 'conv.exit'"),
        ("name.upper", 1, "unknown name"),
        ("object.secret", 1, "unknown name"),
        ("object", 1, "SimpleNamespace"),
        ("a.__class__", 1, "unknown name"),
        ("2 ** 9**9", 3, "exponents lie between"),
        ("10.0 ** 400", 6, "too large"),
        ("2 ** 1024 * 2.0", 11, "too large"),
        ("(10 ** 1000) ** 2", 14, "too large"),
        ("10 ** 700 * 10 ** 700", 11, "too large"),
        ("1e300 * 1e300", 7, "too large"),
        ("huge + 1", 6, "too large"),
        ("(-8) ** 0.5", 6, "no real value"),
        ("2 ** inf", 3, "exponents"),
        ("inf - inf", 5, "not a number"),
        ("lines(split.parts)", 1, "before the file exists"),
    ],
)
def test_errors_name_the_column_and_the_rule(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert caught.value.column == column
    assert message in str(caught.value)
    assert caught.value.text == text


@pytest.mark.parametrize(
    "text", ["9**9**9", "'a' * 10**9", "[0] * 10**9", "2**1024**1024", "((2**1000)**1000)**1000"]
)
def test_expressions_with_huge_results_are_rejected_quickly(text: str) -> None:
    with pytest.raises(ExpressionError):
        value(text)


def test_concatenated_strings_are_bounded() -> None:
    half = {"x": "a" * 5000}
    assert len(str(evaluate(parse("x + x"), half))) == 10_000
    with pytest.raises(ExpressionError, match="too long"):
        evaluate(parse("x + x + 'a'"), half)


def test_the_total_length_of_lists_is_bounded() -> None:
    assert value("len(range(1, 400000)) + len(range(1, 500000))") == 900_000
    with pytest.raises(ExpressionError, match="too many entries in total"):
        value("len(range(1, 600000)) + len(range(1, 600000))")


def test_deeply_nested_lists_are_rejected() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    other: list[object] = []
    for _ in range(100_000):
        other = [other]
    with pytest.raises(ExpressionError, match="nested"):
        evaluate(parse("x == y"), {"x": deep, "y": other})


def test_numpy_values_and_tuples_are_accepted() -> None:
    context = {
        "i": np.int64(3),
        "f": np.float64(0.5),
        "b": np.bool_(True),
        "t": (1, 2),
        "v": np.array([1.0, 2.0]),
    }
    assert evaluate(parse("i + f"), context) == 3.5
    assert evaluate(parse("b and t[1] == 2 and v[1] == 2"), context) is True


def test_evaluate_number_requires_a_number() -> None:
    assert evaluate_number(parse("a + 1"), CONTEXT) == 8
    assert math.isnan(evaluate_number(parse("nothing"), CONTEXT))
    for text in ("flag", "name", "xs"):
        with pytest.raises(ExpressionError, match="a number is needed"):
            evaluate_number(parse(text), CONTEXT)


def test_evaluate_boolean_requires_a_condition() -> None:
    assert evaluate_boolean(parse("a == 7"), CONTEXT) is True
    assert evaluate_boolean(parse("nothing"), CONTEXT) is False
    with pytest.raises(ExpressionError, match="true or false"):
        evaluate_boolean(parse("a"), CONTEXT)


def test_expression_that_reads_a_long_list_many_times_is_refused() -> None:
    """Every sum is allowed alone; 300 of them took minutes."""
    values = list(range(900_000))
    assert evaluate(parse("sum(l)"), {"l": values}) == sum(values)
    for text in ("max(sum(l), sum(l), sum(l))", "[l, l, l] == [l, l, l]", "-1 in l or -2 in l or -3 in l"):
        with pytest.raises(ExpressionError, match="reads too many list entries"):
            evaluate(parse(text), {"l": values})
    assert evaluate(parse("len(l) + len(l) + len(l) + l[5]"), {"l": values}) == 2_700_005


def test_expressions_of_a_document_share_a_limit_of_list_entries() -> None:
    with limit_document_entries(), limit_document_entries():
        for _ in range(5):
            evaluate(parse("sum(range(1, 900000))"), {})
        with pytest.raises(ExpressionError, match="all expressions of a document"):
            evaluate(parse("sum(range(1, 900000))"), {})
    assert evaluate(parse("sum(range(1, 900000))"), {}) == 405000450000


@pytest.mark.parametrize(
    "values", [[1, 2.5, -3], [True, 2], [1, None], ["a"], [10**400, 1], [1e308, 1e308], [], [-0.0]]
)
@pytest.mark.parametrize(
    "text", ["sum(l)", "min(l)", "max(l)", "1 in l", "True in l", "'a' in l", "2.5 in l"]
)
def test_list_functions_agree_for_python_and_numpy_numbers(text: str, values: list[object]) -> None:
    """NumPy numbers force the general form of a function; Python numbers may use its fast form."""

    def outcome(given: list[object]) -> object:
        try:
            return repr(evaluate(parse(text), {"l": given}))
        except ExpressionError as error:
            return type(error)

    general = [
        np.float64(value)
        if type(value) is float
        else np.int64(value)
        if type(value) is int and abs(value) < 2**60
        else value
        for value in values
    ]
    assert outcome(list(general)) == outcome(values)
