"""A front of plans as reports read it: time against something else, and the node counts behind each point.

A front of plans as a table for terminals and pages, and as comma-separated values.

A front of plans as one self-contained page: a chart that needs no script, and the table behind it.

Time runs to the right, what is paid for it upwards: good plans lie at the lower left. Points are numbered as
``weft plan --choose`` takes them; to hover over one shows its node counts. Small dots are plans that were
found on the way. Where points were found under given alphas, their colour tells which.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from weft.reports.charts import tick_label, tick_times
from weft.reports.comparison import TextTable
from weft.reports.text import fitted, printable
from weft.units import format_count, format_seconds

__all__ = [
    "FrontPoint",
    "FrontView",
    "NodeRange",
    "TriedPlan",
    "front_choices",
    "front_csv",
    "front_html",
    "front_lines",
    "front_table",
]


_MINUS = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRange:
    """How many nodes the tasks of one kind take."""

    kind: str
    tasks: int
    least: int
    most: int
    chosen: bool
    """Whether they could have taken others."""

    @property
    def text(self) -> str:
        """Write it short: ``lapw1 2–4``."""
        counts = str(self.least) if self.least == self.most else f"{self.least}{_MINUS}{self.most}"
        return f"{self.kind} {counts}"

    def as_record(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {"kind": self.kind, "tasks": self.tasks, "least": self.least, "most": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """A plan of a front."""

    number: int
    """From 1, the fastest, on: what ``weft plan --choose`` takes."""
    makespan_s: float
    cost: float
    node_seconds: float
    idle_share: float
    alpha: float | None
    """Weight of time under which it was found; None: nobody weighed."""
    by: str
    nodes: tuple[NodeRange, ...]
    """By kind of task, in the order of the workflow."""
    machines: tuple[tuple[str, int], ...]
    """Machines that are used, and how many tasks each runs."""

    @property
    def choice_text(self) -> str:
        """Say what was chosen: node counts where tasks have a choice, machines where there are several."""
        ranges = [found.text for found in self.nodes if found.chosen]
        places = [f"{tasks} on {name}" for name, tasks in self.machines]
        return ", ".join([*ranges, *(places if len(places) > 1 or not ranges else ())])

    def as_record(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {
            "point": self.number,
            "makespan_s": self.makespan_s,
            "cost": self.cost,
            "node_seconds": self.node_seconds,
            "idle_share": self.idle_share,
            "alpha": self.alpha,
            "found_by": self.by,
            "nodes": [found.as_record() for found in self.nodes],
            "machines": dict(self.machines),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPlan:
    """A plan that was found on the way to the front."""

    makespan_s: float
    amount: float
    alpha: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontView:
    """What a report may show of a front."""

    workflow: str
    platform: str
    against: Literal["cost", "idle"]
    unit: Literal["price", "node-seconds", "share"]
    """What the other number is counted in."""
    priced: bool
    """Whether some machine has a price; else costs are 0, and node-seconds are shown."""
    tasks: int
    points: tuple[FrontPoint, ...]
    tried: tuple[TriedPlan, ...]
    lower_bound_s: float
    """No plan is faster."""
    by_alpha: bool = False
    """Whether points are coloured by the alpha under which they were found."""

    @property
    def title(self) -> str:
        """Say in a line what is traded."""
        return f"{self.workflow} on {self.platform}: time against {self.noun}"

    @property
    def noun(self) -> str:
        """Name what is traded for time."""
        return {"price": "cost", "node-seconds": "node-seconds", "share": "idle share"}[self.unit]

    def amount(self, point: FrontPoint) -> float:
        """Give the number that is traded for time."""
        shown = {"price": point.cost, "node-seconds": point.node_seconds, "share": point.idle_share}
        return shown[self.unit]

    def amount_text(self, amount: float) -> str:
        """Write an amount as people read it."""
        if self.unit == "share":
            return f"{amount:.1%}"
        return f"{amount:.4g}" if self.unit == "price" else _node_seconds_text(amount)

    @property
    def paid_noun(self) -> str:
        """Name what plans cost, whatever is traded."""
        return "cost" if self.priced else "node-seconds"

    def paid_text(self, point: FrontPoint) -> str:
        """Write what a plan costs."""
        return f"{point.cost:.4g}" if self.priced else _node_seconds_text(point.node_seconds)

    def time_text(self, point: FrontPoint) -> str:
        """Write the time of a point."""
        return format_seconds(point.makespan_s)


def _node_seconds_text(amount: float) -> str:
    """Write node-seconds as people read them."""
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"


_LEAST_WIDTH = 24
"""What was chosen gets so many columns however narrow the terminal is."""
_COLUMNS = ("point", "makespan_s", "cost", "node_seconds", "idle_share", "alpha", "found_by")


def front_table(view: FrontView) -> TextTable:
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
    return TextTable(heading=heading, rows=rows, texts=0)


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
        f"{format_count(len(view.points), 'plan')} of {format_count(view.tasks, 'task')}: "
        "none of them is better than "
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
class _ChartAxis:
    """Turns numbers into places on the chart."""

    least: float
    most: float
    first: float
    last: float

    def place(self, number: float) -> float:
        share = (number - self.least) / (self.most - self.least)
        return round(self.first + share * (self.last - self.first), 1)


def _axis(numbers: list[float], first: float, last: float) -> _ChartAxis:
    """Span all numbers with a margin; a single one stands in the middle."""
    least, most = min(numbers), max(numbers)
    margin = (most - least) * _MARGIN or abs(most) * _MARGIN or 1.0
    return _ChartAxis(least=least - margin, most=most + margin, first=first, last=last)


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


def _grid(view: FrontView, across: _ChartAxis, up: _ChartAxis) -> Iterator[str]:
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


def _tried(view: FrontView, across: _ChartAxis, up: _ChartAxis, colors: dict[float, str]) -> Iterator[str]:
    """Draw what was found on the way, as far as it lies on the chart."""
    for plan in view.tried:
        if across.least <= plan.makespan_s <= across.most and up.least <= plan.amount <= up.most:
            x, y = across.place(plan.makespan_s), up.place(plan.amount)
            yield f'<circle class="tried" cx="{x}" cy="{y}" r="3"{_filled(plan.alpha, colors)}/>'


def _filled(alpha: float | None, colors: dict[float, str]) -> str:
    color = None if alpha is None else colors.get(alpha)
    return "" if color is None else f' style="fill:{color}"'


def _steps(view: FrontView, across: _ChartAxis, up: _ChartAxis) -> str:
    """Draw the border: what lies above it is worse than some point."""
    path = ""
    for point in view.points:
        x, y = across.place(point.makespan_s), up.place(view.amount(point))
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return f'<path class="front" d="{path}H{across.last}"/>'


def _point(
    view: FrontView, point: FrontPoint, across: _ChartAxis, up: _ChartAxis, colors: dict[float, str]
) -> str:
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
    told += [f"{found.text} nodes ({format_count(found.tasks, 'task')})" for found in point.nodes]
    told += [f"{name}: {format_count(tasks, 'task')}" for name, tasks in point.machines]
    return "\n".join(told)
