"""The chart's script in a real browser, where there is one: bands, zoom, search, keys, explanations."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from reports.test_gantt_data import wide_plan
from weft.reports.gantt_html import HtmlGantt

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

DRIVER = """
<script>
setTimeout(() => {
  const by = (id) => document.getElementById(id), chart = by("chart"), seen = {};
  const key = (name) => chart.dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
  const box = chart.getBoundingClientRect();
  const point = (kind, x, y) => chart.dispatchEvent(new PointerEvent(kind,
    { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true }));
  chart.setPointerCapture = () => {};
  const pen = by("overview").getContext("2d");
  const pixels = pen.getImageData(0, 0, by("overview").width, by("overview").height).data;
  seen.drawn = pixels.some((value) => value > 0);
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
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
}, 300);
</script>
</body>
"""


def seen_in_browser(page: str, folder: Path) -> dict[str, object]:
    """Load a page with the driver in it and give what it noted."""
    path = folder / "plan.html"
    path.write_text(page.replace("</body>", DRIVER))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,800"]
    # Nothing is looked up or reported on the way.
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += ["--no-first-run", "--disable-quic"]
    command += [
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=4000",
        "--dump-dom",
        path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    noted: dict[str, object] = json.loads(html.unescape(found[1]))
    return noted


# With CI=true the browser must be there: without one the test runs, and fails.
@pytest.mark.skipif(BROWSER is None and not os.environ.get("CI"), reason="no browser: install chromium")
@pytest.mark.parametrize("tasks", [4_000, 30_000], ids=["plain", "packed"])
def test_a_wide_plan_can_be_read(tasks: int, tmp_path: Path) -> None:
    view = wide_plan(tasks, 200)
    seen = seen_in_browser(HtmlGantt().render(view), tmp_path)
    assert str(seen["band"]).startswith("site0\n25 machines, 25 nodes\nat ")
    assert "100 % taken by" in str(seen["band"])
    # One band of 25 machines of 22 pixels and a gap is unfolded, then folded again by the key.
    assert seen["unfolded"] == int(str(seen["height"])) + 25 * 27
    assert (seen["folded"], seen["button"]) == (seen["height"], "all machines")
    names = [name for name in view.schedule.tasks if "simulate3[1" in name]
    assert seen["found"] == f"{len(names)} found"
    starts = dict(zip(view.schedule.tasks, view.schedule.start_s.tolist(), strict=True))
    told = re.fullmatch(r"1 of (\d+): (\S+), kind simulate3, on node\d+, 1 node, .*", str(seen["first"]))
    assert told
    assert told[1] == str(len(names))
    assert starts[told[2]] == pytest.approx(min(starts[name] for name in names), abs=1e-6)
    assert seen["revealed"] == seen["unfolded"]
    assert seen["none"] == ["0 found", True]
    assert seen["drawn"] is True
    assert seen["kinds"] == 10
