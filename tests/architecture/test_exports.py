"""Every module says what it is (docstring) and what it offers (a complete ``__all__``)."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from architecture.house import HOUSE, files, module_name, tree

ALL_FILES = pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(HOUSE)))


def listed(path: Path) -> list[str] | None:
    """Read ``__all__`` from the syntax tree; None where there is none."""
    for node in tree(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return list(ast.literal_eval(node.value))
    return None


def defined(path: Path) -> set[str]:
    """Name the public classes, functions and constants a module defines at its top level."""
    found = set()
    for node in tree(path).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {
                    leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)
                }
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return {name for name in found if not name.startswith("_")}


def says_nothing_but_its_docstring(path: Path) -> bool:
    return path.name == "__init__.py" and len(tree(path).body) == 1


@ALL_FILES
def test_a_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(tree(path))


@ALL_FILES
def test_all_is_complete(path: Path) -> None:
    if says_nothing_but_its_docstring(path):
        return
    names = listed(path)
    assert names is not None, "no __all__"
    assert len(names) == len(set(names))
    assert defined(path) - set(names) == set(), "public names that __all__ does not list"


@ALL_FILES
def test_everything_listed_exists(path: Path) -> None:
    module = importlib.import_module(module_name(path))
    missing = [name for name in listed(path) or [] if not hasattr(module, name)]
    assert missing == []
