"""Property tests of expressions with random texts, trees and contexts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weft.expressions import (
    Expression,
    ExpressionError,
    Value,
    ValueKind,
    evaluate,
    evaluate_columns,
    find_unknown_names,
    infer_kind,
    parse,
)
from weft.expressions.operations import FUNCTIONS
from weft.expressions.tree import (
    Binary,
    Compare,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Index,
    ListOf,
    Literal,
    Logical,
    Name,
    Unary,
    format_tree,
)
from weft.expressions.values import kind_of

NAMES = ("i", "f", "t", "o", "b", "conv.exit_code", "GB", "true", "xs")
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")

literals = st.builds(
    lambda value: Literal(value=value),
    st.one_of(
        st.booleans(),
        st.none(),
        st.integers(0, 2**70),
        st.floats(min_value=0, allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
    ),
)
names = st.builds(lambda name: Name(name=name), st.sampled_from(NAMES))


def comparison(operands: list[ExpressionNode], operators: list[str]) -> Compare:
    count = len(operands) - 1
    return Compare(operators=tuple(operators[:count]), operands=tuple(operands), columns=(1,) * count)


def logical(operator: str, operands: list[ExpressionNode]) -> Logical:
    flat: list[ExpressionNode] = []
    for operand in operands:
        same = isinstance(operand, Logical) and operand.operator == operator
        flat.extend(operand.operands if same and isinstance(operand, Logical) else [operand])
    return Logical(operator=operator, operands=tuple(flat))


def call(name: str, arguments: list[ExpressionNode]) -> FunctionCall:
    function = FUNCTIONS[name]
    most = len(arguments) if function.repeats else len(function.accepts)
    return FunctionCall(
        function=name, arguments=tuple(arguments[: max(function.needed, min(most, len(arguments)))])
    )


def larger(parts: st.SearchStrategy[ExpressionNode]) -> st.SearchStrategy[ExpressionNode]:
    several = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        st.builds(
            lambda operator, one, other: Binary(operator=operator, left=one, right=other),
            st.sampled_from(ARITHMETIC),
            parts,
            parts,
        ),
        st.builds(
            lambda operator, part: Unary(operator=operator, operand=part),
            st.sampled_from(("-", "+", "not")),
            parts,
        ),
        st.builds(comparison, several, st.lists(st.sampled_from(COMPARISONS), min_size=2, max_size=2)),
        st.builds(logical, st.sampled_from(("and", "or")), several),
        st.builds(lambda a, b, c: Conditional(condition=a, then=b, otherwise=c), parts, parts, parts),
        st.builds(lambda target, key: Index(target=target, key=key), parts, parts),
        st.builds(lambda items: ListOf(items=tuple(items)), st.lists(parts, max_size=3)),
        st.builds(call, st.sampled_from(sorted(set(FUNCTIONS))), several),
    )


trees: st.SearchStrategy[ExpressionNode] = st.recursive(st.one_of(literals, names), larger, max_leaves=12)


@given(trees)
def test_formatting_and_parsing_gives_the_same_tree(tree: ExpressionNode) -> None:
    text = format_tree(tree)
    expression = parse(text)
    assert expression.tree == tree
    assert expression.text == text


# These texts have matching types more often than random trees, so that most rows have a value.
numbers = st.recursive(
    st.sampled_from(["i", "f", "2", "0.5", "3", "o", "xs[i % 2]", "len(t)", "null", "i + 9007199254740993"]),
    lambda part: st.one_of(
        st.builds("({} {} {})".format, part, st.sampled_from(ARITHMETIC), part),
        st.builds("-{}".format, part),
        st.builds(
            "{}({})".format, st.sampled_from(["abs", "ceil", "floor", "sqrt", "exp", "log", "round"]), part
        ),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), part, part),
        st.builds("({} if {} < {} else {})".format, part, part, part, part),
    ),
    max_leaves=6,
)
strings = st.sampled_from(["t", "'x'", "o", "upper(t)", "t + 'z'", "str(i)", "str(f)"])
conditions = st.recursive(
    st.one_of(
        st.builds("{} {} {}".format, numbers, st.sampled_from(COMPARISONS[:6]), numbers),
        st.builds("{} {} {} {} {}".format, numbers, st.just("<"), numbers, st.just("<="), numbers),
        st.builds("{} {} {}".format, strings, st.sampled_from(COMPARISONS[:6]), strings),
        st.builds("{} {} ['x', 'y', 1]".format, strings, st.sampled_from(COMPARISONS[6:])),
        st.builds("matches({}, 'x*')".format, strings),
        st.sampled_from(["b", "true", "not b"]),
    ),
    lambda part: st.one_of(
        st.builds("({} and {})".format, part, part),
        st.builds("({} or {})".format, part, part),
        st.builds("(not ({}))".format, part),
        st.builds("({} if {} else {})".format, part, part, part),
    ),
    max_leaves=4,
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.one_of(st.integers(-3, 5), st.integers(-(2**62), 2**62)),
            "f": st.one_of(st.floats(-10, 10), st.just(math.nan), st.just(math.inf), st.floats()),
            "t": st.sampled_from(["x", "y", "xyz", ""]),
            "b": st.booleans(),
            "o": st.sampled_from([None, 1, 2.5, "x", -1]),
        }
    ),
    min_size=1,
    max_size=5,
)


def same(one: Value, other: Value) -> bool:
    if kind_of(one) is ValueKind.UNKNOWN:
        return kind_of(other) is ValueKind.UNKNOWN
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def outcome(use: Callable[[], object]) -> tuple[object, ExpressionError | None]:
    try:
        return use(), None
    except ExpressionError as error:
        return None, error


def check_rows(text: str, table: list[dict[str, object]]) -> None:
    constants = {"xs": [1, 2.5], "conv": {"exit_code": 0}}
    types = {"i": np.int64, "f": np.float64, "t": np.str_, "b": np.bool_, "o": object}
    columns = {name: np.array([row[name] for row in table], dtype=kind) for name, kind in types.items()}
    expression = parse(text)
    singles = [outcome(functools.partial(evaluate, expression, constants | row)) for row in table]
    found, error = outcome(lambda: evaluate_columns(expression, columns, len(table), constants).tolist())
    assert (error is not None) == any(single is not None for _, single in singles), (text, error, singles)
    if isinstance(found, list):
        assert all(same(value, other) for (value, _), other in zip(singles, found, strict=True)), (
            text,
            found,
        )


@given(numbers, rows)
def test_column_evaluation_of_numbers_equals_row_by_row_evaluation(
    text: str, table: list[dict[str, object]]
) -> None:
    check_rows(text, table)


@given(conditions, rows)
def test_column_evaluation_of_conditions_equals_row_by_row_evaluation(
    text: str, table: list[dict[str, object]]
) -> None:
    check_rows(text, table)


@given(trees, rows)
def test_column_evaluation_of_any_expression_equals_row_by_row_evaluation(
    tree: ExpressionNode, table: list[dict[str, object]]
) -> None:
    check_rows(format_tree(tree), table)


WORDS = {
    "values": ("1", "2.5", "1e308", "'a'", '"', "a", "b.c", "max", "range", "len", "é"),
    "brackets": ("(", ")", "[", "]", "{", "}"),
    "operators": ("+", "-", "**", "*", "/", "%", "==", "<", "and", "or", "not", "in", "if", "else", "is"),
    "others": (",", ".", ":", "\\", "lambda", "for", " ", "\n", "\x00"),
}
words = st.sampled_from([word for group in WORDS.values() for word in group])
texts = st.one_of(
    st.text(max_size=40),
    st.lists(words, max_size=25).map("".join),
    st.lists(words, max_size=25).map(" ".join),
)


@given(texts)
def test_any_text_parses_or_raises_expression_error(text: str) -> None:
    expression, error = outcome(lambda: parse(text))
    errors = [error]
    if isinstance(expression, Expression):
        assert parse(expression.text) == expression
        errors += find_unknown_names(expression, ())
        errors.append(outcome(lambda: evaluate(expression, {"a": 1, "b": {"c": 2}}))[1])
        errors.append(outcome(lambda: infer_kind(expression, {}))[1])
    for each in errors:
        assert each is None or (1 <= each.column <= len(text) + 1 and each.text == text)
