"""Entries about machines: perturbations, failures, loads and silences."""

from __future__ import annotations

import math
from collections.abc import Mapping

from weft.documents import Node, Reader
from weft.simulation.reading.keys import FAILURE_KEYS, LOAD_KEYS, PERTURBATION_KEYS, SILENCE_KEYS
from weft.simulation.reading.values import (
    read_entry,
    read_machines,
    read_seconds,
    read_seconds_span,
    read_span,
    refuse_together,
)
from weft.simulation.scenario import SILENT_PARTS, Failure, Load, Perturbation, Silence

__all__ = ["read_failure", "read_load", "read_perturbation", "read_silence"]


def read_perturbation(reader: Reader, node: Node) -> Perturbation:
    """Read machines that become slower, once or again and again."""
    entries = read_entry(reader, node, PERTURBATION_KEYS, ("slowdown",))
    refuse_together(reader, node, entries, ("at", "every"), "it happens once, or again and again")
    again = "every" in entries
    if again and "lasting" not in entries:
        rule = "with `every` the machines would become slower for ever"
        reader.complain(node, "an entry without the key 'lasting'", rule=rule, advice="add `lasting: TIME`")
    for key in ("from", "until"):
        if key in entries and not again:
            advice = "add `every: TIME`, or write `at` and `lasting`"
            reader.complain(entries[key], f"{key!r} without 'every'", advice=advice)
    return Perturbation(
        # Over the whole Grid unless said otherwise (S1 section 13).
        machines=read_machines(reader, node, entries, default="*" if again else None),
        slowdown=read_span(reader, entries.get("slowdown"), least=1.0, default=1.0),
        lasting_s=read_seconds_span(reader, entries.get("lasting"), math.inf),
        at_s=read_seconds(reader, entries.get("from" if again else "at"), 0.0),
        every_s=read_seconds(reader, entries["every"], 1.0, above_0=True) if again else None,
        until_s=read_seconds(reader, entries.get("until"), math.inf),
    )


def read_failure(reader: Reader, node: Node) -> Failure:
    """Read machines that fail, once or again and again."""
    entries = read_entry(reader, node, FAILURE_KEYS)
    refuse_together(reader, node, entries, ("at", "mtbf"), "machines fail once, or again and again")
    again = "mtbf" in entries
    return Failure(
        machines=read_machines(reader, node, entries),
        repair_s=read_seconds(reader, entries.get("repair"), math.inf),
        at_s=read_seconds(reader, entries.get("at"), 0.0),
        mtbf_s=read_seconds(reader, entries["mtbf"], 1.0, above_0=True) if again else None,
    )


def read_load(reader: Reader, node: Node) -> Load:
    """Read competing processes."""
    entries = read_entry(reader, node, LOAD_KEYS)
    processes = reader.integer(entries["processes"], least=1) if "processes" in entries else 1
    at_s = read_seconds(reader, entries.get("at"), 0.0)
    until_s = read_seconds(reader, entries.get("until"), math.inf)
    if until_s < at_s:
        _refuse_backwards(reader, entries, at_s)
    machines = read_machines(reader, node, entries)
    return Load(machines=machines, processes=processes or 1, at_s=at_s, until_s=until_s)


def _refuse_backwards(reader: Reader, entries: Mapping[str, Node], at_s: float) -> None:
    what = f"until {entries['until'].shown()} ends before it begins"
    reader.complain(entries["until"], what, rule=f"must be at least {at_s:g} s, the time `at`")


def read_silence(reader: Reader, node: Node) -> Silence:
    """Read machines that do not answer."""
    entries = read_entry(reader, node, SILENCE_KEYS)
    what = reader.choice(entries["what"], SILENT_PARTS) if "what" in entries else None
    return Silence(
        machines=read_machines(reader, node, entries),
        at_s=read_seconds(reader, entries.get("at"), 0.0),
        lasting_s=read_seconds(reader, entries.get("lasting"), math.inf),
        what=what or SILENT_PARTS[0],
    )
