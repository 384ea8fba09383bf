"""Files that come from outside: which ones an attempt needs on a machine, and how long they take to it.

Names are filled in for the chosen machine and the job (S3 section 6): one template gives another program on
another architecture. A shared file is brought to a host once, for all who are sent there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from weft.engine.state.known import Known, origin
from weft.engine.state.run import Run
from weft.engine.state.state import State
from weft.expressions import Value
from weft.workflow.templates import fill

__all__ = ["OutsideFile", "holders_of_files", "outside_files", "outside_s"]

_MOST_HOLDERS = 64
"""Hosts with a file that are looked at."""


class OutsideFile(NamedTuple):
    """One file that no task makes."""

    source: str
    """Where the user keeps it."""
    size_bytes: float
    """0 where nobody said."""
    shared: bool


_read: WeakKeyDictionary[Known, tuple[int, list[tuple[OutsideFile, bool]]]] = WeakKeyDictionary()
"""Per workflow: the task that was asked about last, its files, and whether their names depend on the machine.
Who looks for a machine asks about one task on many machines."""


def outside_files(run: Run, task: int, machine: int) -> Iterator[OutsideFile]:
    """List the files a task needs on a machine, in the order of its inputs."""
    names: dict[str, Value] = {}
    for file, by_machine in _stated(run.known, task):
        if by_machine and not names:
            chosen = run.instance.machines[machine]
            names = {
                **run.known.graph.context(task),
                "machine.name": chosen.name,
                "machine.arch": chosen.arch or "",
                "machine.os": chosen.os or "",
            }
        yield file._replace(source=fill(file.source, names)) if by_machine else file


def _stated(known: Known, task: int) -> list[tuple[OutsideFile, bool]]:
    """List the files of a task; names that depend on the machine are not filled in yet."""
    asked, found = _read.get(known, (-1, []))
    if asked != task:
        context, found = known.graph.context(task), []
        for item in known.description(task).inputs:
            source = origin(item)
            by_machine = "{machine." in source
            if source:
                name = source if by_machine else fill(source, context)
                found.append((OutsideFile(name, known.size_of(item, task), item.shared), by_machine))
        _read[known] = (task, found)
    return found


def holders_of_files(state: State, run: Run, task: int, machines: Iterable[int]) -> list[int]:
    """List machines to which shared files were brought that a task needs on some of these and lacks there."""
    files = {
        file.source: None
        for machine in machines
        for file in outside_files(run, task, machine)
        if file.shared and file.source not in _there(state, machine)
    }
    hosts = {host: None for file in files for host in islice(state.copies.hosts(file), _MOST_HOLDERS)}
    return [machine for host in hosts for machine in state.machines.on_host(host)]


def outside_s(state: State, run: Run, task: int, machine: int) -> float:
    """Estimate how long the files of a task take to a machine, one after the other; some may be there."""
    link = run.instance.platform.default_link
    there = _there(state, machine)
    return sum(
        link.latency_s + file.size_bytes / link.bandwidth_Bps
        for file in outside_files(run, task, machine)
        if file.source not in there
    )


def _there(state: State, machine: int) -> Collection[str]:
    """Give the shared files that were brought to the host of a machine."""
    return state.copies.at.get(state.machines[machine].host, ())
