"""Compiled templates: used again, compiled anew when damaged or outdated, and not needed at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment

from weft.reports.page import _bytecode_cache


@pytest.fixture(autouse=True)
def _byte_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)


def _render(directory: Path, source: str) -> str:
    loader = DictLoader({"page.html": source})
    return (
        Environment(loader=loader, bytecode_cache=_bytecode_cache(directory))
        .get_template("page.html")
        .render()
    )


def test_compiled_template_is_stored_and_used_again(tmp_path: Path) -> None:
    directory = tmp_path / "__pycache__"
    assert _render(directory, "one") == "one"
    (stored,) = directory.iterdir()
    written = stored.stat().st_mtime_ns
    assert _render(directory, "one") == "one"
    assert stored.stat().st_mtime_ns == written


def test_changed_template_is_compiled_again(tmp_path: Path) -> None:
    assert _render(tmp_path, "one") == "one"
    assert _render(tmp_path, "two") == "two"


@pytest.mark.parametrize("kept", [0, 5, 25, 40, 60, -1])
def test_template_with_a_truncated_compiled_file_is_compiled_again(tmp_path: Path, kept: int) -> None:
    _render(tmp_path, "one")
    (stored,) = tmp_path.iterdir()
    stored.write_bytes(stored.read_bytes()[:kept])
    assert _render(tmp_path, "one") == "one"


def test_page_is_rendered_where_no_file_can_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    assert _render(blocked / "__pycache__", "one") == "one"
    assert list(tmp_path.iterdir()) == [blocked]


def test_compiled_template_is_not_stored_if_python_writes_no_byte_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert _render(tmp_path, "one") == "one"
    assert not list(tmp_path.iterdir())
