"""The package as the architecture tests see it: its files, its module names, its syntax trees."""

from __future__ import annotations

import ast
import os
from functools import cache
from pathlib import Path

__all__ = ["HOUSE", "ROOT", "SHELVES", "environment", "files", "folder_of", "imports", "module_name", "tree"]

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "src" / "weft"
SHELVES = ("backends", "formats", "planners", "policies", "pools", "predictors", "reports", "search")
"""Folders that hold interchangeable things; they may be long and may have one level of families."""


def files() -> list[Path]:
    """List every source file of the package, in order."""
    return sorted(HOUSE.rglob("*.py"))


def module_name(path: Path) -> str:
    """Give the dotted name of a source file."""
    parts = path.relative_to(HOUSE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(path: Path) -> str:
    """Give the room of the house a file stands in: its first folder, or its own name on the ground floor."""
    return path.relative_to(HOUSE).with_suffix("").parts[0]


@cache
def tree(path: Path) -> ast.Module:
    """Parse a source file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> set[str]:
    """Name everything a file imports, inside functions too."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def environment(**more: str) -> dict[str, str]:
    """Give child processes this source tree, plain UTF-8 text, no colour and a fixed width."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WEFT_", "_WEFT"))}
    fixed = {
        "PYTHONPATH": str(HOUSE.parent),
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    return kept | fixed | more
