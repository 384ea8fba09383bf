"""Terminal charts of experiments: one scale, within the width of the terminal."""

from __future__ import annotations

import pytest

from weft.papers.reproduction import Box, Boxes, Curves
from weft.reports.paper_charts import chart_lines

CURVES = Curves(
    title="active workflows",
    times_s=[0.0, 10.0, 20.0, 30.0],
    values={"FOFT": [0.0, 4.0, 8.0, 0.0], "SRPT": [0.0, 2.0, 2.0, 0.1]},
)
BOXES = Boxes(
    title="slowdown",
    boxes={
        "FOFT": Box(least=0.0, lower_quartile=2.0, median=4.0, mean=4.5, upper_quartile=6.0, most=8.0),
        "SRPT": Box(least=1.0, lower_quartile=1.0, median=1.0, mean=1.0, upper_quartile=1.0, most=1.0),
    },
)


def test_all_curves_of_a_chart_have_the_same_scale_and_show_small_values():
    title, first, second, axis = chart_lines(CURVES, width=60, ascii_only=False)
    assert title.startswith("active workflows")
    drawn = first.split("│")[1]
    quarter = len(drawn) // 4
    assert {drawn[place] for place in (0, quarter + 1, 2 * quarter + 1, -1)} == {" ", "▄", "█"}
    assert set(second.split("│")[1]) == {" ", "▂", "▁"}
    assert first.endswith(" 8")
    assert axis.split()[0] == "0"


def test_all_box_plots_of_a_chart_have_the_same_scale():
    _, first, second, axis = chart_lines(BOXES, width=80, ascii_only=False)
    drawn = first.split("│")[1]
    assert (drawn[0], drawn[-1]) == ("├", "┤")
    assert drawn.index("┃") == pytest.approx(len(drawn) / 2, abs=1)
    assert drawn.index("▒") == pytest.approx(len(drawn) / 4, abs=1)
    assert first.split()[-2:] == ["4.0", "4.5"]
    assert second.split("│")[1].strip() == "┃"
    assert axis.split() == ["0", "8.0"]


@pytest.mark.parametrize("chart", [CURVES, BOXES])
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("width", [60, 100, 140])
def test_no_line_of_a_chart_is_wider_than_the_terminal(chart, ascii_only, width):
    lines = chart_lines(chart, width=width, ascii_only=ascii_only)
    assert all(len(line) <= width for line in lines[1:])
    assert not ascii_only or "".join(lines).isascii()


def test_chart_of_an_empty_plan_is_drawn():
    empty = Curves(title="nothing", times_s=[0.0], values={"a": [0.0]})
    assert len(chart_lines(empty, width=60, ascii_only=False)) == 3
