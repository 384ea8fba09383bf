"""Compares the real and the simulated makespan of a moldable workflow on a Slurm of 16 virtual nodes.

The machine is measured by ``weft sites check`` first, so that the time to start a job is in the plan. Prints
one JSON line: the measured time to start a job, the planned, simulated and real makespan, the difference of
the last two, and whether every task ran on the planned number of nodes. Skipped where Slurm is not installed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from slurm_cluster import ADMIN_PATH, PROGRAMS, SlurmCluster  # type: ignore[import-not-found]

NODES = 16
PLATFORM = """weft: 1
machines:
  cluster:
    nodes: 16
    backend: {kind: slurm, partition: main, poll_every: 1}
"""


def write_flow(folder: Path, layers: int, width: int, seconds: float, seed: int) -> None:
    """Write a layered workflow whose tasks take about ``seconds`` on one node and less on more nodes."""
    numbers = np.random.default_rng(seed)
    tasks: dict[str, Any] = {}
    before: list[str] = []
    for layer in range(layers):
        names = [f"t{layer}_{position}" for position in range(width if layer % 2 else max(1, width // 3))]
        for name in names:
            work, serial = seconds * numbers.uniform(0.5, 2.0), numbers.uniform(0.05, 0.3)
            times = [round(work * (serial + (1.0 - serial) / count), 2) for count in range(1, NODES + 1)]
            table = " ".join(map(str, times))
            tasks[name] = {
                "speedup": {"seconds": {count + 1: each for count, each in enumerate(times)}},
                "command": f"echo $WEFT_NODES $SLURM_JOB_NUM_NODES > {folder}/{name}; set -- {table};"
                " shift $((WEFT_NODES - 1)); sleep $1",
                "after": before,
            }
        before = names
    (folder / "flow.yaml").write_text(json.dumps({"weft": 1, "name": "moldable", "tasks": tasks}))


def main() -> None:
    """Measure and print the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--width", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=30.0, help="mean length of a task on one node")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if missing := [program for program in PROGRAMS if shutil.which(program, path=ADMIN_PATH) is None]:
        sys.stdout.write(json.dumps({"benchmark": "slurm_moldable", "skipped": f"no {missing[0]}"}) + "\n")
        return
    cluster = SlurmCluster(NODES)
    try:
        with tempfile.TemporaryDirectory(prefix="weft-slurm-") as name:
            result = measure(cluster, Path(name), options)
    finally:
        cluster.stop()
    sys.stdout.write(json.dumps({"benchmark": "slurm_moldable", **result}) + "\n")


def measure(cluster: SlurmCluster, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Measure the machine, then plan, simulate and run the workflow."""

    def weft(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "weft", *words, "--json"],
            cwd=folder, env=cluster.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    (folder / "cluster.yaml").write_text(PLATFORM)
    write_flow(folder, options.layers, options.width, options.seconds, options.seed)
    checked = weft("sites", "check", "cluster.yaml", "--size", "1MB")
    on = ("flow.yaml", "--on", "cluster.measured.yaml")
    planned = weft("plan", *on, "--out", "plan.json")
    simulated, real = (weft(command, *on, "--plan", "plan.json") for command in ("simulate", "run"))
    counts = {each["task"]: each["nodes"] for each in planned["schedule"]}
    given = {name: (folder / name).read_text().split() for name in counts}
    simulated_s, real_s = simulated["end_s"], real["took_s"]
    (machine,) = checked["machines"]
    return {
        "tasks": len(counts),
        "startup_s": round(machine["startup_s"], 2),
        "parallel_startup_s": round(machine["parallel_startup_s"], 2),
        "planned_s": round(planned["makespan_s"], 1),
        "simulated_s": round(simulated_s, 1),
        "real_s": round(real_s, 1),
        "difference": round(real_s / simulated_s - 1.0, 3),
        "planned_counts": all(given[name] == [str(count)] * 2 for name, count in counts.items()),
    }


if __name__ == "__main__":
    main()
