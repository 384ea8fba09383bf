"""The second part of the page's script: what is on the screen, and how it is drawn."""

from __future__ import annotations

__all__ = ["DRAWING"]

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
