"""How long tests wait for other processes."""

from __future__ import annotations

__all__ = ["PATIENCE_S"]

PATIENCE_S = 180.0
"""Only a failing test waits this long, so the value allows for a machine with much other load."""
