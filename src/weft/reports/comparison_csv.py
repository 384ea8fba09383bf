"""A comparison as comma-separated values: one line per workflow and planner."""

from __future__ import annotations

import csv
import io

from weft.reports.comparison import Comparison

__all__ = ["comparison_csv"]

_COLUMNS = ("planner", "makespan_s", "gap", "ratio", "wins", "planning_s", "reason")


def comparison_csv(comparison: Comparison) -> str:
    """Write workflow, tasks, edges, platform, seed, lower_bound_s and what each planner made of it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["workflow", "tasks", "edges", "platform", "seed", "lower_bound_s", *_COLUMNS])
    for row in comparison.workflows:
        head = [row.workflow, row.tasks, row.edges, comparison.platform, comparison.seed]
        for result in row.as_record()["results"]:
            cells = [_cell(result[column]) for column in _COLUMNS]
            writer.writerow([*head, repr(row.lower_bound_s), *cells])
    return text.getvalue()


def _cell(value: object) -> object:
    """Write numbers whole, what is not there as nothing, true and false as 1 and 0."""
    if isinstance(value, bool):
        return int(value)
    return "" if value is None else repr(value) if isinstance(value, float) else value
