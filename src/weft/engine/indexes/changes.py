"""On which machines something has changed that may let a task go there, for those who look now and then."""

from __future__ import annotations

__all__ = ["Changes"]


class Changes:
    """Noting costs O(1), asking O(machines on which something has changed since the last question)."""

    __slots__ = ("_last", "count")

    def __init__(self) -> None:
        self.count = 0
        """How many changes there were."""
        self._last: dict[int, int] = {}
        """By machine: the number of its last change, ascending."""

    def note(self, machine: int) -> None:
        """Hear that a machine has got back nodes or amounts, went or came back."""
        self.count += 1
        self._last.pop(machine, None)
        self._last[machine] = self.count

    def since(self, count: int) -> list[int]:
        """List the machines that have changed since there were so many changes, the latest first."""
        found = []
        for machine, number in reversed(self._last.items()):
            if number <= count:
                break
            found.append(machine)
        return found
