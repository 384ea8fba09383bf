"""``u4``: the migration experiments with real processes, a real load and real staging
(docs/papers/unified.md, U4).

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids
(docs/papers/adaptive-jobs.md, sections 8 and 9, scenarios A and B; A3.1 to A3.3, A3.7 to A3.9). Five jobs run
on machines of this host that stand for the grid. Machines, speeds and iterations are those of
``adaptive_jobs``; a minute of the paper takes 1.2 s. There is one program per architecture; checkpoints are
staged; the structures are downloaded compressed from a web server and shared by the jobs of a machine. The
latency of a batch system is added as sleep before the program. Reasons and the order of events are judged,
not times.

Deviations: in A the competing processes start after 20 iterations of job 0 instead of 120 s, which is
equivalent on an undisturbed host. In B the phases have 90 and 60 units instead of 100 and 50: with the
latter, job 1 would end only 17 s of the paper after the others request migration. A is also run without
checkpoints.

Scenario C causes faults (adaptive-jobs.md, sections 2, 5 and 6; A3.4 to A3.6) and tests the two caches of the
machine selection. On machines of this host the runner has the role of the job manager, and the directory of
the machine has the role of the gatekeeper. A runner that is stopped does not respond while its machine does;
a machine is lost if its runner is killed and its directory is moved away. A wrapper that ends without running
the command leaves no exit code. The settings are those of the preset ``s3`` with shorter intervals. Counts
and orders are judged, not times.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weft.engine import messages
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.formats.profiles import preset_settings
from weft.papers import adaptive_jobs
from weft.papers.adaptive_jobs import JOBS, LATENCY_S, MOVING_S, StageLog, grid, read_stage_log
from weft.papers.reproduction import (
    THIS_HOST,
    ExperimentCell,
    Figure,
    Measures,
    ResultRow,
    Results,
    ToleranceBand,
    give_reasons,
    single_rows,
)
from weft.papers.runs import DISTURBANCE_LIMIT, LocalRun, place_locally, repeat_if_disturbed, run_locally
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.runtime.driver import Listener
from weft.workflow.builder import Builder
from weft.workflow.settings import RunSettings
from weft.workflow.workflow import Workflow

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
"""Program of a competing process.

It has the same priority as the jobs (``unified_program``), so that it slows down only the jobs. It exits when
its standard input is closed, even if weft is killed.
"""


@dataclass(slots=True)
class CompetingProcesses:
    """Busy processes on one core; none run before ``begin``."""

    _core: int
    _number: int
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)

    def begin(self) -> None:
        """Start the processes; later calls do nothing."""
        if not self._running:
            command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(self._core)]
            self._running = [
                # The kernel weighs sessions; in its own session each process counts as much as the job.
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
    """URL and download counts of a running file server."""

    url: str
    fetched: Counter[str]
    """Number of downloads by file name."""


@contextmanager
def serve_files(files: Mapping[str, bytes]) -> Iterator[FileServer]:
    """Serve files by name over HTTP on a free port of this host, within a ``with`` block."""
    fetched: Counter[str] = Counter()

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._head()

        def do_GET(self) -> None:
            if (content := self._head()) is not None:
                fetched[self.path.lstrip("/")] += 1
                self.wfile.write(content)

        def _head(self) -> bytes | None:
            if (content := files.get(self.path.lstrip("/"))) is None:
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
"""Name of the fastest machine."""
_UNIT_S = 10.0
"""Duration of an iteration on a machine of speed 1, in seconds of the paper."""
_BEGINNING_S = 2.0 * LATENCY_S
"""Latency before a program starts (prolog and submission), in seconds of the paper."""
_BETTER_EVERY_S = 30.0
_WORKFLOW, _STRUCTURES = "jobs", "structures.gz"
_NEEDED_MB = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCase:
    """Parameters of one scenario."""

    units: int
    """Iterations of every job."""
    restarts: bool = True
    """Whether the jobs write checkpoints."""
    slow_after: int | None = None
    """Iterations of job 0 after which competing processes start on its machine; None: never."""
    competitors: int = 3
    contract: float = 1.0
    """Tolerated excess of an iteration over its expected time, as a fraction."""
    demand_after: int | None = None
    """Iterations after which every job requires 512 MB; None: never."""
    poll_every_s: float = 10.0
    """Polling interval in seconds of the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """Results of an execution of the jobs."""

    log: StageLog
    best: tuple[Mapping[str, Any], ...]
    """Output of every job: its iterations, and the machines it ran on."""
    fetched: int
    """Number of downloads of the structures."""


