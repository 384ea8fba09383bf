"""Planners by name, with options: ``heft``, ``heft:averaging=self-loops``, ``xdcp:pool=shared``."""

from __future__ import annotations

from weft.naming import made_by_name, options_of
from weft.planners.planner import Planner

__all__ = ["options_of", "planner_named"]


def planner_named(text: str) -> Planner:
    """Make the planner that a name with options describes."""
    from weft.planners import PLANNERS

    planner: Planner = made_by_name(PLANNERS, text)
    return planner
