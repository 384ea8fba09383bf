"""The third part of the page's script: what the mouse, the keys and the fields do."""

from __future__ import annotations

__all__ = ["HANDLING"]

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
