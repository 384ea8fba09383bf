"""Print the figures of the code base as JSON: modules, lines, headers, single importers, class names.

Run `python .ci/figures.py` from the project's folder. `tests/architecture/test_figures.py` holds the limits.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter, defaultdict
from pathlib import Path

__all__ = ["figures"]

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = re.compile(
    r"\bspec s[1-5]\b|\bdesign section\b|\bdesign\.md\b|\bstyle\.md\b|\bS[1-5] sections?\b"
    r"|\.\./shared/(?!data)"
)
"""How comments used to name documents that are not in the repository."""
SMALL_LINES = 120


def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def header_lines(tree: ast.Module) -> int:
    """Count the lines of the module docstring, the imports and `__all__` at the top of a module."""
    lines = 0
    for position, node in enumerate(tree.body):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if position == 0:
                pass
            case ast.Import() | ast.ImportFrom() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                pass
            case _:
                continue
        lines += (node.end_lineno or node.lineno) - node.lineno + 1
    return lines


def imported(tree: ast.Module, names: set[str]) -> set[str]:
    """Return the modules of `names` that a module imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & names
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found |= {full if full in names else node.module} & names
    return found


def figures() -> dict[str, object]:
    """Measure the package."""
    paths = {module_name(path): path for path in sorted((ROOT / "src" / "weft").rglob("*.py"))}
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    lines = {name: text.count("\n") for name, text in texts.items()}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        for other in imported(tree, set(paths) - {name}):
            importers[other].add(name)
    lonely = sorted(
        name
        for name, path in paths.items()
        if lines[name] < SMALL_LINES and len(importers[name]) == 1 and path.name != "__init__.py"
    )
    classes = Counter(
        node.name.lstrip("_")
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    outside = sorted(
        f"{name}:{number}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if OUTSIDE.search(line)
    )
    total = sum(lines.values())
    return {
        "modules": len(paths),
        "lines": total,
        "header_percent": round(100 * sum(map(header_lines, trees.values())) / total, 2),
        "small_modules_with_one_importer": lonely,
        "class_names_twice": sorted(name for name, count in classes.items() if count > 1),
        "references_outside": outside,
    }


if __name__ == "__main__":
    print(json.dumps(figures(), indent=2))
