"""The ready tasks that one policy decides about: a job may bring a selector of its own (S3 section 3)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from weft.engine.state.ready import ReadyTasks

__all__ = ["ChosenTasks"]


class ChosenTasks:
    """A part of the ready tasks. Tasks of one kind belong to it together, or none of them does."""

    __slots__ = ("_belongs", "_ready")

    def __init__(self, ready: ReadyTasks, belongs: Callable[[int], bool]) -> None:
        self._ready = ready
        self._belongs = belongs

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return bool(self.heads())

    def __iter__(self) -> Iterator[int]:
        return (task for task in self._ready if self._belongs(task))

    def heads(self, machines: Collection[int] | None = None) -> list[int]:
        """Give the first task of each kind, best first."""
        return [task for task in self._ready.heads(machines) if self._belongs(task)]

    def transfers(self) -> list[int]:
        """Give the first transfer of each kind, best first."""
        return [task for task in self._ready.transfers() if self._belongs(task)]