def run_jobs_locally(case: JobCase, scale: float, *, core: int) -> JobOutcome:
    """Execute the jobs and return the outcome; competing processes use the core ``core``.

    A second of the paper takes ``scale`` seconds.
    """
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
            listeners=[_LoadTrigger(case, competitors).listen],
        )
        best = [json.loads((project / f"best.{number}").read_text()) for number in range(JOBS)]
        return JobOutcome(
            log=read_stage_log(ran.entries, [machine.name for machine in platform.machines], at_once=True),
            best=tuple(best),
            fetched=served.fetched[_STRUCTURES],
        )


class _LoadTrigger:
    """Listener that starts the competing processes when job 0 has done enough iterations."""

    def __init__(self, case: JobCase, competitors: CompetingProcesses) -> None:
        self._after = math.inf if case.slow_after is None else case.slow_after
        self._competitors = competitors

    def listen(self, entry: JournalEntry, engine: Engine) -> None:
        event = entry.event
        if isinstance(event, messages.Progressed) and (event.iterations or 0) >= self._after:
            attempt = engine.state.attempts.get(event.attempt)
            if attempt is not None and attempt.task == 0:
                self._competitors.begin()


def _platform(core: int, *, computing: bool) -> Platform:
    """Return the grid on this host; with ``computing`` the fast machine is bound to ``core``."""
    machines: list[Machine] = []
    for machine in grid().machines:
        owned = computing and machine.name == FAST
        how = {**machine.attributes, "how": "compute" if owned else "wait"}
        backend = {"cores": [core]} if owned else {}
        machines += place_locally([replace(machine, attributes=how)], **backend)
    return replace(grid(), machines=tuple(machines))


def _settings(case: JobCase, scale: float) -> RunSettings:
    """Return the preset ``s3`` with scaled times and without its information service.

    Machines of this host do not need the service. The estimated speed of a slow machine never expires, since
    nothing else reports its speed.
    """
    return preset_settings(
        "s3",
        {
            "contract": case.contract,
            "poll_every": case.poll_every_s * scale,
            "migration": {"search_every": _BETTER_EVERY_S * scale, "restart_cost": MOVING_S * scale},
            "slow_for": "forever",
            "timeouts": {"suspended": "none", "queued": "none"},
            "probe_every": "none",
            "discover_every": "none",
            "state_every": "none",
            "authorise": False,
        },
    )


def _write_files(project: Path, case: JobCase, scale: float) -> None:
    program = files("weft.papers").joinpath("unified_program.py").read_text(encoding="utf-8")
    for machine in grid().machines:
        text = program.replace('MADE_FOR = "any"', f"MADE_FOR = {machine.arch!r}")
        (project / f"search.{machine.arch}").write_text(text, encoding="utf-8")
    parameters = {"unit_s": _UNIT_S * scale, "demand_after": case.demand_after, "demand_mb": _NEEDED_MB}
    (project / "parameters").write_text(json.dumps(parameters))
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


DEGRADATION, FROM_ZERO, DEMANDS = "A", "A without restart files", "B"


