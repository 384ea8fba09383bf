"""A folder with a workflow and a platform for commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.projects import MACHINES, TINY, Project
from cli.shell import GRID, HELLO


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hello.yaml").write_text(HELLO)
    (tmp_path / "grid.yaml").write_text(GRID)
    return tmp_path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    here = Project(tmp_path, capsys)
    here.write("tiny.yaml", TINY)
    here.write("machines.yaml", MACHINES)
    return here
