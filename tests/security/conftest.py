"""Fixtures of the security tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from security.hostile_project import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a project beside files that must not change, which is checked at the end."""
    made = Place(tmp_path)
    yield made
    made.assert_nothing_touched()
