"""Habits that keep runs reproducible and the source readable."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.house import HOUSE, ROOT, files, imports, tree

ALL_FILES = pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(HOUSE)))
EMPTY_NAMES = {"utils", "util", "misc", "common", "helpers", "helper", "tools", "stuff"}
GENERATOR_NAMES = {"Generator", "SeedSequence", "BitGenerator", "PCG64", "default_rng"}
"""What may be taken from ``numpy.random``; everything else there draws from hidden global state."""
MAKERS = {"default_rng", "SeedSequence", "PCG64"}
MACHINE_PATH = re.compile(r"^/(home|tmp|root|work|Users|mnt|opt)(/|$)")
UNFINISHED = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


@ALL_FILES
def test_random_numbers_come_only_from_a_generator_passed_in(path: Path) -> None:
    assert not {"random", "secrets"} & {name.split(".")[0] for name in imports(path)}
    taken = {
        node.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and re.fullmatch(r"(np|numpy)\.random", ast.unparse(node.value))
    }
    taken |= {
        name.removeprefix("numpy.random.") for name in imports(path) if name.startswith("numpy.random.")
    }
    assert taken <= GENERATOR_NAMES
    if path.name != "randomness.py":
        assert not taken & MAKERS, "generators are made in randomness.py and passed on"


@ALL_FILES
def test_nothing_is_printed(path: Path) -> None:
    assert not [
        call.lineno for call in calls(path) if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


@ALL_FILES
def test_nothing_is_left_unfinished(path: Path) -> None:
    assert not UNFINISHED.findall(path.read_text(encoding="utf-8"))


@ALL_FILES
def test_no_path_of_one_machine_is_written_down(path: Path) -> None:
    texts = [node.value for node in ast.walk(tree(path)) if isinstance(node, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and MACHINE_PATH.match(text)]


def test_modules_and_folders_are_named_after_what_they_hold() -> None:
    names = {path.stem for path in files()} | {path.parent.name for path in files()}
    assert not names & EMPTY_NAMES


def test_the_test_tree_mirrors_the_house() -> None:
    beside = {
        "architecture", "chaos", "examples", "properties", "published", "security", "registries", "worlds"
    }  # fmt: skip
    rooms = {path.stem for path in HOUSE.iterdir()}
    folders = {
        path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders <= rooms | beside


def test_no_test_folder_is_a_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []
