"""A front of plans as a table for terminals and pages, and as comma-separated values."""

from __future__ import annotations

import csv
import io

from weft.reports.comparison_tables import Table
from weft.reports.labels import fitted, printable
from weft.reports.pareto import FrontPoint, FrontView

__all__ = ["front_choices", "front_csv", "front_lines", "front_table"]

_LEAST_WIDTH = 24
"""What was chosen gets so many columns however narrow the terminal is."""
_COLUMNS = ("point", "makespan_s", "cost", "node_seconds", "idle_share", "alpha", "found_by")


def front_table(view: FrontView) -> Table:
    """Give a row for each point: number, time, by how much it is longer, cost, idle share, alpha."""
    rows = tuple(
        (
            str(point.number),
            view.time_text(point),
            _longer(view, point),
            view.paid_text(point),
            f"{point.idle_share:.1%}",
            "-" if point.alpha is None else f"{point.alpha:.3g}",
        )
        for point in view.points
    )
    heading = ("point", "time", "longer", view.paid_noun, "idle", "alpha")
    return Table(heading=heading, rows=rows, texts=0)


def front_choices(view: FrontView) -> tuple[str, ...]:
    """Give the last column: a heading, and what was chosen for each point."""
    chosen = any(found.chosen for point in view.points for found in point.nodes)
    return ("nodes" if chosen else "tasks", *(point.choice_text for point in view.points))


def front_lines(view: FrontView, *, width: int, ascii_only: bool = False) -> list[str]:
    """Write the table in columns; what was chosen is cut where the terminal ends."""
    lines = front_table(view).lines()
    room = max(_LEAST_WIDTH, width - max(map(len, lines)) - 2)
    return [
        f"{line}  {fitted(_shown(text, ascii_only), room, ascii_only=ascii_only)}".rstrip()
        for line, text in zip(lines, front_choices(view), strict=True)
    ]


def _shown(text: str, ascii_only: bool) -> str:
    return printable(text.replace("–", "-") if ascii_only else text, ascii_only=ascii_only)


def _longer(view: FrontView, point: FrontPoint) -> str:
    fastest_s = view.points[0].makespan_s
    return f"+{point.makespan_s / fastest_s - 1:.1%}" if fastest_s > 0 and point.number > 1 else ""


def front_csv(view: FrontView) -> str:
    """Write one line per point; numbers are whole."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_COLUMNS, "nodes", "machines"])
    for point in view.points:
        record = point.as_record()
        cells = [_cell(record[column]) for column in _COLUMNS]
        nodes = "; ".join(found.text for found in point.nodes)
        machines = "; ".join(f"{name} {tasks}" for name, tasks in point.machines)
        writer.writerow([*cells, nodes, machines])
    return text.getvalue()


def _cell(value: object) -> object:
    return "" if value is None else repr(value) if isinstance(value, float) else value
