"""Evaluation of an expression over many rows."""

from __future__ import annotations

import numpy as np
import pytest

from weft.expressions import ExpressionError, Value, ValueKind, evaluate_columns, parse
from weft.expressions.values import kind_of

COLUMNS = {
    "memory": np.array([1e9, 4e9, np.nan, 8e9]),
    "cores": np.array([1, 2, 4, 8]),
    "arch": np.array(["x86_64", "arm", "x86_64", "arm"]),
    "os": np.array(["linux", None, "aix", "linux"], dtype=object),
    "shared": np.array([True, False, True, False]),
    "attributes": np.array([{"x": 1}, {"x": 2}, {"x": 3}, {"x": {"y": 4}}], dtype=object),
    "a.b": np.array([1.0, 2.0, 3.0, 4.0]),
}


def rows(text: str, **constants: object) -> list[Value]:
    return list(evaluate_columns(parse(text), COLUMNS, 4, constants).tolist())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory >= 2*GB and arch == 'x86_64'", [False, False, False, False]),
        ("memory <= 4*GB", [True, True, False, False]),
        ("memory != 4*GB", [True, False, False, True]),
        ("cores != 2", [True, False, True, True]),
        ("os == 'linux'", [True, False, False, True]),
        ("os != 'linux'", [False, False, True, False]),
        ("os in ['linux', 'aix']", [True, False, True, True]),
        ("os not in ['linux']", [False, False, True, False]),
        ("not shared", [False, True, False, True]),
        ("1 < cores < 8", [False, True, True, False]),
        ("2 * cores + 1", [3, 5, 9, 17]),
        ("cores ** 2", [1, 4, 16, 64]),
        ("cores // 3 + cores % 3", [1, 2, 2, 4]),
        ("-cores", [-1, -2, -4, -8]),
        ("cores / 2", [0.5, 1.0, 2.0, 4.0]),
        ("a.b * 2", [2.0, 4.0, 6.0, 8.0]),
        ("'x' if shared else 'y'", ["x", "y", "x", "y"]),
        ("arch if shared else 1", ["x86_64", 1, "x86_64", 1]),
        ("1 if shared else 2.5", [1.0, 2.5, 1.0, 2.5]),
        ("str(1 if shared else 2.5)", ["1", "2.5", "1", "2.5"]),
        ("10 // (cores - 1) if cores > 1 else 0", [0, 10, 3, 1]),
        ("cores > 1 and 10 // (cores - 1) > 5", [False, True, False, False]),
        ("cores == 1 or 10 // (cores - 1) > 5", [True, True, False, False]),
        ("2 < cores < 10 // (cores - 2)", [False, False, True, False]),
        ("lengths[cores - 1]", [1, 2, 4, 8]),
        ("matches(arch, 'x*')", [True, False, True, False]),
        ("upper(arch)", ["X86_64", "ARM", "X86_64", "ARM"]),
        ("max(cores, 3)", [3, 3, 4, 8]),
        ("min(cores, 3, 2)", [1, 2, 2, 2]),
        ("abs(2 - cores)", [1, 0, 2, 6]),
        ("ceil(a.b / 2)", [1, 1, 2, 2]),
        ("sqrt(a.b * a.b)", [1.0, 2.0, 3.0, 4.0]),
        ("sum(range(1, cores))", [1, 3, 10, 36]),
        ("[cores, 1]", [[1, 1], [2, 1], [4, 1], [8, 1]]),
        ("7", [7, 7, 7, 7]),
        ("limit * MB", [3_000_000] * 4),
        ("shared and true", [True, False, True, False]),
        ("null == 1", [False] * 4),
        ("1 / 0 if cores > 100 else 1", [1] * 4),
        ("not nested.deep", [True] * 4),
    ],
)
def test_column_results_equal_those_of_single_rows(text: str, expected: list[object]) -> None:
    found = rows(text, lengths=list(range(1, 9)), limit=3, nested={"deep": False})
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cores + 1", "i"),
        ("memory + 1", "f"),
        ("memory > 1", "b"),
        ("arch", "O"),
        ("null", "f"),
        ("'x'", "O"),
    ],
)
def test_column_results_have_the_type_of_the_values(text: str, kind: str) -> None:
    result = evaluate_columns(parse(text), COLUMNS, 4)
    assert result.dtype.kind == kind
    assert result.shape == (4,)


