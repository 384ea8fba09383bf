"""Kinds before values."""

from __future__ import annotations

import pytest

from weft.expressions import ExpressionError, Kind, infer, parse

TYPES = {
    "memory": Kind.NUMBER,
    "arch": Kind.STRING,
    "flag": Kind.BOOLEAN,
    "xs": Kind.LIST,
    "table": Kind.MAPPING,
}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("memory >= 512*MB and arch == 'x86_64'", Kind.BOOLEAN),
        ("memory + 1", Kind.NUMBER),
        ("-who", Kind.NUMBER),
        ("who * 2", Kind.NUMBER),
        ("who + who", Kind.UNKNOWN),
        ("who + 'a'", Kind.STRING),
        ("arch + 'a'", Kind.STRING),
        ("[1, 2]", Kind.LIST),
        ("lines(split.parts)", Kind.LIST),
        ("xs[0]", Kind.UNKNOWN),
        ("table['a']", Kind.UNKNOWN),
        ("1 if flag else 2", Kind.NUMBER),
        ("1 if flag else 'a'", Kind.UNKNOWN),
        ("not who", Kind.BOOLEAN),
        ("arch in xs", Kind.BOOLEAN),
        ("who in 'abc'", Kind.BOOLEAN),
        ("memory == 'x'", Kind.BOOLEAN),
        ("sqrt(who)", Kind.NUMBER),
        ("str(memory)", Kind.STRING),
        ("null", Kind.UNKNOWN),
        ("None", Kind.UNKNOWN),
        ("GB", Kind.UNKNOWN),
        ("table", Kind.MAPPING),
        ("True", Kind.BOOLEAN),
    ],
)
def test_kinds(text: str, kind: Kind) -> None:
    assert infer(parse(text), TYPES) is kind


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
def test_wrong_kinds_are_found_at_their_column(text: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        infer(parse(text), TYPES)
    assert caught.value.column == column


def test_names_nobody_told_never_complain() -> None:
    text = "not a if c and d[e] in f and g < 'x' and g < 1 else -h * max(i, j) + k"
    assert infer(parse(text), {}) is Kind.UNKNOWN
