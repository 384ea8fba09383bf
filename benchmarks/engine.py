"""The engine against a bare SimPy model, its cost per event, and its memory per task.

Printed is one JSON line per figure, CPU seconds, medians, beside a calibration loop:

- ``throughput``: a layered graph on 64 hosts, first come first served. The engine makes every decision and
the simulated world carries it out (journal and invariant checks off); the SimPy model has one process per
task, which waits for its predecessors, then for a host. Tasks that wait are served by index here and in the
order in which they became ready there, so the ends differ a little.
- ``events``: what one event costs the engine and the world while so many tasks wait, under first come first
served.
- ``memory``: bytes per task of a run of independent tasks, beyond what the process had before.

    python benchmarks/engine.py [--repeat 5] [--tasks 10000] [--waiting 1000,10000,100000,300000] [--memory
    1000000]
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Generator
from typing import Any

import numpy as np

from calibration import calibration_s
from weft.backends.simulation.scenario import Arrival
from weft.engine.settings import EngineSettings
from weft.engine.state.compiled import WorkflowLibrary
from weft.formats.files import load_platform
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.policies.policy import make_policy
from weft.runtime.simulation import Simulation
from weft.workflow.checks import check_and_unfold
from weft.workflow.quantity import Sweep
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
"""Completions over which the cost of an event is measured."""


def layered(tasks: int, seed: int) -> tuple[Workflow, list[list[int]], list[float]]:
    """Give a graph of layers in which every task waits for some of the layer above; its edges and seconds."""
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
    """Give so many tasks that wait for nothing but a host."""
    swept = Sweep(variables=(("k", tuple(range(tasks))),))
    return Workflow(name="independent", tasks=(Task(name="t", sweep=swept, work=10.0),))


def _simulation(instance: Instance) -> Simulation:
    library = WorkflowLibrary({"workflow": instance})
    return Simulation(
        library, [Arrival(workflow="workflow")], make_policy("fcfs:intra=index"), EngineSettings()
    )


def engine_s(instance: Instance) -> tuple[float, float]:
    """Give the CPU seconds of a whole run, from the compiled instance on, and when it ended."""
    started = time.process_time()
    engine = _simulation(instance).run()
    return time.process_time() - started, engine.state.now


def bare_simpy_s(parents: list[list[int]], seconds: list[float]) -> tuple[float, float]:
    """Give the CPU seconds of a bare SimPy model with one process per task, and when it ended."""
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


def _throughput(tasks: int, repeat: int) -> dict[str, object]:
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
        "ends_s": sorted(ends),
        "within": other / one >= _LEAST_RATIO,
    }


def _event_s(waiting: int) -> float:
    """Give the CPU seconds per event while so many tasks wait."""
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
    """Print the figures; 1 if one is outside."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--waiting", default="1000,10000,100000,300000")
    parser.add_argument("--memory", type=int, default=1_000_000, help="tasks; 0: not measured")
    given = parser.parse_args(arguments)
    lines = []
    if given.memory:
        lines.append(_memory(given.memory))
    lines.append(_throughput(given.tasks, given.repeat))
    lines.append(_events([int(size) for size in given.waiting.split(",")], given.repeat))
    for line in lines:
        sys.stdout.write(json.dumps({**line, "calibration_s": round(calibration_s(), 3)}) + "\n")
    return 0 if all(line["within"] for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
