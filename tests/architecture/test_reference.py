"""The reference of the file format names every key, function and unit; the reference of commands every option."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from architecture.documents import pages
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


OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


def parameters(name: str) -> list[set[str]]:
    """Return the spellings of every option of a command and of its subcommands, ``{"-p", "--param"}``."""
    command = weft.get_command(click.Context(weft), name)
    assert command is not None
    commands = [command]
    for one in commands:  # grows by the subcommands of groups
        commands += one.commands.values() if isinstance(one, click.Group) else ()
    found = [set(each.opts + each.secondary_opts) for one in commands for each in one.params]
    return [names for names in found if any(option.startswith("-") for option in names)]


def sections(name: str) -> list[str]:
    """Return the sections of the reference under the heading of a command, or else those that mention it."""
    parts = [f"## {part}" for part in USAGE.split("\n## ")[1:]]
    own = [part for part in parts if part.startswith(f"## `weft {name}`\n")]
    return own or [part for part in parts if f"`weft {name}" in part]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    common = USAGE.partition("\n## ")[0]
    named = {option for part in (common, *sections(name)) for option in OPTION.findall(part)}
    assert [names for names in parameters(name) if not names & named] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_in_the_tables_of_a_command_exists(name: str) -> None:
    tables = re.findall(rf"^\| option of `weft {name}` \|.*\n((?:\|.*\n)*)", USAGE, re.MULTILINE)
    if (part := sections(name)) and part[0].startswith(f"## `weft {name}`\n"):
        tables += re.findall(r"^\| option \|.*\n((?:\|.*\n)*)", part[0], re.MULTILINE)
    cells = [line.split(" | ")[0] for table in tables for line in table.splitlines()]
    assert {each for cell in cells for each in OPTION.findall(cell)} <= set().union(*parameters(name))


COMMAND_LINE = re.compile(rf"\bweft ({'|'.join(COMMANDS)})\b([^\n`|#&]*)")
OTHER_SYSTEMS = "coming-from.md"
"""The page that also names options of other systems."""


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_option_named_in_the_documentation_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    unknown = [
        f"weft {name} {option}"
        for name, words in COMMAND_LINE.findall(text)
        for option in OPTION.findall(words)
        if option not in {"-h", "--help"}.union(*parameters(name))
    ]
    assert unknown == []
    if page.name != OTHER_SYSTEMS:
        everywhere = {"--help", "--version", "--log-level"}.union(
            *(names for name in COMMANDS for names in parameters(name))
        )
        assert set(re.findall(r"(?<=`)--[a-z][a-z-]*", text)) - everywhere == set()


def test_an_option_that_does_not_exist_is_found() -> None:
    name, words = COMMAND_LINE.findall("see `weft run w.yaml --no-such-option 3`")[0]
    assert OPTION.findall(words) == ["--no-such-option"]
    assert "--no-such-option" not in set().union(*parameters(name))


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
