"""Gantt chart for the terminal: one row per machine, time from left to right.

Tasks of a machine with one node are drawn as bars with names. For machines with several nodes, and rows with
too many bars, the number of busy nodes is drawn as a skyline. If there are more machines than rows, machines
of a site (or neighbours) share a skyline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.reports.charts import tick_label, tick_times
from weft.reports.gantt_layout import MachineBand, busy_seconds, group_machines, occupation, tasks_by_machine
from weft.reports.report import GanttView
from weft.reports.text import fitted, printable, shown_width

_SIGNS = "▓▒░█▞▚▄▀"
_ASCII_SIGNS = "#=+-*%o~"
_COLORS = (75, 214, 78, 204, 141, 80, 185, 248)
"""Colours of kinds: numbers in the 256-colour palette, light enough for dark text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Palette:
    """Signs and colours of up to eight kinds; with more kinds, the eighth entry stands for all others."""

    names: tuple[str, ...]
    of_task: NDArray[np.intp]
    """Index of the shown kind of each task."""
    signs: str


def choose_palette(view: GanttView, *, ascii_only: bool) -> Palette:
    """Return a palette of the kinds with the most node-seconds; for ties the first in the plan."""
    index: dict[str, int] = {}
    kind = np.fromiter((index.setdefault(name, len(index)) for name in view.kinds), np.intp, len(view.kinds))
    schedule = view.schedule
    weight = np.bincount(kind, schedule.nodes * (schedule.finish_s - schedule.start_s), minlength=len(index))
    order = np.argsort(-weight, kind="stable")
    rank = np.empty(len(order), np.intp)
    rank[order] = np.arange(len(order))
    names = [list(index)[position] for position in order]
    most = len(_SIGNS)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} other kinds"]
    of_task: NDArray[np.intp] = np.minimum(rank, most - 1)[kind]
    return Palette(names=tuple(names), of_task=of_task, signs=_ASCII_SIGNS if ascii_only else _SIGNS)


EDGES = ("▌", "[")
"""Left edge of a bar, in block characters and in ASCII."""

_BLANK = -1


class ChartCell(NamedTuple):
    """One character of the chart and the kind of its task (-1: no task)."""

    sign: str
    kind: int
    fills: bool = False
    """Whether the character only fills a bar; coloured bars use a space instead."""
    block: bool = False
    """Whether the character is part of a skyline and must be kept."""


def bar_cells(
    view: GanttView, tasks: NDArray[np.intp], columns: int, palette: Palette, *, ascii_only: bool
) -> list[ChartCell] | None:
    """Return a row with the tasks of a one-node machine as bars; None if tasks overlap or are too many."""
    schedule = view.schedule
    start_s, finish_s = schedule.start_s[tasks], schedule.finish_s[tasks]
    if len(tasks) > columns // 2 or np.any(start_s[1:] < finish_s[:-1] - 1e-9 * schedule.makespan_s):
        return None
    scale = columns / schedule.makespan_s
    first = np.minimum(np.floor(start_s * scale + 0.5).astype(np.intp), columns - 1)
    last = np.maximum(np.floor(finish_s * scale + 0.5).astype(np.intp), first + 1)
    cells = [ChartCell(" ", _BLANK)] * columns
    for task, low, high in zip(tasks.tolist(), first.tolist(), last.tolist(), strict=True):
        if schedule.finish_s[task] > schedule.start_s[task]:
            kind = int(palette.of_task[task])
            label = printable(schedule.tasks[task], ascii_only=ascii_only)
            cells[low:high] = _bar(label, high - low, kind, palette.signs[kind], EDGES[ascii_only])
    return cells


