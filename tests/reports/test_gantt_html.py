"""The Gantt chart as a page: self-contained, escaped, and equal to the plan."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.plan_views import HEFT, packed, view_of
from weft.reports import REPORTS
from weft.reports.gantt_html import HtmlGantt
from weft.reports.report import GanttView

NASTY = "</script><script>alert(1)</script><!-- & \" ' @@DATA@@ \u2028 😀"


class Page(HTMLParser):
    """Collects tags, attributes and the text of elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag + ("#json" if dict(attrs).get("type") == "application/json" else "")

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open, []).append(data)

    def handle_endtag(self, tag: str) -> None:
        self._open = ""


def page_of(view: GanttView) -> tuple[Page, dict[str, Any]]:
    page = Page(HtmlGantt().render(view))
    return page, json.loads("".join(page.texts["script#json"]))


def test_chart_data_of_the_page_equal_the_plan() -> None:
    view = view_of(packed(np.random.default_rng(3), 50, [1, 6]), [1, 6], critical=(1, 4), lower_bound_s=12.5)
    _, data = page_of(view)
    schedule, bars = view.schedule, data["bars"]
    index = {name: task for task, name in enumerate(schedule.tasks)}
    tasks = [index[name] for name in bars["name"]]
    assert sorted(set(tasks)) == list(range(50))
    assert data["tasks"] == 50
    assert tuple(data["machines"]) == schedule.machines
    assert bars["machine"] == schedule.machine[tasks].tolist()
    assert bars["taken"] == schedule.nodes[tasks].tolist()
    assert bars["start"] == schedule.start_s[tasks].tolist()
    assert bars["finish"] == schedule.finish_s[tasks].tolist()
    assert [data["kinds"][kind] for kind in bars["kind"]] == [view.kinds[task] for task in tasks]
    assert {tasks[bar] for bar in data["critical"]} == {1, 4}
    assert (data["bound"], data["end"]) == (12.5, schedule.makespan_s)
    assert data["lanes"] == [1, 6]
    assert data["bands"] == bars["tasks"] == []


@pytest.mark.parametrize("bound", [None, float("inf"), float("nan")])
def test_chart_without_a_bound_has_no_bound_line(bound: float | None) -> None:
    assert page_of(view_of(HEFT, [1, 1, 1], lower_bound_s=bound))[1]["bound"] is None


def test_names_in_the_gantt_page_are_escaped() -> None:
    view = view_of([(NASTY, 0, 1, 0, 5, NASTY)], [1], machines=(NASTY,), title=NASTY, facts=((NASTY, NASTY),))
    page, data = page_of(view)
    assert data["bars"]["name"] == data["machines"] == data["kinds"] == [NASTY]
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "".join(page.texts["title"]) == NASTY
    assert "".join(page.texts["h1"]) == NASTY
    assert page.texts["dd"] == [NASTY]
    assert NASTY in page.texts["td"]


@given(st.text("</script>!-&\"'@\\u2028xé", max_size=40))
def test_any_task_name_is_preserved_in_the_page(name: str) -> None:
    page, data = page_of(view_of([(name, 0, 1, 0, 5, name)], [1], title=name))
    assert data["bars"]["name"] == [name]
    assert "".join(page.texts.get("h1", [""])) == name


def test_page_loads_nothing_from_the_network() -> None:
    text = HtmlGantt().render(view_of(HEFT, [1, 1, 1]))
    page = Page(text)
    assert not [attributes for _, attributes in page.tags if {"src", "href"} & set(attributes)]
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest", text)
    assert "default-src 'none'" in text


def test_facts_are_shown_as_cards_and_the_chart_has_a_label() -> None:
    page, _ = page_of(view_of(HEFT, [1, 1, 1], facts=(("makespan", "80 s"), ("cost", "3"))))
    assert page.texts["dt"] == ["makespan", "cost"]
    assert page.texts["dd"] == ["80 s", "3"]
    canvas = next(attributes for tag, attributes in page.tags if attributes.get("id") == "chart")
    assert canvas["aria-label"] == "Gantt chart of 10 tasks on 3 of 3 machines, 80 s long"
    assert canvas["role"] == "img"


def test_table_lists_the_first_tasks_by_start() -> None:
    page, _ = page_of(view_of(HEFT, [1, 1, 1]))
    cells = page.texts["td"]
    assert cells[:6] == ["n1", "a", "m3", "1", "0 s", "9 s"]
    assert cells[6::6] == ["n3", "n4", "n6", "n2", "n5", "n7", "n9", "n8", "n10"]
    many = view_of([(f"t{i}", 0, 1, i, i + 1, "k") for i in range(500)], [1])
    assert len(page_of(many)[0].texts["td"]) == 200 * 6


def test_every_element_used_by_the_script_is_on_the_page() -> None:
    text = HtmlGantt().render(view_of(HEFT, [1, 1, 1]))
    requested = set(re.findall(r'(?:by|getElementById)\("(\w+)"\)', text))
    there = {attributes.get("id") for _, attributes in Page(text).tags}
    assert requested >= {"chart", "overview", "search", "legend", "tip", "unfold"}
    assert requested <= there


@pytest.mark.parametrize("lines", [[], [("a", 0, 0, 0, 0, "k")]])
def test_page_of_a_plan_without_tasks_is_made(lines: list[tuple[str, int, int, float, float, str]]) -> None:
    _, data = page_of(view_of(lines, [1]))
    assert not any(data["bars"].values())
    assert data["end"] == 0


def test_html_chart_is_registered() -> None:
    assert REPORTS.load("gantt-html") is HtmlGantt
