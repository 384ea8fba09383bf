"""Every module has a docstring, and the ``__all__`` of packages is complete."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from architecture.package import PACKAGE, files, module_name, tree


def exported(path: Path) -> list[str] | None:
    """Return ``__all__`` of a file, read from its syntax tree; None if there is none."""
    for node in tree(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return list(ast.literal_eval(node.value))
    return None


def defined(path: Path) -> set[str]:
    """Return the public classes, functions and constants that a module defines at its top level."""
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


def test_every_module_has_a_docstring() -> None:
    assert [module_name(path) for path in files() if not ast.get_docstring(tree(path))] == []


def test_every_package_lists_the_names_it_defines_in_all() -> None:
    wrong = [
        module_name(path)
        for path in files()
        if path.name == "__init__.py" and len(tree(path).body) > 1 and exported(path) is None
    ]
    assert wrong == []
    assert exported(PACKAGE / "task.py") is not None, "programs of users import it"


def test_every_dunder_all_is_complete() -> None:
    wrong = {
        module_name(path): sorted(defined(path) - set(names))
        for path in files()
        if (names := exported(path)) is not None
        and (len(names) != len(set(names)) or not defined(path) <= set(names))
    }
    assert wrong == {}


def test_every_exported_name_exists() -> None:
    missing = [
        f"{module_name(path)}.{name}"
        for path in files()
        for name in exported(path) or []
        if not hasattr(importlib.import_module(module_name(path)), name)
    ]
    assert missing == []


def test_private_names_are_not_imported_by_other_modules() -> None:
    wrong = [
        f"{module_name(path)}: {alias.name} of {node.module}"
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "weft"
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert wrong == []