def _bar(label: str, width: int, kind: int, fill: str, edge: str) -> list[ChartCell]:
    """Return the cells of one bar: left edge, name if it fits, and filling."""
    if width == 1:
        return [ChartCell(edge, kind)]
    fits = len(label) == shown_width(label) and len(label) + 1 <= width
    text = label if fits else ""
    filling = width - 1 - len(text)
    return [
        ChartCell(edge, kind),
        *(ChartCell(sign, kind) for sign in text),
        *([ChartCell(fill, kind, fills=True)] * filling),
    ]


def skyline_cells(
    view: GanttView,
    tasks: NDArray[np.intp],
    capacity: int,
    columns: int,
    height: int,
    palette: Palette,
    steps: str,
) -> list[list[ChartCell]]:
    """Return the share of busy nodes over time as ``height`` rows from top to bottom, kinds stacked.

    ``steps`` has the characters of a cell from empty to full.
    """
    edges_s = np.linspace(0.0, view.schedule.makespan_s, columns + 1)
    kinds = palette.of_task[tasks]
    layers = np.cumsum(
        [
            occupation(view.schedule, tasks[kinds == kind], capacity, edges_s)
            for kind in range(len(palette.names))
        ],
        axis=0,
    )
    total = np.minimum(layers[-1], 1.0) * height
    rows = []
    for floor in range(height - 1, -1, -1):
        filled = np.clip(total - floor, 0.0, 1.0)
        step = np.ceil(filled * (len(steps) - 1) - 1e-9).astype(np.intp)
        kind = np.argmax(layers * height > floor + filled / 2, axis=0)
        rows.append(
            [
                ChartCell(steps[s], k if s else _BLANK, block=True)
                for s, k in zip(step.tolist(), kind.tolist(), strict=True)
            ]
        )
    return rows


_MOST_ROWS = 40
_MOST_BANDS = 20
_NARROWEST = 40
_LONGEST_NAME = 18
_TALLEST = 6
_TALLEST_BAND = 3


