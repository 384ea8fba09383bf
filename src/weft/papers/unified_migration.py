"""Competing: processes that compete for a core with whatever runs there, for as long as they are wanted.

Serving: files on a web server of this host, which counts how often each is fetched.

The jobs of S3 as real processes: an array of five on machines of this host that pretend to be a grid.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (spec
s3 sections 8 and 9). Machines, speeds and iterations are those of ``adaptive_jobs``, and every second is
scaled. Programs are real, one for each architecture; restart files move; the structures come compressed from
a web server and are shared by the jobs of a machine. What a batch system takes to begin a job is slept
through before the program, since starting a process here takes no time to speak of.

``u4``: the experiments of S3 with real processes, a real load and real staging (unified section 9, U4).

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids (spec
s3 section 9, scenarios A and B; A3.1 to A3.3, A3.7 to A3.9). Everything is described in ``jobs``; a minute of
the paper takes 1.2 s. Judged are reasons and the order of events, not times.

Deviations: in A the competing processes come after 20 iterations of job 0 instead of after 120 s, which is
the same where nothing else disturbs. In B the phases have 90 and 60 units instead of 100 and 50: with these
job 1 ends 17 s after the others ask to leave, and that is less than real processes can be relied on for. A
is also run without restart files.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.messages import Progressed
from weft.engine.settings import PRESETS, EngineSettings
from weft.papers import adaptive_jobs
from weft.papers.adaptive_jobs import JOBS, LATENCY_S, MOVING_S, StageLog, grid, read_stage_log
from weft.papers.reproduction import ExperimentCell, Measures, ResultRow, Results, ToleranceBand
from weft.papers.runs import place_locally, run_locally
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.workflow.builder import Builder
from weft.workflow.workflow import Workflow

__all__ = [
    "CASES",
    "DEGRADATION",
    "DEMANDS",
    "FAST",
    "FROM_ZERO",
    "CompetingProcesses",
    "FileServer",
    "JobCase",
    "JobMigrationStudy",
    "JobOutcome",
    "list_cores",
    "measure_jobs",
    "run_jobs_locally",
    "serve_files",
    "to_paper_seconds",
]


_PROGRAM = """
import os, sys, threading
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    if os.cpu_count() > 1:
        os.setpriority(os.PRIO_PROCESS, 0, -15)
        open("/proc/self/autogroup", "w").write("-15")
except OSError:
    pass
def wait():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=wait, daemon=True).start()
while True:
    for _ in range(100_000):
        pass
