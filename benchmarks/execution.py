"""Cost per task of running programs: weft with its journal, plain threads, Parsl and Snakemake.

weft also runs without syncing its files to the disk (``unsynced``), to show what the safety against power
failures costs: as a ratio of rates, and for the chain, in which each task waits for a sync, in milliseconds
per task (``sync_ms_per_task``).

1,000 runs of ``true`` on two slots, as a chain and as a fan-out. Each contender runs in its own process, one
after another in every round; ratios are medians over rounds of values from the same round. Two rates are
printed for each:

- *marginal*: from the end of the first task to the end of the last, without start-up. The ends of Snakemake's
  tasks are the times of their marker files;
- *whole*: all tasks over the wall time of the whole process, imports and start-up included.

Threads and Parsl are compared shape by shape, Snakemake over both shapes together: in the chain alone nothing
can be ten times as fast as Snakemake where a loop that only starts one program after another is not. That
loop is measured, too (``spawn``, with ``spawn_over_snakemake`` in each shape).

Then many tasks in one fan-out: memory of the engine's process, and its CPU seconds per task at the beginning
and at the end. Prints one JSON line; the exit code is 1 if a figure is outside its limit.

Files are on a disk (``--where`` names the folder): weft writes four files and two directories per task. They
are removed at the end of all measurements: for some minutes ext4 does not reuse the inodes of removed files,
and the search for others makes each new file several times as expensive.

    python benchmarks/execution.py [--tasks 1000] [--rounds 5] [--many 100000] [--where DIR] [--quick]
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
from typing import TYPE_CHECKING, Any

from measurement import calibration_s, disk_folder, file_system, run_command

if TYPE_CHECKING:
    from weft.engine.engine import Engine
    from weft.engine.journal import JournalEntry
    from weft.runtime.driver import Listener
    from weft.runtime.execution import Execution
    from weft.workflow.workflow import Workflow

__all__ = ["CONTENDERS", "main", "workflow"]

_SLOTS = 2
_SHAPES = ("chain", "fan_out")
_LEAST = {"threads": 0.5, "parsl": 1.0}
"""weft's rate over theirs in each shape, at least."""
_LEAST_OVER_UNSYNCED = {"chain": 0.0, "fan_out": 0.9}
"""weft's rate over its rate without syncs, at least."""
_LEAST_OVER_SNAKEMAKE = 10.0
"""The same over both shapes together."""
_MOST_BYTES = 1_000_000_000
_MOST_GROWTH = 1.5

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


def workflow(shape: str, tasks: int, command: tuple[str, ...]) -> Workflow:
    """Return a workflow of tasks with one command, as a chain or a fan-out."""
    from weft.workflow.quantity import Sweep
    from weft.workflow.task import Dependency, JobSpec, Task
    from weft.workflow.workflow import Workflow

    job = JobSpec(command=command)
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


def _run_weft(flow: Workflow, folder: Path, clock: Callable[[], float]) -> list[float]:
    """Run a workflow; return the clock at the end of every task."""
    from weft.api.run import run
    from weft.engine.messages import Ended

    ends: list[float] = []

    def listen(entry: JournalEntry, _: Engine) -> None:
        if type(entry.event) is Ended:
            ends.append(clock())

    def watch(_: Execution) -> Sequence[Listener]:
        return [listen]

    ran = run(flow, on=f"local:{_SLOTS}", project=folder, policy="fcfs", watch=watch)
    if ran.ending.state != "completed":
        raise RuntimeError(f"weft: {ran.ending}")
    return ends


def _weft(shape: str, tasks: int, folder: Path) -> list[float]:
    return _run_weft(workflow(shape, tasks, ("true",)), folder, time.perf_counter)


def _unsynced(shape: str, tasks: int, folder: Path) -> list[float]:
    """Run weft with weaker durability: a power failure may lose what it has reported."""
    os.environ["WEFT_SYNC"] = "off"
    return _weft(shape, tasks, folder)


def _threads(shape: str, tasks: int, _: Path) -> list[float]:
    def task(_: int) -> float:
        subprocess.run(["true"], check=True)
        return time.perf_counter()

    with ThreadPoolExecutor(_SLOTS) as pool:
        if shape == "fan_out":
            return list(pool.map(task, range(tasks)))
        return [pool.submit(task, number).result() for number in range(tasks)]


def _spawn(shape: str, tasks: int, _: Path) -> list[float]:
    """Start programs and wait for them, one per slot, and do nothing else."""
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

    def true(inputs: Sequence[Future[Any]] = ()) -> str:  # noqa: ARG001 -- dependencies
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
    "unsynced": _unsynced,
    "spawn": _spawn,
    "threads": _threads,
    "parsl": _parsl,
    "snakemake": _snakemake,
}
"""By name: runs the tasks in a folder and returns the end of each."""


