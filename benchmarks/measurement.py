"""Measurements that benchmarks share: a calibration loop, whole commands, and a folder on a disk."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Usage", "calibration_s", "disk_folder", "file_system", "run_command"]

_SET_CHILD_SUBREAPER = 36
"""Number of the option of ``prctl(2)``."""
_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


def calibration_s(repeat: int = 5) -> float:
    """Return the median CPU seconds of two million additions in plain Python, to compare machines."""
    times = []
    for _ in range(repeat):
        started = time.process_time()
        total = 0
        for number in range(2_000_000):
            total += number
        times.append(time.process_time() - started)
    return statistics.median(times)


class Usage(NamedTuple):
    """Time of a whole command, from the start of its process to its end, and what it printed."""

    wall_s: float
    cpu_s: float
    """User and system time of the process and of all its descendants, also of those that outlive it."""
    stdout: str


def run_command(
    command: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Usage:
    """Run a command and measure it; exit with its error output if it fails.

    Returns when all descendants of the command have ended: the runner of a ``weft run`` outlives it.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        tempfile.NamedTemporaryFile() as report,
    ):
        # Only the parent of all descendants can count them, so the command gets a parent of its own.
        parent = [sys.executable, str(Path(__file__).resolve()), report.name]
        done = subprocess.run(
            [*parent, *command], cwd=cwd, env=environment, stdout=out, stderr=errors, check=False
        )
        out.seek(0)
        errors.seek(0)
        if done.returncode:
            shown = errors.read().decode(errors="replace")[-4000:]
            sys.exit(f"{' '.join(command)} failed with exit code {done.returncode}:\n{shown}")
        wall_s, cpu_s = json.loads(report.read())
        return Usage(wall_s, cpu_s, out.read().decode())


def _measure(report: Path, command: Sequence[str]) -> int:
    """Run a command as a child of this process and write its wall and CPU seconds; return its exit code."""
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("this kernel does not assign orphaned processes to the benchmark")
    started = time.perf_counter()
    code = subprocess.run(command, check=False).returncode
    wall_s = time.perf_counter() - started
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report.write_text(json.dumps([wall_s, used.ru_utime + used.ru_stime]), encoding="utf-8")
    return code


def file_system(path: Path) -> str:
    """Return the type of the file system of a path, such as ext4 or tmpfs; "unknown" if it cannot be read."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    except OSError:
        return "unknown"
    where, best = path.resolve(), ("", "unknown")
    for line in mounts.splitlines():
        _, point, kind, *_ = line.split()
        # Later mounts hide earlier ones of the same directory.
        if where.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def disk_folder(given: Path | None = None) -> Path:
    """Return a folder on a disk: the given one, or the first of the usual temporary folders.

    Runs write files for every task, so a file system in memory would hide part of their cost.
    """
    for folder in [given] if given else [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.cwd()]:
        if os.access(folder, os.W_OK) and file_system(folder) not in _IN_MEMORY:
            return folder
    sys.exit(
        f"{given or tempfile.gettempdir()} is not writable or in memory; name a folder on a disk: --where DIR"
    )


if __name__ == "__main__":
    sys.exit(_measure(Path(sys.argv[1]), sys.argv[2:]))
