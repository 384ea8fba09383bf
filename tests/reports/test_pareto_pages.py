"""Reports of a front: every point in table, CSV and chart; the page is self-contained."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as tree
from dataclasses import replace

import pytest

from weft.reports.pareto import (
    FrontPoint,
    FrontView,
    NodeRange,
    TriedPlan,
    front_csv,
    front_html,
    front_lines,
)

NAME = "<b>&\"'</b>"


def point(number: int, makespan_s: float, cost: float, **more) -> FrontPoint:
    ranges = (
        NodeRange(kind="solve", tasks=7, least=2, most=2 + number, chosen=True),
        NodeRange(kind=NAME, tasks=1, least=1, most=1, chosen=False),
    )
    given = {
        "node_seconds": 3600 * cost, "idle_share": 0.1 * number, "alpha": 1 / number, "by": "weave",
        "nodes": ranges, "machines": (("m0", 8),),
    }  # fmt: skip
    return FrontPoint(number=number, makespan_s=makespan_s, cost=cost, **given | more)


VIEW = FrontView(
    workflow=NAME,
    platform="grid",
    against="cost",
    unit="price",
    priced=True,
    tasks=8,
    points=(point(1, 100.0, 9.5), point(2, 150.0, 4.25), point(3, 7200.0, 1.0, alpha=None)),
    tried=(
        TriedPlan(makespan_s=170.0, amount=5.0, alpha=0.5),
        TriedPlan(makespan_s=9e9, amount=5.0, alpha=0.5),
    ),
    lower_bound_s=90.0,
)


def drawn(page: str) -> tree.Element:
    """Parse the chart, which must be well-formed."""
    return tree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def places(chart: tree.Element) -> list[tuple[float, float]]:
    circles = chart.findall("g[@class='point']/circle")
    return [(float(circle.get("cx", "")), float(circle.get("cy", ""))) for circle in circles]


def test_table_of_a_front_lists_the_choices() -> None:
    lines = front_lines(VIEW, width=100)
    assert lines[0].split() == ["point", "time", "longer", "cost", "idle", "alpha", "nodes"]
    assert lines[1].split() == ["1", "100", "s", "9.5", "10.0%", "1", "solve", "2–3"]
    assert lines[2].split() == ["2", "2m", "30s", "+50.0%", "4.25", "20.0%", "0.5", "solve", "2–4"]
    assert lines[3].split()[-3:] == ["-", "solve", "2–5"]
    assert all(line.isascii() for line in front_lines(VIEW, width=100, ascii_only=True))
    wide = (NodeRange(kind="k" * 99, tasks=1, least=1, most=9, chosen=True),)
    view = replace(VIEW, points=(point(1, 1.0, 1.0, nodes=wide),))
    cut = front_lines(view, width=80)
    assert max(map(len, cut)) == 80
    assert cut[1].endswith("k…")
    assert f"{'k' * 99} 1–9" in front_lines(view, width=None)[1]


def test_summary_of_the_page_counts_plans_and_tasks() -> None:
    several, one = front_html(VIEW), front_html(replace(VIEW, points=VIEW.points[:1], tasks=1))
    assert "3 plans for 8 tasks: none of them is better than another both in time and in cost." in several
    assert "1 plan for 1 task: no plan was found that is better in time or in cost." in one


def test_machines_of_a_point_are_listed_if_there_are_several_or_node_counts_are_fixed() -> None:
    fixed = (NodeRange(kind="solve", tasks=8, least=1, most=1, chosen=False),)
    lines = front_lines(replace(VIEW, points=(point(1, 9.0, 1.0, nodes=fixed),)), width=100)
    assert lines[0].endswith("tasks")
    assert lines[1].endswith("8 on m0")
    two = point(1, 9.0, 1.0, machines=(("m0", 5), (NAME, 3)))
    assert front_lines(replace(VIEW, points=(two,)), width=100)[1].endswith(
        f"solve 2–3, 5 on m0, 3 on {NAME}"
    )


def test_csv_of_a_front_has_one_row_per_point() -> None:
    rows = list(csv.DictReader(front_csv(VIEW).splitlines()))
    assert [float(row["makespan_s"]) for row in rows] == [100.0, 150.0, 7200.0]
    assert [row["alpha"] for row in rows] == ["1.0", "0.5", ""]
    assert rows[1]["nodes"] == f"solve 2–4; {NAME} 1"
    assert rows[0]["machines"] == "m0 8"


def test_page_shows_every_point_at_its_coordinates() -> None:
    page = front_html(VIEW)
    chart = drawn(page)
    (x1, y1), (x2, y2), (x3, y3) = places(chart)
    assert x1 < x2 < x3, "later is to the right"
    assert y1 > 0
    assert y1 < y2 < y3, "dearer is further up"
    assert (x2 - x1) / (x3 - x1) == pytest.approx(50 / 7100, abs=1e-3)
    assert (y2 - y1) / (y3 - y1) == pytest.approx(5.25 / 8.5, abs=1e-3)
    groups = chart.findall("g[@class='point']")
    assert [group.findtext("text") for group in groups] == ["1", "2", "3"]
    for number, group in enumerate(groups, start=1):
        reported = group.findtext("title") or ""
        assert reported.startswith(f"point {number}: ")
        assert f"solve 2–{2 + number} nodes (7 tasks)" in reported
        assert "m0: 8 tasks" in reported
    assert len(chart.findall("circle[@class='tried']")) == 1, "what lies outside the chart is left out"


def test_page_of_a_front_needs_no_network_or_script_and_escapes_names() -> None:
    page = front_html(VIEW)
    assert not re.search(r"https?:|//|<script|src=|url\(", page.replace("<!DOCTYPE", ""))
    assert "default-src 'none'" in page
    assert NAME not in page
    assert page.count("<tr>") == 1 + len(VIEW.points)


def test_points_are_coloured_by_alpha_when_alphas_are_given() -> None:
    assert "alpha (weight of time)" not in front_html(VIEW)
    page = front_html(replace(VIEW, by_alpha=True))
    legend = page[page.index('class="legend"') : page.index("<svg")]
    colors = dict(re.findall(r"background:(#\w+)\"></i>([\d.]+)", legend))
    assert list(colors.values()) == ["1", "0.5"]
    fills = [circle.get("style") for circle in drawn(page).findall("g/circle")]
    assert fills == [*(f"fill:{color}" for color in colors), None]


@pytest.mark.parametrize("unit", ["price", "node-seconds", "share"])
def test_front_of_one_point_and_front_of_zero_cost_can_be_drawn(unit) -> None:
    free = replace(VIEW, unit=unit, points=(point(1, 0.0, 0.0, idle_share=0.0),), tried=())
    assert len(places(drawn(front_html(free)))) == 1
