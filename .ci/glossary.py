"""Write the table of classes in docs/glossary.md from the docstrings: python .ci/glossary.py."""

from __future__ import annotations

import ast
from pathlib import Path

__all__ = ["table", "written"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "glossary.md"
PACKAGES = ("workflow", "platform", "schedule", "engine", "backends", "repository", "api")
START, END = "<!-- classes -->\n", "<!-- end of classes -->"


def table() -> str:
    """Return the table of the public classes of `PACKAGES` as Markdown."""
    rows = []
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / "weft" / package).rglob("*.py")):
            name = path.relative_to(ROOT / "src" / "weft").with_suffix("").as_posix()
            body = ast.parse(path.read_text(encoding="utf-8")).body
            public = [n for n in body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
            rows += [(node.name, name.removesuffix("/__init__"), first_sentence(node)) for node in public]
    lines = [f"| `{name}` | `{module}` | {line} |\n" for name, module, line in sorted(rows)]
    return "\n| class | module | meaning |\n|---|---|---|\n" + "".join(lines) + "\n"


def first_sentence(node: ast.ClassDef) -> str:
    """Return the first paragraph of a class's docstring on one line."""
    paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|").replace("``", "`")


def written(text: str) -> str:
    """Return the page with its table of classes replaced."""
    before, _, rest = text.partition(START)
    return before + START + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
