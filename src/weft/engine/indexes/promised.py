"""What is promised to machines: ready tasks whose abstract machine is bound, and transfers under way.

Made at the first question and kept from then on: a task that becomes ready, or goes, costs O(1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.engine.indexes.totals import as_seconds, as_units
from weft.engine.state.known import Known
from weft.workflow.unfolding.task_graph import COMPUTE, TRANSFER

__all__ = ["PromisedTasks"]


class PromisedTasks:
    """Node-seconds by machine, of each task with its fastest count, at the speed the platform states."""

    __slots__ = ("_known", "_of_task", "_sent", "_units")

    def __init__(self, known: Known, sent: Iterable[int]) -> None:
        """Begin without ready tasks; ``sent`` are those that have an attempt."""
        self._known = known
        self._of_task: dict[int, tuple[int, int]] = {}
        """Per task: the machine it is bound to, and its node-seconds in units."""
        self._units: dict[int, int] = {}
        """Per machine: those of its tasks together."""
        self._sent = {task for task in sent if known.kind[task] == TRANSFER}
        """Transfers that are no longer ready; those that are over go when somebody asks."""

    def add(self, task: int, kind: tuple[int, ...]) -> None:
        """Take in a task that has become ready, or whose kind has changed."""
        self._take_back(task)
        self._sent.discard(task)
        machine, known = kind[1], self._known
        if machine < 0 or known.kind[task] != COMPUTE:
            return
        options = known.options(task)
        ways = [
            (known.seconds(task, machine, count), options.nodes[machine, count])
            for count in options.counts.get(machine, ())
        ]
        if ways:
            seconds, nodes = min(ways)
            units = as_units(seconds * nodes)
            self._of_task[task] = (machine, units)
            self._units[machine] = self._units.get(machine, 0) + units

    def remove(self, task: int) -> None:
        """Hear that a task is no longer ready."""
        self._take_back(task)
        if self._known.kind[task] == TRANSFER:
            self._sent.add(task)

    def _take_back(self, task: int) -> None:
        found = self._of_task.pop(task, None)
        if found is not None:
            machine, units = found
            self._units[machine] -= units
            if not self._units[machine]:
                del self._units[machine]

    def by_machine(self) -> dict[int, float]:
        """Give the node-seconds of every machine to which anything is promised, by index."""
        return {machine: as_seconds(units) for machine, units in sorted(self._units.items())}

    def transfers(self, under_way: Callable[[int], bool]) -> list[int]:
        """List the transfers under way, by index; costs O(these + those that ended since it was asked)."""
        self._sent = {task for task in self._sent if under_way(task)}
        return sorted(self._sent)
