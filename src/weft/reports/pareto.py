"""Pareto front as table, CSV and HTML page with an SVG chart.

The chart shows time to the right and the other measure upwards. Points have the numbers for ``weft plan
--choose`` and show their node counts on hover; small dots are other plans that the search found. If points
were planned for given alphas, colours show the alphas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from weft.reports.charts import grid_column, grid_row, round_numbers, tick_label, tick_times
from weft.reports.page import render_page
from weft.reports.text import TextTable, csv_text, fitted, printable
from weft.units import format_count, format_seconds

_DASH = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRange:
    """Smallest and largest node count of the tasks of one kind."""

    kind: str
    tasks: int
    least: int
    most: int
    chosen: bool
    """Whether the tasks have several possible node counts."""

    @property
    def text(self) -> str:
        """Return kind and node counts as text, such as ``lapw1 2–4``."""
        counts = str(self.least) if self.least == self.most else f"{self.least}{_DASH}{self.most}"
        return f"{self.kind} {counts}"

    def as_record(self) -> dict[str, Any]:
        """Return the node counts as plain data for JSON."""
        return {"kind": self.kind, "tasks": self.tasks, "least": self.least, "most": self.most}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """One plan of a front."""

    number: int
    """Number for ``weft plan --choose``; 1 is the fastest plan."""
    makespan_s: float
    cost: float
    node_seconds: float
    idle_share: float
    alpha: float | None
    """Weight of time in the search that found the plan; None if the search had no weight."""
    by: str
    nodes: tuple[NodeRange, ...]
    """Node counts by kind of task, in the order of the workflow."""
    machines: tuple[tuple[str, int], ...]
    """Names of the used machines with their numbers of tasks."""
    amount: float | None = None
    """Value of the formula that is traded against time; None for cost and idle nodes."""
    covered: bool = False
    """Whether a point of another alpha is at least as good in both measures."""

    @property
    def choice_text(self) -> str:
        """Return the node counts of moldable tasks, and the machines if several are used.

        Without moldable tasks the machines are always returned.
        """
        ranges = [found.text for found in self.nodes if found.chosen]
        places = [f"{tasks} on {name}" for name, tasks in self.machines]
        return ", ".join([*ranges, *(places if len(places) > 1 or not ranges else ())])

    def as_record(self) -> dict[str, Any]:
        """Return the point as plain data for JSON."""
        return {
            "point": self.number,
            "makespan_s": self.makespan_s,
            "cost": self.cost,
            "node_seconds": self.node_seconds,
            "idle_share": self.idle_share,
            "alpha": self.alpha,
            "amount": self.amount,
            "covered": self.covered,
            "found_by": self.by,
            "nodes": [found.as_record() for found in self.nodes],
            "machines": dict(self.machines),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedPlan:
    """A plan found during the search for the front."""

    makespan_s: float
    amount: float
    alpha: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontView:
    """Data of a front for reports."""

    workflow: str
    platform: str
    against: str
    """``cost``, ``idle`` or a formula."""
    unit: Literal["price", "node-seconds", "share", "formula"]
    """Unit of the measure traded against time."""
    priced: bool
    """Whether some machine has a price; otherwise node-seconds are shown instead of costs."""
    tasks: int
    points: tuple[FrontPoint, ...]
    tried: tuple[TriedPlan, ...]
    lower_bound_s: float
    """Lower bound of the makespan."""
    by_alpha: bool = False
    """Whether points are coloured by alpha."""

    @property
    def title(self) -> str:
        """Return a title: workflow, platform and the measure traded against time."""
        return f"{self.workflow} on {self.platform}: time against {self.noun}"

    @property
    def noun(self) -> str:
        """Return the name of the measure traded against time."""
        nouns = {"price": "cost", "node-seconds": "node-seconds", "share": "idle share"}
        return nouns.get(self.unit, self.against)

    def amount(self, point: FrontPoint) -> float:
        """Return the value of the measure traded against time for a point."""
        shown = {"price": point.cost, "node-seconds": point.node_seconds, "share": point.idle_share}
        return shown[self.unit] if point.amount is None else point.amount

    def amount_text(self, amount: float) -> str:
        """Return a value of the measure traded against time as text."""
        if self.unit == "share":
            return f"{amount:.1%}"
        return _node_seconds_text(amount) if self.unit == "node-seconds" else f"{amount:.4g}"

    def paid_text(self, point: FrontPoint) -> str:
        """Return the cost of a plan as text; its node-seconds if no machine has a price."""
        return f"{point.cost:.4g}" if self.priced else _node_seconds_text(point.node_seconds)


def _node_seconds_text(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.4g}"


_LEAST_WIDTH = 24
"""Minimal width of the last column of the text table."""
_COLUMNS = (
    "point", "makespan_s", "cost", "node_seconds", "idle_share", "alpha", "found_by", "amount", "covered",
)  # fmt: skip


def front_table(view: FrontView) -> TextTable:
    """Return a table with a row per point: number, time, increase over the fastest, cost, idle, alpha."""
    rows = tuple(
        (
            str(point.number),
            format_seconds(point.makespan_s),
            _longer(view, point),
            view.paid_text(point),
            f"{point.idle_share:.1%}",
            *([view.amount_text(view.amount(point))] if view.unit == "formula" else []),
            ("-" if point.alpha is None else f"{point.alpha:.3g}") + (" (covered)" if point.covered else ""),
        )
        for point in view.points
    )
    paid = "cost" if view.priced else "node-seconds"
    formula = ("formula",) if view.unit == "formula" else ()
    heading = ("point", "time", "longer", paid, "idle", *formula, "alpha")
    return TextTable(heading=heading, rows=rows, texts=0)


def front_choices(view: FrontView) -> tuple[str, ...]:
    """Return the last column of the table: its heading, then the nodes and machines of each point."""
    chosen = any(found.chosen for point in view.points for found in point.nodes)
    return ("nodes" if chosen else "tasks", *(point.choice_text for point in view.points))


def front_lines(view: FrontView, *, width: int | None, ascii_only: bool = False) -> list[str]:
    """Return the table as aligned lines; the last column is cut so that lines fit ``width``.

    If ``width`` is None, nothing is cut.
    """
    lines = front_table(view).lines()
    choices = [_shown(text, ascii_only) for text in front_choices(view)]
    if width is not None:
        last_width = max(_LEAST_WIDTH, width - max(map(len, lines)) - 2)
        choices = [fitted(text, last_width, ascii_only=ascii_only) for text in choices]
    return [f"{line}  {text}".rstrip() for line, text in zip(lines, choices, strict=True)]


def _shown(text: str, ascii_only: bool) -> str:
    return printable(text.replace("–", "-") if ascii_only else text, ascii_only=ascii_only)


def _longer(view: FrontView, point: FrontPoint) -> str:
    fastest_s = view.points[0].makespan_s
    return f"+{point.makespan_s / fastest_s - 1:.1%}" if fastest_s > 0 and point.number > 1 else ""


def front_csv(view: FrontView) -> str:
    """Return the points as CSV with numbers in full precision."""
    rows = []
    for point in view.points:
        record = point.as_record()
        nodes = "; ".join(found.text for found in point.nodes)
        machines = "; ".join(f"{name} {tasks}" for name, tasks in point.machines)
        rows.append((*(record[column] for column in _COLUMNS), nodes, machines))
    return csv_text((*_COLUMNS, "nodes", "machines"), rows)


_WIDTH, _HEIGHT = 900, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 30, 20, 50
_MARGIN = 0.06
"""Margin on both sides of an axis, as a share of the range of its values."""
_TICKS = 7
_COLORS = ("#c2255c", "#e8590c", "#2f9e44", "#1971c2", "#7048e8", "#0c8599", "#868e96")
"""Colours of the alphas, the largest alpha first; readable on light and dark backgrounds."""


def front_html(view: FrontView) -> str:
    """Return the front as a self-contained HTML page."""
    colors = _colors(view)
    table = front_table(view)
    heading, *choices = front_choices(view)
    return render_page(
        "pareto.html",
        title=view.title,
        colors=[(f"{alpha:g}", color) for alpha, color in colors.items()],
        chart=_chart(view, colors),
        summary=_summary(view),
        heading=(*table.heading, heading),
        rows=[(*row, text) for row, text in zip(table.rows, choices, strict=True)],
    )


def _summary(view: FrontView) -> str:
    best = f"none of them is better than another both in time and in {view.noun}"
    if view.by_alpha:
        best = f"none is better than another of the same alpha both in time and in {view.noun}"
    if len(view.points) == 1:
        best = f"no plan was found that is better in time or in {view.noun}"
    return (
        f"{format_count(len(view.points), 'plan')} for {format_count(view.tasks, 'task')}: {best}. "
        "No plan takes less than "
        f"{format_seconds(view.lower_bound_s)} (lower bound). Use one with: weft plan --choose NUMBER"
    )


def _colors(view: FrontView) -> dict[float, str]:
    """Return the colour of each alpha; empty if points are not coloured."""
    if not view.by_alpha:
        return {}
    alphas = {point.alpha for point in view.points} | {tried.alpha for tried in view.tried}
    ordered = sorted((alpha for alpha in alphas if alpha is not None), reverse=True)
    return {alpha: _COLORS[min(place, len(_COLORS) - 1)] for place, alpha in enumerate(ordered)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChartAxis:
    """Linear scale from values to positions in the chart."""

    least: float
    most: float
    first: float
    last: float

    def place(self, number: float) -> float:
        share = (number - self.least) / (self.most - self.least)
        return round(self.first + share * (self.last - self.first), 1)


def _axis(numbers: list[float], first: float, last: float) -> _ChartAxis:
    """Return a scale over the range of the numbers, with a margin on both sides."""
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
            yield from grid_column(across.place(seconds), _TOP, bottom, tick_label(seconds))
    for amount in round_numbers(up.most, _TICKS, least=up.least):
        yield from grid_row(_LEFT, right, up.place(amount), view.amount_text(amount))
    yield f'<line class="axis" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{_LEFT}" y1="{_TOP}" x2="{_LEFT}" y2="{bottom}"/>'
    yield f'<text x="{right}" y="{bottom + 38}" text-anchor="end">time</text>'
    turned = f'transform="rotate(-90 14 {_TOP + 4})" text-anchor="end"'
    yield f'<text x="14" y="{_TOP + 4}" {turned}>{view.noun}</text>'


def _tried(view: FrontView, across: _ChartAxis, up: _ChartAxis, colors: dict[float, str]) -> Iterator[str]:
    """Yield the SVG of the other plans of the search that lie within the chart."""
    for plan in view.tried:
        if across.least <= plan.makespan_s <= across.most and up.least <= plan.amount <= up.most:
            x, y = across.place(plan.makespan_s), up.place(plan.amount)
            yield f'<circle class="tried" cx="{x}" cy="{y}" r="3"{_filled(plan.alpha, colors)}/>'


def _filled(alpha: float | None, colors: dict[float, str]) -> str:
    color = None if alpha is None else colors.get(alpha)
    return "" if color is None else f' style="fill:{color}"'


def _steps(view: FrontView, across: _ChartAxis, up: _ChartAxis) -> str:
    """Return the SVG of the border of the dominated region."""
    path = ""
    for point in view.points:
        if point.covered:
            continue
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
    """Return the tooltip of a point: measures, alpha, node counts and machines, in lines."""
    amount = view.amount_text(view.amount(point))
    lines = [
        f"point {point.number}: {format_seconds(point.makespan_s)}, {view.noun} {amount}",
        f"cost {point.cost:.4g}, {point.node_seconds:,.0f} node-seconds, {point.idle_share:.1%} idle",
    ]
    if point.alpha is not None:
        lines.append(f"found with alpha {point.alpha:.3g} by {point.by}")
    lines += [f"{found.text} nodes ({format_count(found.tasks, 'task')})" for found in point.nodes]
    lines += [f"{name}: {format_count(tasks, 'task')}" for name, tasks in point.machines]
    return "\n".join(lines)
