"""A folder with a workflow and a platform in it, where commands are run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.shell import GRID, HELLO


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hello.yaml").write_text(HELLO)
    (tmp_path / "grid.yaml").write_text(GRID)
    return tmp_path
