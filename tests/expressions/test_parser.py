"""Parsing: accepted and rejected texts, with columns."""

from __future__ import annotations

import pytest

from weft.expressions import ExpressionError, parse
from weft.expressions.parser import MAX_NODES
from weft.expressions.tree import Binary, Compare, FunctionCall, Index, ListOf, Literal, Logical, Name, walk


def test_a_dotted_name_is_one_name() -> None:
    assert parse("conv.result.delta").tree == Name(name="conv.result.delta")


def test_precedence_equals_that_of_python() -> None:
    assert parse("1 + 2 * 3").tree == Binary(
        operator="+",
        left=Literal(value=1),
        right=Binary(operator="*", left=Literal(value=2), right=Literal(value=3)),
    )


def test_lists_and_tuples_are_parsed_as_lists() -> None:
    expected = ListOf(items=(Literal(value=1), Literal(value="a")))
    assert parse("[1, 'a']").tree == parse("(1, 'a')").tree == parse("1, 'a'").tree == expected
    assert parse("()").tree == ListOf(items=())


def test_chained_comparison_is_one_node() -> None:
    tree = parse("1 < x <= 3").tree
    assert isinstance(tree, Compare)
    assert tree.operators == ("<", "<=")
    assert len(tree.operands) == 3


def test_nested_equal_logical_operators_are_one_node() -> None:
    tree = parse("a and (b and c)").tree
    assert isinstance(tree, Logical)
    assert [node.name for node in tree.operands if isinstance(node, Name)] == ["a", "b", "c"]


def test_index_and_call_are_parsed() -> None:
    assert parse("x[0]").tree == Index(target=Name(name="x"), key=Literal(value=0))
    assert parse("max(a, 2)").tree == FunctionCall(
        function="max", arguments=(Name(name="a"), Literal(value=2))
    )


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("a + (b) * c", 9),
        ("   (a + 1) * c", 12),
        ("(é + ö) * c", 9),
        ("((a)) not in c", 7),
        ("größe > 3", 7),
    ],
)
def test_column_of_an_operation_is_that_of_its_operator(text: str, column: int) -> None:
    columns = [node.column for node in walk(parse(text).tree) if isinstance(node, Binary | Compare)]
    assert column in columns


@pytest.mark.parametrize("text", [" 1 + x", "\t1 + x", "\n1 + x\n", "1 + x  \r\n"])
def test_surrounding_blanks_are_ignored(text: str) -> None:
    assert parse(text) == parse("1 + x")
    name = next(node for node in walk(parse(text).tree) if isinstance(node, Name))
    assert text[name.column - 1] == "x"


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("a +", 4, "the end"),
        ("a b", 3, "'b'"),
        ("(a", 1, "never closed"),
        ("a)", 2, "unmatched"),
        ("  foo(1)", 3, "unknown function foo()"),
        ("a is None", 3, "`is`"),
        ("x + maxx(1)", 5, "did you mean 'max'?"),
        ("sqrt()", 1, "takes 1 argument"),
        ("sqrt(1, 2)", 1, "takes 1 argument"),
        ("matches('a')", 1, "takes 2 arguments"),
        ("round(1, 2, 3)", 1, "takes 1 to 2 arguments"),
        ("min()", 1, "at least 1 argument"),
        ("x[1, 2]", 1, "index with several"),
        ("f(1)(2)", 1, "named function"),
        ("a.b(2)", 1, "named function"),
        ("max(*a)", 5, "a star"),
        ("[y for y in z]", 1, "comprehension"),
        ("1 + (3).real", 7, "not a name"),
        ("a.b.5", 4, "'.5'"),
        ("a.class", 3, "'class'"),
        ("1e999", 1, "too large"),
        ("2**1 + " + "9" * 1250, 8, "too large"),
        ("9" * 1400, 1, "digits"),
        ("007", 1, "leading zeros"),
    ],
)
def test_errors_have_a_column_and_a_reason(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.column == column
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        '"".join(["a"])',
        '"{0.__class__}".format(1)',
        "f'{1}'",
        "b'a'",
        "r'a'",
        "u'a'",
        "lambda: 1",
        "(lambda x: x)(1)",
        "[x for x in y]",
        "sum(x for x in y)",
        "{x for x in y}",
        "{1: 2}",
        "{1, 2}",
        "(x := 1)",
        "x = 1",
        "x; y",
        "import os",
        "del x",
        "...",
        "1j",
        "x[1:2]",
        "x[...]",
        "max(1, key=2)",
        "max(*x)",
        "max(**x)",
        "(yield)",
        "(yield x)",
        "await x",
        "x @ y",
        "x & y",
        "x | y",
        "x ^ y",
        "~x",
        "x << 2",
        "x <> y",
        "`x`",
        "x if y",
        "not",
        "exec('1')",
        "eval('1')",
        "open('f')",
        "getattr(x, 'y')",
        "globals()",
        "x()",
        "x.y()",
        "x[0]()",
        "x[0].y",
        "1 # comment",
        "1\n2",
        "a\\\nb",
        "a\x00b",
        "\x00",
        "\ufeff1",
        "1\u00a0+ 2",
        "\ud800",
        "x ≥ 3",
        "'a' 'b'",
        '"""a"""',
        "'\\d'",
        "'\\N{BULLET}'",
        "'\\777'",
        "'a",
        "'a\\'",
        "1if x else 2",
        "0x1F",
        "512MB",
        "1..50",
        "1..n",
        "x²",
        "٣",
    ],
)
def test_malicious_texts_and_other_languages_raise_expression_error(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.text == text
    assert 1 <= caught.value.column <= len(text) + 1
    assert caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000,
        "(" * 4000 + "1" + ")" * 4000,
        "[" * 101 + "]" * 101,
        "-" * 9999,
        "-" * 9998 + "1",
        "not " * 2000 + "a",
        "1" * 5000,
        "1+" * 4999 + "1",
        "1**" * 3300 + "1",
        "a if b else " * 800 + "c",
        "a[" * 3000,
        "a" + "[0]" * 3000,
        "a" + ".b" * 4999 + "()",
        "a" * 10_001,
        "1," * 4000,
        "max(" * 2000,
        "a<" * 4000 + "a",
        "a or " * 1999 + "a",
        "'" + "\\" * 9998,
        "1_" * 4000,
        "e" * 9000 + "(",
    ],
)
def test_texts_beyond_the_size_limits_are_rejected(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert len(str(caught.value)) < 500


def test_texts_at_the_size_limits_are_parsed() -> None:
    assert parse("(" * 100 + "1" + ")" * 100).text == "1"
    assert parse("-" * 99 + "1").text == "-" * 99 + "1"
    assert parse("+".join("1" * 100)).text == " + ".join("1" * 100)
    assert len(parse("[" + "1," * (MAX_NODES - 1) + "]").text) > MAX_NODES


def test_errors_about_syntax_of_other_languages_give_advice() -> None:
    for text, advice in [
        ("a = 1", "=="),
        ("a && b", "`and`"),
        ("a || b", "`or`"),
        ("!a", "`not`"),
        ("512MB", "512*MB"),
    ]:
        with pytest.raises(ExpressionError, match="expression") as caught:
            parse(text)
        assert advice in caught.value.problems[0].advice
