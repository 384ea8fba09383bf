"""Canonical text has few parentheses, and parsing it gives the same tree."""

from __future__ import annotations

import pytest

from weft.expressions import ExpressionError, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1+2*3", "1 + 2 * 3"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("((1))", "1"),
        ("a-(b-c)", "a - (b - c)"),
        ("(a-b)-c", "a - b - c"),
        ("a/(b*c)", "a / (b * c)"),
        ("(-a)**2", "(-a) ** 2"),
        ("-a**-b", "-a ** -b"),
        ("(a**b)**c", "(a ** b) ** c"),
        ("a**(b**c)", "a ** b ** c"),
        ("not(a and b)", "not (a and b)"),
        ("(not a) and b", "not a and b"),
        ("not (not a)", "not not a"),
        ("(a or b) and c", "(a or b) and c"),
        ("a or (b and c)", "a or b and c"),
        ("(a<b)==c", "(a < b) == c"),
        ("a<b<c", "a < b < c"),
        ("a not  in [1,2]", "a not in [1, 2]"),
        ("-(a+b)", "-(a + b)"),
        ("(a if b else c) if d else e", "(a if b else c) if d else e"),
        ("a if b else (c if d else e)", "a if b else c if d else e"),
        ("(a if b else c)[0]", "(a if b else c)[0]"),
        ("x[(a if b else c)]", "x[a if b else c]"),
        ("max( (a, b) )", "max([a, b])"),
        ("'x'", '"x"'),
        ("'a\"b'", "'a\"b'"),
        ("'\\n\\x00\\u00e9'", '"\\n\\x00é"'),
        ("1_000", "1000"),
        ("1e3", "1000.0"),
        ("True", "True"),
        ("true", "true"),
        ("(not a) + b", "(not a) + b"),
        ("1 - -1", "1 - -1"),
    ],
)
def test_canonical_text_has_few_parentheses(text: str, canonical: str) -> None:
    expression = parse(text)
    assert str(expression) == expression.text == canonical
    assert parse(canonical).tree == expression.tree


def test_a_canonical_text_that_is_too_long_is_rejected() -> None:
    text = "[" + "1e15," * 1900 + "]"
    assert len(text) < 10_000
    with pytest.raises(ExpressionError, match="characters in canonical form"):
        parse(text)
