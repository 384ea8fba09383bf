"""Fixtures of the runner tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.runner.runner_bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a link to an idle runner."""
    made = Bench(tmp_path)
    yield made
    made.close()
