"""Numeric ranges in braces: ``altix{1..16}`` stands for sixteen names."""

from __future__ import annotations

import itertools
import re

from weft.errors import InvalidInput, Problem, shorten

__all__ = ["MOST_CHARACTERS", "MOST_NAMES", "expand_braces", "holds_range"]

MOST_NAMES = 1_000_000
"""One text stands for at most so many."""

MOST_CHARACTERS = 100_000_000
"""The names of one text have at most so many characters together."""

# Doubled braces are literal ones and ``${...}`` belongs to the shell: both stay as they are.
_RANGE = re.compile(r"(?<![{$])\{(-?[0-9]+)\.\.(-?[0-9]+)\}(?!\})")
_MOST_DIGITS = 18


def expand_braces(text: str) -> list[str]:
    """List what a text stands for: ``out.{1..3}`` gives ``out.1``, ``out.2``, ``out.3``.

    Several ranges give every combination; the last one runs fastest. A bound with leading zeros
    (``{01..16}``) pads every number to the same width. A text without a numeric range comes back alone.
    """
    parts = _RANGE.split(text)
    if len(parts) == 1:
        return [text]
    bounds = list(zip(parts[1::3], parts[2::3], strict=True))
    _check(text, bounds)
    ranges = [_numbers(first, last) for first, last in bounds]
    # Literal texts and numbers take turns, so one product over both writes every name.
    columns: list[list[str]] = [[parts[0]]]
    for numbers, literal in zip(ranges, parts[3::3], strict=True):
        columns += [numbers, [literal]]
    return ["".join(pieces) for pieces in itertools.product(*columns)]


def holds_range(text: str) -> bool:
    """Tell whether a text stands for more than itself."""
    return _RANGE.search(text) is not None


def _check(text: str, bounds: list[tuple[str, str]]) -> None:
    """Refuse ranges that run backwards or stand for too much, before anything is written out."""
    count = 1
    for first, last in bounds:
        written = shorten(f"{{{first}..{last}}}")
        if max(len(first), len(last)) > _MOST_DIGITS:
            raise _refused(text, f"range {written}", f"bounds have at most {_MOST_DIGITS} digits")
        if int(last) < int(first):
            raise _refused(text, f"range {written} runs backwards", "the smaller bound comes first")
        count *= int(last) - int(first) + 1
        if count > MOST_NAMES:
            raise _refused(text, f"range {written}", f"a text stands for at most {MOST_NAMES:,} names")
    if count * len(text) > MOST_CHARACTERS:
        size = f"{count:,} names of about {len(text):,} characters"
        raise _refused(text, size, f"together at most {MOST_CHARACTERS:,} characters")


def _refused(text: str, what: str, rule: str) -> InvalidInput:
    return InvalidInput(Problem(what=f"{what} in {shorten(repr(text))}", rule=rule))


def _numbers(first: str, last: str) -> list[str]:
    padded = any(re.match(r"-?0[0-9]", bound) for bound in (first, last))
    width = max(len(first), len(last)) if padded else 0
    return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
