"""Program of the jobs in ``unified_migration``: a search that only takes time and reports its progress.

weft does not import it: its source is written into the project once per architecture and run as a job. It
iterates over the structures, reports each iteration, writes checkpoints, and requires more memory before its
second phase. On a machine with ``compute`` an iteration is processor time, so that competing processes slow
it down; elsewhere the program sleeps.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft import task

MADE_FOR = "any"
_PRIORITY = -15
_CORES = 2
_STEPS = 200
_STATE: dict[str, Any] = {"done": 0, "trail": []}
"""Iterations done, and per machine the first and last iteration with their times."""


def main(machine: str, speed: str, how: str, memory_mb: str) -> None:
    """Run the search with the parameters in the staged files."""
    parameters = json.loads(Path("parameters").read_text())
    number = Path("sequence").read_text().strip()
    structures = Path("structures").read_text().splitlines()
    state: dict[str, Any] = task.restore(_STATE)
    here = {"machine": machine, "made_for": MADE_FOR, "from": state["done"], "began_at": time.time()}
    state["trail"].append(here)
    task.on_checkpoint(lambda: task.checkpoint(state))
    take = _compute if how == "compute" else time.sleep
    recent: list[float] = []
    for done in range(state["done"], len(structures)):
        if done == parameters["demand_after"]:
            _demand(parameters["demand_mb"], int(memory_mb), state)
        recent = [*recent[-1:], _iteration(take, parameters["unit_s"] / float(speed))]
        here |= {"to": done + 1, "ended_at": time.time()}
        state["done"] = done + 1
        # The shorter of two iterations: a single delay of the host is not a slow machine.
        task.progress(done + 1, len(structures), last_iteration_s=min(recent))
    Path(f"best.{number}").write_text(json.dumps({"structures": len(structures), **state}))


def _iteration(take: Callable[[float], None], seconds: float) -> float:
    began_s = time.monotonic()
    take(seconds)
    return time.monotonic() - began_s


def _compute(seconds: float) -> None:
    until_s = time.process_time() + seconds
    while time.process_time() < until_s:
        for _ in range(_STEPS):
            pass


def _demand(needed_mb: int, memory_mb: int, state: dict[str, Any]) -> None:
    """Change the requirement on memory, and wait for the migration if this machine does not satisfy it."""
    task.checkpoint(state)
    task.require(f"memory >= {needed_mb}*MB")
    while memory_mb < needed_mb:
        time.sleep(1.0)


def _raise_priority() -> None:
    """Raise the priority of this process, so that other load of the host does not slow it down.

    Only root may do this. The priority of the session is raised, too, because the kernel first divides the
    processor time among sessions. With a single core nothing is changed, since weft itself would starve.
    """
    if (os.cpu_count() or 1) < _CORES:
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        Path("/proc/self/autogroup").write_text(str(_PRIORITY))


if __name__ == "__main__":
    if sys.argv[3] == "compute":
        _raise_priority()
    main(*sys.argv[1:])
