"""Rules that keep runs reproducible and the source readable."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from architecture.package import PACKAGE, ROOT, files, imports, module_name, tree

EMPTY_NAMES = {"utils", "util", "misc", "common", "helpers", "helper", "tools", "stuff"}
GENERATOR_NAMES = {"Generator", "SeedSequence", "BitGenerator", "PCG64", "default_rng"}
"""Names of ``numpy.random`` that may be used; all others draw from hidden global state."""
MAKERS = {"default_rng", "SeedSequence", "PCG64"}
MACHINE_PATH = re.compile(r"^/(home|tmp|root|work|Users|mnt|opt)(/|$)")
UNFINISHED = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def numpy_random_names(path: Path) -> set[str]:
    """Return the names of ``numpy.random`` that a file uses."""
    used = {
        node.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Attribute) and re.fullmatch(r"(np|numpy)\.random", ast.unparse(node.value))
    }
    return used | {
        name.removeprefix("numpy.random.") for name in imports(path) if name.startswith("numpy.random.")
    }


def test_random_numbers_come_only_from_a_generator_passed_in() -> None:
    wrong = []
    for path in files():
        used = numpy_random_names(path)
        standard = {"random", "secrets"} & {name.split(".")[0] for name in imports(path)}
        makers = used & MAKERS if path.name != "randomness.py" else set()
        if standard or makers or not used <= GENERATOR_NAMES:
            wrong.append(module_name(path))
    assert wrong == [], "generators are made in randomness.py and passed on"


def test_no_module_calls_print() -> None:
    found = [
        f"{module_name(path)}:{call.lineno}"
        for path in files()
        for call in calls(path)
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]
    assert found == []


def test_no_module_is_marked_as_unfinished() -> None:
    assert [
        module_name(path) for path in files() if UNFINISHED.search(path.read_text(encoding="utf-8"))
    ] == []


def test_no_module_contains_a_path_of_a_particular_computer() -> None:
    found = [
        f"{module_name(path)}:{node.lineno}"
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MACHINE_PATH.match(node.value)
    ]
    assert found == []


def test_modules_and_packages_have_specific_names() -> None:
    names = {path.stem for path in files()} | {path.parent.name for path in files()}
    assert not names & EMPTY_NAMES


def test_every_folder_of_source_files_is_a_package() -> None:
    folders = {path.parent for path in files()}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_test_folders_mirror_the_package() -> None:
    others = {
        "architecture",
        "chaos",
        "examples",
        "fuzz",
        "properties",
        "published",
        "real_world",
        "registries",
        "security",
    }
    packages = {path.stem for path in PACKAGE.iterdir()}
    folders = {
        path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders <= packages | others


def test_test_folders_contain_no_init_file() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_names_of_test_files_are_unique() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
