"""Following: a simulation to its end, with its history.

Executing: workflows run for real on machines of this host, in a project that is thrown away afterwards.

Searches: one run of the genetic search, to its own end or until it has found what is known to be best.

A search that is interrupted gives the best so far. That is no run of an experiment: here the interruption is
raised again, so that nobody writes it down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.backends.layout import ProjectLayout
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.messages import Submitted
from weft.engine.settings import EngineSettings
from weft.engine.state.state import EngineState
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.repository.journal import JournalHeader
from weft.runtime.driver import Listener
from weft.runtime.execution import Execution, open_project
from weft.runtime.simulation import Simulation
from weft.search.genetic import GeneticAlgorithm, GeneticSettings
from weft.search.optimiser import NO_LIMIT, Evaluate, SearchResult, SearchState
from weft.search.space import Space
from weft.workflow.workflow import Workflow

__all__ = ["LocalRun", "SimulationHistory", "place_locally", "run_locally", "run_search", "run_simulation"]


class SimulationHistory(NamedTuple):
    """The engine after the last event, and what happened."""

    engine: Engine
    history: History


def run_simulation(
    simulation: Simulation, check: Callable[[Engine], None] | None = None
) -> SimulationHistory:
    """Simulate, and follow the journal entry by entry; ``check`` looks at the engine after each."""
    history, waiting = History(), list[JournalEntry]()

    def take(engine: Engine) -> None:
        # The history reads names from the state as it is after the entry.
        history.take(waiting.pop(), engine.state)
        if check is not None:
            check(engine)

    engine = simulation.run(record=waiting.append, check=take)
    return SimulationHistory(engine, history.finish())


class LocalRun(NamedTuple):
    """What happened, by the clock of the execution."""

    state: EngineState
    """Of the engine, after the last event."""
    history: History
    entries: tuple[JournalEntry, ...]
    """The journal."""
    outcome: str


def place_locally(machines: Iterable[Machine], **backend: object) -> tuple[Machine, ...]:
    """Put machines on this computer, each with a directory and a runner of its own."""
    return tuple(replace(machine, backend={"kind": "local", **backend}) for machine in machines)


def run_locally(
    workflows: Mapping[str, Workflow],
    platform: Platform,
    arrivals: Sequence[tuple[float, str]],
    *,
    project: Path,
    policy: str,
    settings: EngineSettings,
    listeners: Sequence[Listener] = (),
) -> LocalRun:
    """Run workflows, which arrive at their times, to their end. Their files lie in the project."""
    header = JournalHeader(
        policy=policy,
        settings=replace(settings, begins_at_once=True, brings_results=True),
        seed=0,
        planner="heft",
        platform=platform,
        workflows=workflows,
        folders=dict.fromkeys(workflows, "."),
        started_at_s=time.time(),
    )
    history, entries = History(), list[JournalEntry]()
    layout = ProjectLayout(project.resolve())
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
    return LocalRun(execution.engine.state, history.finish(), tuple(entries), ending.state)


def run_search(
    settings: GeneticSettings,
    space: Space,
    evaluate: Evaluate,
    rng: np.random.Generator,
    optimum: float | None = None,
) -> SearchResult:
    """Search; it ends early with the generation that reaches the optimum, where that is given."""
    search = GeneticAlgorithm(settings=settings)
    if optimum is None:
        found = search.optimise(space, evaluate, rng=rng, limit=NO_LIMIT)
    else:
        watch = _TargetLimit(optimum)
        found = search.optimise(space, evaluate, rng=rng, limit=watch, tell=watch.look)
    if found.cut and (optimum is None or found.value < optimum):
        raise KeyboardInterrupt
    return found


class _TargetLimit:
    """A limit that is reached with a value."""

    def __init__(self, value: float) -> None:
        self._goal = value
        self._value = -np.inf

    def look(self, standing: SearchState) -> None:
        self._value = standing.value

    def allows(self, steps_taken: int) -> bool:  # noqa: ARG002
        return self._value < self._goal
