"""Restarts: how much of a task's work its restart files spare the next attempt (S3 section 2)."""

from __future__ import annotations

from weft.engine.desk import Desk
from weft.engine.state.run import Run

__all__ = ["spared"]


def spared(desk: Desk, run: Run, task: int, count: int) -> float:
    """Give the share of the work that need not be done again on so many nodes; 0: it starts from zero."""
    kept = run.checkpoint.get(task) if run.checkpoint else None
    if kept is None or not desk.settings.checkpoints:
        return 0.0
    share, _, written_with = kept
    checkpoint = run.known.graph.description(task).recovery.checkpoint
    usable = written_with == count or (checkpoint is not None and checkpoint.nodes == "any")
    return share if usable else 0.0
