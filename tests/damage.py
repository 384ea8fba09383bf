"""Damaged files: a strategy that truncates files and replaces bytes, and a check of readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from weft.errors import InvalidInput


@st.composite
def damaged(draw: Any, samples: Sequence[bytes]) -> bytes:
    """Draw a valid file, possibly truncated, with up to three bytes replaced."""
    whole = draw(st.sampled_from(list(samples)))
    cut = draw(st.integers(0, len(whole)))
    found = bytearray(whole[:cut] if draw(st.booleans()) else whole)
    for _ in range(draw(st.integers(0, 3))):
        if found:
            found[draw(st.integers(0, len(found) - 1))] = draw(st.integers(0, 255))
    return bytes(found)


def reads_or_refuses(read: Callable[[bytes], Any], data: bytes) -> bool:
    """Return whether a reader returns tasks or raises InvalidInput with problems; other errors propagate."""
    try:
        return len(read(data).tasks) > 0
    except InvalidInput as error:
        return len(error.problems) > 0
