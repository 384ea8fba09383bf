"""Compares a sweep of short tasks on a Slurm of four virtual nodes: in pilots, and with a job per task.

Prints one JSON line: seconds of both runs, their ratio, and for each run the number of Slurm commands and the
most of them that started within one second, which must not exceed the limit. The commands are counted by
wrappers on the PATH, each at the time at which its process was started. Skipped where Slurm is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from slurm_cluster import ADMIN_PATH, PROGRAMS, SlurmCluster  # type: ignore[import-not-found]

COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "sacct", "scontrol")
WRAPPER = """#!/bin/sh
cut -d' ' -f22 /proc/$$/stat >> {log}
exec {program} "$@"
"""
PLATFORM = """weft: 1
machines:
  cluster:
    nodes: 4
    backend: {{kind: slurm, partition: main, mode: {mode}, commands_per_s: {rate}}}
"""
FLOW = """weft: 1
name: sweep
tasks:
  t: {{sweep: {{i: 1..{count}}}, command: "sleep {seconds}", work: 1s}}
"""


def measure(cluster: SlurmCluster, mode: str, count: int, seconds: float, rate: float) -> dict[str, float]:
    """Run the sweep in a mode; return seconds, number of commands and most commands in a second."""
    with tempfile.TemporaryDirectory(prefix="weft-slurm-") as name:
        folder = Path(name)
        wrappers, log = folder / "bin", folder / "commands"
        wrappers.mkdir()
        log.touch()
        for command in COMMANDS:
            if (program := shutil.which(command, path=ADMIN_PATH)) is not None:
                (wrappers / command).write_text(WRAPPER.format(log=log, program=program))
                (wrappers / command).chmod(0o755)
        (folder / "cluster.yaml").write_text(PLATFORM.format(mode=mode, rate=rate))
        (folder / "flow.yaml").write_text(FLOW.format(count=count, seconds=seconds))
        path = f"{wrappers}{os.pathsep}{cluster.environment['PATH']}"
        began_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "weft", "run", "flow.yaml", "--on", "cluster.yaml"],
            cwd=folder, env={**cluster.environment, "PATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        wall_s = time.monotonic() - began_s
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        ticks_per_s = os.sysconf("SC_CLK_TCK")
        starts = sorted(int(line) / ticks_per_s for line in log.read_text().split())
    most = max((sum(start <= each < start + 1.0 for each in starts) for start in starts), default=0)
    return {"wall_s": round(wall_s, 1), "commands": len(starts), "most_commands_in_1_s": most}


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a task")
    parser.add_argument("--rate", type=float, default=4.0, help="commands of Slurm per second")
    options = parser.parse_args()
    if missing := [program for program in PROGRAMS if shutil.which(program, path=ADMIN_PATH) is None]:
        sys.stdout.write(json.dumps({"benchmark": "slurm", "skipped": f"no {missing[0]}"}) + "\n")
        return
    cluster = SlurmCluster(4)
    try:
        pilots = measure(cluster, "auto", options.tasks, options.seconds, options.rate)
        jobs = measure(cluster, "job", options.tasks, options.seconds, options.rate)
    finally:
        cluster.stop()
    result = {
        "benchmark": "slurm", "tasks": options.tasks, "task_s": options.seconds, "limit": options.rate,
        "pilots": pilots, "job_per_task": jobs, "ratio": round(jobs["wall_s"] / pilots["wall_s"], 1),
    }  # fmt: skip
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
