"""Files and folders stay small enough to be read at one sitting."""

from __future__ import annotations

from pathlib import Path

import pytest

from architecture.house import HOUSE, ROOT, SHELVES, files

MOST_LINES = 399
MOST_MODULES = 14
FLAT_LISTS = (*SHELVES, "cli")
"""Folders where a flat list of equals is the point."""


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(HOUSE)))
def test_files_are_under_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def folders() -> list[Path]:
    return sorted({path.parent for path in files()})


def rooms() -> list[Path]:
    """List the folders that are no flat list of equals."""
    return [folder for folder in folders() if (*folder.relative_to(HOUSE).parts, "")[0] not in FLAT_LISTS]


@pytest.mark.parametrize("folder", rooms(), ids=lambda path: str(path.relative_to(HOUSE)))
def test_folders_are_under_15_modules(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, sorted(modules)


def test_folders_nest_at_most_one_level() -> None:
    deep = [folder for folder in folders() if len(folder.relative_to(HOUSE).parts) > 2]
    assert deep == []


def test_every_folder_with_modules_is_a_package_that_says_what_it_is() -> None:
    missing = [folder for folder in folders() if not (folder / "__init__.py").exists()]
    assert missing == []


def test_names_of_test_files_are_unique() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
