from __future__ import annotations

import numpy as np

from weft.expressions import evaluate_columns, parse
from weft.platform.arrays import machine_columns
from weft.platform.machine import BUILT_IN_NAMES, Machine

MACHINES = (
    Machine(name="a", nodes=4, memory=2e9, arch="x86_64", site="A", attributes={"rack": 3, "fast": True}),
    Machine(name="b", speed=2.0, resources={"licence": 4.0}, attributes={"fast": False, "kind": "thin"}),
    Machine(name="b/x", host="b", os="linux", attributes={"fast": True, "mixed": 1.0}),
)


def test_every_column_has_one_entry_per_machine() -> None:
    found = machine_columns(MACHINES)
    assert set(found) == {*BUILT_IN_NAMES, "rack", "fast", "licence", "kind", "mixed"}
    assert {len(column) for column in found.values()} == {3}


def test_missing_values_are_nan_or_none() -> None:
    found = machine_columns(MACHINES)
    np.testing.assert_array_equal(found["memory"], [2e9, np.nan, np.nan])
    np.testing.assert_array_equal(found["rack"], [3.0, np.nan, np.nan])
    np.testing.assert_array_equal(found["licence"], [np.nan, 4.0, np.nan])
    assert found["arch"].tolist() == ["x86_64", None, None]
    assert found["kind"].tolist() == [None, "thin", None]
    assert found["fast"].dtype == bool


def test_site_and_host_always_have_a_value() -> None:
    found = machine_columns(MACHINES)
    assert found["site"].tolist() == ["A", "b", "b"]
    assert found["host"].tolist() == ["a", "b", "b"]


def test_boolean_attribute_is_none_for_machines_that_lack_it() -> None:
    found = machine_columns((Machine(name="a", attributes={"x": True}), Machine(name="b")))
    assert found["x"].tolist() == [True, None]


def test_built_in_names_take_precedence_over_attributes() -> None:
    found = machine_columns((Machine(name="a", speed=2.0, attributes={"speed": 9.0}),))
    assert found["speed"].tolist() == [2.0]


def test_columns_of_a_platform_without_machines_are_empty() -> None:
    assert machine_columns(())["speed"].shape == (0,)


def test_expressions_are_evaluated_over_columns() -> None:
    found = machine_columns(MACHINES)
    for text, expected in [
        ("memory >= 1*GB", [True, False, False]),
        ('arch == "x86_64"', [True, False, False]),
        ('site != "A"', [False, True, True]),
        ("fast and nodes < 4", [False, False, True]),
        ("licence >= 1", [False, True, False]),
    ]:
        result = evaluate_columns(parse(text), found, len(MACHINES))
        assert [bool(value) for value in result] == expected, text
