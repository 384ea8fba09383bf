"""What the chart's page carries: the plan as JSON columns, small enough to open at once.

Plans of many tasks are packed (deflate, base64) and their times rounded to what can still be seen; beyond
that, bars are joined to crowds. Pages of ten thousand tasks stay below a megabyte, of any plan below three.

The frame of the chart's page: what is on it and how it looks. Names between ``@@`` are filled in.

The second part of the page's script: what is on the screen, and how it is drawn.

The third part of the page's script: what the mouse, the keys and the fields do.

The first part of the page's script: reads the plan, makes rows of machines and bands, places them.

The script of the chart's page: draws what is visible, zooms, moves, finds, explains.

Its parts share one scope, so their order counts: the plan as rows, drawing, handling. A row whose bars are
too narrow to be told apart, and every band of machines, is drawn as a skyline: per pixel column, the share
of nodes that each kind of task takes.

A Gantt chart as one self-contained page: no network, opens from a file, light or dark.

The schedule is embedded as JSON columns (``gantt_data.py``) and drawn on canvases by the script in
``gantt_script.py``; what is packed and escaped here is only looked at there.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from html import escape

import numpy as np

from weft.reports.gantt_layout import build_bars, busy_shares, group_machines, pack_lanes
from weft.reports.report import GanttView
from weft.units import format_seconds

__all__ = [
    "DRAWING",
    "HANDLING",
    "PAGE",
    "ROWS",
    "SCRIPT",
    "STYLE",
    "HtmlGantt",
    "Packed",
    "pack_plan",
    "plan_columns",
]


_MOST_BARS = 100_000
"""More bars are joined to crowds."""
_EXACT = 2_000
"""Tasks up to which times are written whole."""
_DIGITS = 7
"""Of the makespan: what is written of times in larger plans."""
_PLAIN = 1_000_000
"""Characters up to which the data are not packed."""
_ROWS = 60
"""Machines beyond which bands of them are shown at first."""
_MOST_BANDS = 40

Packed = tuple[str, str]
"""How the data are packed (nothing, or ``deflate``), and the text."""


def pack_plan(view: GanttView) -> Packed:
    """Write the columns as text that cannot end the element it stands in, whatever the names in it are."""
    text = json.dumps(plan_columns(view), separators=(",", ":"), allow_nan=False)
    if len(text) > _PLAIN:
        return "deflate", base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return "", text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def plan_columns(view: GanttView) -> dict[str, object]:
    """Give the columns that the script draws."""
    schedule = view.schedule
    index: dict[str, int] = {}
    kinds = np.array([index.setdefault(name, len(index)) for name in view.kinds], dtype=np.int64)
    lanes = pack_lanes(schedule, view.machine_nodes)
    bars = build_bars(view, lanes, kinds, _MOST_BARS)
    used = np.unique(bars.machine).tolist()
    bands = group_machines(view, used, _MOST_BANDS) if len(used) > _ROWS else []
    bound_s, end_s = view.lower_bound_s, schedule.makespan_s
    decimals = _decimals(end_s) if len(schedule) > _EXACT else None
    drawn = bars.task.tolist()
    critical = set(view.critical)
    return {
        "machines": list(schedule.machines),
        "nodes": list(view.machine_nodes),
        "lanes": list(lanes.count),
        "busy": [round(share, 4) for share in busy_shares(schedule, view.machine_nodes).tolist()],
        "bands": [{"name": band.name, "machines": list(band.machines)} for band in bands],
        "kinds": list(index),
        "tasks": len(schedule),
        "bars": {
            "name": [schedule.tasks[task] for task in drawn],
            "kind": bars.kind.tolist(),
            "machine": bars.machine.tolist(),
            "taken": schedule.nodes[bars.task].tolist(),
            "start": _written(bars.start_s.tolist(), decimals),
            "finish": _written(bars.finish_s.tolist(), decimals),
            "lane": bars.lane.tolist(),
            "height": bars.height.tolist(),
            # Where every bar is one task, nothing need be said of it.
            "tasks": bars.tasks.tolist() if len(bars) < len(lanes.task) else [],
        },
        "critical": [bar for bar, task in enumerate(drawn) if task in critical],
        "bound": bound_s if bound_s is not None and math.isfinite(bound_s) else None,
        "end": end_s,
    }


def _decimals(end_s: float) -> int:
    return _DIGITS - math.ceil(math.log10(end_s)) if end_s > 0 else 0


def _written(times_s: list[float], decimals: int | None) -> list[float]:
    return times_s if decimals is None else [round(time_s, decimals) for time_s in times_s]


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>@@TITLE@@</title>
<style>@@STYLE@@</style>
</head>
<body>
<header>
<h1>@@TITLE@@</h1>
<dl class="facts">@@FACTS@@</dl>
</header>
<main>
<div class="bar" role="toolbar" aria-label="Chart">
<input id="search" type="search" placeholder="Find tasks" aria-label="Find tasks by name"
       title="Find tasks (/); Enter: go to the next one, with Shift to the one before">
<button id="next" type="button" title="Go to the next task found (n)" disabled>next</button>
<label><input id="critical" type="checkbox"> critical path</label>
<span id="found" role="status"></span>
<button id="unfold" type="button" title="Show each machine, or bands of them (m)" hidden>all machines</button>
<button id="closer" type="button" title="Zoom in (+)" aria-label="Zoom in">+</button>
<button id="wider" type="button" title="Zoom out (-)" aria-label="Zoom out">−</button>
<button id="all" type="button" title="Show everything (0)">whole plan</button>
</div>
<div id="legend" class="legend" role="group" aria-label="Kinds of tasks; choose one to highlight it"></div>
<canvas id="overview" role="img"
        aria-label="All machines together over the whole plan; drag to choose the part shown below"></canvas>
<div id="view" class="view">
<div id="space"><canvas id="chart" tabindex="0" role="img" aria-label="@@SUMMARY@@"
                        aria-describedby="keys"></canvas></div>
</div>
<p class="hint" id="keys">Wheel, + and -: zoom. Drag and arrows: move. Shift and wheel: scroll the machines.
0: whole plan. /: find, n and N: next and previous. Click a band of machines to unfold it (m: all of them), a
kind to highlight it.
<span id="idle"></span></p>
<div id="tip" role="status" hidden></div>
<noscript><p>The chart needs JavaScript; the table below does not.</p></noscript>
<details>
<summary>Table of the first tasks</summary>
<table>
<thead><tr><th>task</th><th>kind</th><th>machine</th><th>nodes</th><th>start</th><th>finish</th></tr></thead>
<tbody>
@@TABLE@@
</tbody>
</table>
</details>
</main>
@@MORE@@
<script type="application/json" id="plan" data-packed="@@PACKED@@">@@DATA@@</script>
<script>
@@SCRIPT@@
</script>
</body>
</html>
"""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1d2430; --soft: #5d6878; --line: #dde2ea;
  --band: #f0f2f6; --mark: #c2255c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161d; --card: #1a2029; --ink: #e6eaf1; --soft: #98a3b5; --line: #2d3643;
    --band: #1f2631; --mark: #ff6b9d;
  }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 20px 24px; background: var(--page); color: var(--ink);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 20px; font-weight: 650; margin: 0 0 14px; overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: 10px; margin: 0 0 16px; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px 14px; }
