"""Names, equality and unknown names in expressions."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

import weft.expressions
from weft.expressions import ExpressionError, evaluate, find_unknown_names, parse


def test_names_are_listed_once_in_order_of_appearance() -> None:
    expression = parse("y.b if conv.exit_code == 0 and y.b > x else max(a, x) * GB")
    assert expression.names == ("y.b", "conv.exit_code", "x", "a", "GB")


def test_equality_and_hash_use_the_canonical_text() -> None:
    assert parse("a+b") == parse(" (a) + b ")
    assert hash(parse("a+b")) == hash(parse("a + b"))
    assert parse("a+b") != parse("b+a")
    assert len({parse("1+1"), parse("1 + 1"), parse("2")}) == 2


def test_pickling_preserves_an_expression() -> None:
    expression = parse("a.b[0] >= 2*GB and not c or max(1, 2) in [1]")
    again = pickle.loads(pickle.dumps(expression))
    assert again == expression
    assert again.tree == expression.tree
    assert again.names == expression.names


def test_pickling_preserves_errors() -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse("1 / 0"), {})
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.column, again.text, again.message) == (3, "1 / 0", "division by zero")
    assert str(again) == str(caught.value)


def test_short_texts_are_parsed_once() -> None:
    assert parse("a + 12345") is parse("a + 12345")


def test_error_about_an_unknown_name_has_column_and_suggestion() -> None:
    expression = parse("memry > 2*GB and conv.result.x < s and (memry > 1 or true or whole.y > wholes.z)")
    errors = find_unknown_names(expression, ["memory", "conv", "whole.y"])
    assert [(error.column, error.message) for error in errors] == [
        (1, "unknown name 'memry'"),
        (72, "unknown name 'wholes.z'"),
    ]
    assert "did you mean 'memory'?" in str(errors[0])


def test_known_names_may_be_given_as_a_container_that_is_not_iterable() -> None:
    class Anything:
        def __contains__(self, name: object) -> bool:
            return name == "a"

    assert [error.message for error in find_unknown_names(parse("a + b"), Anything())] == ["unknown name 'b'"]


def test_known_name_matches_only_whole_parts_of_a_dotted_name() -> None:
    assert len(find_unknown_names(parse("conv.x"), ["con"])) == 1
    assert len(find_unknown_names(parse("conv"), ["conv.x"])) == 1


def test_errors_show_an_excerpt_of_a_long_text() -> None:
    text = "a + " * 40 + "$" + " + b" * 400
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.column == 161
    assert "…" in str(caught.value)
    assert "$" in str(caught.value)
    assert len(str(caught.value)) < 300
    record = caught.value.problems[0].as_record()
    assert "column 161" in str(record["what"])


def test_invisible_characters_are_shown_as_escapes() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("a \x00 b")
    assert "\x00" not in str(caught.value)
    assert "\\x00" in str(caught.value)


def test_public_names_exist() -> None:
    assert all(hasattr(weft.expressions, name) for name in weft.expressions.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = weft.expressions.nonsense


def test_numpy_is_imported_only_by_evaluate_columns() -> None:
    code = "import sys, weft.expressions as e; e.evaluate(e.parse('1+1'), {}); print('numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