FAULTS = "C"
"""Name of scenario C: faults of jobs, runners and machines, and the caches of the machine selection."""
_FAULT_WORKFLOW = "job"
_RETRIES = 2
FAULT_FIGURES = tuple(
    Figure(f"{case}.{name}", text, "", paper, "", ToleranceBand.exactly(float(paper)), accepts)
    for case, name, paper, accepts, text in (
        ("reattach", "reattached", "1", "A3.4", "silent runner: reattached (1 = yes)"),
        ("reattach", "starts", "1", "A3.4", "silent runner: starts of the program"),
        ("failover", "moved", "1", "A3.4", "lost machine: continued on another one (1 = yes)"),
        ("failover", "restarted", "1", "A3.4", "lost machine: from the last restart file (1 = yes)"),
        ("stop", "tries", "3", "A3.5", "no exit code, 2 retries: attempts"),
        ("stop", "completed", "0", "A3.5", "no exit code, then stop: completed jobs"),
        ("reschedule", "moved", "1", "A3.5", "no exit code, then reschedule: completed elsewhere (1 = yes)"),
        ("caches", "discoveries", "1", "A3.6", "discoveries of machines within 300 s, at most"),
        ("caches", "queries", "1", "A3.6", "state queries of a machine within 30 s, at most"),
    )
)
"""The required figures of scenario C."""

_FAULT_SETTINGS = {"contract": "none", "probe_every": "1s", "migration": {"when": "never"}}
_FAULT_PROGRAM = """
if [ -f restart ]; then n=$(cat restart); else n=0; fi
echo $n >> {trail}
while [ $n -lt {steps} ]; do
  sleep 0.1; n=$((n + 1)); echo $n > new; mv new restart; echo $n/{steps} > "$WEFT_PROGRESS_FILE"
done
"""


def measure_faults(scale: float) -> Measures:
    """Execute the cases of the scenario and return its measures.

    A second of the paper takes ``scale`` seconds.
    """
    cases: dict[str, Callable[[Path], dict[str, float]]] = {
        "reattach": _stop_runner,
        "failover": _lose_machine,
        "stop": _end_without_exit_code,
        "reschedule": _reschedule_without_exit_code,
        "caches": lambda project: _count_queries(project, scale),
    }
    found: dict[str, float] = {}
    for case, run in cases.items():
        with TemporaryDirectory(prefix="weft-u4-") as folder:
            found |= {f"{case}.{name}": value for name, value in run(Path(folder)).items()}
    return found


def _stop_runner(project: Path) -> dict[str, float]:
    """Stop the runner of a job; the program continues and is not started again."""
    fault = _Fault(lambda: os.kill(_find_runner(project, "first"), signal.SIGSTOP))
    ran = _run_on_two_machines(project, _checkpointed_job(project, steps=100), listeners=[fault.listen])
    return {
        "reattached": float(any(isinstance(each, messages.ReattachJob) for each in _list_commands(ran))),
        "starts": float(len(_read_trail(project)) if ran.outcome == "completed" else -1),
    }


def _lose_machine(project: Path) -> dict[str, float]:
    """Kill the runner of a job and rename its machine's directory; the job continues on the other machine."""

    def lose() -> None:
        (project / "first").rename(project / "first.lost")
        os.kill(_find_runner(project, "first"), signal.SIGKILL)

    ran = _run_on_two_machines(project, _checkpointed_job(project, steps=40), listeners=[_Fault(lose).listen])
    machines = [each.machine for each in _list_commands(ran) if isinstance(each, messages.Start)]
    trail = _read_trail(project)
    return {
        "moved": float(ran.outcome == "completed" and machines == [0, 1]),
        "restarted": float(len(trail) == len(machines) and trail[0] == 0 < trail[-1]),
    }


def _end_without_exit_code(project: Path) -> dict[str, float]:
    ran = _run_on_two_machines(project, _job_without_exit_code(wrapper="true", on_failure="stop"))
    tries = sum(isinstance(each, messages.Start) for each in _list_commands(ran))
    return {"tries": float(tries), "completed": float(ran.outcome == "completed")}


def _reschedule_without_exit_code(project: Path) -> dict[str, float]:
    broken = "sh -c 'if [ $1 = first ]; then exit 0; fi; shift; exec \"$@\"' wrapper {machine.name}"
    ran = _run_on_two_machines(project, _job_without_exit_code(wrapper=broken, on_failure="reschedule"))
    machines = [each.machine for each in _list_commands(ran) if isinstance(each, messages.Start)]
    return {"moved": float(ran.outcome == "completed" and machines[0] == 0 and machines[-1] == 1)}