.facts dt { color: var(--soft); font-size: 12px; }
.facts dd { margin: 0; font-size: 16px; font-weight: 600; font-variant-numeric: tabular-nums; }
main { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px; }
.bar { display: flex; flex-wrap: wrap; gap: 10px; align-items: center; margin-bottom: 10px; }
#found { flex: 1 1 160px; color: var(--soft); overflow: hidden; white-space: nowrap;
  text-overflow: ellipsis; }
button:disabled { opacity: .45; cursor: default; }
button, input[type=search] { font: inherit; color: inherit; background: var(--page);
  border: 1px solid var(--line); border-radius: 6px; padding: 4px 10px; }
button { cursor: pointer; min-width: 32px; }
button:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--mark); outline-offset: 1px; }
.legend { display: flex; flex-wrap: wrap; gap: 6px; margin-bottom: 10px; max-height: 96px; overflow-y: auto; }
.legend button { display: flex; align-items: center; gap: 6px; padding: 2px 10px 2px 6px; font-size: 13px; }
.legend i { width: 12px; height: 12px; border-radius: 3px; }
.legend button[aria-pressed=true] { border-color: var(--mark); box-shadow: 0 0 0 1px var(--mark); }
.view { overflow-y: auto; overflow-x: hidden; max-height: 72vh; border: 1px solid var(--line);
  border-radius: 6px; }
#overview { display: block; width: 100%; height: 46px; margin: 0 1px 8px; cursor: col-resize;
  touch-action: none; }
