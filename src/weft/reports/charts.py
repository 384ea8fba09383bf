"""SVG charts without scripts (steps over time, box plots) and the ticks of time axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from weft.engine.history import StepFunction
from weft.papers.statistics import Summary
from weft.units import format_seconds

__all__ = ["box_plots", "steps_chart", "tick_label", "tick_times"]


_STEPS_S = (
    10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000,
)  # fmt: skip


def _step(least_s: float) -> float:
    """Return the smallest round step of at least ``least_s``."""
    least_s *= 1 - 1e-9
    for step in _STEPS_S if 5 < least_s <= _STEPS_S[-1] else ():
        if step >= least_s:
            return step
    unit = 1.0 if least_s <= 5 else 86400.0
    power = 10.0 ** math.floor(math.log10(least_s / unit))
    return next(unit * power * factor for factor in (1, 2, 5, 10) if unit * power * factor >= least_s)


def tick_times(end_s: float, most: int) -> list[float]:
    """Return round times from 0 to the end, in at most ``most`` steps."""
    if end_s <= 0:
        return [0.0]
    step = _step(end_s / max(most, 1))
    return [index * step for index in range(int(end_s / step * (1 + 1e-12)) + 1)]


def tick_label(seconds: float) -> str:
    """Format a round time without zero units: ``2m``, not ``2m 0s``."""
    text = format_seconds(seconds)
    return text if seconds < 120 else text.removesuffix(" 0s").removesuffix(" 0m").removesuffix(" 0h")


_WIDTH, _HEIGHT = 900, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 14, 34
_TICKS = 8
_MOST_STEPS = 1_500
"""Maximal number of steps drawn."""
_ROW, _NAME = 34, 170
"""Row height and label width of box plots."""


def steps_chart(title: str, steps: StepFunction, end_s: float) -> str:
    """Draw a step function from 0 to the end."""
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
        *_time_axis(end_s, across, bottom),
        *_number_axis(most, up, bottom),
        f'<path class="area" d="{path}"><title>{escape(summary)}</title></path>',
        "</svg>",
    ]
    return f"<h3>{escape(title)}</h3>\n" + "\n".join(parts)


def _time_axis(end_s: float, across: float, bottom: float) -> Iterator[str]:
    for seconds in tick_times(end_s, _TICKS):
        x = round(_LEFT + seconds * across, 1)
        yield f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>'
        yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{escape(tick_label(seconds))}</text>'


def _number_axis(most: int, up: float, bottom: float) -> Iterator[str]:
    for value in _round_numbers(most, 4):
        y = round(bottom - value * up, 1)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>'


def _round_numbers(most: float, steps: int) -> list[float]:
    """Return round numbers from 0 to the maximum."""
    wanted = most / steps
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted * (1 - 1e-9))
    return [index * step for index in range(math.floor(most / step * (1 + 1e-9)) + 1)]


def box_plots(title: str, rows: Sequence[tuple[str, Summary]]) -> str:
    """Draw a box plot per row: quartiles, median, and whiskers to the extremes."""
    if not rows:
        return ""
    most = max(found.most for _, found in rows) or 1.0
    height = _TOP + len(rows) * _ROW + _BOTTOM
    across = (_WIDTH - _NAME - _RIGHT) / most
    bottom = height - _BOTTOM
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}">']
    for value in _round_numbers(most, _TICKS):
        x = round(_NAME + value * across, 1)
        parts.append(f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>')
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
    shown = name if len(name) <= 22 else name[:21] + "…"
    return [
        f'<g class="box"><title>{escape(tip)}</title>',
        f'<text x="{_NAME - 10}" y="{y + 4}" text-anchor="end">{escape(shown)}</text>',
        f'<path d="M{least} {y}H{low}M{high} {y}H{most}M{least} {y - 6}v12M{most} {y - 6}v12"/>',
        f'<rect x="{low}" y="{y - 10}" width="{max(1.0, high - low):.1f}" height="20"/>',
        f'<path class="median" d="M{median} {y - 10}v20"/>',
        "</g>",
    ]
