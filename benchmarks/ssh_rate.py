"""Tasks per second on an ssh host, once it is connected, over the rate on this host.

The tasks are one fan-out of short shell commands: without files but with output, with one output file, and
with one input and one output file. The ssh host is an ``sshd`` in namespaces of its own on this host
(``tests/ssh_hosts.py``; this needs root), so both kinds have the same processors. The rates are measured in
turns, from the end of the first task to the end of the last. Prints one JSON line for each kind of task, with
the CPU seconds per task of all processes; the exit code is 1 if a median ratio is below its limit.

    python benchmarks/ssh_rate.py [--tasks 400] [--slots 8] [--rounds 5]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from measurement import calibration_s, disk_folder

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from weft.engine.engine import Engine
    from weft.engine.journal import JournalEntry

_LEAST = 0.5
_TASKS: dict[str, dict[str, object]] = {
    "output": {"command": "echo {n}"},
    "file": {"command": "echo {n} > out.{n}", "outputs": ["out.{n}"]},
    "files": {"command": "cat common > out.{n}", "inputs": ["common"], "outputs": ["out.{n}"]},
}


class _Rate(NamedTuple):
    """Measurement of one run."""

    tasks_per_s: float
    engine_cpu_ms: float
    """CPU time of the engine's process per task."""
    host_cpu_ms: float
    """CPU time of all processes of the ssh host per task, programs included."""


def _measure(
    folder: Path, task: dict[str, object], tasks: int, machine: dict[str, object], host: Any
) -> _Rate:
    """Measure one run in a new project."""
    import weft
    from weft.engine.messages import Ended

    folder.mkdir()
    (folder / "common").write_text("some words\n")
    sweep = {**task, "sweep": {"n": list(range(tasks))}}
    (folder / "flow.yaml").write_text(json.dumps({"weft": 1, "name": "rate", "tasks": {"t": sweep}}))
    (folder / "grid.yaml").write_text(json.dumps({"machines": {"m": machine}}))
    ends: list[tuple[float, float]] = []

    def watch(entry: JournalEntry, _: Engine) -> None:
        if isinstance(entry.event, Ended):
            ends.append((time.monotonic(), _own_cpu_s()))

    before_s = _host_cpu_s(host)
    done = weft.run(folder / "flow.yaml", on=folder / "grid.yaml", project=folder, watch=lambda _: [watch])
    if not done.completed or len(ends) != tasks:
        raise SystemExit(f"{len(ends)} of {tasks} tasks have ended")
    wall_s, cpu_s = (last - first for first, last in zip(ends[0], ends[-1], strict=True))
    host_s = _host_cpu_s(host) - before_s
    return _Rate((tasks - 1) / wall_s, 1000.0 * cpu_s / (tasks - 1), 1000.0 * host_s / tasks)


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _host_cpu_s(host: Any) -> float:
    """Return the CPU seconds of the processes of a host and of their descendants that have ended."""
    ticks = 0
    for pid in host.processes():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _compare(place: Path, name: str, options: argparse.Namespace, host: Any) -> dict[str, Any]:
    backends = {"local": {"kind": "local"}, "ssh": {"kind": "ssh", **host.backend}}
    found: dict[str, list[_Rate]] = {kind: [] for kind in backends}
    for number in range(options.rounds):
        for kind, backend in backends.items():
            machine = {"nodes": options.slots, "backend": backend}
            folder = place / f"{name}-{kind}{number}"
            found[kind].append(_measure(folder, _TASKS[name], options.tasks, machine, host))
    pairs = zip(found["ssh"], found["local"], strict=True)
    ratios = sorted(ssh.tasks_per_s / local.tasks_per_s for ssh, local in pairs)
    return {
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(each, 2) for each in ratios],
        **{
            f"{kind}_{field}": round(statistics.median(getattr(each, field) for each in rates), 2)
            for kind, rates in found.items()
            for field in _Rate._fields
        },
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    """Measure all kinds of tasks and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tests = importlib.import_module("ssh_hosts")
    if missing := tests.find_missing_for_hosts():
        print(json.dumps({"benchmark": "ssh_rate", "skipped": missing}))
        return 0
    failed = False
    with (
        tempfile.TemporaryDirectory(dir=disk_folder()) as place,
        tests.start_ssh_hosts(Path(place) / "hosts", 1) as hosts,
    ):
        for name in _TASKS:
            found = _compare(Path(place), name, options, hosts[0])
            failed |= found["ratio"] < _LEAST
            about = {"benchmark": "ssh_rate", "task": name, "tasks": options.tasks, "slots": options.slots}
            print(json.dumps({**about, **found, "least": _LEAST, "calibration_s": round(calibration_s(), 3)}))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