#chart { position: sticky; top: 0; display: block; width: 100%; cursor: grab; touch-action: none; }
#chart.held { cursor: grabbing; }
.hint { color: var(--soft); font-size: 12px; margin: 8px 0; }
#tip { position: fixed; z-index: 2; pointer-events: none; max-width: 420px;
  background: var(--ink); color: var(--card); border-radius: 6px; padding: 7px 10px; font-size: 12.5px;
  white-space: pre-line; overflow-wrap: anywhere; }
#tip::first-line { font-weight: 650; }
details { margin-top: 6px; }
summary { cursor: pointer; color: var(--soft); }
table { border-collapse: collapse; margin-top: 8px; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 2px 14px 2px 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 500; }
"""


DRAWING = r"""
  const look = {};
  const readLook = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["card", "ink", "soft", "line", "band", "mark"]) {
      look[name] = style.getPropertyValue("--" + name);
    }
  };
  const font = "12px system-ui, sans-serif";
  pen.font = font;
  const cut = (name) => (name.length > 24 ? name.slice(0, 23) + "…" : name);
  const extent = (row) => (row.machines ? `${row.machines.length} machines` : `${row.nodes} nodes`);
  const longest = [...machineRow.values(), ...bands].reduce((most, row) => Math.max(most,
    pen.measureText(cut(row.name)).width + (bands.length ? 14 : 0),
    row.machines || row.lanes > 7 ? pen.measureText(extent(row)).width + (bands.length ? 12 : 0) : 0),
    pen.measureText("all machines").width);
  const left = Math.ceil(longest) + 16;

  let width = 0, height = 0, from = 0, until = end, chosen = -1, wanted = null, shown = -1, frame = 0;
  const span = () => width - left - SHARE;
  const toX = (time) => left + ((time - from) / (until - from)) * span();
  const toTime = (x) => from + ((x - left) / span()) * (until - from);

  const formatted = (s) => {
    if (s === 0) return "0 s";
    if (s < 1) return `${+(s * 1000).toPrecision(3)} ms`;
    if (s < 120) return `${+s.toPrecision(4)} s`;
    const whole = Math.round(s);
    const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"],
      [Math.floor(whole / 60) % 60, "m"], [whole % 60, "s"]];
    const first = parts.findIndex((part) => part[0] > 0);
    return parts.slice(first, first + 2).filter((part) => part[0] > 0).map((part) => part.join("")).join(" ");
  };
  const STEPS = [10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600,
    7200, 10800, 21600, 43200, 86400, 172800, 432000];
  const tickStep = (least) => {
    if (least > 5 && least <= 432000) return STEPS.find((step) => step >= least);
    const unit = least <= 5 ? 1 : 86400, power = 10 ** Math.floor(Math.log10(least / unit));
    return unit * power * [1, 2, 5, 10].find((factor) => unit * power * factor >= least);
  };

  const lit = (bar) => (chosen < 0 || bars.kind[bar] === chosen) && (!wanted || wanted[bar] === 1)
    && (!by("critical").checked || critical.has(bar));

  const firstBar = (row, time) => {
    let low = 0, high = row.latest.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.latest[middle] < time) low = middle + 1; else high = middle;
    }
    return low;
  };
  const eachBetween = (row, early, late, use) => {
    for (let i = firstBar(row, early); i < row.bar.length && bars.start[row.bar[i]] <= late; i++) {
      if (bars.finish[row.bar[i]] >= early) use(row.bar[i]);
    }
  };

  const drawRow = (row, y) => {
    let count = 0, seconds = 0;
    if (!row.machines) {
      eachBetween(row, from, until, (bar) => { count += 1; seconds += bars.finish[bar] - bars.start[bar]; });
    }
    const pixel = (until - from) / span();
    const crowded = row.machines || (count > 50 && seconds < count * pixel * NARROW);
    if (crowded) drawCrowd(pen, row, from, until, left, y, span(), row.size); else drawBars(row, y);
    pen.globalAlpha = 1;
  };

  const drawBars = (row, y) => {
    const lane = row.size / row.lanes, gap = lane >= 5 ? 1 : 0;
    eachBetween(row, from, until, (bar) => {
      const x = Math.max(toX(bars.start[bar]), left);
      const right = Math.min(toX(bars.finish[bar]), left + span());
      const wide = Math.max(right - x - (right - x > 3 ? 1 : 0), 1), bright = lit(bar);
      const top = y + bars.lane[bar] * lane, high = Math.max(bars.height[bar] * lane - gap, 1);
      pen.globalAlpha = bright ? 1 : FAINT;
      pen.fillStyle = color(bars.kind[bar]);
      pen.fillRect(x, top, wide, high);
      if (bright && critical.has(bar)) {
        pen.fillStyle = look.mark;
        pen.fillRect(x, top + high - Math.min(3, high / 3), wide, Math.min(3, high / 3));
      }
      if (bright && wide > 28 && high > 11) label(title(bar), x, top, wide, high);
      if (bar === shown) {
        pen.globalAlpha = 1;
        pen.strokeStyle = look.ink;
        pen.lineWidth = 2;
        pen.strokeRect(x - 1, top - 1, wide + 2, high + 2);
        pen.lineWidth = 1;
      }
    });
  };
  const title = (bar) => (size(bar) > 1 ? `${size(bar)} tasks` : bars.name[bar]);

  // Too many bars to tell apart: per pixel column, the share of lanes that each kind takes, stacked.
  const drawCrowd = (onto, row, early, late, x, y, wide, high) => {
    const columns = Math.ceil(wide), pixel = (late - early) / columns, layers = new Map();
    eachBetween(row, early, late, (bar) => {
      const layer = lit(bar) ? bars.kind[bar] : FADED, weight = bars.height[bar] / row.lanes;
      if (!layers.has(layer)) layers.set(layer, new Float32Array(columns));
      const low = Math.max((bars.start[bar] - early) / pixel, 0), shares = layers.get(layer);
      const right = Math.min((bars.finish[bar] - early) / pixel, columns);
      for (let c = Math.floor(low); c < right; c++) {
        shares[c] += (Math.min(right, c + 1) - Math.max(low, c)) * weight;
      }
    });
    const filled = new Float32Array(columns);
    for (const layer of [...layers.keys()].sort((a, b) => a - b)) {
      const shares = layers.get(layer);
      onto.globalAlpha = layer === FADED ? FAINT : 1;
      onto.fillStyle = layer === FADED ? look.soft : color(layer);
      for (let c = 0; c < columns; c++) {
        if (shares[c] <= 0) continue;
        const part = Math.min(shares[c], 1 - filled[c]) * high;
        onto.fillRect(x + c, y + high * (1 - filled[c]) - part, 1, part);
        filled[c] = Math.min(1, filled[c] + shares[c]);
      }
    }
    onto.globalAlpha = 1;
  };

  const label = (text, x, top, wide, high) => {
    const room = Math.floor((wide - 8) / 6.2);
    if (room < 2) return;
    pen.fillStyle = "#10151d";
    const short = text.length > room ? text.slice(0, room - 1) + "…" : text;
    pen.fillText(short, x + 4, top + high / 2 + 4, wide - 6);
  };

  const drawTicks = (each) => {
    const step = tickStep(((until - from) / Math.max(span(), 1)) * 90);
    for (let n = Math.ceil(from / step); n * step <= until; n++) each(n * step, toX(n * step));
  };
  const drawGrid = () => {
    pen.fillStyle = look.line;
    drawTicks((time, x) => pen.fillRect(Math.round(x), AXIS - 8, 1, height));
  };
  const drawAxis = () => {
    pen.fillStyle = look.card;
    pen.fillRect(0, 0, width, AXIS);
    drawTicks((time, x) => {
      pen.fillStyle = look.line;
      pen.fillRect(Math.round(x), AXIS - 8, 1, 8);
      pen.fillStyle = look.soft;
      pen.fillText(formatted(time), x + 4, AXIS - 11);
    });
  };

  const drawBound = () => {
    if (plan.bound === null || plan.bound < from || plan.bound > until) return;
    const x = Math.round(toX(plan.bound)) + 0.5;
    pen.strokeStyle = look.mark;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(x, AXIS - 4);
    pen.lineTo(x, height);
    pen.stroke();
    pen.setLineDash([]);
    const text = "lower bound " + formatted(plan.bound), wide = pen.measureText(text).width + 10;
    const corner = x + wide > left + span() ? x - wide : x;
    pen.fillStyle = look.mark;
    pen.fillRect(corner, AXIS, wide, 17);
    pen.fillStyle = look.card;
    pen.fillText(text, corner + 5, AXIS + 13);
  };

  const drawNames = (row, y) => {
    const two = row.size > (row.machines ? 35 : 50);
    const middle = y + Math.min(row.size, 40) / 2 + (two && row.machines ? -2 : 4);
    const before = row.machines ? (row.open ? "▾ " : "▸ ") : bands.length ? "   " : "";
    pen.fillStyle = look.ink;
    pen.textAlign = "left";
    pen.fillText(before + cut(row.name), 8, middle);
    pen.fillStyle = look.soft;
    if (two) pen.fillText(extent(row), bands.length ? 20 : 8, middle + 16);
    pen.textAlign = "right";
    pen.fillText(Math.round(row.busy * 100) + " %", width - 8, middle);
    pen.textAlign = "left";
  };

  // All machines together over the whole plan, and the part that the chart shows.
  const drawOverview = () => {
    const high = 46, ratio = devicePixelRatio || 1;
    thin.setTransform(ratio, 0, 0, ratio, 0, 0);
    thin.clearRect(0, 0, width, high);
    thin.fillStyle = look.band;
    thin.fillRect(left, 0, span(), high);
    drawCrowd(thin, everything, 0, end, left, 0, span(), high);
    thin.font = font;
    thin.fillStyle = look.soft;
    thin.fillText("all machines", 8, high / 2 + 4);
    const low = left + (from / end) * span(), right = left + (until / end) * span();
    thin.globalAlpha = 0.62;
    thin.fillStyle = look.card;
    thin.fillRect(left, 0, low - left, high);
    thin.fillRect(right, 0, left + span() - right, high);
    thin.globalAlpha = 1;
    thin.strokeStyle = look.mark;
    thin.strokeRect(low + 0.5, 0.5, Math.max(right - low - 1, 2), high - 1);
  };

  const draw = () => {
    frame = 0;
    const scroll = view.scrollTop, ratio = devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = font;
    const visible = rows.filter((row) => row.top - scroll < height && row.top + row.size - scroll > AXIS);
    pen.fillStyle = look.band;
    for (const row of visible) pen.fillRect(left, row.top - scroll, span(), row.size);
    pen.save();
    pen.beginPath();
    pen.rect(left, AXIS, span(), height);
    pen.clip();
    drawGrid();
    for (const row of visible) drawRow(row, row.top - scroll);
    drawBound();
    pen.restore();
    for (const row of visible) drawNames(row, row.top - scroll);
    drawAxis();
    drawOverview();
  };
  const later = () => { frame = frame || requestAnimationFrame(draw); };
