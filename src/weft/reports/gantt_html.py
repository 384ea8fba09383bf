"""Gantt chart as a self-contained HTML page, which needs no network; light or dark.

The schedule is embedded as JSON columns and drawn on canvases by ``templates/gantt.js``. A row whose bars are
too narrow, and every band (a row for several machines), is drawn as a skyline: the share of busy nodes over
time, by kind.
For large plans times are rounded, columns are compressed (deflate, base64), and short bars are joined, so
that a page of ten thousand tasks stays below one megabyte and every page below three.
"""

from __future__ import annotations

import base64
import json
import math
import zlib

import numpy as np

from weft.reports.gantt_layout import build_bars, busy_shares, group_machines, pack_lanes
from weft.reports.page import render_page
from weft.reports.report import GanttView
from weft.units import format_seconds

_MOST_BARS = 100_000
"""Maximal number of bars; if there are more, short neighbours are joined."""
_EXACT = 2_000
"""Maximal number of tasks with times in full precision."""
_DIGITS = 7
"""Number of significant digits of times in larger plans, relative to the makespan."""
_PLAIN = 1_000_000
"""Maximal number of characters of uncompressed data."""
_ROWS = 60
"""Number of machines above which they are grouped into bands."""
_MOST_BANDS = 40

Packed = tuple[str, str]
"""Compression (empty or ``deflate``) and data."""


def pack_plan(view: GanttView) -> Packed:
    """Return the columns of a plan as text that is safe inside an HTML element, whatever names occur."""
    text = json.dumps(plan_columns(view), separators=(",", ":"), allow_nan=False)
    if len(text) > _PLAIN:
        return "deflate", base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return "", text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def plan_columns(view: GanttView) -> dict[str, object]:
    """Return the columns of a plan that the script of the page draws."""
    schedule = view.schedule
    index: dict[str, int] = {}
    kinds = np.array([index.setdefault(name, len(index)) for name in view.kinds], dtype=np.int64)
    lanes = pack_lanes(schedule, view.machine_nodes)
    bars = build_bars(view, lanes, kinds, _MOST_BARS)
    used = np.unique(bars.machine).tolist()
    bands = group_machines(view, used, _MOST_BANDS) if len(used) > _ROWS else []
    bound_s, end_s = view.lower_bound_s, schedule.makespan_s
    decimals = _decimals(end_s) if len(schedule) > _EXACT else None
    drawn = bars.task.tolist()
    critical = set(view.critical)
    return {
        "machines": list(schedule.machines),
        "nodes": list(view.machine_nodes),
        "lanes": list(lanes.count),
        "busy": [round(share, 4) for share in busy_shares(schedule, view.machine_nodes).tolist()],
        "bands": [{"name": band.name, "machines": list(band.machines)} for band in bands],
        "kinds": list(index),
        "tasks": len(schedule),
        "bars": {
            "name": [schedule.tasks[task] for task in drawn],
            "kind": bars.kind.tolist(),
            "machine": bars.machine.tolist(),
            "taken": schedule.nodes[bars.task].tolist(),
            "start": _written(bars.start_s.tolist(), decimals),
            "finish": _written(bars.finish_s.tolist(), decimals),
            "lane": bars.lane.tolist(),
            "height": bars.height.tolist(),
            # Empty if every bar stands for one task.
            "tasks": bars.tasks.tolist() if len(bars) < len(lanes.task) else [],
        },
        "critical": [bar for bar, task in enumerate(drawn) if task in critical],
        "bound": bound_s if bound_s is not None and math.isfinite(bound_s) else None,
        "end": end_s,
    }


def _decimals(end_s: float) -> int:
    return _DIGITS - math.ceil(math.log10(end_s)) if end_s > 0 else 0


def _written(times_s: list[float], decimals: int | None) -> list[float]:
    return times_s if decimals is None else [round(time_s, decimals) for time_s in times_s]


_TABLE_ROWS = 200


class HtmlGantt:
    """Gantt chart as an HTML page."""

    name = "gantt-html"
    title = "Gantt chart as a self-contained page"
    extension = ".html"

    def render(self, view: GanttView, template: str = "gantt.html", **values: object) -> str:
        """Return the HTML page; ``template`` may extend ``gantt.html`` by sections that show ``values``."""
        packing, data = pack_plan(view)
        return render_page(
            template,
            title=view.title,
            facts=view.facts,
            summary=_summary(view),
            rows=_first_tasks(view),
            packing=packing,
            data=data,
            **values,
        )


def _summary(view: GanttView) -> str:
    schedule = view.schedule
    return (
        f"Gantt chart of {len(schedule):,} tasks on {schedule.machines_used:,} of {len(schedule.machines):,} "
        f"machines, {format_seconds(schedule.makespan_s)} long"
    )


def _first_tasks(view: GanttView) -> list[tuple[str, ...]]:
    """Return table rows of the tasks that start first, for readers that cannot show the chart."""
    schedule = view.schedule
    return [
        (
            schedule.tasks[task],
            view.kinds[task],
            schedule.machines[schedule.machine[task]],
            str(schedule.nodes[task]),
            format_seconds(float(schedule.start_s[task])),
            format_seconds(float(schedule.finish_s[task])),
        )
        for task in schedule.start_s.argsort(kind="stable")[:_TABLE_ROWS].tolist()
    ]
