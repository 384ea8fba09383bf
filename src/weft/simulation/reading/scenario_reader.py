"""Scenario files: what their keys mean. Every problem is found before any is reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TypeVar

from weft.documents import Document, Node, Reader
from weft.simulation.reading.arriving import read_arrival
from weft.simulation.reading.behaving import (
    read_cancellation,
    read_counts,
    read_durations,
    read_ends,
    read_replanning,
    read_requirement,
    read_results,
    read_suspension,
)
from weft.simulation.reading.disturbing import read_failure, read_load, read_perturbation, read_silence
from weft.simulation.reading.keys import SCENARIO_KEYS, VERSION
from weft.simulation.reading.values import read_entry, read_patterns, read_seconds
from weft.simulation.scenario import NETWORKS, Arrival, Durations, Scenario, Series, Trace

__all__ = ["describes_scenario", "read_scenario"]

_Item = TypeVar("_Item")


def describes_scenario(document: Document) -> bool:
    """Say whether a document is a scenario: it has a key of one, and neither tasks nor machines."""
    root = document.root.value if document.root is not None else None
    if not isinstance(root, dict) or "tasks" in root or "machines" in root:
        return False
    return bool(root.keys() & (SCENARIO_KEYS.keys() - {"weft", "name", "description"}))


def read_scenario(document: Document) -> Scenario:
    """Read a scenario, with the traces it names, or raise every problem found."""
    root = document.root
    assert root is not None, "a document that is read as a scenario has a root"
    reader = Reader()
    entries = read_entry(reader, root, SCENARIO_KEYS)
    _read_version(reader, root, entries.get("weft"))
    absent = Node(value=None, place=root.place, path=root.path)

    def at(key: str) -> Node:
        return entries.get(key, absent)

    def each(key: str, read: Callable[[Reader, Node], _Item]) -> tuple[_Item, ...]:
        return tuple(read(reader, item) for item in reader.listing(at(key)))

    def given(key: str, read: Callable[[Reader, Node], _Item], default: _Item) -> _Item:
        return read(reader, entries[key]) if key in entries else default

    if "description" in entries:
        reader.text(entries["description"])
    file = PurePath(document.file) if document.file else PurePath("scenario")
    scenario = Scenario(
        name=given("name", Reader.text, None) or file.stem,
        arrivals=_arrivals(reader, at("arrivals"), file.parent),
        durations=given("durations", read_durations, Durations()),
        perturbations=each("perturbations", read_perturbation),
        failures=each("failures", read_failure),
        loads=each("loads", read_load),
        silences=each("silences", read_silence),
        suspensions=each("suspensions", read_suspension),
        cancellations=each("cancellations", read_cancellation),
        requirements=each("requirements", read_requirement),
        exit_codes=given("exit_codes", read_ends, {}),
        results=given("results", read_results, {}),
        iterations=read_counts(reader, entries["iterations"], least=1) if "iterations" in entries else {},
        lines=read_counts(reader, entries["lines"], least=0) if "lines" in entries else {},
        network=given("network", _network, NETWORKS[0]),
        overhead_per_task_s=read_seconds(reader, entries.get("overhead_per_task"), 0.0),
        stage_latency_s=read_seconds(reader, entries.get("stage_latency"), 0.0),
        profiles=read_counts(reader, entries["profiles"], least=1) if "profiles" in entries else {},
        denied=given("denied", read_patterns, ()),
        replanning_s_per_point=given("replanning", read_replanning, 0.0),
        document=document,
    )
    reader.finish(document)
    return scenario


def _read_version(reader: Reader, root: Node, node: Node | None) -> None:
    if not isinstance(root.value, dict):
        return
    if node is None:
        rule = "the file says which format it follows"
        reader.complain(root, "no version", rule=rule, advice="add `weft: 1`")
    elif isinstance(node.value, bool) or node.value != VERSION:
        advice = f"this weft reads version {VERSION}"
        reader.complain(node, f"version {node.shown()} of the format", advice=advice)


def _network(reader: Reader, node: Node) -> str:
    return reader.choice(node, NETWORKS) or NETWORKS[0]


def _arrivals(reader: Reader, node: Node, folder: PurePath) -> tuple[Arrival | Series | Trace, ...]:
    found = [read_arrival(reader, item, folder) for item in reader.listing(node)]
    return tuple(each for each in found if each is not None)
