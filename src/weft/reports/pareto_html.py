"""A front of plans as one self-contained page: a chart that needs no script, and the table behind it.

Time runs to the right, what is paid for it upwards: good plans lie at the lower left. Points are numbered as
``weft plan --choose`` takes them; to hover over one shows its node counts. Small dots are plans that were
found on the way. Where points were found under given alphas, their colour tells which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from weft.reports.pareto import FrontPoint, FrontView
from weft.reports.pareto_table import front_choices, front_table
from weft.reports.ticks import tick_label, tick_times
from weft.units import counted, format_seconds

__all__ = ["front_html"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --soft: color-mix(in srgb, currentcolor 55%, Canvas);
  --line: color-mix(in srgb, currentcolor 18%, Canvas); --mark: #1971c2; }}
@media (prefers-color-scheme: dark) {{ :root {{ --mark: #74c0fc; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }}
h1 {{ font-size: 1.3rem; overflow-wrap: anywhere; }}
svg {{ width: 100%; height: auto; }}
svg text {{ font-size: 13px; fill: currentcolor; }}
.axis {{ stroke: var(--soft); }}
.grid {{ stroke: var(--line); }}
.front {{ fill: none; stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 5 4; }}
.tried {{ fill: var(--mark); opacity: .3; }}
.point circle {{ fill: var(--mark); stroke: Canvas; stroke-width: 1.5; }}
.point:hover circle, .point:focus circle {{ stroke: currentcolor; stroke-width: 3; }}
.point text {{ font-weight: 650; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ border-bottom: 1px solid var(--line); padding: .2rem .8rem; text-align: right;
  white-space: nowrap; }}
th:last-child, td:last-child {{ text-align: left; white-space: normal; }}
.legend i {{ display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin: 0 .3em 0 1em; }}
</style>
</head>
<body>
<h1>{title}</h1>
{legend}
{chart}
<p>{summary}</p>
<table>
<thead>{heading}</thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""
_WIDTH, _HEIGHT = 900, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 30, 20, 50
_MARGIN = 0.06
"""Share of the axis that stays free on both sides."""
_TICKS = 7
_COLORS = ("#c2255c", "#e8590c", "#2f9e44", "#1971c2", "#7048e8", "#0c8599", "#868e96")
"""Of alphas, the largest first; readable on light and dark."""


def front_html(view: FrontView) -> str:
    """Render the page."""
    colors = _colors(view)
    table = front_table(view)
    heading, *choices = front_choices(view)
    return _PAGE.format(
        title=escape(view.title),
        legend=_legend(colors),
        chart=_chart(view, colors),
        summary=escape(_summary(view)),
        heading=_row("th", (*table.heading, heading)),
        rows="\n".join(_row("td", (*row, text)) for row, text in zip(table.rows, choices, strict=True)),
    )


def _summary(view: FrontView) -> str:
    return (
        f"{counted(len(view.points), 'plan')} of {counted(view.tasks, 'task')}: none of them is better than "
        f"another both in time and in {view.noun}. No plan takes less than "
        f"{format_seconds(view.lower_bound_s)} (lower bound). Take one with: weft plan --choose NUMBER"
    )


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _colors(view: FrontView) -> dict[float, str]:
    """Give every alpha its colour; none where colours say nothing."""
    if not view.by_alpha:
        return {}
    alphas = {point.alpha for point in view.points} | {tried.alpha for tried in view.tried}
    ordered = sorted((alpha for alpha in alphas if alpha is not None), reverse=True)
    return {alpha: _COLORS[min(place, len(_COLORS) - 1)] for place, alpha in enumerate(ordered)}


def _legend(colors: dict[float, str]) -> str:
    shown = "".join(f'<i style="background:{color}"></i>{alpha:g}' for alpha, color in colors.items())
    return f'<p class="legend">alpha (weight of time):{shown}</p>' if shown else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Turns numbers into places on the chart."""

    least: float
    most: float
    first: float
    last: float

    def place(self, number: float) -> float:
        share = (number - self.least) / (self.most - self.least)
        return round(self.first + share * (self.last - self.first), 1)


