"""Placement: on which machine a task runs, of those where it can start right now.

``finish``: where it ends first, data and machine considered (S5 section 1). ``rank``: where the task's own
ranking expression is highest (S3 section 3: E. Huedo, R. Montero, I. Llorente, The GridWay Framework for
Adaptive Scheduling and Execution on Grids); a task without one goes where its turnaround is shortest, which
is the same estimate. Requirements are considered before: the view lists only machines that meet them.

Ties go to the machine of the lowest index. O(modes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.policies.policy import Mode, Place, RunView, View
from weft.policies.sizing import Sizing, sized

__all__ = ["Placement", "Placing", "earliest"]

Placement = Literal["finish", "rank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """Finds the place of one task after another."""

    sizing: Sizing = "fastest"
    placement: Placement = "finish"
    queue: bool = False
    """Whether busy machines count too; the task waits there."""

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Choose machine and count of a ready task; None: nothing can take it now."""
        modes = sized(run, task, view.modes(run, task, free=not self.queue), self.sizing)
        if not modes:
            return None
        reason = "earliest finish"
        best = None
        if self.placement == "rank":
            best = _highest(view, run, task, modes)
            reason = "highest rank" if best is not None else reason
        if best is None:
            best = earliest(modes)
        return Place(
            run=run.index,
            task=task,
            machine=best.machine,
            count=best.count,
            queue=self.queue and best.nodes > 0,
            reason=reason,
        )


def earliest(modes: list[Mode]) -> Mode:
    """Give the mode that ends first."""
    best = modes[0]
    for mode in modes:
        if mode.finish_s < best.finish_s:
            best = mode
    return best


def _highest(view: View, run: RunView, task: int, modes: list[Mode]) -> Mode | None:
    """Give the mode on the machine the task itself ranks highest; None: it ranks none."""
    best, highest = None, 0.0
    for mode in modes:
        rank = view.rank(run, task, mode.machine)
        if rank is not None and (best is None or rank > highest):
            best, highest = mode, rank
    return best
