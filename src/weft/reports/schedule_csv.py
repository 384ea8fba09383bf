"""A schedule as comma-separated values: one line per task."""

from __future__ import annotations

import csv
import io

from weft.schedule.schedule import Schedule

__all__ = ["schedule_csv"]


def schedule_csv(schedule: Schedule) -> str:
    """Write task, machine, nodes, start_s, finish_s."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["task", "machine", "nodes", "start_s", "finish_s"])
    for line in schedule:
        writer.writerow([line.task, line.machine, line.nodes, repr(line.start_s), repr(line.finish_s)])
    return text.getvalue()
