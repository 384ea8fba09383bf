"""The script of the chart's page: draws what is visible, zooms, moves, finds, explains.

A row whose bars are too narrow to be told apart is drawn as a skyline: per pixel column, the share of
nodes that each kind of task takes.
"""

from __future__ import annotations

__all__ = ["SCRIPT"]

SCRIPT = r"""
"use strict";
(() => {
  const plan = JSON.parse(document.getElementById("plan").textContent);
  const by = (id) => document.getElementById(id);
  const canvas = by("chart"), view = by("view"), space = by("space"), tip = by("tip");
  const pen = canvas.getContext("2d");
  const AXIS = 28, SHARE = 52, GAP = 5, NARROW = 2.5, FAINT = 0.16, FADED = 1e9;
  const end = plan.end > 0 ? plan.end : 1;
  const critical = new Set(plan.critical);
  const HUES = ["#4c9be8", "#f2a33a", "#4fb477", "#e5638b", "#9b7fe0", "#3fb6b8", "#c9b44a", "#a1795c",
    "#7d8ea3", "#d86f45", "#6fa33b", "#c073c9"];
  const color = (kind) => HUES[kind] ?? `hsl(${(kind * 137.5) % 360} 55% 58%)`;

  // Rows: one per machine that does anything; its bars by start, with the latest finish so far for searching.
  const rows = [];
  const rowOf = new Map();
  const bars = plan.bars;
  const addBar = (task, lane, height) => {
    const machine = plan.machine[task];
    let row = rowOf.get(machine);
    if (!row) {
      row = { machine, lanes: plan.lanes[machine], task: [], lane: [], height: [], latest: [] };
      rowOf.set(machine, row);
    }
    row.task.push(task);
    row.lane.push(lane);
    row.height.push(height);
    const before = row.latest.length ? row.latest[row.latest.length - 1] : 0;
    row.latest.push(Math.max(before, plan.finish[task]));
  };
  bars.task.forEach((task, i) => addBar(task, bars.lane[i], bars.height[i]));
  [...rowOf.keys()].sort((a, b) => a - b).forEach((machine) => rows.push(rowOf.get(machine)));
  let total = AXIS;
  for (const row of rows) {
    row.top = total + GAP;
    row.size = row.lanes === 1 ? 22 : Math.min(Math.max(26, row.lanes * 7), 280);
    total = row.top + row.size;
  }
  total += GAP;
  const idle = plan.machines.length - rows.length;
  by("idle").textContent = idle ? `${idle} of ${plan.machines.length} machines are not used.` : "";

  const look = {};
  const readLook = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["card", "ink", "soft", "line", "band", "mark"]) {
      look[name] = style.getPropertyValue("--" + name);
    }
  };
  const font = "12px system-ui, sans-serif";
  pen.font = font;
  const names = plan.machines.map((name) => (name.length > 24 ? name.slice(0, 23) + "…" : name));
  const widthOf = (row) => Math.max(pen.measureText(names[row.machine]).width,
    row.size > 50 ? pen.measureText(plan.nodes[row.machine] + " nodes").width : 0);
  const longest = rows.reduce((most, row) => Math.max(most, widthOf(row)), 40);
  const left = Math.ceil(longest) + 16;

  let width = 0, height = 0, from = 0, until = end, chosen = -1, wanted = null, frame = 0;
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

  const lit = (task) => (chosen < 0 || plan.kind[task] === chosen) && (!wanted || wanted[task] === 1)
    && (!by("critical").checked || critical.has(task));

  const firstBar = (row, time) => {
    let low = 0, high = row.latest.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.latest[middle] < time) low = middle + 1; else high = middle;
    }
    return low;
  };

  const eachVisible = (row, use) => {
    for (let i = firstBar(row, from); i < row.task.length && plan.start[row.task[i]] <= until; i++) {
      if (plan.finish[row.task[i]] >= from) use(i, row.task[i]);
    }
  };

  const drawRow = (row, y) => {
    let bars = 0, seconds = 0;
    eachVisible(row, (i, task) => { bars += 1; seconds += plan.finish[task] - plan.start[task]; });
    const pixel = (until - from) / span();
    if (bars > 50 && seconds < bars * pixel * NARROW) drawCrowd(row, y, pixel); else drawBars(row, y);
    pen.globalAlpha = 1;
  };

  const drawBars = (row, y) => {
    const lane = row.size / row.lanes, gap = lane >= 5 ? 1 : 0;
    eachVisible(row, (i, task) => {
      const x = Math.max(toX(plan.start[task]), left);
      const right = Math.min(toX(plan.finish[task]), left + span());
      const wide = Math.max(right - x - (right - x > 3 ? 1 : 0), 1), bright = lit(task);
      const top = y + row.lane[i] * lane, high = Math.max(row.height[i] * lane - gap, 1);
      pen.globalAlpha = bright ? 1 : FAINT;
      pen.fillStyle = color(plan.kind[task]);
      pen.fillRect(x, top, wide, high);
      if (bright && critical.has(task)) {
        pen.fillStyle = look.mark;
        pen.fillRect(x, top + high - Math.min(3, high / 3), wide, Math.min(3, high / 3));
      }
      if (bright && wide > 28 && high > 11) label(plan.tasks[task], x, top, wide, high);
    });
  };

  // Too many bars to tell apart: per pixel column, the share of lanes that each kind takes, stacked.
  const drawCrowd = (row, y, pixel) => {
    const columns = Math.ceil(span()), layers = new Map();
    eachVisible(row, (i, task) => {
      const layer = lit(task) ? plan.kind[task] : FADED, weight = row.height[i] / row.lanes;
      if (!layers.has(layer)) layers.set(layer, new Float32Array(columns));
      const low = Math.max((plan.start[task] - from) / pixel, 0), shares = layers.get(layer);
      const high = Math.min((plan.finish[task] - from) / pixel, columns);
      for (let c = Math.floor(low); c < high; c++) {
        shares[c] += (Math.min(high, c + 1) - Math.max(low, c)) * weight;
      }
    });
    const filled = new Float32Array(columns);
    for (const layer of [...layers.keys()].sort((a, b) => a - b)) {
      const shares = layers.get(layer);
      pen.globalAlpha = layer === FADED ? FAINT : 1;
      pen.fillStyle = layer === FADED ? look.soft : color(layer);
      for (let c = 0; c < columns; c++) {
        if (shares[c] <= 0) continue;
        const high = Math.min(shares[c], 1 - filled[c]) * row.size;
        pen.fillRect(left + c, y + row.size * (1 - filled[c]) - high, 1, high);
        filled[c] += shares[c];
      }
    }
  };

  const label = (text, x, top, wide, high) => {
    const room = Math.floor((wide - 8) / 6.2);
    if (room < 2) return;
    pen.fillStyle = "#10151d";
    const shown = text.length > room ? text.slice(0, room - 1) + "…" : text;
    pen.fillText(shown, x + 4, top + high / 2 + 4, wide - 6);
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
    const middle = y + Math.min(row.size, 40) / 2 + 4;
    pen.fillStyle = look.ink;
    pen.textAlign = "left";
    pen.fillText(names[row.machine], 8, middle);
    pen.fillStyle = look.soft;
    if (row.size > 50) pen.fillText(plan.nodes[row.machine] + " nodes", 8, middle + 16);
    pen.textAlign = "right";
    pen.fillText(Math.round(plan.busy[row.machine] * 100) + " %", width - 8, middle);
    pen.textAlign = "left";
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
  };
  const later = () => { frame = frame || requestAnimationFrame(draw); };

  const resize = () => {
    const ratio = devicePixelRatio || 1;
    width = view.clientWidth;
    height = Math.min(total, Math.floor(innerHeight * 0.72));
    space.style.height = total + "px";
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
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

  const barAt = (x, y) => {
    if (x < left || x > left + span() || y < AXIS) return -1;
    const depth = y + view.scrollTop, row = rows.find((r) => depth >= r.top && depth < r.top + r.size);
    if (!row) return -1;
    const slack = (until - from) / span(), at = ((depth - row.top) / row.size) * row.lanes;
    const early = toTime(x) - slack, late = toTime(x) + slack;
    for (let i = firstBar(row, early); i < row.task.length && plan.start[row.task[i]] <= late; i++) {
      const inside = at >= row.lane[i] && at < row.lane[i] + row.height[i];
      if (inside && plan.finish[row.task[i]] >= early) return row.task[i];
    }
    return -1;
  };
  const explain = (event) => {
    const box = canvas.getBoundingClientRect();
    const task = barAt(event.clientX - box.left, event.clientY - box.top);
    tip.hidden = task < 0;
    if (task < 0) return;
    const nodes = plan.taken[task], path = critical.has(task) ? ", on the critical path" : "";
    tip.textContent = [plan.tasks[task], `kind ${plan.kinds[plan.kind[task]]}`,
      `on ${plan.machines[plan.machine[task]]}, ${nodes} node${nodes === 1 ? "" : "s"}`,
      `${formatted(plan.start[task])} to ${formatted(plan.finish[task])}`,
      `takes ${formatted(plan.finish[task] - plan.start[task])}${path}`,
    ].join("\n");
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
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
  canvas.addEventListener("pointerup", release);
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
  canvas.addEventListener("keydown", (event) => {
    const part = (until - from) / 5;
    const moves = { "+": () => zoom(0.7, middle()),
      "-": () => zoom(1 / 0.7, middle()), "0": () => show(0, end),
      ArrowLeft: () => show(from - part, until - part), ArrowRight: () => show(from + part, until + part),
      ArrowUp: () => { view.scrollTop -= 40; }, ArrowDown: () => { view.scrollTop += 40; } };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  });
  by("closer").addEventListener("click", () => zoom(0.6, middle()));
  by("wider").addEventListener("click", () => zoom(1 / 0.6, middle()));
  by("all").addEventListener("click", () => show(0, end));
  by("critical").addEventListener("change", later);
  by("critical").disabled = critical.size === 0;
  by("search").addEventListener("input", (event) => {
    const text = event.target.value.trim().toLowerCase();
    wanted = text ? Uint8Array.from(plan.tasks, (name) => (name.toLowerCase().includes(text) ? 1 : 0)) : null;
    by("found").textContent = wanted ? `${wanted.reduce((sum, hit) => sum + hit, 0)} found` : "";
    later();
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
  addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readLook(); later(); });
  readLook();
  resize();
})();
"""
