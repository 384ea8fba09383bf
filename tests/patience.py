"""Timeout of tests that wait for other processes."""

from __future__ import annotations

__all__ = ["PATIENCE_S"]

PATIENCE_S = 180.0
"""Timeout in seconds. Only a failing test waits this long, so it allows for much other load."""