"""
"""Each comes first on the host as the jobs do (``search_program``), so that they compete with these alone.
They end when nobody holds the other end of their input any more, whatever becomes of weft."""


class CompetingProcesses:
    """So many processes on one core, once they are let loose."""

    def __init__(self, core: int, number: int) -> None:
        self._core = core
        self._number = number
        self._running: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """Let them loose; a second time changes nothing."""
        if not self._running:
            command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(self._core)]
            self._running = [
                # The scheduler weighs sessions: each is to count as much as the job.
                subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
                for _ in range(self._number)
            ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._running:
            process.kill()
            process.communicate()
        self._running = []


class FileServer(NamedTuple):
    """A server that runs."""

    url: str
    fetched: Counter[str]
    """By name."""


@contextmanager
def serve_files(files: Mapping[str, bytes]) -> Iterator[FileServer]:
    """Serve files, by name, on a port that is free."""
    fetched: Counter[str] = Counter()

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._head()

        def do_GET(self) -> None:
            content = self._head()
            if content is not None:
                fetched[self.path.lstrip("/")] += 1
                self.wfile.write(content)

        def _head(self) -> bytes | None:
            content = files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return None
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{len(content)}"')
            self.end_headers()
            return content

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield FileServer(f"http://127.0.0.1:{server.server_port}", fetched)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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
class JobCase:
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
class JobOutcome:
    """What became of the jobs."""

    log: StageLog
    best: tuple[Mapping[str, Any], ...]
    """What every job left: its iterations, and its trail over the machines."""
    fetched: int
    """How often the structures were fetched from the web server."""


def run_jobs_locally(case: JobCase, scale: float, *, core: int) -> JobOutcome:
    """Run the jobs; a second of the paper takes ``scale`` seconds. Competitors come to this core."""
    structures = "".join(f"structure {number}\n" for number in range(case.units))
    platform = _platform(core, computing=case.slow_after is not None)
    with (
        TemporaryDirectory(prefix="weft-u4-") as folder,
        serve_files({_STRUCTURES: gzip.compress(structures.encode())}) as served,
        CompetingProcesses(core, case.competitors) as competitors,
    ):
        project = Path(folder)
        _write_files(project, case, scale)
        ran = run_locally(
            {_WORKFLOW: _workflow(case, scale, served)},
            platform,
            [(0.0, _WORKFLOW)],
            project=project,
            policy="rank",
            settings=_settings(case, scale),
            listeners=[_LoadTrigger(case, competitors).hear],
        )
        best = [json.loads((project / f"best.{number}").read_text()) for number in range(JOBS)]
        return JobOutcome(
            log=read_stage_log(ran.entries, [machine.name for machine in platform.machines], at_once=True),
            best=tuple(best),
            fetched=served.fetched[_STRUCTURES],
        )


class _LoadTrigger:
    """Lets the competitors loose when job 0 is so far."""

    def __init__(self, case: JobCase, competitors: CompetingProcesses) -> None:
        self._after = math.inf if case.slow_after is None else case.slow_after
        self._competitors = competitors

    def hear(self, entry: JournalEntry, engine: Engine) -> None:
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
        machines += place_locally([replace(machine, attributes=how)], **backend)
    return replace(grid(), machines=tuple(machines))


def _settings(case: JobCase, scale: float) -> EngineSettings:
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


def _write_files(project: Path, case: JobCase, scale: float) -> None:
    program = files("weft.papers.real_time").joinpath("search_program.py").read_text(encoding="utf-8")
    for machine in grid().machines:
        text = program.replace('MADE_FOR = "any"', f"MADE_FOR = {machine.arch!r}")
        (project / f"search.{machine.arch}").write_text(text, encoding="utf-8")
    asked = {"unit_s": _UNIT_S * scale, "demand_after": case.demand_after, "demand_mb": _NEEDED_MB}
    (project / "parameters").write_text(json.dumps(asked))
    for number in range(JOBS):
        (project / f"sequence.{number}").write_text(f"{number}\n")


def _workflow(case: JobCase, scale: float, served: FileServer) -> Workflow:
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


def list_cores() -> list[int]:
    """List the cores that may be used."""
    return sorted(os.sched_getaffinity(0))


DEGRADATION, FROM_ZERO, DEMANDS = "A", "A without restart files", "B"
CASES: Mapping[str, JobCase] = {
    DEGRADATION: JobCase(units=100, slow_after=20),
    FROM_ZERO: JobCase(units=30, slow_after=10, restarts=False),
    DEMANDS: JobCase(units=150, demand_after=90, poll_every_s=30.0),
}
_EVENTS = (
    (DEGRADATION, "violation seen", "violation_s", "130 s"),
    (DEGRADATION, "job 0 is moved, iterations done", "iterations", "23"),
    (DEGRADATION, "overhead", "overhead_s", "57.5 s"),
    (DEGRADATION, "overhead, share of job 0", "overhead_percent", "5.9 %"),
    (DEGRADATION, "job 0 ends", "first_end_s", "977 s"),
    (DEGRADATION, "the others end", "others_end_s", "1049 s"),
    (DEMANDS, "job 0 is through on pegasus", "through_s", "629 s"),
    (DEMANDS, "job 1 leaves for pegasus", "better_s", "630 s"),
    (DEMANDS, "jobs 2 to 4 ask to leave", "request_s", "1030 s"),
    *((DEMANDS, f"job {job} leaves for pegasus", f"to_pegasus_{job}_s", "") for job in (2, 3, 4)),
    *((DEMANDS, f"job {job} ends", f"end_{job}_s", "") for job in range(5)),
)
"""Cell, figure, measure, and when it happened in the prototype."""
_DEMANDED = (
    (DEGRADATION, "migrations", "moves", 1, "A3.1"),
    (DEGRADATION, "of them for performance, to babieca", "to_babieca", 1, "A3.1"),
    (DEGRADATION, "job 0 ends first (1 = yes)", "ends_first", 1, "A3.1"),
    (DEGRADATION, "cancel, prolog, clean-up, start in this order (1 = yes)", "in_order", 1, "A3.3"),
    (DEGRADATION, "iterations done twice or left out", "lost", 0, "A3.3"),
    (DEGRADATION, "fetches of the shared file per machine", "fetches", 1, "A3.7"),
    (DEGRADATION, "programs of other architectures (0 = none)", "wrong_programs", 0, "A3.8"),
    (DEGRADATION, "without restart files: migrations for performance", "zero.to_babieca", 1, "A3.9"),
    (DEGRADATION, "without restart files: iterations that were spared", "zero.spared", 0, "A3.9"),
    (DEMANDS, "events in the order of the paper (1 = yes)", "in_order", 1, "A3.2"),
    (DEMANDS, "opportunistic migrations", "better", 1, "A3.2"),
    (DEMANDS, "self-migrations", "self", 3, "A3.2"),
    (DEMANDS, "other migrations", "other", 0, "A3.2"),
    (DEMANDS, "jobs at once on pegasus, at most", "most_at_once", 1, "A3.2"),
    (DEMANDS, "iterations done twice or left out", "lost", 0, "A3.3"),
    (DEMANDS, "fetches of the shared file per machine", "fetches", 1, "A3.7"),
    (DEMANDS, "programs of other architectures (0 = none)", "wrong_programs", 0, "A3.8"),
)
"""Cell, figure, measure, what it must be, and under which name that is demanded."""


class JobMigrationStudy:
    """Jobs that leave machines."""

    name: ClassVar[str] = "u4"
    title: ClassVar[str] = "jobs that leave machines, real processes (Huedo et al., S3; unified section 9)"

    def __init__(self, scale: float = 0.02, cases: Mapping[str, JobCase] = CASES) -> None:
        self._scale = scale
        self._cases = cases

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:  # noqa: ARG002 -- nothing is drawn: one run says it all
        """Give the scenarios."""
        return [
            ExperimentCell(name=name, settings={"scenario": name}, runs=1) for name in (DEGRADATION, DEMANDS)
        ]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- nothing is drawn
        """Run a scenario; the one with a load also without restart files, one after the other."""
        found = measure_jobs(cell.name, self.happened(cell.name), self._scale)
        if cell.name == DEGRADATION:
            zero = measure_jobs(FROM_ZERO, self.happened(FROM_ZERO), self._scale)
            return {**found, **{f"zero.{name}": value for name, value in zero.items()}}
        return found

    def happened(self, name: str) -> JobOutcome:
        """Run a scenario; a load goes to the first core, so that the others are left to everybody else."""
        return run_jobs_locally(self._cases[name], self._scale, core=list_cores()[0])

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Give what is demanded, then when it happened."""
        return [*_demanded_rows(results), *_event_rows(results)]


