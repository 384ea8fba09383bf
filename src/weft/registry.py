"""Shelves: interchangeable things found by name and loaded only when asked for.

A shelf is a mapping from a short name to a dotted name (``package.module:attribute``). Other packages add to
it through the entry-point group of the same name (``weft.planners``, ``weft.formats``, ...).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from weft.errors import InvalidInput, Problem, nearest

__all__ = ["Shelf"]


class Shelf:
    """A named collection of dotted names; ``load`` imports one of them."""

    def __init__(
        self, group: str, noun: str, entries: Mapping[str, str], *, aliases: Mapping[str, str] | None = None
    ) -> None:
        self.group = group
        self.noun = noun
        self._own = dict(entries)
        self._aliases = dict(aliases or {})
        """Other names under which entries are known, as in papers; they are found but not listed."""
        self._all: dict[str, str] | None = None

    def _entries(self) -> dict[str, str]:
        if self._all is None:
            # Entry points cost a directory scan, so they are read at the first look-up, not at import.
            from importlib.metadata import entry_points

            foreign = {point.name: point.value for point in sorted(entry_points(group=self.group))}
            self._all = foreign | self._own
        return self._all

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries()))

    def own_first(self) -> Iterator[str]:
        """Name our own entries as they are listed, then the others, which are not looked for before."""
        yield from self._own
        yield from (name for name in self if name not in self._own)

    def __contains__(self, name: str) -> bool:
        return name in self._own or name in self._aliases or name in self._entries()

    def load(self, name: str) -> Any:
        """Import and return what stands on the shelf under this name."""
        meant = self._aliases.get(name, name)
        target = self._own.get(meant) or self._entries().get(meant)
        if target is None:
            close = nearest(name, (*self, *self._aliases))
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(self)}"
            raise InvalidInput(Problem(what=f"unknown {self.noun} {name!r}", advice=hint))
        module, _, attribute = target.partition(":")
        return getattr(importlib.import_module(module), attribute)
