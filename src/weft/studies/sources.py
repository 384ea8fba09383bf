"""Sources: the files of weft that a module is made of, those it imports included, however far away."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

__all__ = ["digest_of", "sources_of"]

_ENTRY = re.compile(r"weft(\.\w+)+:\w+")
_ABOVE = Path(__file__).parents[2]
"""Where the package is."""


def digest_of(module: str) -> str:
    """Give a few letters that change with the sources of a module, their tables, and NumPy.

    NumPy counts because its random numbers decide; weft has a say in everything else.
    """
    digest = hashlib.sha256(np.__version__.encode())
    sources = sources_of(module)
    tables = {
        table for source in sources for kind in ("*.csv", "*.yaml") for table in source.parent.glob(kind)
    }
    for path in sorted({*sources, *tables}):
        digest.update(f"{path.relative_to(_ABOVE)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def sources_of(module: str) -> set[Path]:
    """Find the file of a module and of everything of weft it imports, inside functions and by shelves too."""
    found: set[Path] = set()
    todo = [module]
    while todo:
        path = _file(todo.pop())
        if path is not None and path not in found:
            found.add(path)
            todo += _imports(ast.parse(path.read_bytes()))
    return found


def _file(module: str) -> Path | None:
    """Give the file of a module; None: it is none of weft's, or a name inside one."""
    if module.partition(".")[0] != "weft":
        return None
    path = _ABOVE.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            # What is imported may be a module itself.
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _ENTRY.fullmatch(node.value):
            # An entry of a shelf is loaded when somebody names it.
            yield node.value.partition(":")[0]
