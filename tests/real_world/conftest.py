"""A folder for workflows that are run for real."""

from __future__ import annotations

import pytest

from real_world.real_project import RealProject


@pytest.fixture
def real(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return RealProject(tmp_path)
