"""The security page names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"^\| (?P<attack>[^|]+) \| (?P<answer>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[a-z_/]+\.py)::(\w+)`")
_LEAST_ROWS = 40


def test_every_attack_of_the_table_names_tests_that_exist() -> None:
    table = (ROOT / "docs" / "security.md").read_text().partition("## Attacks and tests")[2]
    rows = [row for row in _ROW.finditer(table) if row["attack"] not in ("attack", "---")]
    assert len(rows) >= _LEAST_ROWS
    missing = []
    for row in rows:
        named = _TEST.findall(row["tests"])
        assert named, f"no test for: {row['attack']}"
        missing += [f"{file}::{name}" for file, name in named if name not in _functions(ROOT / file)]
    assert missing == []


def _functions(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}
