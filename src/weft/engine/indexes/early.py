"""The waiting tasks of a planned run that may be sent ahead: some of their data could already move."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.engine.indexes.planned import PlannedTasks, Suits
from weft.engine.state.known import Known
from weft.engine.state.plans import RunPlan

__all__ = ["EarlyTasks"]


class EarlyTasks:
    """Tasks in the order in which they came; from the first question on also by planned start."""

    __slots__ = ("_kind_of", "_planned", "_tasks")

    def __init__(self, kind_of: Callable[[int], tuple[int, ...]]) -> None:
        self._kind_of = kind_of
        self._tasks: dict[int, None] = {}
        self._planned: PlannedTasks | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task: int) -> bool:
        return task in self._tasks

    def __iter__(self) -> Iterator[int]:
        return iter(self._tasks)

    def add(self, task: int) -> None:
        """Take in a task; one that is there already stays where it is, with the kind it has by now."""
        self._tasks[task] = None
        if self._planned is not None:
            self._planned.add(task, self._kind_of(task))

    def discard(self, task: int) -> None:
        """Take out a task, if it is there."""
        if task in self._tasks:
            del self._tasks[task]
            if self._planned is not None:
                self._planned.remove(task)

    def changed(self, task: int) -> None:
        """Hear that the kind of a task has changed."""
        if task in self._tasks:
            self.add(task)

    def by_plan(
        self, plan: RunPlan, known: Known, suits: Suits | None = None, *, selector: str = ""
    ) -> PlannedTasks:
        """Give those with a selector in the order of a plan; O(n) when the plan is new."""
        kept = self._planned
        if kept is None or kept.plan is not plan or kept.selector != selector:
            kept = self._planned = PlannedTasks(plan, known, suits, selector=selector)
            for task in self._tasks:
                kept.add(task, self._kind_of(task))
        return kept