def _count_queries(project: Path, scale: float) -> dict[str, float]:
    """Run short jobs one after another and return the largest numbers of discoveries and queries.

    Discoveries are counted within the interval for which the list of machines is cached, queries of a machine
    within the interval for which its state is cached.
    """
    flow = Builder(_FAULT_WORKFLOW)
    for number in range(12):
        flow.task(f"job{number}", command="sleep 0.5", work=1, after=[f"job{number - 1}"] if number else [])
    intervals = {"discover_every": 300.0 * scale, "state_every": 30.0 * scale}
    ran = _run_on_two_machines(project, flow.build(), settings=intervals)
    listed, queried = list[float](), dict[int, list[float]]()
    for entry in ran.entries:
        for command in entry.commands:
            if isinstance(command, messages.Discover):
                listed.append(entry.now)
            elif isinstance(command, messages.Fetch):
                queried.setdefault(command.machine, []).append(entry.now)
    return {
        "discoveries": float(_most_within(listed, intervals["discover_every"])),
        "queries": float(
            max((_most_within(each, intervals["state_every"]) for each in queried.values()), default=0)
        ),
    }


def _most_within(times_s: Sequence[float], interval_s: float) -> float:
    """Return the largest number of times that lie within one half-open interval of this length."""
    counts = (sum(0.0 <= other - time < interval_s for other in times_s) for time in times_s)
    return float(max(counts, default=0))


class _Fault:
    """Listener that causes a fault once, when restart files have been copied."""

    def __init__(self, cause: Callable[[], None]) -> None:
        self._cause: Callable[[], None] | None = cause

    def listen(self, entry: JournalEntry, engine: Engine) -> None:  # noqa: ARG002 -- as listeners have it
        if self._cause is not None and isinstance(entry.event, messages.Checkpointed):
            cause, self._cause = self._cause, None
            cause()


def _checkpointed_job(project: Path, *, steps: int) -> Workflow:
    """Return a job whose iterations take 0.1 s and which writes a restart file.

    Every start of the job appends a line to the file ``trail``.
    """
    flow = Builder(_FAULT_WORKFLOW)
    text = _FAULT_PROGRAM.replace("{steps}", str(steps)).replace("{trail}", str(project / "trail"))
    flow.task("search", command=text, work=0.1 * steps, checkpoint={"files": ["restart"], "every": "1s"})
    return flow.build()


def _job_without_exit_code(*, wrapper: str, on_failure: str) -> Workflow:
    flow = Builder(_FAULT_WORKFLOW)
    flow.task("search", command="true", work=1, wrapper=wrapper, retries=_RETRIES, on_failure=on_failure)
    return flow.build()


def _run_on_two_machines(
    project: Path,
    workflow: Workflow,
    *,
    settings: dict[str, Any] | None = None,
    listeners: Sequence[Listener] = (),
) -> LocalRun:
    """Execute a workflow on two machines of this host, of which the first one is faster."""
    machines = [
        place_locally([Machine(name=name, nodes=1, speed=speed)], sandbox=str(project / name))[0]
        for name, speed in (("first", 2.0), ("second", 1.0))
    ]
    return run_locally(
        {_FAULT_WORKFLOW: workflow},
        Platform(machines=tuple(machines)),
        [(0.0, _FAULT_WORKFLOW)],
        project=project,
        policy="rank",
        settings=preset_settings("s3", {**_FAULT_SETTINGS, **(settings or {})}),
        listeners=listeners,
    )


def _list_commands(ran: LocalRun) -> Iterable[messages.Command]:
    return (command for entry in ran.entries for command in entry.commands)


def _read_trail(project: Path) -> list[int]:
    """Return the iterations from which the program started, in order."""
    return [int(line) for line in (project / "trail").read_text(encoding="utf-8").split()]


def _find_runner(project: Path, machine: str) -> int:
    """Return the process number of a machine's runner."""
    (record,) = project.glob(f".weft/runners/*/{machine}*/pid")
    return int(json.loads(record.read_text(encoding="utf-8").partition(" ")[2])["pid"])


