"""Scenario C of ``u4``: faults of jobs, runners and machines, executed with real processes.

E. Huedo, R. Montero, I. Llorente, The GridWay Framework for Adaptive Scheduling and Execution on Grids
(docs/papers/adaptive-jobs.md, sections 2, 5 and 6; A3.4 to A3.6). The scenario also tests the two caches of
the machine selection. On machines of this host the runner has the role of the job manager, and the directory
of the machine has the role of the gatekeeper. A runner that is stopped does not respond while its machine
does; a machine is lost if its runner is killed and its directory is moved away. A wrapper that ends without
running the command leaves no exit code.

The settings are those of the preset ``s3`` with shorter intervals. Counts and orders are judged, not times.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from weft.engine import messages
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.formats.profiles import preset_settings
from weft.papers.reproduction import Figure, Measures, ToleranceBand
from weft.papers.runs import LocalRun, place_locally, run_locally
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.runtime.driver import Listener
from weft.workflow.builder import Builder
from weft.workflow.workflow import Workflow

FAULTS = "C"
"""Name of the scenario."""
_WORKFLOW = "job"
_RETRIES = 2
FIGURES = tuple(
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
"""The required figures of this scenario."""

_SETTINGS = {"contract": "none", "probe_every": "1s", "migration": {"when": "never"}}
_SEARCH = """
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
    ran = _run(project, _search(project, steps=100), listeners=[fault.listen])
    return {
        "reattached": float(any(isinstance(each, messages.ReattachJob) for each in _commands(ran))),
        "starts": float(len(_trail(project)) if ran.outcome == "completed" else -1),
    }


def _lose_machine(project: Path) -> dict[str, float]:
    """Kill the runner of a job and rename its machine's directory; the job continues on the other machine."""

    def lose() -> None:
        (project / "first").rename(project / "first.lost")
        os.kill(_find_runner(project, "first"), signal.SIGKILL)

    ran = _run(project, _search(project, steps=40), listeners=[_Fault(lose).listen])
    machines = [each.machine for each in _commands(ran) if isinstance(each, messages.Start)]
    trail = _trail(project)
    return {
        "moved": float(ran.outcome == "completed" and machines == [0, 1]),
        "restarted": float(len(trail) == len(machines) and trail[0] == 0 < trail[-1]),
    }


def _end_without_exit_code(project: Path) -> dict[str, float]:
    ran = _run(project, _unwrapped(wrapper="true", on_failure="stop"))
    tries = sum(isinstance(each, messages.Start) for each in _commands(ran))
    return {"tries": float(tries), "completed": float(ran.outcome == "completed")}


def _reschedule_without_exit_code(project: Path) -> dict[str, float]:
    broken = "sh -c 'if [ $1 = first ]; then exit 0; fi; shift; exec \"$@\"' wrapper {machine.name}"
    ran = _run(project, _unwrapped(wrapper=broken, on_failure="reschedule"))
    machines = [each.machine for each in _commands(ran) if isinstance(each, messages.Start)]
    return {"moved": float(ran.outcome == "completed" and machines[0] == 0 and machines[-1] == 1)}


def _count_queries(project: Path, scale: float) -> dict[str, float]:
    """Run short jobs one after another and return the largest numbers of discoveries and queries.

    Discoveries are counted within the interval for which the list of machines is cached, queries of a machine
    within the interval for which its state is cached.
    """
    flow = Builder(_WORKFLOW)
    for number in range(12):
        flow.task(f"job{number}", command="sleep 0.5", work=1, after=[f"job{number - 1}"] if number else [])
    intervals = {"discover_every": 300.0 * scale, "state_every": 30.0 * scale}
    ran = _run(project, flow.build(), settings=intervals)
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


def _search(project: Path, *, steps: int) -> Workflow:
    """Return a job whose iterations take 0.1 s and which writes a restart file.

    Every start of the job appends a line to the file ``trail``.
    """
    flow = Builder(_WORKFLOW)
    text = _SEARCH.replace("{steps}", str(steps)).replace("{trail}", str(project / "trail"))
    flow.task("search", command=text, work=0.1 * steps, checkpoint={"files": ["restart"], "every": "1s"})
    return flow.build()


def _unwrapped(*, wrapper: str, on_failure: str) -> Workflow:
    flow = Builder(_WORKFLOW)
    flow.task("search", command="true", work=1, wrapper=wrapper, retries=_RETRIES, on_failure=on_failure)
    return flow.build()


def _run(
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
        {_WORKFLOW: workflow},
        Platform(machines=tuple(machines)),
        [(0.0, _WORKFLOW)],
        project=project,
        policy="rank",
        settings=preset_settings("s3", {**_SETTINGS, **(settings or {})}),
        listeners=listeners,
    )


def _commands(ran: LocalRun) -> Iterable[messages.Command]:
    return (command for entry in ran.entries for command in entry.commands)


def _trail(project: Path) -> list[int]:
    """Return the iterations from which the program started, in order."""
    return [int(line) for line in (project / "trail").read_text(encoding="utf-8").split()]


def _find_runner(project: Path, machine: str) -> int:
    """Return the process number of a machine's runner."""
    (record,) = project.glob(f".weft/runners/*/{machine}*/pid")
    return int(json.loads(record.read_text(encoding="utf-8").partition(" ")[2])["pid"])
