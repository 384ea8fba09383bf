"""The engine against a bare SimPy model, its cost per event, and its memory per task.

Prints one JSON line per figure, with medians of CPU seconds and a calibration loop:

- ``throughput``: a layered graph on 64 hosts, first come, first served. The engine decides and the simulation
  backend executes (without journal and invariant checks); the SimPy model has one process per task, which
  waits for its predecessors, then for a host. The engine serves waiting tasks by index, the model in the
  order in which they became ready, so the makespans differ slightly. ``command_s`` is the whole command
  ``weft simulate`` of the same graph as a file, imports, reading and report included.
- ``events``: cost of one event in engine and backend while many tasks wait, first come, first served.
- ``memory``: bytes per task of a run of independent tasks, beyond the memory of the process before.

    python benchmarks/engine.py [--repeat 5] [--tasks 10000] [--waiting 1000,10000,100000,300000]
                                [--memory 1000000] [--where DIR]
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from measurement import calibration_s, disk_folder, run_command
from weft.backends.simulation.scenario import Arrival
from weft.engine.state.compiled import WorkflowLibrary
from weft.formats.files import load_platform, save_workflow
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.checks import check_and_unfold
from weft.workflow.quantity import Sweep
from weft.workflow.settings import RunSettings
from weft.workflow.task import Dependency, Task
from weft.workflow.workflow import Workflow

__all__ = ["bare_simpy_s", "engine_s", "independent", "layered", "main"]

_HOSTS = 64
_LAYER = 100
_PARENTS = 3
_LEAST_RATIO = 0.5
_MOST_GROWTH = 1.5
_MOST_BYTES = 2_000
_EVENTS = 4_000
"""Number of events over which their cost is measured."""


def layered(tasks: int, seed: int) -> tuple[Workflow, list[list[int]], list[float]]:
    """Return a layered workflow, the predecessors of its tasks, and their seconds."""
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(1.0, 20.0, tasks).round(3).tolist()
    parents: list[list[int]] = []
    for task in range(tasks):
        above = (task // _LAYER - 1) * _LAYER
        drawn = rng.choice(_LAYER, _PARENTS, replace=False).tolist() if above >= 0 else []
        parents.append(sorted(above + place for place in drawn))
    described = tuple(
        Task(
            name=f"t{task}",
            work=seconds[task],
            after=tuple(Dependency(task=f"t{one}") for one in parents[task]),
        )
        for task in range(tasks)
    )
    return Workflow(name="layered", tasks=described), parents, seconds


def independent(tasks: int) -> Workflow:
    """Return a workflow of independent tasks."""
    swept = Sweep(variables=(("k", tuple(range(tasks))),))
    return Workflow(name="independent", tasks=(Task(name="t", sweep=swept, work=10.0),))


def _simulation(instance: Instance) -> Simulation:
    library = WorkflowLibrary({"workflow": instance})
    return Simulation(library, [Arrival(workflow="workflow")], make_policy("fcfs:intra=index"), RunSettings())


def engine_s(instance: Instance) -> tuple[float, float]:
    """Return the CPU seconds of a run from the compiled instance, and its makespan."""
    started = time.process_time()
    engine = _simulation(instance).run()
    return time.process_time() - started, engine.state.now


def bare_simpy_s(parents: list[list[int]], seconds: list[float]) -> tuple[float, float]:
    """Return the CPU seconds of a bare SimPy model with one process per task, and its makespan."""
    import simpy

    started = time.process_time()
    env = simpy.Environment()
    hosts = simpy.Resource(env, capacity=_HOSTS)
    done = [env.event() for _ in seconds]

    def task(index: int) -> Generator[Any, Any, None]:
        if parents[index]:
            yield env.all_of([done[parent] for parent in parents[index]])
        with hosts.request() as slot:
            yield slot
            yield env.timeout(seconds[index])
        done[index].succeed()

    for index in range(len(seconds)):
        env.process(task(index))
    env.run()
    return time.process_time() - started, float(env.now)


def _command_s(workflow: Workflow, repeat: int, where: Path) -> float:
    """Return the median CPU seconds of ``weft simulate`` of a workflow file."""
    with tempfile.TemporaryDirectory(dir=where) as folder:
        file = Path(folder) / "layered.json"
        save_workflow(workflow, file)
        options = ["--on", f"identical:{_HOSTS}", "--policy", "fcfs:intra=index", "--no-chart"]
        command = [sys.executable, "-m", "weft", "simulate", str(file), *options]
        return statistics.median(run_command(command, cwd=Path(folder)).cpu_s for _ in range(repeat))


def _throughput(tasks: int, repeat: int, where: Path) -> dict[str, object]:
    workflow, parents, seconds = layered(tasks, seed=0)
    instance = compile_instance(check_and_unfold(workflow), load_platform(f"identical:{_HOSTS}"))
    ours: list[float] = []
    theirs: list[float] = []
    ends: set[float] = set()
    for _ in range(repeat):
        for kept, (spent, end) in ((ours, engine_s(instance)), (theirs, bare_simpy_s(parents, seconds))):
            kept.append(spent)
            ends.add(round(end, 6))
    one, other = statistics.median(ours), statistics.median(theirs)
    command = _command_s(workflow, repeat, where)
    return {
        "figure": "throughput",
        "tasks": tasks,
        "hosts": _HOSTS,
        "journal": False,
        "invariant_checks": False,
        "engine_s": round(one, 4),
        "simpy_s": round(other, 4),
        "engine_tasks_per_s": round(tasks / one),
        "simpy_tasks_per_s": round(tasks / other),
        "ratio": round(other / one, 3),
        "command_s": round(command, 4),
        "command_tasks_per_s": round(tasks / command),
        "command_ratio": round(other / command, 3),
        "ends_s": sorted(ends),
        "within": other / one >= _LEAST_RATIO,
    }


def _event_s(waiting: int) -> float:
    """Return the CPU seconds per event while ``waiting`` tasks wait."""
    graph = check_and_unfold(independent(waiting + _EVENTS))
    instance = compile_instance(graph, load_platform(f"identical:{_HOSTS}"))
    simulation = _simulation(instance)
    events = 0
    started = 0.0

    def stop(_: object) -> bool:
        nonlocal events, started
        events += 1
        if events == _HOSTS * 4:  # the submission and the first wave are over
            started = time.process_time()
        return events >= _HOSTS * 4 + _EVENTS

    simulation.run(stop=stop)
    return (time.process_time() - started) / _EVENTS


def _events(sizes: list[int], repeat: int) -> dict[str, object]:
    cost_us = {size: statistics.median(_event_s(size) for _ in range(repeat)) * 1e6 for size in sizes}
    growth = max(cost_us.values()) / min(cost_us.values())
    return {
        "figure": "events",
        "policy": "fcfs",
        "us_per_event": {str(size): round(cost, 2) for size, cost in cost_us.items()},
        "growth": round(growth, 3),
        "within": growth <= _MOST_GROWTH,
    }


def _resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory(tasks: int) -> dict[str, object]:
    gc.collect()
    before = _resident_bytes()
    graph = check_and_unfold(independent(tasks))
    instance = compile_instance(graph, load_platform(f"identical:{_HOSTS}"))
    described = _resident_bytes()
    simulation = _simulation(instance)
    events = 0

    def stop(_: object) -> bool:
        nonlocal events
        events += 1
        return events >= _EVENTS

    simulation.run(stop=stop)
    after = _resident_bytes()
    each = (after - before) / tasks
    return {
        "figure": "memory",
        "tasks": tasks,
        "bytes_per_task": round(each),
        "of_it_description": round((described - before) / tasks),
        "of_it_engine": round((after - described) / tasks),
        "within": each < _MOST_BYTES,
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the figures; return 1 if one is outside its limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--waiting", default="1000,10000,100000,300000")
    parser.add_argument("--memory", type=int, default=1_000_000, help="number of tasks; 0 to skip")
    parser.add_argument("--where", type=Path, help="folder on a disk for temporary files")
    given = parser.parse_args(arguments)
    lines = []
    if given.memory:
        lines.append(_memory(given.memory))
    lines.append(_throughput(given.tasks, given.repeat, disk_folder(given.where)))
    lines.append(_events([int(size) for size in given.waiting.split(",")], given.repeat))
    for line in lines:
        sys.stdout.write(json.dumps({**line, "calibration_s": round(calibration_s(), 3)}) + "\n")
    return 0 if all(line["within"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
