"use strict";
(async () => {
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
  const plan = JSON.parse(await unpacked());
  const bars = plan.bars;
  const canvas = by("chart");
  const overview = by("overview");
  const view = by("view");
  const space = by("space");
  const tip = by("tip");
  const pen = canvas.getContext("2d");
  const thin = overview.getContext("2d");
  const AXIS = 28;
  const SHARE = 52;
  const GAP = 5;
  const NARROW = 2.5;
  const FAINT = 0.16;
  const FADED = 1e9;
  const end = plan.end > 0 ? plan.end : 1;
  const critical = new Set(plan.critical);
  const HUES = [
    "#4c9be8",
    "#f2a33a",
    "#4fb477",
    "#e5638b",
    "#9b7fe0",
    "#3fb6b8",
    "#c9b44a",
    "#a1795c",
    "#7d8ea3",
    "#d86f45",
    "#6fa33b",
    "#c073c9",
  ];
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
  const machineRow = new Map(
    used.map((machine) => {
      const row = rowOf(plan.machines[machine], plan.lanes[machine], ofMachine.get(machine));
      return [machine, { ...row, machine, nodes: plan.nodes[machine], busy: plan.busy[machine] }];
    }),
  );
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
  let rows = [];
  let total = 0;
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
      const row = machineRow.get(machine);
      const high = row.lanes * 7;
      place(row, row.lanes === 1 ? 22 : Math.min(Math.max(26, high), 280));
    };
    if (!bands.length) used.forEach(single);
    const high = Math.max(
      30,
      Math.min(90, Math.floor((innerHeight * 0.6) / Math.max(bands.length, 1)) - GAP),
    );
    for (const band of bands) {
      place(band, high);
      if (band.open) band.machines.forEach(single);
    }
    total += GAP;
  };
  arrange();
  const idle = plan.machines.length - used.length;
  const drawn = bars.name.length;
  const notes = [];
  if (idle) notes.push(`${idle} of ${plan.machines.length} machines are not used.`);
  if (bars.tasks.length) notes.push(`${drawn} bars stand for ${plan.tasks} tasks: short ones are joined.`);
  by("idle").textContent = notes.join(" ");

  const look = {};
  const readLook = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["card", "ink", "soft", "line", "band", "mark"]) {
      look[name] = style.getPropertyValue(`--${name}`);
    }
  };
  const font = "12px system-ui, sans-serif";
  pen.font = font;
  const cut = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);
  const extent = (row) => (row.machines ? `${row.machines.length} machines` : `${row.nodes} nodes`);
  const longest = [...machineRow.values(), ...bands].reduce(
    (most, row) =>
      Math.max(
        most,
        pen.measureText(cut(row.name)).width + (bands.length ? 14 : 0),
        row.machines || row.lanes > 7 ? pen.measureText(extent(row)).width + (bands.length ? 12 : 0) : 0,
      ),
    pen.measureText("all machines").width,
  );
  const left = Math.ceil(longest) + 16;

  let width = 0;
  let height = 0;
  let from = 0;
  let until = end;
  let chosen = -1;
  let wanted = null;
  let shown = -1;
  let frame = 0;
  const span = () => width - left - SHARE;
  const toX = (time) => left + ((time - from) / (until - from)) * span();
  const toTime = (x) => from + ((x - left) / span()) * (until - from);

  const formatted = (s) => {
    if (s === 0) return "0 s";
    if (s < 1) return `${+(s * 1000).toPrecision(3)} ms`;
    if (s < 120) return `${+s.toPrecision(4)} s`;
    const whole = Math.round(s);
    const parts = [
      [Math.floor(whole / 86400), "d"],
      [Math.floor(whole / 3600) % 24, "h"],
      [Math.floor(whole / 60) % 60, "m"],
      [whole % 60, "s"],
    ];
    const first = parts.findIndex((part) => part[0] > 0);
    return parts
      .slice(first, first + 2)
      .filter((part) => part[0] > 0)
      .map((part) => part.join(""))
      .join(" ");
  };
  const STEPS = [
    10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000,
  ];
  const tickStep = (least) => {
    if (least > 5 && least <= 432000) return STEPS.find((step) => step >= least);
    const unit = least <= 5 ? 1 : 86400;
    const power = 10 ** Math.floor(Math.log10(least / unit));
    return unit * power * [1, 2, 5, 10].find((factor) => unit * power * factor >= least);
  };

  const lit = (bar) =>
    (chosen < 0 || bars.kind[bar] === chosen) &&
    (!wanted || wanted[bar] === 1) &&
    (!by("critical").checked || critical.has(bar));

  const firstBar = (row, time) => {
    let low = 0;
    let high = row.latest.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.latest[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const eachBetween = (row, early, late, use) => {
    for (let i = firstBar(row, early); i < row.bar.length && bars.start[row.bar[i]] <= late; i++) {
      if (bars.finish[row.bar[i]] >= early) use(row.bar[i]);
    }
  };

  const drawRow = (row, y) => {
    let count = 0;
    let seconds = 0;
    if (!row.machines) {
      eachBetween(row, from, until, (bar) => {
        count += 1;
        seconds += bars.finish[bar] - bars.start[bar];
      });
    }
    const pixel = (until - from) / span();
    const crowded = row.machines || (count > 50 && seconds < count * pixel * NARROW);
    if (crowded) drawSkyline(pen, row, from, until, left, y, span(), row.size);
    else drawBars(row, y);
    pen.globalAlpha = 1;
  };

  const drawBars = (row, y) => {
    const lane = row.size / row.lanes;
    const gap = lane >= 5 ? 1 : 0;
    eachBetween(row, from, until, (bar) => {
      const x = Math.max(toX(bars.start[bar]), left);
      const right = Math.min(toX(bars.finish[bar]), left + span());
      const wide = Math.max(right - x - (right - x > 3 ? 1 : 0), 1);
      const bright = lit(bar);
      const top = y + bars.lane[bar] * lane;
      const high = Math.max(bars.height[bar] * lane - gap, 1);
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

  // If there are too many bars to draw: per pixel column, the share of lanes that each kind uses, stacked.
  const drawSkyline = (onto, row, early, late, x, y, wide, high) => {
    const columns = Math.ceil(wide);
    const pixel = (late - early) / columns;
    const layers = new Map();
    eachBetween(row, early, late, (bar) => {
      const layer = lit(bar) ? bars.kind[bar] : FADED;
      const weight = bars.height[bar] / row.lanes;
      if (!layers.has(layer)) layers.set(layer, new Float32Array(columns));
      const low = Math.max((bars.start[bar] - early) / pixel, 0);
      const shares = layers.get(layer);
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
    const short = text.length > room ? `${text.slice(0, room - 1)}…` : text;
    pen.fillText(short, x + 4, top + high / 2 + 4, wide - 6);
  };

  const drawTicks = (each) => {
    const step = tickStep(((until - from) / Math.max(span(), 1)) * 90);
    for (let n = Math.ceil(from / step); n * step <= until; n++) each(n * step, toX(n * step));
  };
  const drawGrid = () => {
    pen.fillStyle = look.line;
    drawTicks((_time, x) => pen.fillRect(Math.round(x), AXIS - 8, 1, height));
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
    const text = `lower bound ${formatted(plan.bound)}`;
    const wide = pen.measureText(text).width + 10;
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
    pen.fillText(`${Math.round(row.busy * 100)} %`, width - 8, middle);
    pen.textAlign = "left";
  };

  // All machines together over the whole plan, and the part that the chart shows.
  const drawOverview = () => {
    const high = 46;
    const ratio = devicePixelRatio || 1;
    thin.setTransform(ratio, 0, 0, ratio, 0, 0);
    thin.clearRect(0, 0, width, high);
    thin.fillStyle = look.band;
    thin.fillRect(left, 0, span(), high);
    drawSkyline(thin, everything, 0, end, left, 0, span(), high);
    thin.font = font;
    thin.fillStyle = look.soft;
    thin.fillText("all machines", 8, high / 2 + 4);
    const low = left + (from / end) * span();
    const right = left + (until / end) * span();
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
    const scroll = view.scrollTop;
    const ratio = devicePixelRatio || 1;
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
  const later = () => {
    frame = frame || requestAnimationFrame(draw);
  };

  const resize = () => {
    const ratio = devicePixelRatio || 1;
    height = Math.min(total, Math.floor(innerHeight * 0.72));
    space.style.height = `${total}px`;
    canvas.style.height = `${height}px`;
    width = view.clientWidth; // read after the heights are set: a scroll bar reduces it
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    overview.style.width = `${width}px`;
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
  const unfoldAll = () => {
    if (bands.length) unfold(bands, !bands.some((band) => band.open));
  };
  by("unfold").hidden = bands.length === 0;

  const rowAt = (y) => {
    const depth = y + view.scrollTop;
    return y < AXIS ? undefined : rows.find((row) => depth >= row.top && depth < row.top + row.size);
  };
  const barAt = (row, x, y) => {
    const slack = (until - from) / span();
    const early = toTime(x) - slack;
    const late = toTime(x) + slack;
    const at = ((y + view.scrollTop - row.top) / row.size) * row.lanes;
    let found = -1;
    eachBetween(row, early, late, (bar) => {
      if (found < 0 && at >= bars.lane[bar] && at < bars.lane[bar] + bars.height[bar]) found = bar;
    });
    return found;
  };
  const barText = (bar) => {
    const nodes = bars.taken[bar];
    const path = critical.has(bar) ? ", on the critical path" : "";
    const kind = plan.kinds[bars.kind[bar]];
    const many = size(bar) > 1;
    return [
      many ? `${size(bar)} tasks from ${bars.name[bar]} on` : bars.name[bar],
      many ? `mostly ${kind}` : `kind ${kind}`,
      `on ${plan.machines[bars.machine[bar]]}, ${nodes} node${nodes === 1 ? "" : "s"}`,
      `${formatted(bars.start[bar])} to ${formatted(bars.finish[bar])}`,
      `takes ${formatted(bars.finish[bar] - bars.start[bar])}${path}`,
    ];
  };
  const bandText = (row, time) => {
    const pixel = (until - from) / span();
    const kinds = new Map();
    let taken = 0;
    let running = 0;
    eachBetween(row, time - pixel, time + pixel, (bar) => {
      const inside = Math.min(bars.finish[bar], time + pixel) - Math.max(bars.start[bar], time - pixel);
      const share = (Math.max(inside, 0) / (2 * pixel)) * bars.height[bar];
      taken += share;
      running += size(bar);
      kinds.set(bars.kind[bar], (kinds.get(bars.kind[bar]) ?? 0) + share);
    });
    const most = [...kinds].sort((a, b) => b[1] - a[1] || a[0] - b[0])[0];
    return [
      row.name,
      `${row.machines.length} machines, ${row.nodes} nodes`,
      `at ${formatted(time)}: ${Math.round((taken / row.nodes) * 100)} % taken by ${running} tasks`,
      ...(most ? [`mostly ${plan.kinds[most[0]]}`] : []),
      "click to see its machines",
    ];
  };
  const explain = (event) => {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const row = x < left + span() ? rowAt(y) : undefined;
    const bar = row && !row.machines && x >= left ? barAt(row, x, y) : -1;
    const band = row?.machines;
    const lines = band ? bandText(row, toTime(Math.max(x, left))) : bar < 0 ? [] : barText(bar);
    canvas.style.cursor = band ? "pointer" : "";
    tip.hidden = lines.length === 0;
    tip.textContent = lines.join("\n");
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  };

  // Finding: bars whose name has the text, in the order of their start; pieces of one task count once.
  let found = [];
  let at = -1;
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
    const band = bandOf.get(bars.machine[shown]);
    const row = machineRow.get(bars.machine[shown]);
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
    if (!held) {
      explain(event);
      return;
    }
    tip.hidden = true;
    const moved = ((event.clientX - held.x) / span()) * (held.until - held.from);
    view.scrollTop = held.scroll - (event.clientY - held.y);
    show(held.from - moved, held.until - moved);
  });
  const release = () => {
    held = null;
    canvas.classList.remove("held");
  };
  canvas.addEventListener("pointerup", (event) => {
    const still = held && Math.hypot(event.clientX - held.x, event.clientY - held.y) < 4;
    release();
    const row = still ? rowAt(event.clientY - canvas.getBoundingClientRect().top) : undefined;
    if (row?.machines) unfold([row], !row.open);
  });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (event.shiftKey) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        const moved = (event.deltaX / span()) * (until - from);
        show(from + moved, until + moved);
      } else {
        const unit = event.deltaMode === 1 ? 16 : 1;
        zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * 0.002))), toTime(event.offsetX));
      }
    },
    { passive: false },
  );

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
    const now = chosenTime(event);
    const half = (until - from) / 2;
    if (first !== null && Math.abs(now - first) <= (end / span()) * 5) show(now - half, now + half);
    first = null;
  });

  const scrollBy = (pixels) => {
    view.scrollTop += pixels;
  };
  const keys = {
    "+": () => zoom(0.7, middle()),
    "=": () => zoom(0.7, middle()),
    "-": () => zoom(1 / 0.7, middle()),
    0: () => show(0, end),
    Home: () => show(0, until - from),
    End: () => show(end - (until - from), end),
    ArrowLeft: () => show(from - (until - from) / 5, until - (until - from) / 5),
    ArrowRight: () => show(from + (until - from) / 5, until + (until - from) / 5),
    ArrowUp: () => scrollBy(-40),
    ArrowDown: () => scrollBy(40),
    PageUp: () => scrollBy(-height),
    PageDown: () => scrollBy(height),
    m: unfoldAll,
    n: () => reveal(1),
    N: () => reveal(-1),
    "/": () => by("search").focus(),
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
    if (event.key === "Escape") {
      event.target.value = "";
      find("");
      canvas.focus();
    }
  });
  plan.kinds.slice(0, 60).forEach((name, kind) => {
    const button = document.createElement("button");
    const swatch = document.createElement("i");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    swatch.style.background = color(kind);
    button.append(swatch, name.length > 40 ? `${name.slice(0, 39)}…` : name);
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
  addEventListener("resize", () => {
    arrange();
    resize();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readLook();
    later();
  });
  readLook();
  resize();
})();