CASES: Mapping[str, JobCase] = {
    DEGRADATION: JobCase(units=100, slow_after=20),
    FROM_ZERO: JobCase(units=30, slow_after=10, restarts=False),
    DEMANDS: JobCase(units=150, demand_after=90, poll_every_s=30.0),
}
_NONE, _ONE, _THREE = (ToleranceBand.exactly(number) for number in (0, 1, 3))
_EVENTS = {
    DEGRADATION: (
        Figure("violation_s", "violation seen", "s", prototype="130 s"),
        Figure("iterations", "job 0 is moved, iterations done", "", prototype="23"),
        Figure("overhead_s", "overhead", "s", prototype="57.5 s"),
        Figure("overhead_percent", "overhead, share of job 0", "%", prototype="5.9 %"),
        Figure("first_end_s", "job 0 ends", "s", prototype="977 s"),
        Figure("others_end_s", "the others end", "s", prototype="1049 s"),
    ),
    DEMANDS: (
        Figure("through_s", "job 0 ends its program on pegasus", "s", prototype="629 s"),
        Figure("better_s", "job 1 migrates to pegasus", "s", prototype="630 s"),
        Figure("request_s", "jobs 2 to 4 request migration", "s", prototype="1030 s"),
        *(Figure(f"to_pegasus_{job}_s", f"job {job} migrates to pegasus", "s") for job in (2, 3, 4)),
        *(Figure(f"end_{job}_s", f"job {job} ends", "s") for job in range(5)),
    ),
}
_DEMANDED = {
    DEGRADATION: (
        Figure("moves", "migrations", "", "1", "", _ONE, "A3.1"),
        Figure("to_babieca", "of them for performance, to babieca", "", "1", "", _ONE, "A3.1"),
        Figure("ends_first", "job 0 ends first (1 = yes)", "", "1", "", _ONE, "A3.1"),
        Figure(
            "in_order", "cancel, prolog, clean-up, start in this order (1 = yes)", "", "1", "", _ONE, "A3.3"
        ),
        Figure("lost", "iterations done twice or left out", "", "0", "", _NONE, "A3.3"),
        Figure("fetches", "fetches of the shared file per machine", "", "1", "", _ONE, "A3.7"),
        Figure("wrong_programs", "programs of other architectures (0 = none)", "", "0", "", _NONE, "A3.8"),
        Figure(
            "zero.to_babieca", "without restart files: migrations for performance", "", "1", "", _ONE, "A3.9"
        ),
        Figure("zero.spared", "without restart files: iterations not repeated", "", "0", "", _NONE, "A3.9"),
    ),
    DEMANDS: (
        Figure("in_order", "events in the order of the paper (1 = yes)", "", "1", "", _ONE, "A3.2"),
        Figure("better", "opportunistic migrations", "", "1", "", _ONE, "A3.2"),
        Figure("self", "self-migrations", "", "3", "", _THREE, "A3.2"),
        Figure("other", "other migrations", "", "0", "", _NONE, "A3.2"),
        Figure("most_at_once", "jobs at once on pegasus, at most", "", "1", "", _ONE, "A3.2"),
        Figure("lost", "iterations done twice or left out", "", "0", "", _NONE, "A3.3"),
        Figure("fetches", "fetches of the shared file per machine", "", "1", "", _ONE, "A3.7"),
        Figure("wrong_programs", "programs of other architectures (0 = none)", "", "0", "", _NONE, "A3.8"),
    ),
}
_ALWAYS_JUDGED = ("lost", "fetches", "wrong_programs", "zero.spared", "most_at_once")
"""Measures that do not depend on durations: other load may delay their events, but not change them."""


