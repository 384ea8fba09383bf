"""The jobs of S3 as real processes: an array of five on machines of this host that pretend to be a grid.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (spec
s3 sections 8 and 9). Machines, speeds and iterations are those of ``adaptive_jobs``, and every second is
scaled. Programs are real, one for each architecture; restart files move; the structures come compressed from
a web server and are shared by the jobs of a machine. What a batch system takes to begin a job is slept
through before the program, since starting a process here takes no time to speak of.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from weft.engine.engine import Engine
from weft.engine.journal import Entry
from weft.engine.messages.events import Progressed
from weft.engine.settings import PRESETS, Settings
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.studies.adaptive_jobs.stage_log import StageLog, log_of
from weft.studies.adaptive_jobs.testbed import JOBS, LATENCY_S, MOVING_S, grid
from weft.studies.real_time.competing import Competitors
from weft.studies.real_time.executing import executed, here
from weft.studies.real_time.serving import Served, serving
from weft.workflow.builder import Builder
from weft.workflow.records.workflow import Workflow

__all__ = ["FAST", "Case", "Happened", "cores", "run_jobs_here"]

FAST = "pegasus"
"""The machine everybody wants."""
_UNIT_S = 10.0
"""Of an iteration on a machine of speed 1, before it is scaled."""
_BEGINNING_S = 2.0 * LATENCY_S
"""Of the stages before a program begins: prolog and submission."""
_BETTER_EVERY_S = 30.0
_WORKFLOW, _STRUCTURES = "jobs", "structures.gz"
_NEEDED_MB = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What happens to the jobs."""

    units: int
    """Iterations of every job."""
    restarts: bool = True
    """Whether the jobs have restart files."""
    slow_after: int | None = None
    """Iterations of job 0 after which its machine gets competing processes; None: never."""
    competitors: int = 3
    contract: float = 1.0
    """How much longer than expected an iteration may take, as a share."""
    demand_after: int | None = None
    """Iterations after which every job demands 512 MB; None: never."""
    poll_every_s: float = 10.0
    """Before it is scaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What became of the jobs."""

    log: StageLog
    best: tuple[Mapping[str, Any], ...]
    """What every job left: its iterations, and its trail over the machines."""
    fetched: int
    """How often the structures were fetched from the web server."""


def run_jobs_here(case: Case, scale: float, *, core: int) -> Happened:
    """Run the jobs; a second of the paper takes ``scale`` seconds. Competitors come to this core."""
    structures = "".join(f"structure {number}\n" for number in range(case.units))
    platform = _platform(core, computing=case.slow_after is not None)
    with (
        TemporaryDirectory(prefix="weft-u4-") as folder,
        serving({_STRUCTURES: gzip.compress(structures.encode())}) as served,
        Competitors(core, case.competitors) as competitors,
    ):
        project = Path(folder)
        _write_files(project, case, scale)
        ran = executed(
            {_WORKFLOW: _workflow(case, scale, served)},
            platform,
            [(0.0, _WORKFLOW)],
            project=project,
            policy="rank",
            settings=_settings(case, scale),
            listeners=[_Loading(case, competitors).hear],
        )
        best = [json.loads((project / f"best.{number}").read_text()) for number in range(JOBS)]
        return Happened(
            log=log_of(ran.entries, [machine.name for machine in platform.machines], at_once=True),
            best=tuple(best),
            fetched=served.fetched[_STRUCTURES],
        )


class _Loading:
    """Lets the competitors loose when job 0 is so far."""

    def __init__(self, case: Case, competitors: Competitors) -> None:
        self._after = math.inf if case.slow_after is None else case.slow_after
        self._competitors = competitors

    def hear(self, entry: Entry, engine: Engine) -> None:
        event = entry.event
        if isinstance(event, Progressed) and (event.iterations or 0) >= self._after:
            attempt = engine.state.attempts.get(event.attempt)
            if attempt is not None and attempt.task == 0:
                self._competitors.begin()


def _platform(core: int, *, computing: bool) -> Platform:
    """Put the grid on this host: the fast machine has a core of its own where it matters."""
    machines: list[Machine] = []
    for machine in grid().machines:
        owned = computing and machine.name == FAST
        how = {**machine.attributes, "how": "compute" if owned else "wait"}
        backend = {"cores": [core]} if owned else {}
        machines += here([replace(machine, attributes=how)], **backend)
    return replace(grid(), machines=tuple(machines))


def _settings(case: Case, scale: float) -> Settings:
    """Take S3 literally, but for its information service: machines of this host are simply there.

    A machine that was found slow stays so: nobody else says how it is.
    """
    return replace(
        PRESETS["s3"],
        contract=case.contract,
        poll_every_s=case.poll_every_s * scale,
        better_every_s=_BETTER_EVERY_S * scale,
        restart_cost_s=MOVING_S * scale,
        belief_s=math.inf,
        suspension_timeout_s=None,
        waiting_timeout_s=None,
        ladder_every_s=None,
        discover_every_s=None,
        fetch_every_s=None,
        authorise=False,
    )


def _write_files(project: Path, case: Case, scale: float) -> None:
    program = files("weft.studies.real_time").joinpath("search_program.py").read_text(encoding="utf-8")
    for machine in grid().machines:
        text = program.replace('MADE_FOR = "any"', f"MADE_FOR = {machine.arch!r}")
        (project / f"search.{machine.arch}").write_text(text, encoding="utf-8")
    asked = {"unit_s": _UNIT_S * scale, "demand_after": case.demand_after, "demand_mb": _NEEDED_MB}
    (project / "parameters").write_text(json.dumps(asked))
    for number in range(JOBS):
        (project / f"sequence.{number}").write_text(f"{number}\n")


def _workflow(case: Case, scale: float, served: Served) -> Workflow:
    flow = Builder("proteins")
    flow.task(
        "search",
        sweep={"i": f"0..{JOBS - 1}"},
        work=case.units * _UNIT_S * scale,
        prolog=f"sleep {_BEGINNING_S * scale:g}",
        command=[
            sys.executable,
            "search",
            "{machine.name}",
            "{machine.speed}",
            "{machine.how}",
            "{memory_mb}",
        ],
        inputs=[
            {"file": "search", "from": "search.{machine.arch}", "size": "3kB"},
            {
                "file": "structures",
                "from": f"{served.url}/{_STRUCTURES}",
                "size": "1kB",
                "shared": True,
                "compressed": True,
            },
            {"file": "parameters", "size": "1kB"},
            {"file": "sequence", "from": "sequence.{i}", "size": "1kB"},
        ],
        outputs={"best.{i}": {"size": "1kB", "to": "best.{i}"}},
        progress="profile.{i}",
        **({"checkpoint": {"files": ["restart.{i}"]}} if case.restarts else {}),
    )
    return flow.build()


def cores() -> list[int]:
    """List the cores that may be used."""
    return sorted(os.sched_getaffinity(0))
