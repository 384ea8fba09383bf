"""Entries under ``arrivals``: one workflow, a series, a mix whose order is drawn, a stated order, a trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from weft.documents import Node, Reader
from weft.simulation.reading.keys import ARRIVAL_KEYS
from weft.simulation.reading.traces import read_trace
from weft.simulation.reading.values import read_entry, read_seconds, refuse_together
from weft.simulation.scenario import Arrival, Series, Trace

__all__ = ["MOST_ARRIVALS", "read_arrival"]

MOST_ARRIVALS = 1_000_000
"""One entry stands for at most so many."""

_WHAT = ("workflow", "mix", "order", "trace")
_WHEN = ("at", "every", "poisson")


def read_arrival(reader: Reader, node: Node, folder: PurePath) -> Arrival | Series | Trace | None:
    """Read one entry; None if it says nothing that could arrive."""
    entries = read_entry(reader, node, ARRIVAL_KEYS)
    if not isinstance(node.value, dict):
        return None
    refuse_together(reader, node, entries, _WHAT, "an entry says once what arrives")
    refuse_together(reader, node, entries, _WHEN, "an entry says once when workflows arrive")
    refuse_together(reader, node, entries, ("at", "from"), "`from` begins a series, `at` is one time")
    owner = reader.text(entries["owner"]) if "owner" in entries else None
    if "trace" in entries:
        _refuse_beside(reader, entries, "trace", ("count", *_WHEN, "from"))
        return read_trace(reader, entries["trace"], folder, owner)
    workflows = _workflows(reader, node, entries)
    if not workflows:
        return None
    if len(workflows) == 1 and not {"every", "poisson", "from"} & entries.keys():
        return Arrival(workflow=workflows[0], at_s=read_seconds(reader, entries.get("at"), 0.0), owner=owner)
    return Series(
        workflows=workflows,
        shuffled="mix" in entries,
        from_s=read_seconds(reader, entries.get("from", entries.get("at")), 0.0),
        every_s=read_seconds(reader, entries.get("every", entries.get("poisson")), 0.0),
        poisson="poisson" in entries,
        owner=owner,
    )


def _refuse_beside(reader: Reader, entries: Mapping[str, Node], one: str, others: tuple[str, ...]) -> None:
    for key in others:
        if key in entries:
            reader.complain(entries[key], f"{key!r} beside {one!r}", advice=f"remove {key!r}")


def _workflows(reader: Reader, node: Node, entries: Mapping[str, Node]) -> tuple[str, ...]:
    """List what arrives, each as often as it does."""
    if "workflow" in entries:
        name = reader.text(entries["workflow"])
        count = reader.integer(entries["count"], least=1) if "count" in entries else 1
        parts = [(name, count, entries.get("count", node))]
    elif "mix" in entries or "order" in entries:
        _refuse_beside(reader, entries, "mix" if "mix" in entries else "order", ("count",))
        parts = _mix(reader, entries["mix"]) if "mix" in entries else _order(reader, entries["order"])
    else:
        advice = "add `workflow: FILE`, `mix:`, `order:` or `trace:`"
        reader.complain(node, "an entry that names no workflow", advice=advice)
        return ()
    names: list[str] = []
    for name, count, at in parts:
        if name is None or count is None:
            return ()
        if len(names) + count > MOST_ARRIVALS:
            reader.complain(at, f"more than {MOST_ARRIVALS:,} arrivals", rule="so many at most in one entry")
            return ()
        names += [name] * count
    return tuple(names)


def _mix(reader: Reader, node: Node) -> list[tuple[str | None, int | None, Node]]:
    entries = reader.mapping(node)
    if not entries and isinstance(node.value, dict):
        reader.complain(node, "a mix of no workflows", advice="write {FILE: how many}")
    return [(name, reader.integer(count, least=1), count) for name, count in entries.items()]


def _order(reader: Reader, node: Node) -> list[tuple[str | None, int | None, Node]]:
    items = reader.listing(node)
    if not items:
        reader.complain(node, "an order of no workflows", advice="list the files as they arrive")
    return [(reader.text(item), 1, item) for item in items]
