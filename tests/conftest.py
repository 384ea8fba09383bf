"""Fixtures for all tests: the directories of the benchmark data and of the papers' figures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# One budget for all property tests: `make properties EXAMPLES=1000` draws more, and other, examples.
settings.register_profile("budget", max_examples=30, deadline=None, derandomize=True)
if "WEFT_EXAMPLES" in os.environ:
    settings.register_profile("thorough", max_examples=int(os.environ["WEFT_EXAMPLES"]), deadline=None)
settings.load_profile("thorough" if "WEFT_EXAMPLES" in os.environ else "budget")

PROJECT = Path(__file__).parents[1]


def _folder(variable: str, beside: str) -> Path:
    """Return a data directory from its environment variable or beside the project; skip if it is missing."""
    folder = Path(os.environ.get(variable) or PROJECT.parent / "shared" / beside)
    if not folder.is_dir():
        pytest.skip(f"no data: set {variable} to their folder")
    return folder


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """Return the directory of the public benchmark data."""
    return _folder("WEFT_BENCH_DATA", "data")


@pytest.fixture(scope="session")
def spec_data() -> Path:
    """Return the directory of the expected figures of the papers."""
    return PROJECT / "tests" / "published" / "figures"
