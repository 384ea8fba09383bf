"""Lazy: no plan; a task that becomes ready is bound to the machine that gives it the lowest time.

The baseline of R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the Grid,
SAC 2005 (S1 section 13). Behind a task stands a transfer, so the paper's reading looks at the transfer alone
and the task behind it inherits the machine: everything stays where it began. ``by=finish`` is the better
reading: the machine on which the task itself ends first, behind what is queued there.

Deviations: a dependency with data counts like the transfer it implies; of machines that are reached equally
soon a task takes the one where it is shortest, then the one of the lowest index; a task is bound when the
last of its predecessors has ended. The planner of this name shows the same run on estimated times. O(modes)
per task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from weft.policies.orders import ByIndex
from weft.policies.placement import Sizing, earliest_finish, size_modes
from weft.policies.policy import Mode, Place, RunView, TaskOrder, View
from weft.policies.rounds import place_first

__all__ = ["LazyPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyPolicy:
    """Looks at one task at a time, when it is ready."""

    name: ClassVar[str] = "lazy"
    title: ClassVar[str] = "each task where it has the lowest time (baseline, Prodan and Fahringer 2005)"
    needs_plan: ClassVar[bool] = False
    order: ClassVar[TaskOrder] = ByIndex()

    by: Literal["transfer", "finish"] = "transfer"
    """What the lowest time is: of the transfer before a task (the paper), or until the task itself ends."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest, or the smallest within 5 % of it."""

    def decide(self, view: View) -> Iterator[Place]:
        """Send every ready task away; one that no machine can take stays."""
        for run in list(view.runs):
            refused: set[int] = set()
            while (place := place_first(view, run, refused, self, free=False)) is not None:
                yield place

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Choose machine and count of a ready task; None: no machine can take it."""
        mode = self._lowest(view, run, task)
        if mode is None:
            return None
        return Place(
            run=run.index,
            task=task,
            machine=mode.machine,
            count=mode.count,
            queue=mode.nodes > 0,
            reason=f"lowest time by {self.by}",
        )

    def _lowest(self, view: View, run: RunView, task: int) -> Mode | None:
        modes = size_modes(run, task, view.modes(run, task, free=False), self.sizing)
        if not modes:
            return None
        if self.by == "finish":
            return earliest_finish(modes)
        return min(modes, key=lambda mode: (mode.ready_s, mode.seconds, mode.machine))
