"""Shared files from outside, and the hosts to which they were brought."""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["Copies"]


class Copies:
    """Bringing a file costs O(1), losing a host O(its files)."""

    def __init__(self) -> None:
        self.at: dict[int, set[str]] = {}
        """By host: the files that were sent there."""
        self._of: dict[str, dict[int, None]] = {}
        """By file: the hosts, in the order in which it was sent there."""

    def bring(self, host: int, files: Iterable[str]) -> None:
        """Note that files are sent to a host."""
        there = self.at.setdefault(host, set())
        for file in files:
            there.add(file)
            self._of.setdefault(file, {})[host] = None

    def lose(self, host: int) -> None:
        """Note that nothing is there any more."""
        for file in self.at.pop(host, ()):
            del self._of[file][host]

    def hosts(self, file: str) -> Collection[int]:
        """Give the hosts that have a file."""
        return self._of.get(file, ())
