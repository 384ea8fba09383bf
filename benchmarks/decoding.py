"""Decoding of populations and simulation of a cluster queue, against plain Python.

Populations: 150 individuals of WIEN2k with 47 k-points (100 tasks, 53 binding variables) on 314 machines at
four sites, one task at a time (docs/papers/dynamic-grid.md, section 6). Queue: 100 individuals of the barrier
of 64 moldable tasks on 64 nodes (docs/papers/moldable.md). Prints one JSON line per figure: median CPU
seconds of 5 runs, kernel and plain Python alternating in one process, and their ratio. The benchmark fails
unless both return the same makespans, bit for bit.

    python benchmarks/decoding.py [--repeat 5] [--individuals 150]
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from measurement import calibration_s
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.decoding import EXCLUSIVE, INSERTION, decode_population
from weft.planners.queue_decoding import run_queue_population
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.randomness import generator
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold

__all__ = ["PlainDecoder", "PlainQueue", "main", "moldable_barrier", "wien2k_on_a_grid"]

_RATIOS = {"population": 60, "queue fifo": 20}
"""Required ratios."""
_BATCH, _TURNS = 20, 5
"""Kernel runs per turn, and turns of kernel and plain Python per run."""


def wien2k_on_a_grid(points: int = 47, machines: int = 314) -> Instance:
    """Return the pilot application of the dynamic-grid paper on machines with the speeds of its testbed."""
    flow, work = Builder("wien2k"), 2.3e11
    every = {"sweep": {"k": f"1..{points}"}, "machine": "host{k}"}
    flow.task("lapw0", work=0.5 * work, outputs={"potential": 1e5})
    outputs = {"vector.{k}": 76.8e6, "energy.{k}": 1e5}
    flow.task("lapw1", work=work, inputs=["potential"], outputs=outputs, **every)
    energies = [f"energy.{point}" for point in range(1, points + 1)]
    flow.task("fermi", work=0.01 * work, inputs=energies, outputs={"level": 1e5})
    inputs = ["level", "vector.{k}"]
    flow.task("lapw2", work=0.1 * work, inputs=inputs, outputs={"density.{k}": 1e5}, **every)
    densities = [f"density.{point}" for point in range(1, points + 1)]
    flow.task("sumpara", work=0.02 * work, inputs=densities, outputs={"sum": 1e5})
    flow.task("lcore", work=0.05 * work, inputs=["sum"], outputs={"core": 1e5})
    flow.task("mixer", work=0.02 * work, inputs=["core"], outputs={"mixed": 1e5})
    flow.task("conv", work=0.001 * work, inputs=["mixed"])
    speeds = 1e9 * generator(1, "grid").uniform(0.1, 3.0, machines)
    sites = {"A": 12.5e6, "B": 160e6, "C": 12.5e6, "D": 12.5e6}
    grid = Platform(
        machines=tuple(
            Machine(name=f"m{index}", site="ABCD"[index % 4], speed=float(speed))
            for index, speed in enumerate(speeds)
        ),
        sites={name: Link(bandwidth_Bps=bandwidth) for name, bandwidth in sites.items()},
        default_link=Link(bandwidth_Bps=1e6),
    )
    return compile_instance(unfold(flow.build()), grid)


def moldable_barrier(width: int = 31, nodes: int = 64) -> Instance:
    """Return the barrier of the moldable paper: simulations on 1 to 36 nodes, processing on 1 or 2, both
    twice.
    """
    flow = Builder("barrier")
    serial = 1 / 45
    simulation = {count: 2100 * (serial + (1 - serial) / count) for count in range(1, 37)}
    processing = {1: 60.0 + 8 * width, 2: 0.6 * (60 + 8 * width)}
    after: list[str] = []
    for half in "ab":
        sweep = {"k": f"1..{width}"}
        flow.task(f"st-{half}", nodes="1..36", speedup={"seconds": simulation}, sweep=sweep, after=after)
        flow.task(f"pt-{half}", nodes="1..2", speedup={"seconds": processing}, after=f"st-{half}")
        after = [f"pt-{half}"]
    cluster = Platform(machines=(Machine(name="cluster", nodes=nodes),))
    return compile_instance(unfold(flow.build()), cluster)


class PlainDecoder:
    """The evaluation of a schedule in plain Python: lists, one task after another.

    It supports what the kernel supports: earliest starts, machines that share a host, unlimited machines and
    tasks of 0 seconds.
    """

    def __init__(self, made: Instance) -> None:
        graph, network = made.graph, made.network
        self.variable = graph.variable.tolist()
        self.work, self.earliest = graph.work.tolist(), made.earliest_start_s.tolist()
        self.speed = [machine.rate(None) for machine in made.machines]
        self.open = made.unlimited.tolist()
        self.site, self.host = network.location.tolist(), network.host.tolist()
        self.latency, self.inverse = network.latency_s.tolist(), network.inverse_bandwidth.tolist()
        self.before: list[list[tuple[int, float, float, float]]] = []
        for task in range(len(graph)):
            edges = range(int(graph.predecessor_pointer[task]), int(graph.predecessor_pointer[task + 1]))
            columns = (graph.predecessor, graph.edge_seconds, graph.edge_files, graph.edge_bytes)
            self.before.append([tuple(column[edge].item() for column in columns) for edge in edges])

    def makespan_s(self, genome: list[int]) -> float:
        """Return the makespan of one binding."""
        machine_of = [genome[variable] for variable in self.variable]
        free, finish = [0.0] * len(self.speed), [0.0] * len(machine_of)
        for task, machine in enumerate(machine_of):
            start, host, site = self.earliest[task], self.host[machine], self.site[machine]
            for before, fixed, files, size in self.before[task]:
                arrival, source = finish[before], machine_of[before]
                if self.host[source] != host:
                    there = self.site[source]
                    arrival += fixed + files * self.latency[there][site] + size * self.inverse[there][site]
                if arrival > start:
                    start = arrival
            seconds = self.work[task] / self.speed[machine]
            if seconds > 0 and not self.open[machine]:
                if free[machine] > start:
                    start = free[machine]
                free[machine] = start + seconds
            finish[task] = start + seconds
        return max(finish)


class PlainQueue:
    """The cluster simulator of the moldable paper in plain Python: strict first in, first out, with heaps."""

    def __init__(self, made: Instance) -> None:
        graph = made.graph
        self.capacity = int(made.capacity[0])
        self.after = [graph.successors(task).tolist() for task in range(len(graph))]
        self.missing = [len(graph.predecessors(task)) for task in range(len(graph))]
        modes = [made.modes(task) for task in range(len(graph))]
        self.seconds = [dict(zip(mode.count.tolist(), mode.seconds.tolist(), strict=True)) for mode in modes]

    def run(self, counts: list[int]) -> tuple[float, float, list[float], list[float]]:
        """Return makespan, node-seconds, start and finish for node counts."""
        start, finish = [0.0] * len(counts), [0.0] * len(counts)
        missing, free, now, used = list(self.missing), self.capacity, 0.0, 0.0
        ready = [task for task, number in enumerate(missing) if number == 0]
        running: list[tuple[float, int]] = []
        while ready or running:
            while ready and counts[ready[0]] <= free:
                task = heapq.heappop(ready)
                seconds = self.seconds[task][counts[task]]
                free -= counts[task]
                used += counts[task] * seconds
                start[task], finish[task] = now, now + seconds
                heapq.heappush(running, (now + seconds, task))
            now = running[0][0]
            while running and running[0][0] == now:
                _, task = heapq.heappop(running)
                free += counts[task]
                for after in self.after[task]:
                    missing[after] -= 1
                    if missing[after] == 0:
                        heapq.heappush(ready, after)
        return now, used, start, finish


def _cpu_s(function: Callable[[], Any]) -> float:
    gc.collect()
    started = time.process_time()
    function()
    return time.process_time() - started


def compare(name: str, tasks: int, kernel: Callable[[], Any], plain: Callable[[], Any], repeat: int) -> None:
    """Print the ratio of plain Python to the kernel; both run in short turns, so that noise affects them
    equally.
    """
    assert kernel().tolist() == plain(), f"{name}: the kernel does not agree with plain Python"
    fast, slow = [], []
    for _ in range(repeat):
        turns = [(_cpu_s(lambda: [kernel() for _ in range(_BATCH)]), _cpu_s(plain)) for _ in range(_TURNS)]
        fast.append(sum(turn[0] for turn in turns) / _TURNS / _BATCH)
        slow.append(sum(turn[1] for turn in turns) / _TURNS)
    ours, theirs = statistics.median(fast), statistics.median(slow)
    line = {
        "benchmark": f"decoding: {name}",
        "baseline": "the same in plain Python",
        "kernel_s": round(ours, 7),
        "plain_s": round(theirs, 5),
        "ratio": round(theirs / ours, 1),
        "kernel_ns_per_task": round(1e9 * ours / tasks, 1),
        "plain_ns_per_task": round(1e9 * theirs / tasks, 1),
        "calibration_s": round(calibration_s(), 4),
    }
    if name in _RATIOS:
        line["limits"] = {"ratio": _RATIOS[name]}
    print(json.dumps(line), flush=True)


def state(name: str, tasks: int, kernel: Callable[[], Any], repeat: int) -> None:
    """Print the cost of a kernel per task."""
    kernel()
    cost = statistics.median(
        _cpu_s(lambda: [kernel() for _ in range(_BATCH)]) / _BATCH for _ in range(repeat)
    )
    line = {"benchmark": f"decoding: {name}", "kernel_ns_per_task": round(1e9 * cost / tasks, 1)}
    print(json.dumps(line | {"calibration_s": round(calibration_s(), 4)}), flush=True)


def main() -> None:
    """Run and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--individuals", type=int, default=150)
    options = parser.parse_args()
    os.environ["WEFT_KERNELS"] = "compiled"
    rng = generator(2, "population")

    grid = wien2k_on_a_grid()
    bounds = rng.integers(0, len(grid.machines), (options.individuals, len(grid.graph.variables)))
    bounds = bounds.astype(np.uint32)
    genomes, plain = bounds.tolist(), PlainDecoder(grid)
    tasks = options.individuals * len(grid)
    compare(
        "population",
        tasks,
        lambda: decode_population(grid, None, bounds, rule=EXCLUSIVE, priced=False).makespan_s,
        lambda: [plain.makespan_s(genome) for genome in genomes],
        options.repeat,
    )
    state("insertion", tasks, lambda: decode_population(grid, None, bounds, rule=INSERTION), options.repeat)

    cluster = moldable_barrier()
    widest = np.array([int(cluster.modes(task).count.max()) for task in range(len(cluster))])
    counts = rng.integers(1, widest, (100, len(cluster)), endpoint=True).astype(np.uint32)
    queue, asked = PlainQueue(cluster), counts.tolist()
    order = np.arange(len(cluster), dtype=np.uint32)
    compare(
        "queue fifo",
        counts.size,
        lambda: run_queue_population(cluster, counts, "fifo", order=order).makespan_s,
        lambda: [queue.run(row)[0] for row in asked],
        options.repeat,
    )
    for rule in ("first-fit", "easy", "conservative"):
        state(
            f"queue {rule}",
            counts.size,
            lambda rule=rule: run_queue_population(cluster, counts, rule, order=order),  # type: ignore[misc]
            options.repeat,
        )


if __name__ == "__main__":
    main()
