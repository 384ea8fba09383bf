"""The cluster simulator of the moldable paper on its reference workflows (A2.1, A2.3, A2.8).

M. Jaros, J. Jaros, Performance-Cost Optimization of Moldable Scientific Workflows (docs/papers/moldable.md,
sections 5 to 7).
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from planning_examples import instance
from weft.planners.queue_decoding import run_queue, run_queue_population
from weft.platform.machine import QUEUES
from weft.randomness import generator
from weft.schedule.metrics import measure_schedule
from weft.schedule.verification import verify

NODES = 64
RUNS = ["local", "all_one", "ST4_PT1"]
FIXTURES = ["tree7", "barrier8", "tree15", "barrier16"]


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s2_perfdb_and_expected.json").read_text())


def compiled(figures, kinds, inputs, predecessors):
    """Return the instance of a workflow of simulations (S) and processing tasks (P) on 64 nodes."""
    tasks = {}
    for index, (kind, files, before) in enumerate(zip(kinds, inputs, predecessors, strict=True)):
        seconds = figures["ST"] if kind == "S" else [60 + 8 * files, 0.6 * (60 + 8 * files)]
        tasks[f"t{index:02d}"] = {
            "nodes": f"1..{len(seconds)}",
            "speedup": {"seconds": dict(enumerate(seconds, start=1))},
            "after": [f"t{other:02d}" for other in before],
        }
    made = instance(tasks, f"cluster:{NODES}")
    assert made.graph.names == tuple(tasks)
    return made


def fixture_run(figures, name, run):
    workflow = figures["workflows"][name]
    made = compiled(figures, workflow["kinds"], workflow["inputs"], workflow["preds"])
    return made, workflow[run].get("R", [1] * len(made)), workflow[run]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", FIXTURES)
def test_time_and_cost_of_the_reference_runs_equal_the_fixture(figures, name, run):
    made, counts, expected = fixture_run(figures, name, run)
    schedule = run_queue(made, counts, "fifo")
    found = measure_schedule(schedule, made)
    assert found.makespan_s == pytest.approx(expected["makespan"], rel=1e-6)
    assert found.node_seconds == pytest.approx(expected["cost"], rel=1e-6)
    assert found.idle_share == pytest.approx(expected["unused"], rel=1e-6)
    assert verify(schedule, made.graph, made.platform) == []
    together = run_queue_population(made, [counts, counts], "fifo")
    assert together.makespan_s.tolist() == [schedule.makespan_s] * 2
    assert together.node_seconds == pytest.approx([expected["cost"]] * 2, rel=1e-6)


@pytest.mark.parametrize(("name", "idle", "paper"), [("tree15", 0.519, 0.530), ("barrier16", 0.498, 0.500)])
def test_schedule_with_the_fastest_node_counts_leaves_half_of_the_machine_idle(figures, name, idle, paper):
    made, counts, _ = fixture_run(figures, name, "local")
    fastest = [int(modes.count[np.argmin(modes.seconds)]) for modes in map(made.modes, range(len(made)))]
    assert counts == fastest
    found = measure_schedule(run_queue(made, fastest, "fifo"), made).idle_share
    assert found == pytest.approx(idle, abs=5e-4)
    assert found == pytest.approx(paper, abs=0.03)


def tree(leaves):
    """Return simulations, then processing tasks that join two results each until one is left."""
    predecessors, level = [[] for _ in range(leaves)], list(range(leaves))
    while len(level) > 1:
        joined = [list(pair) for pair in zip(level[::2], level[1::2], strict=True)]
        level = list(range(len(predecessors), len(predecessors) + len(joined)))
        predecessors += joined
    joins = len(predecessors) - leaves
    return "S" * leaves + "P" * joins, [0] * leaves + [2] * joins, predecessors


def barrier(width):
    """Return simulations, a processing task, simulations, a processing task."""
    first, second = list(range(width)), list(range(width + 1, 2 * width + 1))
    predecessors = [[]] * width + [first] + [[width]] * width + [second]
    return ("S" * width + "P") * 2, ([0] * width + [width]) * 2, predecessors


def independent(number):
    return "S" * number, [0] * number, [[]] * number


def reservation(now, running, nodes):
    """Return when this many nodes are free if no task starts; ``running``: pairs of finish and nodes."""
    free = NODES - sum(taken for _, taken in running)
    for finish, taken in [(now, 0), *sorted(running)]:
        free += taken
        if free >= nodes:
            return finish
    raise AssertionError("never")


def passers(predecessors, counts, start, finish):
    """Count the tasks that overtook a blocked one, and assert that none of them delays its reservation."""
    number, passed = len(counts), 0
    for now in sorted({0.0, *finish}):
        waiting = [
            task
            for task in range(number)
            if start[task] > now and all(finish[before] <= now for before in predecessors[task])
        ]
        if not waiting:
            continue
        head = waiting[0]
        running = [task for task in range(number) if start[task] <= now < finish[task]]
        behind = [task for task in running if start[task] == now and task > head]
        ahead = [(finish[task], counts[task]) for task in running if task not in behind]
        everyone = [(finish[task], counts[task]) for task in running]
        assert reservation(now, everyone, counts[head]) == reservation(now, ahead, counts[head])
        passed += len(behind)
    return passed


@pytest.mark.parametrize(
    ("shape", "easy", "first_fit"),
    [(tree(16), 0.87, 0.86), (barrier(15), 0.87, 0.86), (independent(32), 0.79, 0.78)],
    ids=["tree-31", "barrier-32", "independent-32"],
)
def test_backfilling_shortens_the_schedule_and_never_delays_the_first_job_of_the_queue(
    figures, shape, easy, first_fit
):
    kinds, inputs, predecessors = shape
    made = compiled(figures, kinds, inputs, predecessors)
    rng = generator(8, "backfilling")
    counts = rng.integers(1, np.where(np.array(list(kinds)) == "S", 36, 2), (200, len(kinds)), endpoint=True)
    decoded = {rule: run_queue_population(made, counts, rule, times=True) for rule in QUEUES}
    blocking = decoded["fifo"].makespan_s
    found = decoded["easy"]
    passed = [
        passers(predecessors, row.tolist(), start.tolist(), finish.tolist())
        for row, start, finish in zip(counts, found.start_s, found.finish_s, strict=True)
    ]
    assert sum(passed) > 200
    assert (found.makespan_s <= blocking * (1 + 1e-12)).mean() >= 0.95
    assert (found.makespan_s / blocking).mean() == pytest.approx(easy, abs=0.03)
    assert (decoded["first-fit"].makespan_s / blocking).mean() == pytest.approx(first_fit, abs=0.03)
    # It reserves nodes for every task and gains less, but it is never worse than blocking here.
    assert (decoded["conservative"].makespan_s <= blocking * (1 + 1e-12)).mean() >= 0.95
    assert (decoded["conservative"].makespan_s / blocking).mean() < 0.95
