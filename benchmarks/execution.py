"""What running a task costs: weft, its journal on, beside plain threads, Parsl and Snakemake in one run.

1,000 times ``true`` with two slots, as a chain and side by side. Each contender runs in a process of its own,
one after the other in every round, because the rest of a machine is never quiet; ratios are medians over
rounds of what was measured in the same round. Start-up is left out alike for all: counted is from the end of
the first task to the end of the last. Of Snakemake's tasks the times of their marker files are taken, since
its tasks need one each. Then so many tasks that do nothing: memory of the engine's process, and CPU seconds
per task at the beginning and at the end. Printed is one JSON line; the exit code is 1 if a figure is outside.

Threads and Parsl are compared shape by shape. Snakemake is compared over both shapes together, the time for
all tasks of both: in the chain alone nothing can be ten times as fast as it where even a loop that starts one
program after the other and does nothing else is not. What that loop reaches is measured beside the others
(``spawn``, with ``spawn_over_snakemake`` in each shape).

Files lie in memory where that can be had (``--where`` names another place): weft keeps four files and two
directories for each task, plain threads none, and what a disk makes of that is the disk's figure.

    python benchmarks/execution.py [--tasks 1000] [--rounds 5] [--nothing 100000] [--where DIR] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from calibration import calibration_s
from weft.api.run import run
from weft.engine.engine import Engine
from weft.engine.journal import JournalEntry
from weft.engine.messages import Ended
from weft.runtime.driver import Listener
from weft.runtime.execution import Execution
from weft.workflow.quantity import Sweep
from weft.workflow.task import Dependency, JobSpec, Task
from weft.workflow.workflow import Workflow

__all__ = ["CONTENDERS", "main", "workflow"]

_SLOTS = 2
_SHAPES = ("chain", "fan_out")
_LEAST = {"threads": 0.5, "parsl": 1.0}
"""weft's rate over theirs in each shape, at least."""
_LEAST_OVER_SNAKEMAKE = 10.0
"""The same over both shapes together."""
_MOST_BYTES = 1_000_000_000
_MOST_GROWTH = 1.5
_IN_MEMORY = Path("/dev/shm")

_SNAKEFILE = """
rule all:
    input: expand("done/{{k}}", k=range({tasks}))

rule task:
    input: {needs}
    output: touch("done/{{k}}")
    shell: "true"
"""
_NEEDS = {
    "chain": "lambda w: [f'done/{int(w.k) - 1}'] if int(w.k) else []",
    "fan_out": "[]",
}


def workflow(shape: str, tasks: int, command: tuple[str, ...] | None) -> Workflow:
    """Give so many tasks of one command, each after the one before, or all at once."""
    job = None if command is None else JobSpec(command=command)
    if shape == "fan_out":
        swept = Sweep(variables=(("k", tuple(range(tasks))),))
        return Workflow(name=shape, tasks=(Task(name="t", sweep=swept, work=0.001, job=job),))
    described = [
        Task(
            name=f"t{task}",
            work=0.001,
            job=job,
            after=(Dependency(task=f"t{task - 1}"),) if task else (),
        )
        for task in range(tasks)
    ]
    return Workflow(name=shape, tasks=tuple(described))


def _heard_by_weft(flow: Workflow, folder: Path, clock: Callable[[], float]) -> list[float]:
    """Run a workflow; give what the clock showed at every end."""
    ends: list[float] = []

    def hear(entry: JournalEntry, _: Engine) -> None:
        if type(entry.event) is Ended:
            ends.append(clock())

    def watch(_: Execution) -> Sequence[Listener]:
        return [hear]

    ran = run(flow, on=f"local:{_SLOTS}", project=folder, policy="fcfs", watch=watch)
    if ran.ending.state != "completed":
        raise RuntimeError(f"weft: {ran.ending}")
    return ends


def _weft(shape: str, tasks: int, folder: Path) -> list[float]:
    return _heard_by_weft(workflow(shape, tasks, ("true",)), folder, time.perf_counter)


def _threads(shape: str, tasks: int, _: Path) -> list[float]:
    def task(_: int) -> float:
        subprocess.run(["true"], check=True)
        return time.perf_counter()

    with ThreadPoolExecutor(_SLOTS) as pool:
        if shape == "fan_out":
            return list(pool.map(task, range(tasks)))
        return [pool.submit(task, number).result() for number in range(tasks)]


def _spawn(shape: str, tasks: int, _: Path) -> list[float]:
    """Start programs and wait for them, as many at a time as there are slots, and nothing else."""
    program = shutil.which("true")
    if program is None:
        raise RuntimeError("true: not found")
    ends: list[float] = []
    running: set[int] = set()
    for started in range(tasks + 1):
        while running and (started == tasks or len(running) == (_SLOTS if shape == "fan_out" else 1)):
            running.remove(os.wait()[0])
            ends.append(time.perf_counter())
        if started < tasks:
            running.add(os.posix_spawn(program, ["true"], os.environ))
    return ends


def _parsl(shape: str, tasks: int, folder: Path) -> list[float]:
    import parsl

    config = parsl.Config(
        executors=[parsl.ThreadPoolExecutor(max_threads=_SLOTS)],
        run_dir=str(folder / "runinfo"),
        strategy="none",
        initialize_logging=False,
    )
    ends: list[float] = []

    def true(inputs: Sequence[Future[Any]] = ()) -> str:  # noqa: ARG001 -- what it waits for
        return "true"

    with parsl.load(config):
        app = parsl.bash_app(true)
        futures: list[Future[Any]] = []
        for _ in range(tasks):
            future = app(inputs=futures[-1:] if shape == "chain" else [])
            future.add_done_callback(lambda _: ends.append(time.perf_counter()))
            futures.append(future)
        for future in futures:
            future.result()
    return ends


