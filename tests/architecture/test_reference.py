"""The reference of the file format names every key, function and unit; the reference of commands every option."""

from __future__ import annotations

import re

import click
import pytest

from architecture.package import ROOT
from weft.backends.simulation import scenario_schema as scenario_keys
from weft.cli.main import COMMANDS, weft
from weft.expressions.operations import FUNCTIONS
from weft.expressions.values import UNITS
from weft.planners import PLANNERS
from weft.planners.planner import list_options
from weft.platform import file_format
from weft.policies import POLICIES
from weft.registry import Registry
from weft.workflow import keys
from weft.workflow.generators import GENERATORS

FORMAT = (ROOT / "docs" / "reference" / "file-format.md").read_text(encoding="utf-8")
USAGE = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
SCENARIO = (ROOT / "docs" / "reference" / "scenario.md").read_text(encoding="utf-8")
PLANNER_PAGE = (ROOT / "docs" / "reference" / "planners.md").read_text(encoding="utf-8")
POLICY_PAGE = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")

TABLES = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (keys, file_format)
    for name in dir(module)
    if name.endswith("_KEYS")
}


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_key_is_in_the_reference(table: str) -> None:
    missing = [key for key in TABLES[table] if not re.search(rf"(?<!\w){re.escape(key)}(?!\w)", FORMAT)]
    assert missing == []


@pytest.mark.parametrize("table", [name for name in scenario_keys.__all__ if name.endswith("_KEYS")])
def test_every_key_of_a_scenario_is_in_its_reference(table: str) -> None:
    page = "".join(SCENARIO.split("```")[::2])  # examples do not count
    written = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", page))))
    assert set(getattr(scenario_keys, table)) - written == set()


def test_every_function_and_unit_is_in_the_reference() -> None:
    words = set(re.findall(r"\w+", FORMAT[FORMAT.index("## Expressions") :]))
    assert set(FUNCTIONS) - words == set()
    assert set(UNITS) - words == set()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_in_the_reference(name: str) -> None:
    assert f"`weft {name}" in USAGE


@pytest.mark.parametrize(
    "name",
    [
        "cancel", "clean", "compare", "explain", "generate", "hold", "logs", "ls", "migrate", "pareto", "plan", "release",
        "replay", "report", "reproduce", "resume", "run", "simulate", "status", "watch",
    ],
)  # fmt: skip
def test_every_option_is_in_the_reference(name: str) -> None:
    command = weft.get_command(click.Context(weft), name)
    assert command is not None
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    documented = [option for option in options if option in USAGE]
    assert set(options) - set(documented) <= {"--param", "--chart"}, "documented as -p and --no-chart"


def test_every_generator_is_in_the_reference() -> None:
    assert [kind for kind in GENERATORS if f"`{kind}`" not in USAGE] == []


@pytest.mark.parametrize(("registry", "page"), [(PLANNERS, PLANNER_PAGE), (POLICIES, POLICY_PAGE)])
def test_every_registry_entry_and_its_options_are_in_the_reference(registry: Registry, page: str) -> None:
    missing = [name for name in registry if f"`{name}`" not in page]
    for name in registry:
        options = [option.name for option in list_options(registry.load(name))]
        missing += [f"{name}:{option}" for option in options if not re.search(rf"`{option}\b", page)]
    assert missing == []
