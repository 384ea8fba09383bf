"""Places that are kept apart by what they share, with the first of each part at hand."""

from __future__ import annotations

from collections.abc import Hashable

from weft.engine.indexes.marks import Marks

__all__ = ["Parts"]


class Parts:
    """Changing a place costs as much as in ``Marks``, however many parts there are."""

    __slots__ = ("firsts", "of")

    def __init__(self) -> None:
        self.of: dict[Hashable, Marks] = {}
        """The places of each part that is not empty."""
        self.firsts = Marks()
        """The first place of each part."""

    def change(self, part: Hashable, before: int | None, after: int | None) -> None:
        """Put a place into a part instead of another; None: there was none before, or is none from now on."""
        marks = self.of.get(part)
        if marks is None:
            marks = self.of[part] = Marks()
        led = marks.first
        if before is not None:
            marks.remove(before)
        if after is not None:
            marks.add(after)
        leads = marks.first
        if leads is None:
            del self.of[part]
        if leads != led:
            if led is not None:
                self.firsts.remove(led)
            if leads is not None:
                self.firsts.add(leads)
