"""Terminal charts of the papers' experiments: skylines over time and box plots.

All rows of a chart have the same scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from weft.papers.reproduction import Box, Boxes, Chart, Curves
from weft.reports.charts import tick_label, tick_times
from weft.reports.text import fitted

_STEPS = (" ▁▂▃▄▅▆▇█", " .:-=+*#@")
_WALL = ("│", "|")
_BOX = (("─", "├", "┤", "▒", "┃"), ("-", "|", "|", "#", "I"))
"""Whisker, its ends, box and median, in block characters and in ASCII."""
_NUMBER = 7
"""Width of the numbers on the right of a chart."""
_TICKS = 6


def chart_lines(chart: Chart, *, width: int, ascii_only: bool) -> list[str]:
    """Return the lines of a chart that is ``width`` columns wide."""
    if isinstance(chart, Curves):
        return list(_curves(chart, width, ascii_only))
    return list(_boxes(chart, width, ascii_only))


def _curves(chart: Curves, width: int, ascii_only: bool) -> Iterator[str]:
    names = _longest(chart.values)
    columns = width - names - _NUMBER - 4
    most = max((max(values) for values in chart.values.values()), default=0.0) or 1.0
    wall, steps = _WALL[ascii_only], _STEPS[ascii_only]
    yield f"{chart.title} (on the right: the largest value)"
    for name, values in chart.values.items():
        heights = _spread(values, columns)
        signs = "".join(steps[_step(value / most, len(steps) - 1)] for value in heights)
        label = fitted(name, names, ascii_only=ascii_only)
        yield f"  {label}{wall}{signs}{wall}{max(values):{_NUMBER},.0f}"
    yield " " * (names + 3) + _time_axis(chart.times_s[-1], columns)


def _spread(values: Sequence[float], columns: int) -> list[float]:
    """Return one value per column: the maximum of the values that fall into it."""
    number = len(values)
    borders = [column * number // columns for column in range(columns + 1)]
    return [max(values[low : max(high, low + 1)]) for low, high in pairwise(borders)]


def _step(share: float, most: int) -> int:
    """Return the height of a column, 0 to ``most``, for a share of the maximum; positive shares give >= 1."""
    return 0 if share <= 0.0 else max(1, min(most, round(share * most)))


def _time_axis(end_s: float, columns: int) -> str:
    line = [" "] * columns
    for time_s in tick_times(end_s, _TICKS):
        label = tick_label(time_s)
        first = min(int(time_s / end_s * columns), columns - len(label)) if end_s > 0 else 0
        line[first : first + len(label)] = label
    return "".join(line).rstrip()


def _boxes(chart: Boxes, width: int, ascii_only: bool) -> Iterator[str]:
    names = _longest(chart.boxes)
    columns = width - names - 2 * _NUMBER - 6
    most = max((box.most for box in chart.boxes.values()), default=0.0) or 1.0
    wall = _WALL[ascii_only]
    yield f"{chart.title} (box: quartiles and median; lines: least and most; on the right: median, mean)"
    for name, box in chart.boxes.items():
        label = fitted(name, names, ascii_only=ascii_only)
        drawn = _box(box, columns / most, columns, _BOX[ascii_only])
        yield f"  {label}{wall}{drawn}{wall}{box.median:{_NUMBER}.1f} {box.mean:{_NUMBER}.1f}"
    yield f"{' ' * (names + 3)}0{most:>{columns - 1}.1f}"


def _box(box: Box, scale: float, columns: int, signs: tuple[str, str, str, str, str]) -> str:
    def column(value: float) -> int:
        return min(columns - 1, max(0, int(value * scale)))

    whisker, left, right, filling, middle = signs
    line = [" "] * columns
    for at in range(column(box.least), column(box.most) + 1):
        line[at] = whisker
    line[column(box.least)], line[column(box.most)] = left, right
    for at in range(column(box.lower_quartile), column(box.upper_quartile) + 1):
        line[at] = filling
    line[column(box.median)] = middle
    return "".join(line)


def _longest(names: Iterable[str]) -> int:
    return max(map(len, names), default=0)
