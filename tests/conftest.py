"""Fixtures that every folder of tests may use: where the benchmark data and the papers' figures are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def _folder(variable: str, beside: str) -> Path:
    """Find a folder of data by its environment variable, else beside the project; skip where it is absent."""
    folder = Path(os.environ.get(variable) or PROJECT.parent / "shared" / beside)
    if not folder.is_dir():
        pytest.skip(f"no data: set {variable} to their folder")
    return folder


@pytest.fixture(scope="session")
def bench_data() -> Path:
    """The folder of the public benchmark data."""
    return _folder("WEFT_BENCH_DATA", "data")


@pytest.fixture(scope="session")
def spec_data() -> Path:
    """The folder of the figures that the papers' experiments must give."""
    return PROJECT / "tests" / "published" / "figures"
