"""Manager and workers: an idle machine gets the first ready task that it can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from weft.policies.orders import ByIndex, ByPriority
from weft.policies.placement import Sizing, place_by_rank, send_transfers, size_modes
from weft.policies.policy import Place, RunView, TaskOrder, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerWorker:
    """Gives each idle machine, in the order of machine indices, the first ready task that it can run.

    M-S and pM-S of T. Ma, R. Buyya, Critical-Path and Priority based Algorithms for Scheduling Workflows with
    Parameter Sweep Tasks on Global Grids (docs/papers/parameter-sweeps.md, sections 4 and 5). The first task
    is the one with the lowest index, or with the most urgent priority (``orders.py``).

    Deviations: a task is ready when its predecessors have finished; as printed in the paper, it is ready when
    all predecessors are scheduled. If layers have no machines of their own, a machine takes the first of all
    tasks that it can run; with several workflows, the first task of the workflow that arrived first.
    ``fastest`` is an option that the paper leaves open: the first task gets the idle machine that is fastest
    for it. If a task has a rank, the rank decides between the idle machines. A decision costs O(active
    workflows + kinds x machine classes).
    """

    name: ClassVar[str] = "manager-worker"
    title: ClassVar[str] = "an idle machine gets the first ready task it can run (Ma and Buyya, M-S)"
    needs_plan: ClassVar[bool] = False
    order: ClassVar[TaskOrder] = ByIndex()

    fastest: bool = False
    """Whether the first task gets the idle machine that runs it fastest, not the one with the first index."""
    sizing: Sizing = "fastest"
    """The node count of moldable tasks: the fastest free count, or the smallest one at most 5 % slower."""

    def decide(self, view: View) -> Iterator[Place]:
        """Yield placements of ready tasks on idle machines until no idle machine can run a ready task."""
        yield from send_transfers(view)
        while view.any_free:
            found = self._place_first_task(view) if self.fastest else self._place_on_first_machine(view)
            if found is None:
                return
            yield found

    def _place_on_first_machine(self, view: View) -> Place | None:
        """Return the placement of the first ready task that the first idle machine can run; None: no task."""
        found = None
        for run in view.runs:
            for task in run.ready.heads(view.free):
                place = self._place(view, run, task)
                if place is not None and (found is None or place.machine < found.machine):
                    found = place
        return found

    def _place_first_task(self, view: View) -> Place | None:
        """Return the placement of the first ready task that idle machines can run, on the fastest of them.

        None: there is no such task.
        """
        places = (self._place(view, run, task) for run in view.runs for task in run.ready.heads(view.free))
        return next((place for place in places if place is not None), None)

    def _place(self, view: View, run: RunView, task: int) -> Place | None:
        """Return the placement of a task on the first or fastest idle machine; None: no machine can run it.

        If the task has a rank, the rank decides.
        """
        if (ranked := place_by_rank(view, run, task, self.sizing)) is not None:
            return ranked.place
        if not (modes := size_modes(run, task, view.modes(run, task), self.sizing)):
            return None
        best = min(modes, key=lambda mode: mode.seconds) if self.fastest else modes[0]
        reason = "fastest idle machine" if self.fastest else "first task the machine can run"
        return Place(run=run.index, task=task, machine=best.machine, count=best.count, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityManagerWorker(ManagerWorker):
    """Manager and workers; tasks whose children have other parents that have finished come first (pM-S)."""

    name: ClassVar[str] = "priority-manager-worker"
    title: ClassVar[str] = "manager and workers, tasks that others wait for first (Ma and Buyya, pM-S)"
    order: ClassVar[TaskOrder] = ByPriority()
