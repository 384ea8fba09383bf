"""The reference of the file format names every key, function and unit; the reference of commands every option."""

from __future__ import annotations

import re

import click
import pytest

from architecture.package import ROOT, load_tool
from weft.cli.main import COMMANDS, weft
from weft.expressions.operations import FUNCTIONS
from weft.expressions.values import UNITS
from weft.planners import PLANNERS
from weft.policies import POLICIES
from weft.registry import Registry, list_options
from weft.workflow.generators import GENERATORS
from weft.workflow.settings import DEFAULT_RETRIES

FORMAT = (ROOT / "docs" / "reference" / "file-format.md").read_text(encoding="utf-8")
USAGE = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
PLANNER_PAGE = (ROOT / "docs" / "reference" / "planners.md").read_text(encoding="utf-8")
POLICY_PAGE = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")

REFERENCE = load_tool("reference")
PAGES = REFERENCE.PAGES


@pytest.mark.parametrize("name", PAGES)
def test_field_tables_of_the_reference_match_the_records(name: str) -> None:
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == REFERENCE.replace_tables(page, PAGES[name]), "write them with `python .ci/reference.py`"


@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page, records in PAGES.items() for name in records]
)
def test_every_field_of_a_record_is_in_a_table(page: str, name: str) -> None:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    tables = re.findall(rf"<!-- fields: {name}((?: \w+)*) -->", text)
    listed = [key for keys in tables for key in keys.split() or PAGES[page][name].help]
    assert sorted(listed) == sorted(PAGES[page][name].help)


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
        "replay", "report", "reproduce", "resume", "run", "simulate", "status", "stop", "watch",
    ],
)  # fmt: skip
def test_every_option_is_in_the_reference(name: str) -> None:
    command = weft.get_command(click.Context(weft), name)
    assert command is not None
    options = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    documented = [option for option in options if option in USAGE]
    assert set(options) - set(documented) <= {"--param", "--chart"}, "documented as -p and --no-chart"


def test_every_generator_is_in_the_reference() -> None:
    assert [kind for kind in GENERATORS.builtin if f"`{kind}`" not in USAGE] == []


@pytest.mark.parametrize(("registry", "page"), [(PLANNERS, PLANNER_PAGE), (POLICIES, POLICY_PAGE)])
def test_every_registry_entry_and_its_options_are_in_the_reference(registry: Registry, page: str) -> None:
    missing = [name for name in registry.builtin if f"`{name}`" not in page]
    for name in registry.builtin:
        options = [option.name for option in list_options(registry.load(name))]
        missing += [
            f"{name}:{option}"
            for option in options
            if not re.search(rf"`{option.replace('_', '[-_]')}\b", page)
        ]
    assert missing == []


def test_the_default_retries_are_documented() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", FORMAT, re.MULTILINE))
    assert {cause: int(rows.get(cause, -1)) for cause in DEFAULT_RETRIES} == DEFAULT_RETRIES
