"""Tasks per second on an ssh host, once it is connected, over the rate on this host.

The tasks are runs of ``true`` without files, in one fan-out. The ssh host is an ``sshd`` in namespaces of its
own on this host (``tests/ssh_hosts.py``; this needs root), so both kinds have the same processors. The rates
are measured in turns, from the end of the first task to the end of the last. Prints one JSON line; the exit
code is 1 if the median ratio is below its limit.

    python benchmarks/ssh_rate.py [--tasks 400] [--slots 8] [--rounds 3]
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from measurement import calibration_s, disk_folder

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from weft.engine.engine import Engine
    from weft.engine.journal import JournalEntry

_LEAST = 0.5


def measure_rate(folder: Path, tasks: int, slots: int, backend: dict[str, object]) -> float:
    """Return the tasks per second of one run in a new project."""
    import weft
    from weft.engine.messages import Ended

    task = {"command": ["true"], "sweep": {"n": list(range(tasks))}}
    (folder / "flow.yaml").write_text(json.dumps({"weft": 1, "name": "rate", "tasks": {"t": task}}))
    machine = {"nodes": slots, "backend": backend}
    (folder / "grid.yaml").write_text(json.dumps({"machines": {"m": machine}}))
    ends: list[float] = []

    def watch(entry: JournalEntry, _: Engine) -> None:
        if isinstance(entry.event, Ended):
            ends.append(time.monotonic())

    done = weft.run(folder / "flow.yaml", on=folder / "grid.yaml", project=folder, watch=lambda _: [watch])
    if not done.completed or len(ends) != tasks:
        raise SystemExit(f"{len(ends)} of {tasks} tasks have ended")
    return (tasks - 1) / (ends[-1] - ends[0])


def main() -> int:
    """Measure both rates and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    tests = importlib.import_module("ssh_hosts")
    if missing := tests.find_missing_for_hosts():
        print(json.dumps({"benchmark": "ssh_rate", "skipped": missing}))
        return 0
    rates: dict[str, list[float]] = {"local": [], "ssh": []}
    with (
        tempfile.TemporaryDirectory(dir=disk_folder()) as place,
        tests.start_ssh_hosts(Path(place) / "hosts", 1) as hosts,
    ):
        kinds: dict[str, dict[str, object]] = {
            "local": {"kind": "local"},
            "ssh": {"kind": "ssh", **hosts[0].backend},
        }
        for number in range(options.rounds):
            for kind, backend in kinds.items():
                folder = Path(place) / f"{kind}{number}"
                folder.mkdir()
                rates[kind].append(measure_rate(folder, options.tasks, options.slots, backend))
    ratio = statistics.median(ssh / local for ssh, local in zip(rates["ssh"], rates["local"], strict=True))
    found = {
        "benchmark": "ssh_rate",
        "tasks": options.tasks,
        "slots": options.slots,
        "local_per_s": round(statistics.median(rates["local"]), 1),
        "ssh_per_s": round(statistics.median(rates["ssh"]), 1),
        "ratio": round(ratio, 3),
        "least": _LEAST,
        "calibration_s": round(calibration_s(), 3),
    }
    print(json.dumps(found))
    return int(ratio < _LEAST)


if __name__ == "__main__":
    sys.exit(main())
