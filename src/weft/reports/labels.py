"""Names in a terminal: no control characters, and as many columns as there is room for."""

from __future__ import annotations

import unicodedata

__all__ = ["fitted", "printable", "shown_width"]


def printable(text: str, *, ascii_only: bool = False) -> str:
    """Replace what a terminal would obey or could not show by a question mark."""
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    return shown.encode("ascii", "replace").decode("ascii") if ascii_only else shown


def shown_width(text: str) -> int:
    """Count the columns a text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def fitted(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Cut or fill a text to exactly this many columns; a cut is shown by an ellipsis."""
    if shown_width(text) <= width:
        return text + " " * (width - shown_width(text))
    mark = "~" if ascii_only else "…"
    while shown_width(text) > width - 1:
        text = text[:-1] if len(text) < 2 * width else text[: 2 * width - 1]
    return text + mark + " " * (width - 1 - shown_width(text))