class JobMigrationStudy:
    """The experiment with jobs that migrate between machines of this host."""

    name: ClassVar[str] = "u4"
    title: ClassVar[str] = "jobs that migrate, real processes (Huedo et al.; unified, section 9)"

    def __init__(self, scale: float = 0.02, cases: Mapping[str, JobCase] = CASES) -> None:
        self._scale = scale
        self._cases = cases

    def cells(self, *, full: bool) -> Sequence[ExperimentCell]:  # noqa: ARG002 -- deterministic
        """Return one cell per scenario."""
        return [
            ExperimentCell(name=name, settings={"scenario": name}, runs=1)
            for name in (DEGRADATION, DEMANDS, FAULTS)
        ]

    def run(self, cell: ExperimentCell, rng: np.random.Generator) -> Measures:  # noqa: ARG002 -- deterministic
        """Execute a scenario, scenario A also without checkpoints, and return the measures."""
        if cell.name == FAULTS:
            return measure_faults(self._scale)
        found = self._measure(cell.name)
        if cell.name == DEGRADATION:
            zero = self._measure(FROM_ZERO)
            found |= {f"zero.{name}": value for name, value in zero.items()}
            found["disturbance"] = max(found["disturbance"], zero["disturbance"])
        return found

    def _measure(self, name: str) -> dict[str, float]:
        outcome, share = repeat_if_disturbed(lambda: self.execute(name))
        return {**measure_jobs(name, outcome, self._scale), "disturbance": share}

    def execute(self, name: str) -> JobOutcome:
        """Execute a scenario; competing processes use the first core and leave the others free."""
        return run_jobs_locally(self._cases[name], self._scale, core=min(os.sched_getaffinity(0)))

    def rows(self, results: Results, *, full: bool) -> Sequence[ResultRow]:  # noqa: ARG002
        """Return the rows that are compared with a tolerance, then rows with the times of events."""
        rows = [*_demanded_rows(results), *_fault_rows(results), *_event_rows(results)]
        return give_reasons(rows, THIS_HOST)


def measure_jobs(name: str, found: JobOutcome, scale: float) -> Measures:
    """Return the measures of an execution; times are seconds of the paper."""
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
    """Return the log with times in seconds of the paper, counted from the first start of a job."""
    zero_s = next((line.at_s for line in log.lines if line.what == "start"), 0.0)
    return StageLog(tuple(line._replace(at_s=(line.at_s - zero_s) / scale) for line in log.lines))


def _measure_transfers(found: JobOutcome) -> dict[str, float]:
    """Return the numbers of lost iterations, downloads per machine, and programs on a wrong architecture."""
    parts = [part for best in found.best for part in best["trail"]]
    arch = {machine.name: machine.arch for machine in grid().machines}
    machines = {line.machine for line in found.log.of("begun")}
    return {
        "lost": float(sum(map(_count_lost, found.best))),
        "fetches": found.fetched / len(machines),
        "wrong_programs": float(sum(part["made_for"] != arch[part["machine"]] for part in parts)),
    }


def _count_lost(best: Mapping[str, Any]) -> int:
    """Return the number of iterations of a job that were skipped or repeated at migrations."""
    trail = best["trail"]
    gaps = sum(abs(after["from"] - before["to"]) for before, after in pairwise(trail))
    return int(gaps + abs(best["structures"] - best["done"]) + trail[0]["from"])


def _demanded_rows(results: Results) -> Iterator[ResultRow]:
    for cell, figures in _DEMANDED.items():
        if cell in results:
            disturbed = results.of(cell, "disturbance")[0] > DISTURBANCE_LIMIT
            for row, figure in zip(
                single_rows(results, cell, {f"{cell}: required figures": figures}), figures, strict=True
            ):
                yield replace(row, disturbed=disturbed and figure.measure not in _ALWAYS_JUDGED)


def _fault_rows(results: Results) -> Sequence[ResultRow]:
    """Return the rows of scenario C, whose counts and orders do not depend on durations."""
    if FAULTS not in results:
        return []
    return single_rows(results, FAULTS, {f"{FAULTS}: required figures of faults and caches": FAULT_FIGURES})


def _event_rows(results: Results) -> Iterator[ResultRow]:
    for cell, figures in _EVENTS.items():
        if cell in results:
            yield from single_rows(results, cell, {f"{cell}: what happens, in seconds of the paper": figures})
