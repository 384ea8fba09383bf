"""Single runs for experiments: a simulation with its history, and an execution on this host.

An execution in real time is judged by its durations only if other load did not disturb it. The measure is the
share of the cores that foreign processes used.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from weft.backends.layout import ProjectLayout
from weft.engine.engine import Engine
from weft.engine.history import History
from weft.engine.journal import JournalEntry
from weft.engine.messages import Submitted
from weft.engine.state.state import EngineState
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.private_files import make_folder
from weft.repository.journal import JournalHeader
from weft.runtime.driver import Listener
from weft.runtime.execution import Execution, open_project
from weft.runtime.simulation import Simulation
from weft.workflow.settings import RunSettings, suit_real_runs
from weft.workflow.workflow import Workflow

DISTURBANCE_LIMIT = 0.25
"""Share of the cores used by other processes above which the durations of an execution are not judged."""
_REPETITIONS = 3

_Result = TypeVar("_Result")


class SimulationHistory(NamedTuple):
    """The engine after the last event, and the history of the run."""

    engine: Engine
    history: History


def run_simulation(
    simulation: Simulation, check: Callable[[Engine], None] | None = None
) -> SimulationHistory:
    """Run a simulation and collect its history; ``check`` is called with the engine after every entry."""
    history, waiting = History(), list[JournalEntry]()

    def take(engine: Engine) -> None:
        # The history needs the state after the entry.
        history.take(waiting.pop(), engine.state)
        if check is not None:
            check(engine)

    engine = simulation.run(record=waiting.append, check=take)
    return SimulationHistory(engine, history.finish())


class LocalRun(NamedTuple):
    """The result of an execution on this host; times are seconds of the execution."""

    state: EngineState
    """State of the engine after the last event."""
    history: History
    entries: tuple[JournalEntry, ...]
    """The journal."""
    outcome: str


def place_locally(machines: Iterable[Machine], **backend: object) -> tuple[Machine, ...]:
    """Return the machines with the local backend; ``backend`` holds further settings of that backend."""
    return tuple(replace(machine, backend={"kind": "local", **backend}) for machine in machines)


def run_locally(
    workflows: Mapping[str, Workflow],
    platform: Platform,
    arrivals: Sequence[tuple[float, str]],
    *,
    project: Path,
    policy: str,
    settings: RunSettings,
    listeners: Sequence[Listener] = (),
) -> LocalRun:
    """Execute workflows on this host until all have ended; ``project`` is the folder with their files."""
    header = JournalHeader(
        policy=policy,
        settings=suit_real_runs(settings),
        seed=0,
        planner="heft",
        platform=platform,
        workflows=workflows,
        folders=dict.fromkeys(workflows, "."),
        started_at_s=time.time(),
    )
    history, entries = History(), list[JournalEntry]()
    layout = ProjectLayout(project.resolve())
    make_folder(layout.home)
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


def repeat_if_disturbed(run: Callable[[], _Result]) -> tuple[_Result, float]:
    """Call ``run`` until it is not disturbed, at most four times; return the last result and its load.

    The load is the share of the cores that other processes used, from 0 to 1. A run with a load above
    ``DISTURBANCE_LIMIT`` was disturbed; even the last run may have been disturbed.
    """
    for _ in range(_REPETITIONS):
        result, share = _measure_disturbance(run)
        if share <= DISTURBANCE_LIMIT:
            return result, share
    return _measure_disturbance(run)


def _measure_disturbance(run: Callable[[], _Result]) -> tuple[_Result, float]:
    """Call ``run``; return its result and the share of the cores that foreign processes used meanwhile."""
    meter = _LoadMeter()
    with meter:
        result = run()
    return result, meter.share


_READING_S = 0.2
_OWN_VARIABLE = "WEFT_MEASURED_RUN"
"""Environment variable that the processes of a measured run inherit."""


class _LoadMeter:
    """Context manager that measures the share of the cores that foreign processes use.

    Processes are read several times a second, since many end before the run does. This process and those
    with the environment variable of this measurement belong to the run: runners, programs and their children.
    All others are foreign.
    """

    def __init__(self) -> None:
        self._used_ticks = 0
        self._began_s = self._passed_s = 0.0
        self._last: dict[tuple[str, str], int] = {}
        self._own: set[tuple[str, str]] = set()
        self._new: set[tuple[str, str]] = set()
        """Processes that were read once. Until it starts its program, a process has another environment."""
        self._mark = f"{_OWN_VARIABLE}={os.urandom(8).hex()}".encode()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read_all, daemon=True)

    def __enter__(self) -> Self:
        name, _, value = self._mark.decode().partition("=")
        os.environ[name] = value
        self._read(first=True)
        self._began_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._passed_s = time.monotonic() - self._began_s
        self._read()
        del os.environ[_OWN_VARIABLE]

    @property
    def share(self) -> float:
        """Return the share of the cores that foreign processes used, from 0 to 1."""
        cores = len(os.sched_getaffinity(0))
        return self._used_ticks / os.sysconf("SC_CLK_TCK") / max(self._passed_s * cores, 1e-9)

    def _read_all(self) -> None:
        while not self._over.wait(_READING_S):
            self._read()

    def _read(self, *, first: bool = False) -> None:
        """Add the processor time of foreign processes since the last reading."""
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ValueError, IndexError):  # the process has ended meanwhile
                fields = file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                # Fields 14, 15 and 22 of proc(5); not the time of ended children, which were read before.
                key, ticks = (file.parent.name, fields[19]), int(fields[11]) + int(fields[12])
                self._assign(key, file.parent)
                if key not in self._own:
                    self._used_ticks += 0 if first else ticks - self._last.get(key, 0)
                self._last[key] = ticks

    def _assign(self, key: tuple[str, str], process: Path) -> None:
        """Decide at the first and at the second reading of a process whether it belongs to the run."""
        is_new = key not in self._last
        if (is_new or key in self._new) and self._is_own(process):
            self._own.add(key)
        if is_new:
            self._new.add(key)
        else:
            self._new.discard(key)

    def _is_own(self, process: Path) -> bool:
        if process.name == str(os.getpid()):
            return True
        return self._mark in (process / "environ").read_bytes().split(b"\0")
