"""SVG charts without scripts: step functions, box plots, predictions, estimates; ticks of time axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from weft.engine.history import AttemptRecord, StepFunction
from weft.errors import shorten
from weft.papers.statistics import Summary
from weft.reports.execution import PromiseOutcome
from weft.units import format_seconds

_STEPS_S = (
    10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000,
)  # fmt: skip


def _step(least_s: float) -> float:
    """Return the smallest round number of seconds that is at least ``least_s``."""
    least_s *= 1 - 1e-9
    for step in _STEPS_S if 5 < least_s <= _STEPS_S[-1] else ():
        if step >= least_s:
            return step
    unit = 1.0 if least_s <= 5 else 86400.0
    power = 10.0 ** math.floor(math.log10(least_s / unit))
    return next(unit * power * factor for factor in (1, 2, 5, 10) if unit * power * factor >= least_s)


def tick_times(end_s: float, most: int) -> list[float]:
    """Return equidistant round times from 0 to at most ``end_s``, with at most ``most`` intervals."""
    if end_s <= 0:
        return [0.0]
    step = _step(end_s / max(most, 1))
    return [index * step for index in range(int(end_s / step * (1 + 1e-12)) + 1)]


def tick_label(seconds: float) -> str:
    """Return a round time as text without zero units: ``2m``, not ``2m 0s``."""
    text = format_seconds(seconds)
    return text if seconds < 120 else text.removesuffix(" 0s").removesuffix(" 0m").removesuffix(" 0h")


_WIDTH, _HEIGHT = 900, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 14, 34
_TICKS = 8
_MOST_STEPS = 1_500
"""Maximal number of steps of a step function that are drawn."""
_ROW, _NAME = 34, 170
"""Row height and label width of box plots."""


def steps_chart(title: str, steps: StepFunction, end_s: float) -> str:
    """Return a chart of a step function from time 0 to ``end_s`` as HTML."""
    most = max(1, steps.most)
    across = (_WIDTH - _LEFT - _RIGHT) / end_s if end_s > 0 else 0.0
    up = (_HEIGHT - _TOP - _BOTTOM) / most
    bottom = _HEIGHT - _BOTTOM
    path = f"M{_LEFT} {bottom}"
    for at_s, value in steps.thinned(_MOST_STEPS):
        path += f"H{_LEFT + min(at_s, end_s) * across:.1f}V{bottom - value * up:.1f}"
    path += f"H{_LEFT + end_s * across:.1f}V{bottom}Z"
    summary = f"{title}: at most {steps.most}, {steps.mean(end_s):.3g} on average"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(summary)}">',
        *_time_axis(end_s, _LEFT, across, bottom),
        *(
            line
            for value in round_numbers(most, 4)
            for line in grid_row(_LEFT, _WIDTH - _RIGHT, round(bottom - value * up, 1), f"{value:g}")
        ),
        f'<path class="area" d="{path}"><title>{escape(summary)}</title></path>',
        "</svg>",
    ]
    return f"<h3>{escape(title)}</h3>\n" + "\n".join(parts)


def grid_column(x: float, top: float, bottom: float, label: str) -> Iterator[str]:
    """Yield the SVG of a vertical grid line with its label below."""
    yield f'<line class="grid" x1="{x}" y1="{top}" x2="{x}" y2="{bottom}"/>'
    yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{escape(label)}</text>'


def grid_row(left: float, right: float, y: float, label: str) -> Iterator[str]:
    """Yield the SVG of a horizontal grid line with its label on the left."""
    yield f'<line class="grid" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>'
    yield f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>'


def _time_axis(end_s: float, left: float, across: float, bottom: float) -> Iterator[str]:
    for seconds in tick_times(end_s, _TICKS):
        yield from grid_column(round(left + seconds * across, 1), _TOP, bottom, tick_label(seconds))


def round_numbers(most: float, steps: int, *, least: float = 0.0) -> list[float]:
    """Return equidistant round numbers between ``least`` and ``most``, in about ``steps`` intervals."""
    wanted = (most - least) / steps
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted * (1 - 1e-9))
    return [
        index * step for index in range(math.ceil(least / step), math.floor(most / step * (1 + 1e-9)) + 1)
    ]


def box_plots(title: str, rows: Sequence[tuple[str, Summary]]) -> str:
    """Return a chart with one box plot per (label, statistics) as HTML; whiskers end at the extremes."""
    if not rows:
        return ""
    most = max(found.most for _, found in rows) or 1.0
    height = _TOP + len(rows) * _ROW + _BOTTOM
    across = (_WIDTH - _NAME - _RIGHT) / most
    bottom = height - _BOTTOM
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    for value in round_numbers(most, _TICKS):
        parts += grid_column(round(_NAME + value * across, 1), _TOP, bottom, f"{value:g}")
    for index, (name, found) in enumerate(rows):
        parts += _box(name, found, _TOP + index * _ROW + _ROW / 2, across)
    return f"<h3>{escape(title)}</h3>\n" + "\n".join([*parts, "</svg>"])


def _box(name: str, found: Summary, y: float, across: float) -> list[str]:
    numbers = (found.least, found.lower_quartile, found.median, found.upper_quartile, found.most)
    least, low, median, high, most = (round(_NAME + number * across, 1) for number in numbers)
    tip = (
        f"{name}: {found.number} runs, {found.least:.3g} to {found.most:.3g}, "
        f"quartiles {found.lower_quartile:.3g} and {found.upper_quartile:.3g}, median {found.median:.3g}"
    )
    shown = shorten(name, 22)
    return [
        f'<g class="box"><title>{escape(tip)}</title>',
        f'<text x="{_NAME - 10}" y="{y + 4}" text-anchor="end">{escape(shown)}</text>',
        f'<path d="M{least} {y}H{low}M{high} {y}H{most}M{least} {y - 6}v12M{most} {y - 6}v12"/>',
        f'<rect x="{low}" y="{y - 10}" width="{max(1.0, high - low):.1f}" height="20"/>',
        f'<path class="median" d="M{median} {y - 10}v20"/>',
        "</g>",
    ]


_BAR, _BAR_RIGHT = 22, 36
"""In charts of executed runs: height of a bar with the gap below it, and width of the right margin."""
_SIDE, _EDGE = 420, 70
"""Side of a square plot, and the margin for its labels."""
_MOST_POINTS = 2_000
_LEAST_S = 1e-3
"""Shorter times are drawn at this value, because the scales are logarithmic."""


def promise_chart(verdicts: Sequence[PromiseOutcome]) -> str:
    """Return a chart with two bars per run: the promise (P50, and P90 if known) and the measured time.

    Return "" if no run has a promise with a P50.
    """
    drawn = [(each, each.promised_s) for each in verdicts if each.promised_s is not None]
    if not drawn:
        return ""
    most_s = max(max(each.took_s, sure_s, each.at_most_s or 0.0) for each, sure_s in drawn) or 1.0
    across = (_WIDTH - _NAME - _BAR_RIGHT) / most_s
    row = 2 * _BAR + 12
    bottom = _TOP + row * len(drawn)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {bottom + _BOTTOM}" role="img" aria-label="Promise against outcome">',
        *_time_axis(most_s, _NAME, across, bottom),
    ]
    for index, (each, sure_s) in enumerate(drawn):
        parts += _bars(each, sure_s, _TOP + index * row, across)
    return "\n".join([*parts, "</svg>"])


def _bars(each: PromiseOutcome, sure_s: float, top: int, across: float) -> list[str]:
    shown = shorten(each.workflow, 14)
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
    """Return the SVG of the range from P50 to P90; empty if the P90 is unknown."""
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
    """Return a log-log chart: estimated (x) and measured (y) seconds of completed attempts.

    Return "" if fewer than two completed attempts have both values.
    """
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
    bottom, wide = _TOP + _SIDE, _EDGE + _SIDE + _BAR_RIGHT
    parts = [
        (
            f'<svg class="square" viewBox="0 0 {wide} {bottom + _BOTTOM + 16}" role="img" '
            'aria-label="Estimated and real seconds">'
        )
    ]
    for power in range(low, high + 1):
        at = round((power - low) * scale, 1)
        label = tick_label(10.0**power)
        parts += grid_column(_EDGE + at, _TOP, bottom, label)
        parts += grid_row(_EDGE, _EDGE + _SIDE, bottom - at, label)
    parts.append(f'<line class="even" x1="{_EDGE}" y1="{bottom}" x2="{_EDGE + _SIDE}" y2="{_TOP}"/>')
    for x, y, attempt in points:
        across = _EDGE + (math.log10(x) - low) * scale
        up = bottom - (math.log10(y) - low) * scale
        tip = f"{attempt.task}: {format_seconds(y)}, estimated {format_seconds(x)}"
        parts.append(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3.5"><title>{escape(tip)}</title></circle>')
    middle = _EDGE + _SIDE / 2
    parts.append(f'<text x="{middle}" y="{bottom + 38}" text-anchor="middle">estimated</text>')
    return "<h3>Above the line: longer than estimated</h3>\n" + "\n".join([*parts, "</svg>"])
