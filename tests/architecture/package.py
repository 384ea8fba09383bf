"""The source tree as data for the architecture tests: files, module names, syntax trees, imports."""

from __future__ import annotations

import ast
import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "PACKAGE",
    "ROOT",
    "environment",
    "files",
    "imports",
    "load_tool",
    "module_name",
    "package_of",
    "tree",
]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "weft"


def files() -> list[Path]:
    """Return every Python file of the package, sorted."""
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the dotted module name of a source file."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(path: Path) -> str:
    """Return the top-level package or module of a source file: ``engine``, ``errors``."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the names of everything a file imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def load_tool(name: str) -> Any:
    """Return a script of ``.ci`` as a module."""
    specification = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def environment(**more: str) -> dict[str, str]:
    """Return the environment of child processes: this source tree, UTF-8, no colour, 100 columns."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WEFT_", "_WEFT"))}
    fixed = {
        "PYTHONPATH": str(PACKAGE.parent),
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    return kept | fixed | more
