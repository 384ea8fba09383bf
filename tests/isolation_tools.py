"""Tools that isolate programs, for tests that need them."""

from __future__ import annotations

import os

import pytest

from weft.backends.attempt.isolation import find_isolation_problem

__all__ = ["TOOLS", "need_isolation"]

TOOLS = ("bubblewrap", "unshare")


def need_isolation(tool: str) -> None:
    """Skip the test where the tool does not work; with CI=true the test runs, and fails."""
    if (problem := find_isolation_problem(tool)) and not os.environ.get("CI"):
        pytest.skip(problem)