def _measure(what: str, shape: str, tasks: int, folder: Path) -> dict[str, float]:
    """Measure one contender, or the engine's CPU time and memory, in this process."""
    if what != "many":
        ends = CONTENDERS[what](shape, tasks, folder)
        if len(ends) != tasks:
            raise RuntimeError(f"{what}: {len(ends)} of {tasks} tasks ended")
        return {"per_s": (tasks - 1) / (max(ends) - min(ends))}
    cpu_s = _run_weft(workflow(shape, tasks, ("true",)), folder, time.process_time)
    part = tasks // 10
    return {
        "first_us": (cpu_s[part] - cpu_s[0]) / part * 1e6,
        "last_us": (cpu_s[-1] - cpu_s[-1 - part]) / part * 1e6,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _measure_apart(what: str, shape: str, tasks: int, where: Path) -> dict[str, float]:
    """Measure in another process and a new folder; add the rate of the whole process."""
    folder = Path(tempfile.mkdtemp(prefix=f"{what}-", dir=where))
    command = [sys.executable, __file__, "--measure", what, "--shape", shape, "--tasks", str(tasks)]
    used = run_command([*command, "--where", str(folder)])
    found: dict[str, float] = json.loads(used.stdout.splitlines()[-1])
    return found | {"whole_per_s": tasks / used.wall_s}


_Rates = dict[str, list[float]]
"""Tasks per second in each round by contender; rates of whole processes under ``NAME, whole``."""


def _rates(shape: str, tasks: int, rounds: int, where: Path) -> _Rates:
    """Run all contenders one after another, in several rounds."""
    found: _Rates = {f"{name}{kind}": [] for name in CONTENDERS for kind in ("", ", whole")}
    for _ in range(rounds):
        for name in CONTENDERS:
            measured = _measure_apart(name, shape, tasks, where)
            found[name].append(measured["per_s"])
            found[f"{name}, whole"].append(measured["whole_per_s"])
    return found


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def _compared(shape: str, rates: _Rates) -> dict[str, Any]:
    """Compare the contenders in one shape, marginal and as whole processes."""
    others = [name for name in CONTENDERS if name != "weft"]
    ratios = {name: _ratio(rates["weft"], rates[name]) for name in others}
    least = {**_LEAST, "unsynced": _LEAST_OVER_UNSYNCED[shape]}
    sync_s = [1.0 / own - 1.0 / other for own, other in zip(rates["weft"], rates["unsynced"], strict=True)]
    whole = {name: _ratio(rates["weft, whole"], rates[f"{name}, whole"]) for name in others}
    return {
        "tasks_per_s": {name: round(statistics.median(rates[name]), 1) for name in CONTENDERS},
        "weft_over": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "whole_tasks_per_s": {
            name: round(statistics.median(rates[f"{name}, whole"]), 1) for name in CONTENDERS
        },
        "whole_weft_over": {name: round(ratio, 3) for name, ratio in whole.items()},
        "sync_ms_per_task": round(statistics.median(sync_s) * 1e3, 3),
        "spawn_over_snakemake": round(_ratio(rates["spawn"], rates["snakemake"]), 3),
        "within": all(ratios[name] >= limit for name, limit in least.items()),
    }


def _over_both(rates: dict[str, _Rates]) -> dict[str, Any]:
    """Compare with Snakemake by the time of the tasks of both shapes."""
    weft, snakemake = (
        [
            1.0 / sum(1.0 / rate for rate in each)
            for each in zip(*(of[name] for of in rates.values()), strict=True)
        ]
        for name in ("weft", "snakemake")
    )
    ratio = _ratio(weft, snakemake)
    return {"weft_over": {"snakemake": round(ratio, 3)}, "within": ratio >= _LEAST_OVER_SNAKEMAKE}


def _many(tasks: int, where: Path) -> dict[str, Any]:
    found = _measure_apart("many", "fan_out", tasks, where)
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
    """Print the figures; return 1 if one is outside its limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--many", type=int, default=100_000, help="tasks of the last measurement")
    parser.add_argument("--where", type=Path, help="folder on a disk for the files of the runs")
    parser.add_argument("--quick", action="store_true", help="100 tasks, one round, then 2,000 tasks")
    parser.add_argument("--measure", choices=[*CONTENDERS, "many"], help=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=_SHAPES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.measure is not None:
        found = _measure(given.measure, given.shape, given.tasks, given.where)
        sys.stdout.write(json.dumps(found) + "\n")
        return 0
    if given.quick:
        given.tasks, given.rounds, given.many = 100, 1, 2_000
    with tempfile.TemporaryDirectory(prefix="weft-execution-", dir=disk_folder(given.where)) as folder:
        line = _figures(given, Path(folder))
    sys.stdout.write(json.dumps(line) + "\n")
    return 0 if line["within"] else 1


def _figures(given: argparse.Namespace, where: Path) -> dict[str, Any]:
    rates = {shape: _rates(shape, given.tasks, given.rounds, where) for shape in _SHAPES}
    line: dict[str, Any] = {
        "figure": "execution",
        "command": "true",
        "tasks": given.tasks,
        "slots": _SLOTS,
        "rounds": given.rounds,
        "journal": True,
        "measured": "marginal: end of the first task to end of the last; whole: the process; ratios: medians",
        "files_in": str(where.parent),
        "file_system": file_system(where),
        "least": {**_LEAST, "unsynced": _LEAST_OVER_UNSYNCED, "snakemake": _LEAST_OVER_SNAKEMAKE},
        **{shape: _compared(shape, found) for shape, found in rates.items()},
        "both": _over_both(rates),
        "many": _many(given.many, where),
        "calibration_s": round(calibration_s(), 3),
    }
    within = all(line[part]["within"] for part in (*_SHAPES, "both", "many"))
    return {**line, "within": within}


if __name__ == "__main__":
    sys.exit(main())
