"""The fitness functions of the moldable paper on the reference workflows (docs/papers/moldable.md, A2.1,
A2.7).
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from planning_examples import instance
from weft.randomness import generator
from weft.schedule.objective import make_objective
from weft.schedule.schedule import Schedule

NODES = 64
NAMES = ("tree7", "barrier8", "tree15", "barrier16")
CASES = ("local", "all_one", "ST4_PT1")
ALPHAS = (0.95, 0.8, 0.5, 0.2, 0.05)


@pytest.fixture(scope="module")
def figures(spec_data):
    return json.loads((spec_data / "s2_perfdb_and_expected.json").read_text())


def seconds_of(figures, kind, inputs, nodes):
    if kind == "S":
        return figures["ST"][nodes - 1]
    return (60 + 8 * inputs) * (1 if nodes == 1 else 0.6)


@pytest.fixture(scope="module", params=NAMES)
def workflow(request, figures):
    """Return a reference workflow of the figures, and its instance on 64 nodes."""
    facts = figures["workflows"][request.param]
    tasks = {}
    for index, (kind, inputs, before) in enumerate(
        zip(facts["kinds"], facts["inputs"], facts["preds"], strict=True)
    ):
        counts = range(1, 37) if kind == "S" else range(1, 3)
        law = {count: seconds_of(figures, kind, inputs, count) for count in counts}
        tasks[f"t{index}"] = {
            "nodes": list(counts),
            "speedup": {"seconds": law},
            "after": [f"t{other}" for other in before],
        }
    return facts, instance(tasks, f"cluster:{NODES}")


def queued(figures, facts, made, counts):
    """Return a schedule in the order of the figures: at every end, start ready tasks until one does not
    fit.
    """
    number = len(counts)
    lasting = [seconds_of(figures, *row) for row in zip(facts["kinds"], facts["inputs"], counts, strict=True)]
    start, finish = [None] * number, [None] * number
    now = 0.0
    while any(begun is None for begun in start):
        over = [index for index in range(number) if finish[index] is not None and finish[index] <= now]
        free = NODES - sum(
            nodes for index, nodes in enumerate(counts) if start[index] is not None and index not in over
        )
        for index in range(number):
            if start[index] is None and all(other in over for other in facts["preds"][index]):
                if counts[index] > free:
                    break
                free -= counts[index]
                start[index], finish[index] = now, now + lasting[index]
        now = min((end for end in finish if end is not None and end > now), default=now)
    place = [made.graph.index(f"t{index}") for index in range(number)]
    columns = {
        "nodes": np.zeros(number, np.uint32),
        "start_s": np.zeros(number),
        "finish_s": np.zeros(number),
    }
    for key, values in (("nodes", counts), ("start_s", start), ("finish_s", finish)):
        columns[key][place] = values
    machine = np.zeros(number, np.uint32)
    return Schedule(tasks=made.graph.names, machines=(made.machines[0].name,), machine=machine, **columns)


def random_counts(facts, rng):
    return [int(rng.integers(1, 37 if kind == "S" else 3)) for kind in facts["kinds"]]


def test_static_literal_objective_equals_a_transformed_static_objective_with_another_alpha(figures, workflow):
    """A2.7: literal_alpha = alpha * idle_beta + (1 - alpha) with beta = 2 - 1/alpha, for alpha from 1/2 to 1."""
    facts, made = workflow
    rng = generator(27, "identity")
    for _ in range(25):
        schedule = queued(figures, facts, made, random_counts(facts, rng))
        for alpha in (0.5, 1.0, *(0.5 + 0.5 * rng.random(4)).tolist()):
            literal = make_objective("static-literal", alpha).value(schedule, made)
            idle = make_objective("static", max(0.0, 2 - 1 / alpha)).value(schedule, made)
            assert abs(literal - (alpha * idle + (1 - alpha))) <= 1e-12


def test_static_literal_objective_counts_only_idle_time_at_alpha_one_half(figures, workflow):
    facts, made = workflow
    rng = generator(28, "idle")
    for _ in range(10):
        schedule = queued(figures, facts, made, random_counts(facts, rng))
        taken = float(((schedule.finish_s - schedule.start_s) * schedule.nodes).sum())
        idle = (NODES * schedule.makespan_s - taken) / (NODES * facts["t_max"])
        found = make_objective("static-literal", 0.5).value(schedule, made)
        assert found == pytest.approx(0.5 + 0.5 * idle, rel=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_objective_values_follow_from_the_reference_figures(figures, workflow, case):
    facts, made = workflow
    run = facts[case]
    counts = run.get("R", [1] * len(facts["kinds"]))
    schedule = queued(figures, facts, made, counts)
    assert schedule.makespan_s == pytest.approx(run["makespan"], rel=1e-6)
    time, most = run["makespan"] / facts["t_max"], facts["t_max"] * NODES
    terms = {
        "on-demand": run["cost"] / facts["t_max"],
        "static": run["unused"] * NODES * run["makespan"] / most,
        "static-literal": 1 - run["cost"] / most,
        "static-idle-fraction": run["unused"],
    }
    for name, term in terms.items():
        for alpha in ALPHAS:
            found = make_objective(name, alpha).value(schedule, made)
            assert found == pytest.approx(alpha * time + (1 - alpha) * term, rel=1e-6), (name, alpha)


def test_the_local_objective_is_minimal_at_the_local_optimum(figures, workflow):
    facts, made = workflow
    local = make_objective("local")
    least = local.value(queued(figures, facts, made, facts["local"]["R"]), made)
    rows = zip(facts["kinds"], facts["inputs"], facts["local"]["R"], strict=True)
    assert least == pytest.approx(sum(seconds_of(figures, *row) for row in rows), rel=1e-9)
    rng = generator(29, "local")
    for _ in range(20):
        other = queued(figures, facts, made, random_counts(facts, rng))
        assert local.value(other, made) >= least * (1 - 1e-12)
