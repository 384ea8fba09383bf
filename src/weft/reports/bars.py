"""One row of a chart in the terminal, as cells: bars with names, or a skyline."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.reports.labels import printable, shown_width
from weft.reports.occupation import occupation
from weft.reports.palette import Palette
from weft.reports.report import PlanView

__all__ = ["EDGES", "Cell", "bar_cells", "skyline_cells"]

EDGES = ("▌", "[")
"""What parts a bar from its left neighbour, in block characters and in ASCII."""

_BLANK = -1


class Cell(NamedTuple):
    """One character and the kind it belongs to (-1: none)."""

    sign: str
    kind: int
    fills: bool = False
    """A sign that only fills a bar; where bars are coloured, a blank does as well."""
    block: bool = False
    """A sign of a skyline, whose shape must stay."""


def bar_cells(
    view: PlanView, tasks: NDArray[np.intp], columns: int, palette: Palette, *, ascii_only: bool
) -> list[Cell] | None:
    """Draw the tasks of a machine of one node as bars; None if they overlap or are too many to tell apart."""
    schedule = view.schedule
    start_s, finish_s = schedule.start_s[tasks], schedule.finish_s[tasks]
    if len(tasks) > columns // 2 or np.any(start_s[1:] < finish_s[:-1] - 1e-9 * schedule.makespan_s):
        return None
    scale = columns / schedule.makespan_s
    first = np.minimum(np.floor(start_s * scale + 0.5).astype(np.intp), columns - 1)
    last = np.maximum(np.floor(finish_s * scale + 0.5).astype(np.intp), first + 1)
    cells = [Cell(" ", _BLANK)] * columns
    for task, low, high in zip(tasks.tolist(), first.tolist(), last.tolist(), strict=True):
        if schedule.finish_s[task] > schedule.start_s[task]:
            kind = int(palette.of_task[task])
            label = printable(schedule.tasks[task], ascii_only=ascii_only)
            cells[low:high] = _bar(label, high - low, kind, palette.signs[kind], EDGES[ascii_only])
    return cells


def _bar(label: str, width: int, kind: int, fill: str, edge: str) -> list[Cell]:
    """Draw one bar: an edge that parts it from its left neighbour, its name if there is room, and filling."""
    if width == 1:
        return [Cell(edge, kind)]
    fits = len(label) == shown_width(label) and len(label) + 1 <= width
    text = label if fits else ""
    filling = width - 1 - len(text)
    return [
        Cell(edge, kind),
        *(Cell(sign, kind) for sign in text),
        *([Cell(fill, kind, fills=True)] * filling),
    ]


def skyline_cells(
    view: PlanView,
    tasks: NDArray[np.intp],
    capacity: int,
    columns: int,
    height: int,
    palette: Palette,
    steps: str,
) -> list[list[Cell]]:
    """Draw the share of taken nodes as ``height`` rows, the top first; kinds lie on top of each other."""
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
                Cell(steps[s], k if s else _BLANK, block=True)
                for s, k in zip(step.tolist(), kind.tolist(), strict=True)
            ]
        )
    return rows
