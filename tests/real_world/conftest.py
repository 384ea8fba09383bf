"""Folders in which real runs are started, from the command line and from Python."""

from __future__ import annotations

import pytest

from cli.conftest import project
from real_world.real_project import RealProject

__all__ = ["project", "real"]


@pytest.fixture
def real(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return RealProject(tmp_path)