class TextGantt:
    """Gantt chart as text."""

    name = "gantt-text"
    title = "Gantt chart for the terminal"
    extension = ".txt"

    def render(
        self,
        view: GanttView,
        width: int = 100,
        color: bool = False,
        ascii: bool = False,  # noqa: A002 -- the word users know
        heading: bool = True,
    ) -> str:
        """Return the chart as text of at most ``width`` columns (at least 40).

        ``ascii``: use only ASCII characters; ``heading``: add title and facts.
        """
        width = max(width, _NARROWEST)
        lines = _heading(view, width, ascii) if heading else []
        if view.schedule.makespan_s <= 0:
            return "\n".join([*lines, "no task of this plan takes time"])
        bands = _bands(view)
        names = min(_LONGEST_NAME, width // 4, _widest_name(view, bands, ascii))
        chart = _TextChart(
            view=view,
            width=width,
            names=names,
            columns=width - names - len(" ││ 100 %"),
            ascii_only=ascii,
            color=color,
            palette=choose_palette(view, ascii_only=ascii),
            bands=bands,
        )
        rows = chart.rows()
        return "\n".join([*lines, *rows, *chart.axis(), "", *chart.legend("".join(rows)), *chart.critical()])


def _heading(view: GanttView, width: int, ascii_only: bool) -> list[str]:
    facts = [printable(f"{label} {text}", ascii_only=ascii_only) for label, text in view.facts]
    title = fitted(printable(view.title, ascii_only=ascii_only), width, ascii_only=ascii_only).rstrip()
    return [title, *_wrapped(facts, width, " | " if ascii_only else " · "), ""]


def _wrapped(parts: Sequence[str], width: int, between: str) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and shown_width(lines[-1] + between + part) <= width:
            lines[-1] += between + part
        else:
            lines.append(fitted(part, width).rstrip())
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextChart:
    """A plan, and the widths, signs and bands with which its chart is drawn."""

    view: GanttView
    width: int
    names: int
    """Width of the column of machine names."""
    columns: int
    """Width of the chart without names, borders and busy share."""
    ascii_only: bool
    color: bool
    palette: Palette
    bands: list[MachineBand]
    """Machines that share a row; empty if every machine has its own row."""

    def rows(self) -> list[str]:
        """Return the rows of all used machines or bands, and a line with the number of unused machines."""
        view = self.view
        busy = busy_seconds(view.schedule)
        offered = np.asarray(view.machine_nodes) * view.schedule.makespan_s
        used = np.flatnonzero(busy > 0)
        tasks = tasks_by_machine(view.schedule)
        lines = []
        if self.bands:
            height = max(1, min(_TALLEST_BAND, _MOST_ROWS // len(self.bands)))
            for band in self.bands:
                members = list(band.machines)
                share = busy[members].sum() / offered[members].sum()
                lines += self._band(
                    band, np.concatenate([tasks[machine] for machine in members]), share, height
                )
        else:
            height = max(1, min(_TALLEST, 2 * _TALLEST // max(len(used), 1)))
            for machine in used.tolist():
                lines += self._machine(machine, tasks[machine], busy[machine] / offered[machine], height)
        return lines + self._not_used(len(busy) - len(used))

    def _machine(self, machine: int, tasks: NDArray[np.intp], share: float, height: int) -> list[str]:
        view, capacity = self.view, self.view.machine_nodes[machine]
        cells = None
        if capacity == 1:
            cells = bar_cells(view, tasks, self.columns, self.palette, ascii_only=self.ascii_only)
        rows = [cells] if cells is not None else self._skyline(tasks, capacity, height if capacity > 1 else 1)
        return self._framed(rows, view.schedule.machines[machine], _counted(capacity, "node"), share)

    def _band(self, band: MachineBand, tasks: NDArray[np.intp], share: float, height: int) -> list[str]:
        capacity = sum(self.view.machine_nodes[machine] for machine in band.machines)
        rows = self._skyline(tasks, capacity, height)
        return self._framed(rows, band.name, _counted(len(band.machines), "machine"), share)

    def _framed(self, rows: list[list[ChartCell]], name: str, size: str, share: float) -> list[str]:
        """Return rows as text between borders, with name and size on the left and busy share on the right."""
        names = [printable(name, ascii_only=self.ascii_only), size, *[""] * len(rows)][: len(rows)]
        shares = [""] * (len(rows) - 1) + [f"{share * 100:4.0f} %"]
        wall = "|" if self.ascii_only else "│"
        return [
            f"{fitted(left, self.names, ascii_only=self.ascii_only)} {wall}{self._painted(row)}{wall}{right}"
            for left, row, right in zip(names, rows, shares, strict=True)
        ]

    def _skyline(self, tasks: NDArray[np.intp], capacity: int, height: int) -> list[list[ChartCell]]:
        return skyline_cells(self.view, tasks, capacity, self.columns, height, self.palette, self._steps)

    @property
    def _steps(self) -> str:
        """Return the signs of a skyline, from no busy node to all nodes busy."""
        return " .:-=+*#@" if self.ascii_only else " ▁▂▃▄▅▆▇█"

    def _not_used(self, idle: int) -> list[str]:
        """Return a line with the number of unused machines; empty if all are used."""
        start = " " * (self.names + 2) + ("... " if self.ascii_only else "… ")
        return [f"{start}{_counted(idle, 'machine')} not used"] if idle else []

    def axis(self) -> list[str]:
        """Return the lines of the time axis, and the mark of the lower bound."""
        columns, end_s = self.columns, self.view.schedule.makespan_s
        line, labels = ["-" if self.ascii_only else "─"] * columns, [" "] * (columns + 8)
        free = 0
        for time_s in tick_times(end_s, columns // 12):
            at = min(columns - 1, int(time_s / end_s * columns + 0.5))
            line[at] = "+" if self.ascii_only else "┬"
            label = tick_label(time_s)
            if free <= at and at + len(label) <= len(labels):
                labels[at : at + len(label)] = label
                free = at + len(label) + 1
        margin = " " * (self.names + 1)
        corners = "++" if self.ascii_only else "└┘"
        lines = [f"{margin}{corners[0]}{''.join(line)}{corners[1]}", f"{margin} {''.join(labels)}".rstrip()]
        return lines + self._lower_bound(margin)

    def _lower_bound(self, margin: str) -> list[str]:
        bound_s = self.view.lower_bound_s
        if bound_s is None or not 0 < bound_s <= self.view.schedule.makespan_s:
            return []
        at = min(self.columns - 1, int(bound_s / self.view.schedule.makespan_s * self.columns + 0.5))
        text, mark = f"lower bound {tick_label(bound_s)}", "^" if self.ascii_only else "▲"
        if at >= len(text) + 1:
            return [f"{margin} {' ' * (at - len(text) - 1)}{text} {mark}"]
        return [f"{margin} {' ' * at}{mark} {text}"]

    def legend(self, drawn: str) -> list[str]:
        """Return lines that explain the signs in the text ``drawn``."""
        lines, used = [], self.width
        for sign, text in self._entries(drawn):
            name = fitted(
                printable(text, ascii_only=self.ascii_only), 32, ascii_only=self.ascii_only
            ).rstrip()
            if used + shown_width(name) + 6 > self.width:
                lines.append("")
                used = 0
            lines[-1] += f"{sign} {name}   "
            used += shown_width(name) + 6
        return [line.rstrip() for line in lines]

    def _entries(self, drawn: str) -> Iterator[tuple[str, str]]:
        edge = EDGES[self.ascii_only]
        if self.color or edge in drawn:
            for kind, name in enumerate(self.palette.names):
                yield self._painted([ChartCell(self.palette.signs[kind], kind, fills=True)] * 2), name
        if any(nodes > 1 for nodes in self.view.machine_nodes) or edge not in drawn:
            yield self._steps[1] + self._steps[-1], "few to all nodes taken"

    def critical(self) -> list[str]:
        """Return a line with the tasks of the critical path; empty if it is unknown."""
        critical = self.view.critical
        if not critical:
            return []
        arrow = " > " if self.ascii_only else " → "
        names = [self.view.schedule.tasks[task] for task in critical[: self.width]]
        text = f"critical path ({_counted(len(critical), 'task')}): {arrow.join(names)}"
        text = printable(text, ascii_only=self.ascii_only)
        return [fitted(text, self.width, ascii_only=self.ascii_only).rstrip()]

    def _painted(self, cells: Sequence[ChartCell]) -> str:
        """Return cells as text; bars have a coloured background, skylines a coloured foreground."""
        if not self.color:
            return "".join(cell.sign for cell in cells)
        text = ""
        for (kind, block), run in groupby(cells, key=lambda cell: (cell.kind, cell.block)):
            part = "".join(" " if cell.fills else cell.sign for cell in run)
            color = f"{38 if block else 48};5;{_COLORS[kind]}{'' if block else ';30'}"
            text += part if kind < 0 else f"\x1b[{color}m{part}\x1b[0m"
        return text


def _bands(view: GanttView) -> list[MachineBand]:
    """Return bands of the used machines; empty if there are few enough to give each its own row."""
    used = np.flatnonzero(busy_seconds(view.schedule) > 0)
    return group_machines(view, used.tolist(), _MOST_BANDS) if len(used) > _MOST_ROWS else []


def _widest_name(view: GanttView, bands: list[MachineBand], ascii_only: bool) -> int:
    """Return the width of the widest label of machines or bands."""
    names = [band.name for band in bands] or list(view.schedule.machines)
    if bands:
        names += [_counted(len(band.machines), "machine") for band in bands]
    elif len(names) <= _TALLEST:
        names += [_counted(nodes, "node") for nodes in view.machine_nodes if nodes > 1]
    return max(shown_width(printable(name, ascii_only=ascii_only)) for name in names)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
