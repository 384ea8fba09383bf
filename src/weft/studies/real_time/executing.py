"""Executing: workflows run for real on machines of this host, in a project that is thrown away afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from weft.backends.layout import Layout
from weft.engine.history.history import History
from weft.engine.journal import Entry
from weft.engine.messages.events import Submitted
from weft.engine.settings import Settings
from weft.engine.state.state import State
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.repository.header import Header
from weft.runtime.execution import Execution, open_project
from weft.runtime.loop import Listener
from weft.workflow.records.workflow import Workflow

__all__ = ["Executed", "executed", "here"]


class Executed(NamedTuple):
    """What happened, by the clock of the execution."""

    state: State
    """Of the engine, after the last event."""
    history: History
    entries: tuple[Entry, ...]
    """The journal."""
    outcome: str


def here(machines: Iterable[Machine], **backend: object) -> tuple[Machine, ...]:
    """Put machines on this computer, each with a directory and a runner of its own."""
    return tuple(replace(machine, backend={"kind": "local", **backend}) for machine in machines)


def executed(
    workflows: Mapping[str, Workflow],
    platform: Platform,
    arrivals: Sequence[tuple[float, str]],
    *,
    project: Path,
    policy: str,
    settings: Settings,
    listeners: Sequence[Listener] = (),
) -> Executed:
    """Run workflows, which arrive at their times, to their end. Their files lie in the project."""
    header = Header(
        policy=policy,
        settings=replace(settings, begins_at_once=True, brings_results=True),
        seed=0,
        planner="heft",
        platform=platform,
        workflows=workflows,
        folders=dict.fromkeys(workflows, "."),
        started_at_s=time.time(),
    )
    history, entries = History(), list[Entry]()
    layout = Layout(project.resolve())
    layout.home.mkdir(parents=True, exist_ok=True)
    lock, database = open_project(layout)
    try:
        execution = Execution.begin(
            layout,
            lock,
            database,
            header,
            [(at_s, Submitted(run=run, workflow=key)) for run, (at_s, key) in enumerate(arrivals)],
            listeners=[
                lambda entry, engine: history.take(entry, engine.state),
                lambda entry, _: entries.append(entry),
                *listeners,
            ],
        )
        try:
            ending = execution.run()
        finally:
            execution.close()
    finally:
        database.close()
        lock.release()
    return Executed(execution.engine.state, history.finish(), tuple(entries), ending.state)
