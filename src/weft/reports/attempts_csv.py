"""The attempts of a simulation as CSV: one line each, by number."""

from __future__ import annotations

import csv
import io

from weft.engine.history.history import History

__all__ = ["attempts_csv"]


def attempts_csv(history: History, machines: tuple[str, ...]) -> str:
    """Write the table."""
    text = io.StringIO()
    rows = [attempt.as_record(machines) for attempt in history.attempts.values()]
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
