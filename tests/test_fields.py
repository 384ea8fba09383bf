"""Fields declared once: reading, writing, JSON Schema and reference tables of a small record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest

from architecture.package import load_tool
from weft.documents import Document, Reader, from_python
from weft.errors import InvalidInput
from weft.fields import (
    FLAG,
    TEXT,
    TEXTS,
    Field,
    Record,
    ValueType,
    choice,
    integer,
    mapping_shape,
    version_field,
)


@dataclass(frozen=True, kw_only=True)
class Engine:
    power: int = 1
    fuel: str | None = None


@dataclass(frozen=True, kw_only=True)
class Car:
    name: str
    doors: int = 4
    colours: tuple[str, ...] = ()
    electric: bool = False
    kind: str = "small"
    engine: Engine | None = None
    labels: dict[str, object] = field(default_factory=dict)


MAPPING = ValueType("mapping", mapping_shape({}), lambda reader, node: node.to_plain())
CAR = Record("a car", (
    version_field(required=True),
    Field("name", TEXT, "name of the car", required=True, advice="add `name: NAME`"),
    Field("doors", integer(2), "number of doors", default=4),
    Field("colours", TEXTS, "colours", default=()),
    Field("electric", FLAG, "whether it is electric", default=False),
    Field("kind", choice(("small", "large")), "size class", default="small"),
    Field("power", integer(1), "power of the engine", attribute="engine.power", default_text="as built"),
    Field("fuel", TEXT, "fuel of the engine", attribute="engine.fuel"),
    Field("plate", TEXT, "plate, kept as a label", attribute="labels.plate"),
    Field("labels", MAPPING, "other labels", attribute="labels.*",
          write_record=lambda car: {k: v for k, v in car.labels.items() if k != "plate"} or None),
), null_is_absent=True)  # fmt: skip


def read(value: object) -> Car:
    reader = Reader()
    values = CAR.read(reader, from_python(value))
    reader.finish(Document(file="car.yaml"))
    if "engine" in values:
        values["engine"] = Engine(**values["engine"])
    return Car(**values)


FULL: dict[str, Any] = {
    "weft": 1,
    "name": "a",
    "doors": 2,
    "colours": ["red", "blue"],
    "electric": True,
    "kind": "large",
    "power": 90,
    "fuel": "none",
    "plate": "B 1",
    "labels": {"owner": "ann"},
}


def test_values_read_from_a_file_are_stored_in_the_declared_attributes_and_groups():
    assert read(FULL) == Car(
        name="a",
        doors=2,
        colours=("red", "blue"),
        electric=True,
        kind="large",
        engine=Engine(power=90, fuel="none"),
        labels={"plate": "B 1", "owner": "ann"},
    )


def test_written_records_read_back_and_defaults_are_left_out():
    assert CAR.write(read(FULL)) == FULL
    assert CAR.write(Car(name="b")) == {"weft": 1, "name": "b"}
    assert list(CAR.write(read(FULL))) == list(FULL)


def test_key_without_a_value_is_read_as_absent():
    assert read({"weft": 1, "name": "a", "doors": None}) == Car(name="a")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"weft": 1}, "a car without the key 'name'; a car must have weft and name; add `name: NAME`"),
        ({"name": "a"}, "a car without the key 'weft'"),
        ({"weft": 2, "name": "a"}, "version 2 of the file format; this weft reads version 1; use a newer"),
        (
            {"weft": 0, "name": "a"},
            "version 0 of the file format; this weft reads version 1; write `weft: 1`",
        ),
        ({"weft": 1, "name": "a", "dors": 3}, "unknown key 'dors'; did you mean 'doors'?"),
        ({"weft": 1, "name": "a", "doors": 1}, "doors: 1 is not allowed; must be a whole number, at least 2"),
        ({"weft": 1, "name": "a", "kind": "smal"}, "did you mean 'small'?"),
        ([], "must be a mapping"),
    ],
)
def test_problems_are_reported_and_rejected_by_the_schema(value, message):
    with pytest.raises(InvalidInput) as caught:
        read(value)
    assert message in str(caught.value)
    assert not jsonschema.Draft202012Validator(CAR.shape()).is_valid(value)


def test_schema_describes_every_field():
    shape = CAR.shape()
    jsonschema.Draft202012Validator.check_schema(shape)
    jsonschema.Draft202012Validator(shape).validate(FULL)
    assert {key: value["description"] for key, value in shape["properties"].items()} == CAR.help
    assert shape["required"] == ["weft", "name"]


def test_tables_between_markers_are_replaced():
    replace_tables = load_tool("reference").replace_tables
    page = "# Cars\n<!-- fields: car doors power name -->\nold\n<!-- end -->\nrest\n"
    assert replace_tables(page, {"car": CAR}) == (
        "# Cars\n<!-- fields: car doors power name -->\n\n"
        "| key | value | default | meaning |\n|---|---|---|---|\n"
        "| `doors` | whole number | 4 | number of doors |\n"
        "| `power` | whole number | as built | power of the engine |\n"
        "| `name` | text | required | name of the car |\n"
        "\n<!-- end -->\nrest\n"
    )
    with pytest.raises(KeyError):
        replace_tables(page, {})


def test_keys_without_a_table_are_found():
    page = "<!-- fields: car doors power -->\n<!-- end -->\n"
    missing = [f"car {key}" for key in CAR.help if key not in ("doors", "power")]
    assert load_tool("reference").find_unlisted(page, {"car": CAR}) == missing
    assert load_tool("reference").find_unlisted("<!-- fields: car -->", {"car": CAR}) == []
