"""A set of places in an order that is known beforehand, in which the next one is found at once."""

from __future__ import annotations

__all__ = ["Marks"]

_WORD = 1024
"""Places that are kept together in one number."""


class Marks:
    """Adding and removing cost O(1), finding the next O(places / 2**20)."""

    __slots__ = ("_used", "_words", "first")

    def __init__(self) -> None:
        self.first: int | None = None
        """The first place; None: there is none."""
        self._words: dict[int, int] = {}
        self._used = 0
        """A bit for every word that is not empty."""

    def __bool__(self) -> bool:
        return self._used != 0

    def add(self, place: int) -> None:
        """Take in a place; one that is there already stays."""
        word, bit = divmod(place, _WORD)
        self._words[word] = self._words.get(word, 0) | 1 << bit
        self._used |= 1 << word
        if self.first is None or place < self.first:
            self.first = place

    def remove(self, place: int) -> None:
        """Take out a place, if it is there."""
        word, bit = divmod(place, _WORD)
        left = self._words.get(word, 0) & ~(1 << bit)
        if left:
            self._words[word] = left
        elif word in self._words:
            del self._words[word]
            self._used &= ~(1 << word)
        if place == self.first:
            self.first = self.next(place)

    def next(self, place: int) -> int | None:
        """Give the first place that is not before this one; None: there is none."""
        word, bit = divmod(place, _WORD)
        here = self._words.get(word, 0) >> bit
        if here:
            return place + _lowest(here)
        later = self._used >> word + 1
        if not later:
            return None
        word += 1 + _lowest(later)
        return word * _WORD + _lowest(self._words[word])


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