def _snakemake(shape: str, tasks: int, folder: Path) -> list[float]:
    (folder / "Snakefile").write_text(_SNAKEFILE.format(tasks=tasks, needs=_NEEDS[shape]), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--cores", str(_SLOTS), "--quiet", "all", "--nolock"]
    home = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **home}, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"snakemake: {done.stderr.decode(errors='replace')[-2000:]}")
    return [file.stat().st_mtime_ns / 1e9 for file in (folder / "done").iterdir()]


CONTENDERS: dict[str, Callable[[str, int, Path], list[float]]] = {
    "weft": _weft,
    "spawn": _spawn,
    "threads": _threads,
    "parsl": _parsl,
    "snakemake": _snakemake,
}
"""By name: runs so many tasks in a folder and gives when each ended."""


def _measure(what: str, shape: str, tasks: int, folder: Path) -> dict[str, float]:
    """Measure one contender, or the tasks that do nothing, in this process."""
    if what != "nothing":
        ends = CONTENDERS[what](shape, tasks, folder)
        if len(ends) != tasks:
            raise RuntimeError(f"{what}: {len(ends)} of {tasks} tasks have ended")
        return {"per_s": (tasks - 1) / (max(ends) - min(ends))}
    cpu_s = _heard_by_weft(workflow(shape, tasks, None), folder, time.process_time)
    part = tasks // 10
    return {
        "first_us": (cpu_s[part] - cpu_s[0]) / part * 1e6,
        "last_us": (cpu_s[-1] - cpu_s[-1 - part]) / part * 1e6,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _measured_apart(what: str, shape: str, tasks: int, where: Path) -> dict[str, float]:
    """Measure in a process and a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="weft-execution-", dir=where))
    command = [sys.executable, __file__, "--measure", what, "--shape", shape, "--tasks", str(tasks)]
    try:
        done = subprocess.run([*command, "--where", str(folder)], capture_output=True, check=False)
    finally:
        shutil.rmtree(folder)
    if done.returncode:
        sys.exit(f"{what}, {shape}: {done.stderr.decode(errors='replace')[-4000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


_Rates = dict[str, list[float]]
"""By contender: tasks per second in each round."""


def _rates(shape: str, tasks: int, rounds: int, where: Path) -> _Rates:
    """Let all contenders run one after the other, several times."""
    found: _Rates = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, kept in found.items():
            kept.append(_measured_apart(name, shape, tasks, where)["per_s"])
    return found


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def _compared(rates: _Rates) -> dict[str, Any]:
    """Compare the contenders in one shape."""
    ratios = {name: _ratio(rates["weft"], rates[name]) for name in rates if name != "weft"}
    return {
        "tasks_per_s": {name: round(statistics.median(found), 1) for name, found in rates.items()},
        "weft_over": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "spawn_over_snakemake": round(_ratio(rates["spawn"], rates["snakemake"]), 3),
        "within": all(ratios[name] >= least for name, least in _LEAST.items()),
    }


def _over_both(rates: dict[str, _Rates]) -> dict[str, Any]:
    """Compare with Snakemake by the time for the tasks of both shapes."""
    weft, snakemake = (
        [
            1.0 / sum(1.0 / rate for rate in each)
            for each in zip(*(of[name] for of in rates.values()), strict=True)
        ]
        for name in ("weft", "snakemake")
    )
    ratio = _ratio(weft, snakemake)
    return {"weft_over": {"snakemake": round(ratio, 3)}, "within": ratio >= _LEAST_OVER_SNAKEMAKE}


def _nothing(tasks: int, where: Path) -> dict[str, Any]:
    found = _measured_apart("nothing", "fan_out", tasks, where)
    growth = found["last_us"] / found["first_us"]
    return {
        "tasks": tasks,
        "peak_bytes": int(found["peak_bytes"]),
        "cpu_us_per_task_in_first_tenth": round(found["first_us"], 1),
        "cpu_us_per_task_in_last_tenth": round(found["last_us"], 1),
        "growth": round(growth, 3),
        "within": growth <= _MOST_GROWTH and found["peak_bytes"] < _MOST_BYTES,
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; 1 if one is outside."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nothing", type=int, default=100_000, help="tasks that do nothing")
    parser.add_argument("--where", type=Path, help="folder for all files of the runs")
    parser.add_argument("--quick", action="store_true", help="100 tasks, one round, 10,000 that do nothing")
    parser.add_argument("--measure", choices=[*CONTENDERS, "nothing"], help=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=_SHAPES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.measure is not None:
        found = _measure(given.measure, given.shape, given.tasks, given.where)
        sys.stdout.write(json.dumps(found) + "\n")
        return 0
    if given.quick:
        given.tasks, given.rounds, given.nothing = 100, 1, 10_000
    in_memory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    where = given.where or in_memory or Path(tempfile.gettempdir())
    rates = {shape: _rates(shape, given.tasks, given.rounds, where) for shape in _SHAPES}
    line: dict[str, Any] = {
        "figure": "execution",
        "command": "true",
        "tasks": given.tasks,
        "slots": _SLOTS,
        "rounds": given.rounds,
        "journal": True,
        "measured": "from the end of the first task to the end of the last; ratios: median over rounds",
        "files_in": str(where),
        "least": {**_LEAST, "snakemake": _LEAST_OVER_SNAKEMAKE},
        **{shape: _compared(found) for shape, found in rates.items()},
        "both": _over_both(rates),
        "nothing": _nothing(given.nothing, where),
        "calibration_s": round(calibration_s(), 3),
    }
    within = all(line[part]["within"] for part in (*_SHAPES, "both", "nothing"))
    sys.stdout.write(json.dumps({**line, "within": within}) + "\n")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
