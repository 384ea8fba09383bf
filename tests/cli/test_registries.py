"""Descriptions of planner options, read from their dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from weft.cli.registries import describe
from weft.errors import InvalidInput
from weft.planners import PLANNERS


@dataclass(frozen=True, kw_only=True)
class Tunable:
    """A planner with options of every kind."""

    pool: Literal["own", "shared"] = "own"
    """Whether layers
    share their machines."""
    max_steps: int = 7
    threshold: float = 0.95
    """Ends when nothing gets better."""
    eager: bool = True
    """Starts early."""

    name = "tunable"
    title = "a planner for a test"


@pytest.fixture
def registry(monkeypatch):
    load = PLANNERS.load
    monkeypatch.setattr(PLANNERS, "load", lambda name: Tunable if name == "tunable" else load(name))


def test_every_option_has_values_default_and_meaning(registry):
    found = describe("tunable", PLANNERS)
    assert (found.name, found.title) == ("tunable", "a planner for a test")
    assert [(option.name, option.values, option.default, option.meaning) for option in found.options] == [
        ("pool", "own, shared", "own", "Whether layers share their machines."),
        ("max-steps", "a whole number", "7", ""),
        ("threshold", "a number", "0.95", "Ends when nothing gets better."),
        ("eager", "true, false", "true", "Starts early."),
    ]


def test_option_descriptions_are_plain_data(registry):
    record = describe("tunable", PLANNERS).as_record()
    assert list(record) == ["name", "title", "options"]
    assert record["options"][1] == {
        "name": "max-steps",
        "values": "a whole number",
        "default": "7",
        "meaning": "",
    }


def test_options_of_a_class_without_source_code_have_no_description(monkeypatch):
    made = dataclass(type("Made", (), {"__annotations__": {"depth": int}, "depth": 3, "title": "made here"}))
    monkeypatch.setattr(PLANNERS, "load", lambda name: made)
    (option,) = describe("made", PLANNERS).options
    assert (option.name, option.default, option.meaning) == ("depth", "3", "")


def test_error_about_an_unknown_planner_name_suggests_the_nearest():
    with pytest.raises(InvalidInput, match="did you mean 'heft'"):
        describe("hefty", PLANNERS)


@pytest.mark.parametrize("name", list(PLANNERS))
def test_every_option_of_a_planner_is_explained(name):
    found = describe(name, PLANNERS)
    assert found.title
    assert [option.name for option in found.options if not option.meaning] == []
