"""The allotment of CPA equals its reference bit for bit, with compiled and plain kernels."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.allotment_reference import allotment, longest_path
from kernels.random_graphs import faceted, layered
from weft.kernels import compilation
from weft.kernels.moldable_placement import _SHORTER, AllotmentModes, CriticalPaths, allot_nodes
from weft.planners.problem import compile_problem
from weft.randomness import generator


def random_modes(rng, tasks, *, integers):
    """Draw one to five modes per task, each faster than the previous one; integers make many ties."""
    found = []
    for _ in range(tasks):
        number = int(rng.integers(1, 6))
        if integers:
            seconds = np.sort(rng.choice(np.arange(1.0, 12.0), size=number, replace=False))[::-1]
        else:
            seconds = np.sort(rng.uniform(1, 12, size=number))[::-1]
        share = np.sort(rng.integers(0, 4, size=number) if integers else rng.uniform(0, 2, size=number))
        gain = rng.integers(0, 3, size=number) if integers else rng.uniform(0, 1, size=number)
        found.append(
            list(zip(seconds.tolist(), (share / 4).tolist(), gain.astype(float).tolist(), strict=True))
        )
    return found


def run(tasks, ways, communication):
    """Return the result of the kernel: mode indices, steps and bottom levels."""
    number = tasks.number
    first = np.cumsum([0, *map(len, ways)]).astype(np.uint32)
    columns = [np.array([way[column] for own in ways for way in own]) for column in range(3)]
    way = np.zeros(number, dtype=np.uint32)
    indices = [np.zeros(number, dtype=np.uint32) for _ in range(3)]
    paths = CriticalPaths(
        bottom=np.zeros(number), follower=indices[0], heap=indices[1], loss=np.zeros(number), rank=indices[2]
    )
    given = AllotmentModes(first=first, seconds=columns[0], share=columns[1], gain=columns[2])
    steps = compilation.run_kernel(allot_nodes, (tasks, given, communication), (way, paths), work_s=0.0)
    return (way - first[:-1]).tolist(), steps, paths.bottom.tolist()


@pytest.mark.parametrize("integers", [True, False], ids=["ties", "no ties"])
def test_allotment_equals_the_reference(form, integers):
    steps_taken = 0
    for seed in range(30):
        rng = generator(seed, "allotment", str(integers))
        made = (
            faceted(rng, integers=integers) if seed % 3 else layered(rng, integers=integers, layout="related")
        )
        graph, tasks = made.graph, compile_problem(made).tasks
        ways = random_modes(rng, len(graph), integers=integers)
        moving = rng.integers(0, 3, graph.edge_count).astype(float)
        target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer)).tolist()
        by_pair = dict(
            zip(zip(graph.predecessor.tolist(), target, strict=True), moving.tolist(), strict=True)
        )
        after = [graph.successors(task).tolist() for task in range(len(graph))]
        taken, steps = allotment(ways, after, by_pair, _SHORTER)
        found, made_steps, bottom = run(tasks, ways, moving)
        assert (found, made_steps) == (taken, steps)
        assert max(bottom) == longest_path(ways, taken, after, by_pair)[0]
        steps_taken += steps
    assert steps_taken > 100


def test_critical_path_of_a_long_chain_is_not_computed_after_every_step(form):
    from planning_examples import instance

    length = 400
    chain = {f"t{index}": {"work": 1, "after": [f"t{index - 1}"] if index else []} for index in range(length)}
    tasks = compile_problem(instance(chain, "identical:1")).tasks
    ways = [[(4.0, 0.001, 3.0), (1.0, 0.001, 0.0)]] * length
    taken, steps, bottom = run(tasks, ways, np.zeros(length - 1))
    assert (set(taken), steps, bottom[0]) == ({1}, length, float(length))
