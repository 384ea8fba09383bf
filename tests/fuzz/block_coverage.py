"""Coverage of the blocks of weft's source code, cheap enough to be read after every fuzz case.

Modules imported after ``instrument_weft`` store a 1 in a common array at the start of every function, branch, loop
body and exception handler. Kernels are left alone: numba compiles them.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

_HITS = "_weft_block_hits"
_EXCLUDED = ("weft.kernels", "weft.papers")
_MOST_BLOCKS = 1 << 16

hits = bytearray(_MOST_BLOCKS)
"""1 for every block that was executed since the array was cleared."""
_CLEAR = bytes(_MOST_BLOCKS)


class SeenBlocks:
    """The blocks that earlier cases have executed."""

    def __init__(self) -> None:
        self._seen = 0

    def take_new(self) -> int:
        """Return the number of blocks executed for the first time since the last call, and clear the array."""
        found = int.from_bytes(hits)
        hits[:] = _CLEAR
        new = found & ~self._seen
        self._seen |= new
        return new.bit_count()


def instrument_weft() -> None:
    """Count the blocks of every module of weft that is imported from now on."""
    loaded = [name for name in sys.modules if name.partition(".")[0] == "weft"]
    assert not loaded, f"imported before its blocks can be counted: {loaded[:3]}"
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != "weft" or fullname.startswith(_EXCLUDED):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = _Marker().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, _HITS, hits)
        super().exec_module(module)


class _Marker(ast.NodeTransformer):
    """Inserts a statement at the start of every block of a function."""

    blocks = 0

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = 1 if ast.get_docstring(node, clean=False) is not None else 0
            node.body.insert(first, self._mark(node.body[-1]))
        elif isinstance(node, ast.If | ast.For | ast.While | ast.ExceptHandler | ast.match_case):
            node.body.insert(0, self._mark(node.body[0]))
            if orelse := getattr(node, "orelse", None):
                orelse.insert(0, self._mark(orelse[0]))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        # Names in a class body could be taken for fields of a record, so only its methods are marked.
        for part in node.body:
            if isinstance(part, ast.FunctionDef | ast.ClassDef):
                self.visit(part)
        return node

    def _mark(self, near: ast.stmt) -> ast.stmt:
        _Marker.blocks += 1
        position = _Marker.blocks % _MOST_BLOCKS
        mark = ast.parse(f"{_HITS}[{position}] = 1").body[0]
        return ast.copy_location(mark, near)