def test_unknown_values_are_nan_in_results() -> None:
    found = rows("memory * 2 + (0 if cores > 1 else null)")
    assert [kind_of(value) is ValueKind.UNKNOWN for value in found] == [True, False, True, False]
    assert [found[1], found[3]] == [8e9, 16e9]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 + 1 / (cores - 2)", 7, "division by zero"),
        ("cores + arch", 7, "the string 'x86_64'"),
        ("shared and cores", 12, "condition"),
        ("cores < arch", 7, "order"),
        ("sqrt(2 - cores)", 8, "at least 0"),
        ("1 + cors", 5, "did you mean 'cores'?"),
        ("attributes.x.y", 1, "unknown name"),
        ("cores * 1e300 * 1e300", 15, "too large"),
        ("[1, 2][cores]", 1, "outside the list"),
        ("9 if shared else arch * 2", 23, "arithmetic"),
        ("lines('f')", 1, "file exists"),
        ("shared + 1", 8, "truth value"),
        ("len(range(1, 900000 + cores)) + len(range(1, 900000 + cores))", 37, "too many entries in total"),
        ("bad", 1, "shape"),
        ("dates", 1, "datetime64"),
    ],
)
def test_errors_in_a_row_are_reported(text: str, column: int, message: str) -> None:
    columns = COLUMNS | {"bad": np.zeros(3), "dates": np.zeros(4, dtype="datetime64[s]")}
    with pytest.raises(ExpressionError) as caught:
        evaluate_columns(parse(text), columns, 4)
    assert caught.value.column == column
    assert message in str(caught.value)


def test_items_of_mappings_in_a_column_are_read() -> None:
    columns = {"attributes": np.array([{"x": 1}, {"x": 2}], dtype=object)}
    assert evaluate_columns(parse("attributes.x + 1"), columns, 2).tolist() == [2, 3]


def test_zero_rows_give_an_empty_array() -> None:
    assert evaluate_columns(parse("1 / 0"), {}, 0).tolist() == []
    assert evaluate_columns(parse("a < 1"), {}, 0).dtype == bool


def test_large_integers_stay_exact() -> None:
    big = {
        "n": np.array([2**62, 3]),
        "u": np.array([2**64 - 1, 1], dtype=np.uint64),
        "f": np.array([2.0**62, 3.0]),
    }
    assert evaluate_columns(parse("n * 4"), big, 2).tolist() == [2**64, 12]
    assert evaluate_columns(parse("n + n"), big, 2).tolist() == [2**63, 6]
    assert evaluate_columns(parse("n ** 2"), big, 2).tolist() == [2**124, 9]
    assert evaluate_columns(parse("u + 1"), big, 2).tolist() == [2**64, 2]
    assert evaluate_columns(parse("n + 1 == f"), big, 2).tolist() == [False, False]
    assert evaluate_columns(parse("(n + 1) / n"), big, 2).tolist() == [(2**62 + 1) / 2**62, 4 / 3]


def test_narrow_numpy_types_are_widened() -> None:
    narrow = {"i": np.array([100, 127], dtype=np.int8), "f": np.array([0.5, 1.5], dtype=np.float32)}
    assert evaluate_columns(parse("i * 100 + f"), narrow, 2).tolist() == [10000.5, 12701.5]


def test_a_hundred_thousand_rows_give_the_expected_count() -> None:
    count = 100_000
    cores = np.arange(count)
    result = evaluate_columns(
        parse("cores % 2 == 0 and cores * 2 < n"), {"cores": cores}, count, {"n": count}
    )
    assert int(result.sum()) == count // 4
