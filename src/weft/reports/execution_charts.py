"""SVG charts of an executed run: predictions as bars, and estimated against measured seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from weft.engine.history import AttemptRecord
from weft.reports.charts import tick_label, tick_times
from weft.reports.execution import PromiseOutcome
from weft.units import format_seconds

__all__ = ["estimate_chart", "promise_chart"]

_WIDTH, _NAME, _RIGHT = 900, 170, 36
_TOP, _BOTTOM, _BAR = 14, 34, 22
_SIDE, _EDGE = 420, 70
"""Side of the square plot and the margin for its labels."""
_MOST_POINTS = 2_000
_LEAST_S = 1e-3
"""Shorter times are drawn at this value."""


def promise_chart(verdicts: Sequence[PromiseOutcome]) -> str:
    """Draw for each predicted run the prediction (P50, extended to P90 if known) above the measured time."""
    drawn = [(each, each.promised_s) for each in verdicts if each.promised_s is not None]
    if not drawn:
        return ""
    most_s = max(max(each.took_s, sure_s, each.at_most_s or 0.0) for each, sure_s in drawn) or 1.0
    across = (_WIDTH - _NAME - _RIGHT) / most_s
    row = 2 * _BAR + 12
    bottom = _TOP + row * len(drawn)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {bottom + _BOTTOM}" role="img" aria-label="Promise against outcome">'
    ]
    for seconds in tick_times(most_s, 8):
        x = round(_NAME + seconds * across, 1)
        parts.append(f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{tick_label(seconds)}</text>')
    for index, (each, sure_s) in enumerate(drawn):
        parts += _bars(each, sure_s, _TOP + index * row, across)
    return "\n".join([*parts, "</svg>"])


def _bars(each: PromiseOutcome, sure_s: float, top: int, across: float) -> list[str]:
    shown = each.workflow if len(each.workflow) <= 14 else each.workflow[:13] + "…"
    sure = sure_s * across
    late = "late" if each.word.startswith(("late", "broken")) else "kept"
    return [
        f'<text x="{_NAME - 10}" y="{top + 15}" text-anchor="end">{escape(shown)} promised</text>',
        (
            f'<rect class="promised" x="{_NAME}" y="{top}" width="{sure:.1f}" height="{_BAR - 4}">'
            f"<title>{format_seconds(sure_s)} promised (P50)</title></rect>"
        ),
        *_unsure(each.at_most_s, sure_s, top, across),
        f'<text x="{_NAME - 10}" y="{top + _BAR + 15}" text-anchor="end">took</text>',
        (
            f'<rect class="{late}" x="{_NAME}" y="{top + _BAR}" width="{each.took_s * across:.1f}" '
            f'height="{_BAR - 4}"><title>{format_seconds(each.took_s)}, {escape(each.word)}</title></rect>'
        ),
    ]


def _unsure(late_s: float | None, sure_s: float, top: int, across: float) -> list[str]:
    """Draw the range from P50 to P90, if known."""
    if late_s is None:
        return []
    begin, width = _NAME + sure_s * across, max(0.0, late_s - sure_s) * across
    return [
        (
            f'<rect class="unsure" x="{begin:.1f}" y="{top}" width="{width:.1f}" height="{_BAR - 4}">'
            f"<title>up to {format_seconds(late_s)} (P90)</title></rect>"
        )
    ]


def estimate_chart(attempts: Sequence[AttemptRecord]) -> str:
    """Draw completed attempts by estimated and measured seconds on logarithmic scales."""
    known = [each for each in attempts if each.ending == "completed" and each.seconds > 0 and each.ran_s > 0]
    if len(known) < 2:
        return ""
    each_nth = -(-len(known) // _MOST_POINTS)
    points = [
        (max(_LEAST_S, each.seconds * (1 - each.restart_from)), max(_LEAST_S, each.ran_s), each)
        for each in known[::each_nth]
    ]
    low = math.floor(math.log10(min(min(x, y) for x, y, _ in points)))
    high = max(low + 1, math.ceil(math.log10(max(max(x, y) for x, y, _ in points))))
    scale = _SIDE / (high - low)
    bottom, wide = _TOP + _SIDE, _EDGE + _SIDE + _RIGHT
    parts = [
        (
            f'<svg class="square" viewBox="0 0 {wide} {bottom + _BOTTOM + 16}" role="img" '
            'aria-label="Estimated and real seconds">'
        )
    ]
    for power in range(low, high + 1):
        at = round((power - low) * scale, 1)
        label = tick_label(10.0**power)
        parts += [
            f'<line class="grid" x1="{_EDGE + at}" y1="{_TOP}" x2="{_EDGE + at}" y2="{bottom}"/>',
            f'<line class="grid" x1="{_EDGE}" y1="{bottom - at}" x2="{_EDGE + _SIDE}" y2="{bottom - at}"/>',
            f'<text x="{_EDGE + at}" y="{bottom + 18}" text-anchor="middle">{label}</text>',
            f'<text x="{_EDGE - 8}" y="{bottom - at + 4}" text-anchor="end">{label}</text>',
        ]
    parts.append(f'<line class="even" x1="{_EDGE}" y1="{bottom}" x2="{_EDGE + _SIDE}" y2="{_TOP}"/>')
    for x, y, attempt in points:
        across = _EDGE + (math.log10(x) - low) * scale
        up = bottom - (math.log10(y) - low) * scale
        tip = f"{attempt.task}: {format_seconds(y)}, estimated {format_seconds(x)}"
        parts.append(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3.5"><title>{escape(tip)}</title></circle>')
    middle = _EDGE + _SIDE / 2
    parts.append(f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">estimated</text>')
    return "<h3>Above the line: longer than estimated</h3>\n" + "\n".join([*parts, "</svg>"])
