"""The source files that affect a run, and their digest."""

from __future__ import annotations

import pytest

from architecture.package import PACKAGE
from weft.papers import repetition
from weft.papers.repetition import find_sources, source_digest


def test_all_modules_that_affect_a_run_are_sources():
    found = {path.relative_to(PACKAGE).as_posix() for path in find_sources("weft.papers.dynamic_grid_tuning")}
    assert {
        "papers/dynamic_grid_tuning.py",
        "papers/dynamic_grid.py",
        "search/genetic.py",
        "search/operators.py",
        "planners/genetic.py",
        "kernels/decoder.py",
    } <= found
    assert not [
        name for name in found if name.startswith(("api/", "backends/", "cli/", "reports/", "runtime/"))
    ]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a small package: a imports b and c.d, c.d imports a and registers g; no module imports e."""
    monkeypatch.setattr(repetition, "_SOURCE_ROOT", tmp_path)
    texts = {
        "a.py": "import weft.b, json\ndef f():\n    from weft.c import d\n",
        "b.py": "",
        "c/__init__.py": "",
        "c/d.py": "from weft.a import f\nSHELF = {'g': 'weft.g:G', 'text': 'weft.e: no entry'}",
        "c/table.csv": "1",
        "e.py": "",
        "g.py": "",
        "other.csv": "",
    }
    for name, text in texts.items():
        path = tmp_path / "weft" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "weft"


def test_imports_are_followed_transitively(package):
    found = {path.relative_to(package).as_posix() for path in find_sources("weft.a")}
    assert found == {"a.py", "b.py", "c/__init__.py", "c/d.py", "g.py"}
    assert find_sources("json") == set()


@pytest.mark.parametrize(
    ("name", "changes"),
    [("b.py", True), ("c/table.csv", True), ("c/new.yaml", True), ("g.py", True), ("e.py", False)],
)
def test_the_digest_of_a_module_changes_only_if_an_imported_file_changes(package, name, changes):
    before = source_digest("weft.a")
    (package / name).write_text("x = 2")
    assert (source_digest("weft.a") != before) is changes
