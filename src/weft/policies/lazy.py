"""Lazy: without a plan, bind each ready task to the machine with the lowest transfer or finish time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from weft.policies.orders import ByIndex
from weft.policies.placement import Sizing, earliest_finish, place_by_rank, size_modes
from weft.policies.policy import Mode, Place, RunView, TaskOrder, View
from weft.policies.rounds import place_first


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyPolicy:
    """Binds each task, when it becomes ready, to the machine with the lowest transfer or finish time.

    The baseline of R. Prodan, T. Fahringer, Dynamic Scheduling of Scientific Workflow Applications on the
    Grid, SAC 2005 (docs/papers/dynamic-grid.md, section 13). In the paper a transfer precedes every task,
    only the time of the transfer is considered, and the task runs where the transfer ends. Everything
    therefore stays on the first machine. ``by=finish`` is a better interpretation: it chooses the machine on
    which the task itself finishes first, after the tasks queued there.

    Deviations: an edge with data counts as the transfer that it implies. Ties: fewest seconds, then lower
    machine index. A task is bound when its last predecessor has finished. The planner ``lazy`` simulates the
    same run with estimated times. If a task has a rank, the rank decides between the free machines. O(modes)
    per task.
    """

    name: ClassVar[str] = "lazy"
    title: ClassVar[str] = "each task where it has the lowest time (baseline, Prodan and Fahringer 2005)"
    needs_plan: ClassVar[bool] = False
    order: ClassVar[TaskOrder] = ByIndex()

    by: Literal["transfer", "finish"] = "transfer"
    """The time to minimise: that of the transfer before the task (as in the paper), or the task's finish."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest count, or the smallest one at most 5 % slower."""

    def decide(self, view: View) -> Iterator[Place]:
        """Yield a placement for every ready task that some machine can run.

        If the machine is busy, the task waits in the queue of the machine.
        """
        for run in list(view.runs):
            refused: set[int] = set()
            while (place := place_first(view, run, refused, self, free=False)) is not None:
                yield place

    def place(self, view: View, run: RunView, task: int) -> Place | None:
        """Return the placement of a ready task; None if no machine can run it."""
        ranked = place_by_rank(view, run, task, self.sizing)
        if ranked is not None and (ranked.place is not None or ranked.waits):
            return ranked.place
        if (mode := self._lowest(view, run, task)) is None:
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
