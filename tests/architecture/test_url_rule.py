"""Only ``weft.urls`` decides whether a text is a URL: two rules that differ let a task leave its folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from architecture.package import PACKAGE, files, imports, tree

_SPLITTERS = {"urlsplit", "urlparse", "urldefrag", "SplitType"}
_MARKS = ("://", "file:")
_OTHERS = {
    "backends/dask/workers.py": "the address of a Dask scheduler",
    "pools/dask_cluster.py": "the address of a Dask scheduler",
    "backends/ssh/connection.py": "a jump host in the ssh configuration",
    "redaction.py": "URLs inside texts that are shown; no file is opened by them",
}
"""Files that recognise something else by the same characters."""


def decisions(path: Path) -> Iterator[int]:
    """Yield the lines in which a file compares, searches or matches a text with the marks of URLs."""
    for node in ast.walk(tree(path)):
        compared: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.Call):
            compared = _arguments_of_a_match(node)
        for part in compared:
            for each in ast.walk(part):
                if isinstance(each, ast.Constant) and isinstance(each.value, str) and _is_mark(each.value):
                    yield each.lineno


def _arguments_of_a_match(call: ast.Call) -> list[ast.expr]:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    matches = {
        "startswith", "removeprefix", "partition", "rpartition", "split", "find", "index", "count", "replace",
        "compile", "match", "fullmatch", "search", "sub", "findall", "finditer",
    }  # fmt: skip
    return call.args if name in matches else []


def _is_mark(text: str) -> bool:
    return any(mark in text.lower() for mark in _MARKS)


def offenders(paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        name = str(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else path.name
        if name == "urls.py" or name in _OTHERS:
            continue
        found += [f"{name}:{line}" for line in decisions(path)]
        found += [f"{name}: {each}" for each in imports(path) if each.rpartition(".")[2] in _SPLITTERS]
    return found


def test_no_other_module_decides_what_a_url_is() -> None:
    assert offenders(files()) == []


@pytest.mark.parametrize(
    "line",
    [
        'found = "://" in text',
        'found = text.startswith("file:")',
        'found = text.startswith(("http://", "https://"))',
        'import re\nfound = re.match(r"[a-z]+://", text)',
        "from urllib.parse import urlsplit",
        "def f():\n    from urllib.parse import urlparse",
    ],
)
def test_check_finds_a_second_definition_of_what_a_url_is(tmp_path: Path, line: str) -> None:
    path = tmp_path / "second.py"
    path.write_text(line)
    assert offenders([path])
