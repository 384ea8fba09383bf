"""What is promised to machines: tasks that are bound to one and were not sent there yet.

A task that becomes ready, or goes, costs O(1).
"""

from __future__ import annotations

from collections.abc import Callable

from weft.engine.indexes.totals import as_units
from weft.engine.state.known import Known

__all__ = ["Promises"]


class Promises:
    """Node-seconds of each task with its fastest count, at the speed the platform states."""

    __slots__ = ("_known", "_of_task", "_tell")

    def __init__(self, known: Known, tell: Callable[[int, int], None]) -> None:
        """Begin without promises; ``tell`` hears of a machine how many units more it is promised."""
        self._known = known
        self._tell = tell
        self._of_task: dict[int, tuple[int, int]] = {}
        """Per task: the machine it is promised to, and its units."""

    def give(self, task: int, machine: int | None) -> None:
        """Promise a compute task to a machine and to no other; None: to none."""
        found = self._of_task.get(task)
        if (None if found is None else found[0]) == machine:
            return
        if found is not None:
            del self._of_task[task]
            self._tell(found[0], -found[1])
        if machine is not None:
            units = self._units(task, machine)
            self._of_task[task] = (machine, units)
            self._tell(machine, units)

    def withdraw(self) -> None:
        """Take back all promises."""
        for task in list(self._of_task):
            self.give(task, None)

    def _units(self, task: int, machine: int) -> int:
        known, options = self._known, self._known.options(task)
        ways = (
            (known.seconds(task, machine, count), options.nodes[machine, count])
            for count in options.counts.get(machine, ())
        )
        seconds, nodes = min(ways, default=(0.0, 0))
        return as_units(seconds * nodes)