"""


HANDLING = r"""
  const resize = () => {
    const ratio = devicePixelRatio || 1;
    height = Math.min(total, Math.floor(innerHeight * 0.72));
    space.style.height = total + "px";
    canvas.style.height = height + "px";
    width = view.clientWidth;  // read after the heights are set: a scroll bar takes its part of it
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    overview.style.width = width + "px";
    overview.width = Math.round(width * ratio);
    overview.height = Math.round(46 * ratio);
    later();
  };
  const show = (low, high) => {
    const length = Math.min(Math.max(high - low, end * 1e-7), end);
    from = Math.min(Math.max(low, 0), end - length);
    until = from + length;
    later();
  };
  const zoom = (factor, at) => show(at - (at - from) * factor, at + (until - at) * factor);
  const middle = () => (from + until) / 2;

  const unfold = (some, open) => {
    for (const band of some) band.open = open;
    by("unfold").textContent = bands.some((band) => band.open) ? "bands of machines" : "all machines";
    arrange();
    resize();
  };
  const unfoldAll = () => { if (bands.length) unfold(bands, !bands.some((band) => band.open)); };
  by("unfold").hidden = bands.length === 0;

  const rowAt = (y) => {
    const depth = y + view.scrollTop;
    return y < AXIS ? undefined : rows.find((row) => depth >= row.top && depth < row.top + row.size);
  };
  const barAt = (row, x, y) => {
    const slack = (until - from) / span(), early = toTime(x) - slack, late = toTime(x) + slack;
    const at = ((y + view.scrollTop - row.top) / row.size) * row.lanes;
    let found = -1;
    eachBetween(row, early, late, (bar) => {
      if (found < 0 && at >= bars.lane[bar] && at < bars.lane[bar] + bars.height[bar]) found = bar;
    });
    return found;
  };
  const barText = (bar) => {
    const nodes = bars.taken[bar], path = critical.has(bar) ? ", on the critical path" : "";
    const kind = plan.kinds[bars.kind[bar]], many = size(bar) > 1;
    return [many ? `${size(bar)} tasks from ${bars.name[bar]} on` : bars.name[bar],
      many ? `mostly ${kind}` : `kind ${kind}`,
      `on ${plan.machines[bars.machine[bar]]}, ${nodes} node${nodes === 1 ? "" : "s"}`,
      `${formatted(bars.start[bar])} to ${formatted(bars.finish[bar])}`,
      `takes ${formatted(bars.finish[bar] - bars.start[bar])}${path}`];
  };
  const bandText = (row, time) => {
    const pixel = (until - from) / span(), kinds = new Map();
    let taken = 0, running = 0;
    eachBetween(row, time - pixel, time + pixel, (bar) => {
      const inside = Math.min(bars.finish[bar], time + pixel) - Math.max(bars.start[bar], time - pixel);
      const share = (Math.max(inside, 0) / (2 * pixel)) * bars.height[bar];
      taken += share;
      running += size(bar);
      kinds.set(bars.kind[bar], (kinds.get(bars.kind[bar]) ?? 0) + share);
    });
    const most = [...kinds].sort((a, b) => b[1] - a[1] || a[0] - b[0])[0];
    return [row.name, `${row.machines.length} machines, ${row.nodes} nodes`,
      `at ${formatted(time)}: ${Math.round((taken / row.nodes) * 100)} % taken by ${running} tasks`,
      ...(most ? [`mostly ${plan.kinds[most[0]]}`] : []), "click to see its machines"];
  };
  const explain = (event) => {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const row = x < left + span() ? rowAt(y) : undefined;
    const bar = row && !row.machines && x >= left ? barAt(row, x, y) : -1;
    const band = row && row.machines;
    const lines = band ? bandText(row, toTime(Math.max(x, left))) : bar < 0 ? [] : barText(bar);
    canvas.style.cursor = band ? "pointer" : "";
    tip.hidden = lines.length === 0;
    tip.textContent = lines.join("\n");
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  };

  // Finding: bars whose name has the text, in the order of their start; pieces of one task count once.
  let found = [], at = -1;
  const find = (text) => {
    wanted = text ? Uint8Array.from(bars.name, (name) => (name.toLowerCase().includes(text) ? 1 : 0)) : null;
    const again = (bar) => bar > 0 && bars.name[bar - 1] === bars.name[bar] && wanted[bar - 1] === 1;
    found = wanted ? byStart([...wanted.keys()].filter((bar) => wanted[bar] === 1 && !again(bar))) : [];
    at = -1;
    shown = -1;
    by("found").textContent = wanted ? `${found.length} found` : "";
    by("next").disabled = found.length === 0;
    later();
  };
  const reveal = (step) => {
    if (!found.length) return;
    at = (at + step + found.length) % found.length;
    shown = found[at];
    const band = bandOf.get(bars.machine[shown]), row = machineRow.get(bars.machine[shown]);
    if (band && !band.open) unfold([band], true);
    const length = bars.finish[shown] - bars.start[shown];
    const wide = Math.max(Math.min(until - from, length * 25), length * 4);
    if (bars.start[shown] < from || bars.finish[shown] > until || length < (until - from) / 25) {
      show(bars.start[shown] + (length - wide) / 2, bars.start[shown] + (length + wide) / 2);
    }
    if (row.top < view.scrollTop + AXIS || row.top + row.size > view.scrollTop + height) {
      view.scrollTop = row.top - height / 2;
    }
    by("found").textContent = `${at + 1} of ${found.length}: ${barText(shown).join(", ")}`;
    later();
  };

  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, from, until, scroll: view.scrollTop };
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("held");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) { explain(event); return; }
    tip.hidden = true;
    const moved = ((event.clientX - held.x) / span()) * (held.until - held.from);
    view.scrollTop = held.scroll - (event.clientY - held.y);
    show(held.from - moved, held.until - moved);
  });
  const release = () => { held = null; canvas.classList.remove("held"); };
  canvas.addEventListener("pointerup", (event) => {
    const still = held && Math.hypot(event.clientX - held.x, event.clientY - held.y) < 4;
    release();
    const row = still ? rowAt(event.clientY - canvas.getBoundingClientRect().top) : undefined;
    if (row && row.machines) unfold([row], !row.open);
  });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    if (event.shiftKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const moved = (event.deltaX / span()) * (until - from);
      show(from + moved, until + moved);
    } else {
      const unit = event.deltaMode === 1 ? 16 : 1;
      zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * 0.002))), toTime(event.offsetX));
    }
  }, { passive: false });

  // In the overview a drag chooses a part, a click moves the part that is shown.
  let first = null;
  const chosenTime = (event) => {
    const x = event.clientX - overview.getBoundingClientRect().left;
    return Math.min(Math.max(((x - left) / span()) * end, 0), end);
  };
  overview.addEventListener("pointerdown", (event) => {
    first = chosenTime(event);
    overview.setPointerCapture(event.pointerId);
  });
  overview.addEventListener("pointermove", (event) => {
    if (first === null) return;
    const now = chosenTime(event);
    if (Math.abs(now - first) > (end / span()) * 5) show(Math.min(first, now), Math.max(first, now));
  });
  overview.addEventListener("pointerup", (event) => {
    const now = chosenTime(event), half = (until - from) / 2;
    if (first !== null && Math.abs(now - first) <= (end / span()) * 5) show(now - half, now + half);
    first = null;
  });

  const scrollBy = (pixels) => { view.scrollTop += pixels; };
  const keys = {
    "+": () => zoom(0.7, middle()), "=": () => zoom(0.7, middle()), "-": () => zoom(1 / 0.7, middle()),
    "0": () => show(0, end), Home: () => show(0, until - from), End: () => show(end - (until - from), end),
    ArrowLeft: () => show(from - (until - from) / 5, until - (until - from) / 5),
    ArrowRight: () => show(from + (until - from) / 5, until + (until - from) / 5),
    ArrowUp: () => scrollBy(-40), ArrowDown: () => scrollBy(40),
    PageUp: () => scrollBy(-height), PageDown: () => scrollBy(height),
    m: unfoldAll, n: () => reveal(1), N: () => reveal(-1), "/": () => by("search").focus(),
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  by("closer").addEventListener("click", () => zoom(0.6, middle()));
  by("wider").addEventListener("click", () => zoom(1 / 0.6, middle()));
  by("all").addEventListener("click", () => show(0, end));
  by("unfold").addEventListener("click", unfoldAll);
  by("next").addEventListener("click", () => reveal(1));
  by("critical").addEventListener("change", later);
  by("critical").disabled = critical.size === 0;
  by("search").addEventListener("input", (event) => find(event.target.value.trim().toLowerCase()));
  by("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") reveal(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { event.target.value = ""; find(""); canvas.focus(); }
  });
  plan.kinds.slice(0, 60).forEach((name, kind) => {
    const button = document.createElement("button"), swatch = document.createElement("i");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    swatch.style.background = color(kind);
    button.append(swatch, name.length > 40 ? name.slice(0, 39) + "…" : name);
    button.addEventListener("click", () => {
      chosen = chosen === kind ? -1 : kind;
      [...by("legend").children].forEach((other, i) => {
        other.setAttribute("aria-pressed", String(i === chosen));
      });
      later();
    });
    by("legend").append(button);
  });
  view.addEventListener("scroll", later);
  addEventListener("resize", () => { arrange(); resize(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readLook(); later(); });
  readLook();
  resize();
"""


ROWS = r"""
  const by = (id) => document.getElementById(id);
  const unpacked = async () => {
    const element = by("plan");
    if (element.dataset.packed !== "deflate") return element.textContent;
    const bytes = Uint8Array.from(atob(element.textContent), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };
  if (by("plan").dataset.packed && !globalThis.DecompressionStream) {
    by("idle").textContent = "This browser is too old to unpack the plan.";
    return;
  }
  const plan = JSON.parse(await unpacked()), bars = plan.bars;
  const canvas = by("chart"), overview = by("overview"), view = by("view"), space = by("space");
  const tip = by("tip");
  const pen = canvas.getContext("2d"), thin = overview.getContext("2d");
  const AXIS = 28, SHARE = 52, GAP = 5, NARROW = 2.5, FAINT = 0.16, FADED = 1e9;
  const end = plan.end > 0 ? plan.end : 1;
  const critical = new Set(plan.critical);
  const HUES = ["#4c9be8", "#f2a33a", "#4fb477", "#e5638b", "#9b7fe0", "#3fb6b8", "#c9b44a", "#a1795c",
    "#7d8ea3", "#d86f45", "#6fa33b", "#c073c9"];
  const color = (kind) => HUES[kind] ?? `hsl(${(kind * 137.5) % 360} 55% 58%)`;
  const size = (bar) => bars.tasks[bar] ?? 1;

  // A row has its bars by start, with the latest finish so far for searching.
  const rowOf = (name, lanes, chosen) => {
    const row = { name, lanes, bar: chosen, latest: [], seconds: 0 };
    let latest = 0;
    for (const bar of chosen) {
      latest = Math.max(latest, bars.finish[bar]);
      row.latest.push(latest);
      row.seconds += (bars.finish[bar] - bars.start[bar]) * bars.height[bar];
    }
    return row;
  };
  const byStart = (some) => some.sort((a, b) => bars.start[a] - bars.start[b] || a - b);
  const ofMachine = new Map();
  bars.machine.forEach((machine, bar) => {
    if (!ofMachine.has(machine)) ofMachine.set(machine, []);
    ofMachine.get(machine).push(bar);
  });
  const used = [...ofMachine.keys()].sort((a, b) => a - b);
  const machineRow = new Map(used.map((machine) => {
    const row = rowOf(plan.machines[machine], plan.lanes[machine], ofMachine.get(machine));
    return [machine, { ...row, machine, nodes: plan.nodes[machine], busy: plan.busy[machine] }];
  }));
  const joined = (name, machines) => {
    const lanes = machines.reduce((sum, machine) => sum + plan.lanes[machine], 0);
    const row = rowOf(name, lanes, byStart(machines.flatMap((machine) => ofMachine.get(machine))));
    const nodes = machines.reduce((sum, machine) => sum + plan.nodes[machine], 0);
    return { ...row, machines, nodes, busy: row.seconds / (nodes * end), open: false };
  };
  const bands = plan.bands.map((band) => joined(band.name, band.machines));
  const bandOf = new Map(bands.flatMap((band) => band.machines.map((machine) => [machine, band])));
  const everything = joined("all", used);

  // Rows from top to bottom: machines, or bands with the machines of those that are open.
  let rows = [], total = 0;
  const arrange = () => {
    rows = [];
    total = AXIS;
    const place = (row, high) => {
      row.top = total + GAP;
      row.size = high;
      total = row.top + high;
      rows.push(row);
    };
    const single = (machine) => {
      const row = machineRow.get(machine), high = row.lanes * 7;
      place(row, row.lanes === 1 ? 22 : Math.min(Math.max(26, high), 280));
    };
    if (!bands.length) used.forEach(single);
    const high = Math.max(30, Math.min(90, Math.floor(innerHeight * 0.6 / Math.max(bands.length, 1)) - GAP));
    for (const band of bands) {
      place(band, high);
      if (band.open) band.machines.forEach(single);
    }
    total += GAP;
  };
  arrange();
  const idle = plan.machines.length - used.length, drawn = bars.name.length;
  const notes = [];
  if (idle) notes.push(`${idle} of ${plan.machines.length} machines are not used.`);
  if (bars.tasks.length) notes.push(`${drawn} bars stand for ${plan.tasks} tasks: short ones are joined.`);
  by("idle").textContent = notes.join(" ");
"""


SCRIPT = f"""
"use strict";
(async () => {{
{ROWS}
{DRAWING}
{HANDLING}
}})();
"""


_TABLE_ROWS = 200


class HtmlGantt:
    """The chart as a page."""

    name = "gantt-html"
    title = "Gantt chart as a self-contained page"
    extension = ".html"

    def render(self, view: GanttView, *, style: str = "", more: str = "") -> str:
        """Write the page; ``more`` is HTML to stand below the chart, with ``style`` of its own."""
        packed, data = pack_plan(view)
        parts = {
            "TITLE": escape(view.title),
            "STYLE": STYLE + style,
            "FACTS": _facts(view),
            "SUMMARY": escape(_summary(view)),
            "TABLE": _table(view),
            "PACKED": packed,
            "DATA": data,
            "MORE": more,
            "SCRIPT": SCRIPT,
        }
        # Joined piece by piece, so that a name that looks like a placeholder is never taken for one.
        pieces = PAGE.split("@@")
        return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _facts(view: GanttView) -> str:
    cards = (f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in view.facts)
    return "".join(cards)


def _summary(view: GanttView) -> str:
    schedule = view.schedule
    return (
        f"Gantt chart of {len(schedule):,} tasks on {schedule.machines_used:,} of {len(schedule.machines):,} "
        f"machines, {format_seconds(schedule.makespan_s)} long"
    )


def _table(view: GanttView) -> str:
    """Write the first tasks by start as a table, for readers without script or sight of the chart."""
    schedule = view.schedule
    rows = []
    for task in schedule.start_s.argsort(kind="stable")[:_TABLE_ROWS].tolist():
        cells = [
            schedule.tasks[task],
            view.kinds[task],
            schedule.machines[schedule.machine[task]],
            str(schedule.nodes[task]),
            format_seconds(float(schedule.start_s[task])),
            format_seconds(float(schedule.finish_s[task])),
        ]
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return "\n".join(rows)
