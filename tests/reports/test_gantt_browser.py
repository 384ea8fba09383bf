"""The chart's script in a real browser: bands, zoom, search, keys, tooltips."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.browser import needs_browser, seen_in_browser
from reports.test_gantt_data import wide_plan
from weft.reports.gantt_html import HtmlGantt

LOOK = """
  const chart = by("chart");
  const key = (name) => chart.dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
  const box = chart.getBoundingClientRect();
  const point = (kind, x, y) => chart.dispatchEvent(new PointerEvent(kind,
    { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true }));
  chart.setPointerCapture = () => {};
  seen.drawn = drawn(chart);
  const tall = () => parseInt(by("space").style.height, 10);
  seen.height = tall();
  point("pointermove", 400, 60);
  seen.band = by("tip").textContent;
  point("pointerdown", 400, 60);
  point("pointerup", 400, 60);
  seen.unfolded = tall();
  key("m");
  seen.folded = tall();
  seen.button = by("unfold").textContent;
  by("search").value = "simulate3[1";
  by("search").dispatchEvent(new Event("input"));
  seen.found = by("found").textContent;
  key("n");
  seen.first = by("found").textContent;
  seen.revealed = tall();
  seen.scrolled = by("view").scrollTop > 0;
  by("search").value = "nothing of that name";
  by("search").dispatchEvent(new Event("input"));
  seen.none = [by("found").textContent, by("next").disabled];
  for (const name of ["+", "-", "0", "Home", "End", "ArrowLeft", "ArrowRight", "PageDown", "PageUp"]) key(name);
  seen.kinds = by("legend").children.length;
"""


@needs_browser
@pytest.mark.parametrize("tasks", [4_000, 30_000], ids=["plain", "packed"])
def test_browser_shows_a_wide_plan_in_readable_size(tasks: int, tmp_path: Path) -> None:
    view = wide_plan(tasks, 200)
    page = tmp_path / "plan.html"
    page.write_text(HtmlGantt().render(view), encoding="utf-8")
    seen = seen_in_browser(page, LOOK, tmp_path / "profile")
    assert str(seen["band"]).startswith("site0\n25 machines, 25 nodes\nat ")
    assert "100 % taken by" in str(seen["band"])
    # One band of 25 machines (22 pixels and a gap each) is unfolded, then folded by the key.
    assert seen["unfolded"] == int(str(seen["height"])) + 25 * 27
    assert (seen["folded"], seen["button"]) == (seen["height"], "all machines")
    names = [name for name in view.schedule.tasks if "simulate3[1" in name]
    assert seen["found"] == f"{len(names)} found"
    starts = dict(zip(view.schedule.tasks, view.schedule.start_s.tolist(), strict=True))
    reported = re.fullmatch(r"1 of (\d+): (\S+), kind simulate3, on node\d+, 1 node, .*", str(seen["first"]))
    assert reported
    assert reported[1] == str(len(names))
    assert starts[reported[2]] == pytest.approx(min(starts[name] for name in names), abs=1e-6)
    assert seen["revealed"] == seen["unfolded"]
    assert seen["none"] == ["0 found", True]
    assert seen["drawn"] is True
    assert seen["kinds"] == 10
