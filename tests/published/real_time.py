"""Checks of executions in real time: the order of events always, durations only without disturbing load."""

from __future__ import annotations

import pytest

from weft.papers.runs import DISTURBANCE_LIMIT

__all__ = ["require_quiet_host"]


def require_quiet_host(share: float) -> None:
    """Skip a test that judges durations and mark it as disturbed if other load disturbed its run."""
    if share > DISTURBANCE_LIMIT:
        pytest.skip(f"disturbed: other processes used {share:.0%} of the cores, in four runs")
