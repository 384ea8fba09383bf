"""Inference of the kinds (number, text, boolean) of expressions."""

from __future__ import annotations

import pytest

from weft.expressions import ExpressionError, ValueKind, infer_kind, parse

TYPES = {
    "memory": ValueKind.NUMBER,
    "arch": ValueKind.STRING,
    "flag": ValueKind.BOOLEAN,
    "xs": ValueKind.LIST,
    "table": ValueKind.MAPPING,
}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("memory >= 512*MB and arch == 'x86_64'", ValueKind.BOOLEAN),
        ("memory + 1", ValueKind.NUMBER),
        ("-who", ValueKind.NUMBER),
        ("who * 2", ValueKind.NUMBER),
        ("who + who", ValueKind.UNKNOWN),
        ("who + 'a'", ValueKind.STRING),
        ("arch + 'a'", ValueKind.STRING),
        ("[1, 2]", ValueKind.LIST),
        ("lines(split.parts)", ValueKind.LIST),
        ("xs[0]", ValueKind.UNKNOWN),
        ("table['a']", ValueKind.UNKNOWN),
        ("1 if flag else 2", ValueKind.NUMBER),
        ("1 if flag else 'a'", ValueKind.UNKNOWN),
        ("not who", ValueKind.BOOLEAN),
        ("arch in xs", ValueKind.BOOLEAN),
        ("who in 'abc'", ValueKind.BOOLEAN),
        ("memory == 'x'", ValueKind.BOOLEAN),
        ("sqrt(who)", ValueKind.NUMBER),
        ("str(memory)", ValueKind.STRING),
        ("null", ValueKind.UNKNOWN),
        ("None", ValueKind.UNKNOWN),
        ("GB", ValueKind.UNKNOWN),
        ("table", ValueKind.MAPPING),
        ("True", ValueKind.BOOLEAN),
    ],
)
def test_kinds_of_expressions_are_inferred(text: str, kind: ValueKind) -> None:
    assert infer_kind(parse(text), TYPES) is kind


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("'a' * 3", 5),
        ("memory >= 'x'", 8),
        ("1 < memory < arch", 12),
        ("flag + 1", 6),
        ("-arch", 1),
        ("not memory", 5),
        ("flag and 1", 10),
        ("1 if arch else 2", 6),
        ("1 + sqrt(arch)", 10),
        ("max(1, xs)", 8),
        ("1 in memory", 3),
        ("1 in arch", 3),
        ("arch[0]", 1),
        ("xs['a']", 1),
        ("[1, -'a']", 5),
        ("xs + xs", 4),
    ],
)
def test_error_about_a_wrong_kind_names_the_column(text: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        infer_kind(parse(text), TYPES)
    assert caught.value.column == column


def test_names_of_unknown_kind_cause_no_error_in_the_inference_of_kinds() -> None:
    text = "not a if c and d[e] in f and g < 'x' and g < 1 else -h * max(i, j) + k"
    assert infer_kind(parse(text), {}) is ValueKind.UNKNOWN
