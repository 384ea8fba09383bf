"""Static planning: the shelf of planners. The contract is in ``planner.py``; read it first."""

from __future__ import annotations

from weft.registry import Shelf

__all__ = ["PLANNERS"]

PLANNERS = Shelf(
    "weft.planners",
    "planner",
    {
        "heft": "weft.planners.lists.heft:Heft",
        "shuffle": "weft.planners.sweeps.shuffle:Shuffle",
        "xdcp": "weft.planners.sweeps.xdcp:Xdcp",
    },
)
"""To add a planner: one file in a family's folder, one line here."""
