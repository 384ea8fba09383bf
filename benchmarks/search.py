"""Genetic searches: against PyGAD, and with the settings of two papers; one JSON line each.

- ``pygad`` (``pip install pygad``): one generation of 50 points on data/peers/moldable_64_barrier.json with
  the settings of docs/papers/moldable.md, by weft and by PyGAD with the queue evaluated in plain Python;
  median CPU seconds per generation, alternating in one process, and their ratio. ``command_s`` is the whole
  command ``weft plan`` with as many steps as the generations measured, imports and reading included.
- ``s1``: the tuned search of docs/papers/dynamic-grid.md (150 points, 500 generations) on its testbed of 314
  machines, WIEN2k-50 with 56 genes: CPU seconds after compilation, median of 5, and its measures P and I
  (A1.7).
- ``s2``: 500 generations of 50 points on the barrier of 64 tasks (A2.9).

    python benchmarks/search.py [--repeat 5] [pygad | s1 | s2]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from decoding import PlainQueue, moldable_barrier
from measurement import calibration_s, run_command
from weft.formats.files import load_platform, read_workflow_file
from weft.instance.compilation import compile_instance
from weft.instance.instance import Instance
from weft.planners.decoding import EXCLUSIVE
from weft.planners.genetic import BindingEncoding
from weft.planners.moldable_genetic import NodeCountEncoding
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.search.genetic import PRESETS, GeneticAlgorithm
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold

__all__ = ["main", "wien2k_on_the_testbed"]

_ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("WEFT_BENCH_DATA") or _ROOT.parent / "shared" / "data")
FIXTURES = _ROOT / "tests" / "published" / "figures"

_GENERATIONS, _PYGAD_GENERATIONS, _TURNS = 100, 16, 6
"""Generations per turn, and turns per run; both alternate, so that noise affects them equally."""
_LEAST_RATIO = 20
_TUNED_S, _RECOMMENDED_S = 1.0, 120.0
"""Limits of the CPU seconds."""
_FASTEST_S = 387.0
"""T_o: round robin on the 16 fast machines (docs/papers/dynamic-grid.md, section 12)."""


def wien2k_on_the_testbed(points: int = 50) -> Instance:
    """Return the reference instance; LAPW2 of a k-point runs where its LAPW1 ran, which gives 56 genes."""
    facts = json.loads((FIXTURES / "s1_testbed.json").read_text(encoding="utf-8"))
    atoms, size, small = 64, 6000, 1e5
    work = 7 * atoms * size**2 + size**3
    flow = Builder("WIEN2k-50")
    every: dict[str, Any] = {"sweep": {"k": f"1..{points}"}, "machine": "host{k}"}
    flow.task("lapw0", work=0.5 * work, outputs={"potential": small})
    outputs = {"vector.{k}": 200 * size * atoms, "energy.{k}": small}
    flow.task("lapw1", work=work, inputs=["potential"], outputs=outputs, **every)
    energies = [f"energy.{point}" for point in range(1, points + 1)]
    flow.task("fermi", work=0.01 * work, inputs=energies, outputs={"level": small})
    inputs = ["level", "vector.{k}"]
    flow.task("lapw2", work=0.1 * work, inputs=inputs, outputs={"density.{k}": small}, **every)
    densities = [f"density.{point}" for point in range(1, points + 1)]
    flow.task("sumpara", work=0.02 * work, inputs=densities, outputs={"sum": small})
    flow.task("lcore", work=0.05 * work, inputs=["sum"], outputs={"core": small})
    flow.task("mixer", work=0.02 * work, inputs=["core"], outputs={"mixed": small})
    flow.task("conv", work=0.001 * work, inputs=["mixed"])
    machines = [
        Machine(name=one["id"], site=one["site"], speed=one["ghz"] * 1e9, availability=one["availability"])
        for one in facts["machines"]
    ]
    inside = {"A": 12.5e6, "B": 160e6, "C": 12.5e6, "D": 12.5e6}
    grid = Platform(
        machines=tuple(machines),
        sites={site: Link(bandwidth_Bps=bandwidth) for site, bandwidth in inside.items()},
        default_link=Link(bandwidth_Bps=1e6),
    )
    return compile_instance(unfold(flow.build()), grid)


def _cpu_s(function: Callable[[], Any]) -> float:
    gc.collect()
    started = time.process_time()
    function()
    return time.process_time() - started


def _say(line: dict[str, Any]) -> None:
    print(json.dumps(line | {"calibration_s": round(calibration_s(), 4)}), flush=True)


def against_pygad(repeat: int) -> None:
    """Compare one generation of 50 on the 64 moldable tasks."""
    import pygad

    path = DATA / "peers" / "moldable_64_barrier.json"
    made = compile_instance(unfold(read_workflow_file(path)), load_platform(path))
    encoding = NodeCountEncoding(made, make_objective("makespan"), queue="fifo")
    search = GeneticAlgorithm(settings=replace(PRESETS["s2-recommended"], generations=_GENERATIONS))
    queue = PlainQueue(made)
    allowed = [made.modes(task).count.tolist() for task in range(len(made))]
    sample = encoding.space.draw(generator(1, "sample"), 50)
    plain = [queue.run(row)[0] for row in encoding.counts(sample).tolist()]
    assert (-encoding.values(sample)).tolist() == plain, "weft and plain Python disagree"

    def fitness(_: Any, solution: Any, __: int) -> float:
        return -queue.run([int(count) for count in solution])[0]

    def theirs() -> None:
        pygad.GA(
            # It does not count the first one.
            num_generations=_PYGAD_GENERATIONS - 1,
            num_parents_mating=25,
            fitness_func=fitness,
            sol_per_pop=50,
            num_genes=len(allowed),
            gene_space=allowed,
            gene_type=int,
            parent_selection_type="sss",
            crossover_type="uniform",
            crossover_probability=0.7,
            mutation_type="random",
            mutation_probability=0.01,
            keep_elitism=2,
            random_seed=1,
            suppress_warnings=True,
        ).run()

    def ours() -> None:
        search.optimise(encoding.space, encoding.values, rng=generator(1, "search"))

    fast, slow = [], []
    for _ in range(repeat):
        turns = [(_cpu_s(ours), _cpu_s(theirs)) for _ in range(_TURNS)]
        fast.append(sum(turn[0] for turn in turns) / _TURNS / _GENERATIONS)
        slow.append(sum(turn[1] for turn in turns) / _TURNS / _PYGAD_GENERATIONS)
    generation_s, pygad_s = statistics.median(fast), statistics.median(slow)
    idle = np.zeros(50)
    alone_s = statistics.median(
        _cpu_s(lambda: search.optimise(encoding.space, lambda _: idle, rng=generator(1, "search")))
        for _ in range(5 * repeat)
    )
    options = ["--on", str(path), "--planner", "moldable-genetic", "--plan-steps", str(50 * _GENERATIONS)]
    command = [sys.executable, "-m", "weft", "plan", str(path), *options, "--no-chart"]
    command_s = statistics.median(run_command(command).cpu_s for _ in range(repeat))
    _say(
        {
            "benchmark": "search: a generation of 50 on 64 moldable tasks",
            "baseline": "PyGAD 3, queue evaluated in plain Python",
            "generation_s": round(generation_s, 7),
            "without_evaluation_s": round(alone_s / _GENERATIONS, 7),
            "pygad_s": round(pygad_s, 5),
            "ratio": round(pygad_s / generation_s, 1),
            "command_s": round(command_s, 3),
            "command_ratio": round(pygad_s * _GENERATIONS / command_s, 1),
            "limits": {"ratio": _LEAST_RATIO},
        }
    )


def tuned(repeat: int) -> None:
    """Run the tuned search of the dynamic-grid paper."""
    encoding = BindingEncoding(wien2k_on_the_testbed(), make_objective("makespan"), rule=EXCLUSIVE)
    search = GeneticAlgorithm(settings=PRESETS["s1-tuned"])
    encoding.values(encoding.space.draw(generator(0, "warm"), 150))
    spent, precision, improvement, visited = [], [], [], []
    for seed in range(repeat):
        gc.collect()
        started = time.process_time()
        found = search.optimise(encoding.space, encoding.values, rng=generator(seed, "s1"))
        spent.append(time.process_time() - started)
        precision.append(100 * (-found.value / _FASTEST_S - 1))
        improvement.append(100 * (found.first_best / found.value - 1))
        visited.append(found.visited)
    _say(
        {
            "benchmark": "search: tuned (dynamic-grid), 150 x 500, 56 genes of 314 machines",
            "run_s": round(statistics.median(spent), 3),
            "precision_percent": round(statistics.mean(precision), 1),
            "improvement_percent": round(statistics.mean(improvement), 1),
            "visited": round(statistics.mean(visited)),
            "limits": {"run_s": _TUNED_S, "precision_percent": 30, "improvement_percent": [500, 900]},
        }
    )


def recommended(repeat: int) -> None:
    """Run the recommended search of the moldable paper on 64 tasks (A2.9)."""
    encoding = NodeCountEncoding(moldable_barrier(), make_objective("on-demand", 0.5), queue="fifo")
    search = GeneticAlgorithm(settings=PRESETS["s2-recommended"])
    encoding.values(encoding.space.draw(generator(0, "warm"), 50))
    spent, values = [], []
    for seed in range(repeat):
        gc.collect()
        started = time.process_time()
        found = search.optimise(encoding.space, encoding.values, rng=generator(seed, "s2"))
        spent.append(time.process_time() - started)
        values.append(-found.value)
    _say(
        {
            "benchmark": "search: recommended (moldable), 50 x 500, barrier of 64 tasks (A2.9)",
            "run_s": round(statistics.median(spent), 3),
            "fitness": round(statistics.median(values), 4),
            "limits": {"run_s": _RECOMMENDED_S},
        }
    )


def main() -> None:
    """Run and print the figures."""
    parts = {"pygad": against_pygad, "s1": tuned, "s2": recommended}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=list(parts))
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    os.environ["WEFT_KERNELS"] = "compiled"
    for name, run in parts.items():
        if options.part in (None, name):
            run(options.repeat)


if __name__ == "__main__":
    main()
