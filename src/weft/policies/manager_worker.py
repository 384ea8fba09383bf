"""Manager and workers: an idle machine gets the first ready task it can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.orders import ByIndex, ByPriority
from weft.policies.placement import Sizing, send_transfers, size_modes
from weft.policies.policy import Mode, Place, RunView, TaskOrder, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerWorker:
    """Gives each idle machine, in the order of machine indices, the first ready task that it can run.

    M-S and pM-S of T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with
    Parameter Sweep Tasks on Global Grids (docs/papers/parameter-sweeps.md, sections 4 and 5). The first task
    is the one with the lowest index, or with the most urgent priority (``orders.py``).

    Deviations: a task is ready when its predecessors have finished (as printed: when none is unscheduled). If
    layers do not own their machines, a machine takes the first of all tasks it can run; with several
    workflows, the first of the workflow that arrived first. ``fastest`` is an option that the paper leaves
    open: the first task gets the idle machine that is fastest for it. A decision costs O(active workflows +
    kinds x machine classes).
    """

    name: ClassVar[str] = "manager-worker"
    title: ClassVar[str] = "an idle machine gets the first ready task it can run (Ma and Buyya, M-S)"
    needs_plan: ClassVar[bool] = False
    order: ClassVar[TaskOrder] = ByIndex()

    fastest: bool = False
    """Whether the first task gets the fastest idle machine instead of the one with the lowest index."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest that is free, or the smallest within 5 % of it."""

    def decide(self, view: View) -> Iterator[Place]:
        """Yield placements of ready tasks on idle machines until no pair is left."""
        yield from send_transfers(view)
        while view.any_free:
            found = self._first_task(view) if self.fastest else self._first_machine(view)
            if found is None:
                return
            mode, run, task = found
            reason = "first task the machine can run"
            yield Place(run=run.index, task=task, machine=mode.machine, count=mode.count, reason=reason)

    def _first_machine(self, view: View) -> tuple[Mode, RunView, int] | None:
        """Return the first idle machine that can run a ready task, and the first such task; None if none."""
        found = None
        for run in view.runs:
            for task in run.ready.heads(view.free):
                modes = view.modes(run, task)
                if modes and (found is None or modes[0].machine < found[0].machine):
                    found = (size_modes(run, task, modes, self.sizing)[0], run, task)
        return found

    def _first_task(self, view: View) -> tuple[Mode, RunView, int] | None:
        """Return the first ready task that an idle machine can run, and its fastest mode; None if none."""
        for run in view.runs:
            for task in run.ready.heads(view.free):
                if modes := size_modes(run, task, view.modes(run, task), self.sizing):
                    return min(modes, key=lambda mode: mode.seconds), run, task
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityManagerWorker(ManagerWorker):
    """Manager and workers; tasks whose children have other finished parents come first (pM-S)."""

    name: ClassVar[str] = "priority-manager-worker"
    title: ClassVar[str] = "manager and workers, tasks that others wait for first (Ma and Buyya, pM-S)"
    order: ClassVar[TaskOrder] = ByPriority()
