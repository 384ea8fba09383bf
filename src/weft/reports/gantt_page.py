"""The frame of the chart's page: what is on it and how it looks. Names between ``@@`` are filled in."""

from __future__ import annotations

__all__ = ["PAGE", "STYLE"]

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