def measure_jobs(name: str, found: JobOutcome, scale: float) -> Measures:
    """Read the figures out of what became of the jobs; seconds are those of the paper."""
    log = to_paper_seconds(found.log, scale)
    if name == DEMANDS:
        return {**adaptive_jobs.measure_requirements(log), **_measure_transfers(found)}
    trail = found.best[0]["trail"]
    figures = {
        **adaptive_jobs.measure_degradation(log),
        **_measure_transfers(found),
        "spared": trail[-1]["from"],
    }
    if len(trail) > 1:
        overhead_s = (trail[1]["began_at"] - trail[0]["ended_at"]) / scale
        figures |= {
            "iterations": trail[0]["to"],
            "overhead_s": overhead_s,
            "overhead_percent": 100.0 * overhead_s / figures["first_end_s"],
        }
    return figures


def to_paper_seconds(log: StageLog, scale: float) -> StageLog:
    """Count from the first start of a job, in seconds as they were before scaling."""
    zero_s = next((line.at_s for line in log.lines if line.what == "start"), 0.0)
    return StageLog(tuple(line._replace(at_s=(line.at_s - zero_s) / scale) for line in log.lines))


def _measure_transfers(found: JobOutcome) -> dict[str, float]:
    """Say what was moved with the jobs: their work, the shared file, their programs."""
    parts = [part for best in found.best for part in best["trail"]]
    arch = {machine.name: machine.arch for machine in grid().machines}
    machines = {line.machine for line in found.log.of("begun")}
    return {
        "lost": float(sum(map(_count_lost, found.best))),
        "fetches": found.fetched / len(machines),
        "wrong_programs": float(sum(part["made_for"] != arch[part["machine"]] for part in parts)),
    }


def _count_lost(best: Mapping[str, Any]) -> int:
    """Count the iterations between where a job left and where it went on; twice is as bad as never."""
    trail = best["trail"]
    gaps = sum(abs(after["from"] - before["to"]) for before, after in pairwise(trail))
    return int(gaps + abs(best["structures"] - best["done"]) + trail[0]["from"])


def _demanded_rows(results: Results) -> Iterator[ResultRow]:
    for cell, figure, measure, wanted, accepts in _DEMANDED:
        if cell in results:
            yield ResultRow(
                table=f"{cell}: what is demanded",
                figure=figure,
                ours=results.of(cell, measure)[0],
                digits=0,
                runs=len(results.of(cell, measure)),
                paper=str(wanted),
                band=ToleranceBand(least=wanted, most=wanted),
                accepts=accepts,
            )


def _event_rows(results: Results) -> Iterator[ResultRow]:
    for cell, figure, measure, prototype in _EVENTS:
        if cell in results:
            unit = "%" if measure.endswith("percent") else "s" if measure.endswith("_s") else ""
            yield ResultRow(
                table=f"{cell}: what happens, in seconds of the paper",
                figure=figure,
                ours=results.of(cell, measure)[0],
                unit=unit,
                digits=1 if unit else 0,
                runs=len(results.of(cell, measure)),
                prototype=prototype,
            )
