"""The first part of the page's script: reads the plan, makes rows of machines and bands, places them."""

from __future__ import annotations

__all__ = ["ROWS"]

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
