"""How many seconds may be stored: a layout beyond the limit is refused before memory is taken for it."""

from __future__ import annotations

from weft.errors import InvalidInput, Problem

__all__ = ["MAX_ENTRIES", "check_entries"]

MAX_ENTRIES = 10_000_000
"""No layout of seconds is built, or expanded into another, above this many entries (design section 5)."""


def check_entries(entries: int, shape: str) -> None:
    """Refuse a layout that is too large; ``shape`` says where the entries come from."""
    if entries > MAX_ENTRIES:
        raise InvalidInput(
            Problem(
                what=f"{entries:,} estimated seconds would have to be stored: {shape}",
                rule=f"at most {MAX_ENTRIES:,} are",
                advice="give `work` instead of `seconds` per machine, or fewer counts or unlike machines",
            )
        )