def _axis(numbers: list[float], first: float, last: float) -> _Axis:
    """Span all numbers with a margin; a single one stands in the middle."""
    least, most = min(numbers), max(numbers)
    margin = (most - least) * _MARGIN or abs(most) * _MARGIN or 1.0
    return _Axis(least=least - margin, most=most + margin, first=first, last=last)


def _chart(view: FrontView, colors: dict[float, str]) -> str:
    across = _axis([point.makespan_s for point in view.points], _LEFT, _WIDTH - _RIGHT)
    up = _axis([view.amount(point) for point in view.points], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group" aria-label="{escape(view.title)}">',
        *_grid(view, across, up),
        *_tried(view, across, up, colors),
        _steps(view, across, up),
        *(_point(view, point, across, up, colors) for point in view.points),
        "</svg>",
    ]
    return "\n".join(parts)


def _grid(view: FrontView, across: _Axis, up: _Axis) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for seconds in tick_times(across.most, math.ceil(_TICKS * across.most / (across.most - across.least))):
        if seconds >= across.least:
            x = across.place(seconds)
            yield f'<line class="grid" x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}"/>'
            yield f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{escape(tick_label(seconds))}</text>'
    for amount in _round_numbers(up.least, up.most):
        y = up.place(amount)
        yield f'<line class="grid" x1="{_LEFT}" y1="{y}" x2="{right}" y2="{y}"/>'
        text = escape(view.amount_text(amount))
        yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{text}</text>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{bottom}"/>'
    yield f'<text x="{right}" y="{bottom + 38}" text-anchor="end">time</text>'
    turned = f'transform="rotate(-90 14 {_TOP + 4})" text-anchor="end"'
    yield f'<text x="14" y="{_TOP + 4}" {turned}>{view.noun}</text>'


def _round_numbers(least: float, most: float) -> list[float]:
    """Give round numbers for an axis."""
    wanted = (most - least) / _TICKS
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= wanted)
    return [index * step for index in range(math.ceil(least / step), math.floor(most / step) + 1)]


def _tried(view: FrontView, across: _Axis, up: _Axis, colors: dict[float, str]) -> Iterator[str]:
    """Draw what was found on the way, as far as it lies on the chart."""
    for plan in view.tried:
        if across.least <= plan.makespan_s <= across.most and up.least <= plan.amount <= up.most:
            x, y = across.place(plan.makespan_s), up.place(plan.amount)
            yield f'<circle class="tried" cx="{x}" cy="{y}" r="3"{_filled(plan.alpha, colors)}/>'


def _filled(alpha: float | None, colors: dict[float, str]) -> str:
    color = None if alpha is None else colors.get(alpha)
    return "" if color is None else f' style="fill:{color}"'


def _steps(view: FrontView, across: _Axis, up: _Axis) -> str:
    """Draw the border: what lies above it is worse than some point."""
    path = ""
    for point in view.points:
        x, y = across.place(point.makespan_s), up.place(view.amount(point))
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return f'<path class="front" d="{path}H{across.last}"/>'


def _point(view: FrontView, point: FrontPoint, across: _Axis, up: _Axis, colors: dict[float, str]) -> str:
    x, y = across.place(point.makespan_s), up.place(view.amount(point))
    return (
        f'<g class="point" id="point-{point.number}" tabindex="0" role="img">'
        f"<title>{escape(_tip(view, point))}</title>"
        f'<circle cx="{x}" cy="{y}" r="7"{_filled(point.alpha, colors)}/>'
        f'<text x="{x + 9}" y="{y - 8}">{point.number}</text></g>'
    )


def _tip(view: FrontView, point: FrontPoint) -> str:
    """Say everything of a point, a line each."""
    told = [
        f"point {point.number}: {view.time_text(point)}, {view.noun} {view.amount_text(view.amount(point))}",
        f"cost {point.cost:.4g}, {point.node_seconds:,.0f} node-seconds, {point.idle_share:.1%} idle",
    ]
    if point.alpha is not None:
        told.append(f"found under alpha {point.alpha:.3g} by {point.by}")
    told += [f"{found.text} nodes ({counted(found.tasks, 'task')})" for found in point.nodes]
    told += [f"{name}: {counted(tasks, 'task')}" for name, tasks in point.machines]
    return "\n".join(told)
