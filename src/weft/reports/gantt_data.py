"""What the chart's page carries: the plan as JSON columns, small enough to open at once.

Plans of many tasks are packed (deflate, base64) and their times rounded to what can still be seen; beyond
that, bars are joined to crowds. Pages of ten thousand tasks stay below a megabyte, of any plan below three.
"""

from __future__ import annotations

import base64
import json
import math
import zlib

import numpy as np

from weft.reports.bands import bands_of
from weft.reports.crowds import bars_of
from weft.reports.lanes import pack_lanes
from weft.reports.occupation import busy_shares
from weft.reports.report import PlanView

__all__ = ["Packed", "packed_plan", "plan_columns"]

_MOST_BARS = 100_000
"""More bars are joined to crowds."""
_EXACT = 2_000
"""Tasks up to which times are written whole."""
_DIGITS = 7
"""Of the makespan: what is written of times in larger plans."""
_PLAIN = 1_000_000
"""Characters up to which the data are not packed."""
_ROWS = 60
"""Machines beyond which bands of them are shown at first."""
_MOST_BANDS = 40

Packed = tuple[str, str]
"""How the data are packed (nothing, or ``deflate``), and the text."""


def packed_plan(view: PlanView) -> Packed:
    """Write the columns as text that cannot end the element it stands in, whatever the names in it are."""
    text = json.dumps(plan_columns(view), separators=(",", ":"), allow_nan=False)
    if len(text) > _PLAIN:
        return "deflate", base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return "", text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def plan_columns(view: PlanView) -> dict[str, object]:
    """Give the columns that the script draws."""
    schedule = view.schedule
    index: dict[str, int] = {}
    kinds = np.array([index.setdefault(name, len(index)) for name in view.kinds], dtype=np.int64)
    lanes = pack_lanes(schedule, view.machine_nodes)
    bars = bars_of(view, lanes, kinds, _MOST_BARS)
    used = np.unique(bars.machine).tolist()
    bands = bands_of(view, used, _MOST_BANDS) if len(used) > _ROWS else []
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
            # Where every bar is one task, nothing need be said of it.
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
