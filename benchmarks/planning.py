"""Speed of planning: HEFT against SAGA's HEFT, against plain Python, and at scale.

One JSON line each; ratios are of CPU seconds (median of ``--repeat``) in one run, beside a calibration loop.

    python benchmarks/planning.py [saga] [twin] [large] [growth] [layouts] [--repeat 5]

- saga: HEFT of SAGA (``pip install anrg.saga``) on data/peers/hetero_1000x64.json, against weft from a
  compiled instance, and against the whole command ``weft plan`` of the file;
- twin: 10,000 tasks on 256 machines, against the plain-Python reference of the tests;
- large: 100,000 tasks on 1,000 machines, against 10,000 on 256: time and memory;
- growth: time per task from 10,000 to 1,000,000 tasks (layers of 250) on 100 machines;
- layouts: time per task and machine where seconds are a table, and where every pair of machines has its own
  link.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from measurement import calibration_s

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("WEFT_BENCH_DATA") or ROOT.parent / "shared" / "data")
PEER = DATA / "peers" / "hetero_1000x64.json"
SECTIONS = ("saga", "twin", "large", "growth", "layouts")


def main() -> None:
    """Run the named sections, each in its own process."""
    parser = argparse.ArgumentParser(description="Time HEFT.")
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--measure", nargs=3, type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        tasks, machines, width = asked.measure
        print(json.dumps(measured(tasks, machines, width, asked.repeat)))
        return
    unknown = set(asked.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {min(unknown)!r}; known: {', '.join(SECTIONS)}")
    for name in asked.sections or SECTIONS:
        figures = globals()[name](asked.repeat)
        print(
            json.dumps({"benchmark": f"planning/{name}", **figures, "calibration_s": calibration_s()}),
            flush=True,
        )


def median_s(call: Callable[[], object], repeat: int) -> float:
    """Return the median CPU seconds of a call."""
    times = []
    for _ in range(repeat):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return statistics.median(times)


def planned(instance: Any, planner: str = "heft") -> Any:
    """Plan a compiled instance."""
    from weft.planners.planner import Budget, PlanRequest, make_planner
    from weft.randomness import generator
    from weft.schedule.objective import make_objective

    goal = make_objective("makespan")
    return (
        make_planner(planner)
        .plan(PlanRequest(instance=instance, objective=goal, budget=Budget(), rng=generator(0, "benchmark")))
        .schedule
    )


def saga(repeat: int) -> dict[str, Any]:
    """Compare with SAGA on one instance."""
    try:
        from saga.schedulers.heft import HeftScheduler
    except ImportError:
        return {"skipped": "SAGA is not installed: pip install 'weft[benchmark]'"}
    if not PEER.exists():
        return {"skipped": "no data: set WEFT_BENCH_DATA to their folder"}
    from weft.formats.files import load_platform, read_workflow_file
    from weft.instance import compile_instance
    from weft.workflow.checks import check_and_unfold

    network, graph = saga_instance(json.loads(PEER.read_text()))
    found: list[Any] = []
    saga_s = median_s(lambda: found.append(HeftScheduler().schedule(network, graph)), repeat)
    instance = compile_instance(check_and_unfold(read_workflow_file(str(PEER))), load_platform(str(PEER)))
    os.environ["WEFT_KERNELS"] = "compiled"
    like_saga = planned(instance, "heft:averaging=self-loops").makespan_s
    ours = planned(instance).makespan_s
    # A single call is too short for the clock.
    kernel_s = median_s(lambda: [planned(instance) for _ in range(20)], repeat) / 20
    command_s = statistics.median(command_seconds() for _ in range(repeat))
    return {
        "instance": PEER.name,
        "saga_makespan_s": round(found[0].makespan, 4),
        "makespan_as_saga_averages_s": round(like_saga, 4),
        "makespan_s": round(ours, 4),
        "saga_s": saga_s,
        "from_compiled_instance_s": kernel_s,
        "ratio_from_compiled_instance": round(saga_s / kernel_s),
        "weft_plan_all_in_s": command_s,
        "ratio_all_in": round(saga_s / command_s, 1),
    }


def saga_instance(read: dict[str, Any]) -> tuple[Any, Any]:
    """Return the instance in the classes of SAGA."""
    from saga import Network, TaskGraph

    speeds = read["speed"]
    nodes = [(f"m{index}", speed) for index, speed in enumerate(speeds)]
    edges = [
        (f"m{first}", f"m{second}", read["bw"][first][second])
        for first in range(len(speeds))
        for second in range(first + 1, len(speeds))
    ]
    tasks = [(f"t{index}", cost) for index, cost in enumerate(read["cost"])]
    dependencies = [(f"t{first}", f"t{second}", size) for first, second, size in read["edges"]]
    return Network.create(nodes=nodes, edges=edges), TaskGraph.create(tasks=tasks, dependencies=dependencies)


def command_seconds() -> float:
    """Return the CPU seconds of the whole command ``weft plan`` of the file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-m",
        "weft",
        "plan",
        str(PEER),
        "--on",
        str(PEER),
        "--planner",
        "heft",
        "--no-chart",
    ]
    environment = {key: value for key, value in os.environ.items() if key != "WEFT_KERNELS"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def layered(tasks: int, machines: int, width: int = 0) -> Any:
    """Return layers of subtasks, two predecessors each, on machines of different speeds in one network.

    Without a width there are as many layers as subtasks per layer.
    """
    import weft
    from weft.instance import compile_instance
    from weft.platform.machine import Machine
    from weft.platform.platform import Link, Platform
    from weft.randomness import generator
    from weft.workflow.checks import check_and_unfold

    width = width or round(tasks**0.5)
    flow = weft.Builder("layers")
    for layer in range(tasks // width):
        keys: dict[str, Any] = {}
        if layer:
            keys["inputs"] = [f"f{layer - 1}.{{k}}"]
            keys["after"] = [f"l{layer - 1}[(k*{7 + layer % 5} + {layer}) % {width} + 1]"]
        flow.task(
            f"l{layer}",
            sweep={"k": f"1..{width}"},
            work=f"1 + (k*{7919 + layer}) % 97",
            outputs={f"f{layer}.{{k}}": f"(1 + (k*{31 + layer}) % 89)*10*MB"},
            **keys,
        )
    speeds = generator(0, "benchmark").uniform(1.0, 4.0, machines).tolist()
    platform = Platform(
        machines=tuple(Machine(name=f"m{index}", speed=speed) for index, speed in enumerate(speeds)),
        default_link=Link(bandwidth_Bps=1e8, latency_s=1e-3),
    )
    return compile_instance(check_and_unfold(flow.build()), platform)


def measured(tasks: int, machines: int, width: int, repeat: int) -> dict[str, Any]:
    """Time HEFT on layers; return the peak memory of the process, too."""
    os.environ["WEFT_KERNELS"] = "compiled"
    instance = layered(tasks, machines, width)
    planned(instance)
    seconds = median_s(lambda: planned(instance), repeat)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tasks": len(instance), "seconds": seconds, "peak_memory_MB": round(memory)}


def in_a_process(tasks: int, machines: int, repeat: int, width: int = 0) -> dict[str, Any]:
    """Measure in another process, so that memory is that of one instance."""
    sizes = [str(tasks), str(machines), str(width)]
    command = [sys.executable, __file__, "--measure", *sizes, "--repeat", str(repeat)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def twin(repeat: int) -> dict[str, Any]:
    """Compare with textbook HEFT in plain Python, and with plain Python that skips machines as the kernel
    does.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    from kernels.heft_textbook import textbook_finish_s
    from kernels.placement_reference import Placement
    from weft.planners.ranks import order_by_rank, upward_ranks

    os.environ["WEFT_KERNELS"] = "compiled"
    instance = layered(10_000, 256)
    schedule = planned(instance)
    order = order_by_rank(upward_ranks(instance)).tolist()
    found: list[list[float]] = []

    def skipping() -> None:
        board = Placement(instance)
        for task in order:
            board.place(task)
        found.append(board.finish_s)

    textbook_s = median_s(lambda: found.append(textbook_finish_s(instance, order)), repeat)
    skipping_s, kernel_s = median_s(skipping, repeat), median_s(lambda: planned(instance), repeat)
    return {
        "tasks": 10_000,
        "machines": 256,
        "plain_python_s": textbook_s,
        "plain_python_that_skips_machines_s": skipping_s,
        "kernel_s": kernel_s,
        "ratio": round(textbook_s / kernel_s),
        "ratio_to_the_one_that_skips": round(skipping_s / kernel_s),
        "same_schedule": all(one == schedule.finish_s.tolist() for one in found),
    }


def large(repeat: int) -> dict[str, Any]:
    """Compare a large instance with a medium one."""
    middling, big = in_a_process(10_000, 256, repeat), in_a_process(100_000, 1_000, repeat)
    return {
        "middling": middling,
        "large": big,
        "ratio": round(big["seconds"] / middling["seconds"], 1),
        "ns_per_task": round(big["seconds"] / big["tasks"] * 1e9),
    }


def growth(repeat: int) -> dict[str, Any]:
    """Return the time per task for growing numbers of layers of the same width."""
    runs = [in_a_process(tasks, 100, repeat, width=250) for tasks in (10_000, 100_000, 1_000_000)]
    per_task = [run["seconds"] / run["tasks"] * 1e9 for run in runs]
    return {
        "machines": 100,
        "runs": runs,
        "ns_per_task": [round(value) for value in per_task],
        "growth": round(per_task[-1] / per_task[0], 2),
    }


def layouts(repeat: int) -> dict[str, Any]:
    """Return the cost of a table of seconds and of a network with different links for all pairs."""
    import weft
    from weft.instance import compile_instance
    from weft.platform.machine import Machine
    from weft.platform.platform import Link, Platform
    from weft.randomness import generator
    from weft.workflow.checks import check_and_unfold

    os.environ["WEFT_KERNELS"] = "compiled"
    tasks, machines = 2_000, 128
    rng = generator(0, "benchmark")
    figures: dict[str, Any] = {"tasks": tasks, "machines": machines}
    for name in ("related", "table", "unlike links"):
        flow = weft.Builder(name)
        for index in range(tasks):
            seconds = rng.uniform(1, 100, machines).tolist()
            timing: dict[str, Any] = {"work": seconds[0]}
            if name == "table":
                timing = {"seconds": {f"m{machine}": value for machine, value in enumerate(seconds)}}
            before = rng.integers(max(0, index - 100), index, 2).tolist() if index else []
            inputs = [f"f{other}" for other in sorted(set(before))]
            flow.task(f"t{index}", inputs=inputs, outputs={f"f{index}": 1e7}, **timing)
        pairs = [(f"m{a}", f"m{b}") for a in range(machines) for b in range(a)] if "links" in name else []
        links = [
            (a, b, Link(bandwidth_Bps=bandwidth))
            for (a, b), bandwidth in zip(pairs, rng.uniform(1e7, 1e8, len(pairs)).tolist(), strict=True)
        ]
        named = tuple(Machine(name=f"m{index}", speed=1 + index % 7 / 4) for index in range(machines))
        platform = Platform(machines=named, links=tuple(links))
        instance = compile_instance(check_and_unfold(flow.build()), platform)
        planned(instance)
        spent = median_s(partial(planned, instance), repeat)
        figures[name] = {
            "layout": instance.seconds.layout,
            "ns_per_task": round(spent / tasks * 1e9),
            "ns_per_task_and_machine": round(spent / tasks / machines * 1e9, 2),
        }
    return figures


if __name__ == "__main__":
    main()
