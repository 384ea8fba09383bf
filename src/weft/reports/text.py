"""Text for the terminal: labels without control characters, aligned tables, and promises as text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from weft.engine.history import AttemptRecord, describe_strays
from weft.engine.replan.promise import Promise
from weft.records import dataclass
from weft.redaction import redact
from weft.units import format_count, format_seconds

_NAMED_TASKS = 4


def printable(text: str, *, ascii_only: bool = False) -> str:
    """Replace control characters and, with ``ascii_only``, non-ASCII characters by question marks."""
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    return shown.encode("ascii", "replace").decode("ascii") if ascii_only else shown


def shown_width(text: str) -> int:
    """Return the number of terminal columns of a text: two per wide character, none per combining one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def fitted(text: str, width: int, *, ascii_only: bool = False) -> str:
    """Return a text cut or padded to exactly ``width`` columns; a cut text ends in an ellipsis."""
    if shown_width(text) > width:
        text = redact(text)  # a part of a secret would not be recognised later
    if shown_width(text) <= width:
        return text + " " * (width - shown_width(text))
    mark = "~" if ascii_only else "…"
    while shown_width(text) > width - 1:
        text = text[:-1] if len(text) < 2 * width else text[: 2 * width - 1]
    return text + mark + " " * (width - 1 - shown_width(text))


def strays_text(attempts: Iterable[AttemptRecord], *, verbose: bool = False) -> str:
    """Return a text about the processes that programs left behind; "" if there were none.

    ``verbose``: name all their tasks.
    """
    found = Counter[str]()
    for attempt in attempts:
        if attempt.strays:
            found[attempt.task] += attempt.strays
    named = [f"{task}: {count}" for task, count in found.most_common(None if verbose else _NAMED_TASKS)]
    if len(found) > len(named):
        named.append(format_count(len(found) - len(named), "more task"))
    return f"{describe_strays(found.total())} ({', '.join(named)})" if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of text cells."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: int
    """Number of left-aligned text columns; the others hold numbers and are right-aligned."""

    def lines(self) -> list[str]:
        """Return heading and rows as lines with aligned columns, separated by two spaces."""
        widths = [max(map(shown_width, column)) for column in zip(self.heading, *self.rows, strict=True)]
        return [self._line(row, widths) for row in (self.heading, *self.rows)]

    def _line(self, row: tuple[str, ...], widths: list[int]) -> str:
        blanks = [" " * (width - shown_width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [
            cell + blank if column < self.texts else blank + cell
            for column, (cell, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        return "  ".join(cells).rstrip()


def csv_text(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV; numbers have full precision and None is an empty cell."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heading, *rows])
    return text.getvalue()


_KINDS = 5
"""Maximal number of kinds or loops that are named in a text."""


def promise_text(promise: Promise, *, verbose: bool = False) -> str:
    """Return a promise as one line: time, cost, and why the time is unknown; ``verbose``: name all kinds."""
    cost = cost_text(promise)
    known = time_text(promise) + (f", cost {cost}" if cost else "")
    if not (doubt := doubt_text(promise, verbose=verbose)):
        return known
    return f"unknown: {doubt}" if promise.least_s is None else f"{known}; unknown: {doubt}"


def time_text(promise: Promise) -> str:
    """Return the promised time: ``4 s (P90 5 s)``, ``4 s (spread unknown)``, ``at least 4 s``, ..."""
    if promise.p50_s is None:
        return "unknown" if promise.least_s is None else f"at least {format_seconds(promise.least_s)}"
    return f"{format_seconds(promise.p50_s)} ({_sure(promise)})"


def _sure(promise: Promise) -> str:
    if promise.p90_s is None:
        return "spread unknown"
    rest = f", spread of {promise.exact} of {promise.tasks} tasks unknown" if promise.exact else ""
    return f"P90 {format_seconds(promise.p90_s)}{rest}"


def cost_text(promise: Promise) -> str:
    """Return the promised cost as text; "" if it is unknown or no machine has a price."""
    if promise.cost_p50 is None:
        return "" if promise.least_cost is None else f"at least {promise.least_cost:.4g}"
    dear = "" if promise.cost_p90 is None else f" (P90 {promise.cost_p90:.4g})"
    return f"{promise.cost_p50:.4g}{dear}"


def doubt_text(promise: Promise, *, verbose: bool = False) -> str:
    """Return why the promised time is unknown; "" if it is known."""
    parts = [untimed_text(promise, verbose=verbose)] if promise.untimed else []
    if promise.open_loops:
        parts.append(f"number of iterations of {_listed(promise.open_loops, verbose=verbose)}")
    if promise.growing:
        parts.append(growth_text(promise, verbose=verbose))
    return "; ".join(parts)


def growth_text(promise: Promise, *, verbose: bool = False) -> str:
    """Return a text with the tasks whose number of subtasks is not known."""
    return f"number of subtasks of {_listed(promise.growing, verbose=verbose)}"


def untimed_text(promise: Promise, *, verbose: bool = False) -> str:
    """Return a text with the number and the kinds of the tasks that have no stated time."""
    kinds = _listed(promise.untimed_kinds, verbose=verbose)
    word = "kind" if len(promise.untimed_kinds) == 1 else "kinds"
    tasks, has = ("tasks", "have") if promise.tasks > 1 else ("task", "has")
    return f"{promise.untimed} of {promise.tasks} {tasks} ({word} {kinds}) {has} no stated time"


def _listed(names: tuple[str, ...], *, verbose: bool) -> str:
    if verbose or len(names) <= _KINDS:
        return ", ".join(names)
    return f"{', '.join(names[:_KINDS])} and {len(names) - _KINDS} more"
