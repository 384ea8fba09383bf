"""Annealing on SINGLE machines equals a reference that follows all paths, compiled and plain."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.random_graphs import layered
from kernels.single_annealing_reference import Standing
from planning_examples import instance, platform
from random_genomes import random_genome
from weft.kernels import compilation
from weft.kernels.single_annealing import WORDS, anneal_single
from weft.planners.decoding import Genome
from weft.planners.evaluation import LinearObjective
from weft.planners.single_annealing import (
    build_single_problem,
    build_state,
    build_terms,
    serves_one_at_a_time,
)

TIME = LinearObjective(0.0, 1.0, 0.0, 0.0, math.inf, math.inf)
LATE = LinearObjective(0.0, 1.0, 0.0, 0.0, 5.0, math.inf)
MIXED = LinearObjective(2.0, 0.5, 0.25, 1.0, 12.0, 90.0)
VARIATES = -np.log((np.arange(2048) + 0.5) / 2048)


def wandered(made, aim, seed, *, steps=1500, heat=2.0, cooling=0.999):
    """Anneal from a random genome; return problem, objective and final state."""
    rng = np.random.default_rng(seed)
    order, bound, modes = random_genome(made, rng)
    genome = Genome(order.astype(np.uint32), bound.astype(np.uint32), modes.astype(np.uint32))
    field, terms = build_single_problem(made), build_terms(made, aim, 10.0)
    state = build_state(field, genome)
    words = rng.integers(0, 2**63 - 1, WORDS * steps, dtype=np.int64)
    moves = compilation.run_kernel(
        anneal_single, (field, terms, steps, heat, cooling, words, VARIATES), (state,), work_s=0.0
    )
    return field, terms, state, moves


def energy_of(made, aim, machine, makespan, scale=10.0):
    """Return the weighted sum of makespan, node-seconds and price; excess over limits counts twenty times
    the scale.
    """
    standing = Standing(made, [], machine)
    node_s = sum(standing.spent)
    price = sum(
        spent * float(made.price_per_node_s[place])
        for spent, place in zip(standing.spent, machine, strict=True)
    )
    total = makespan * aim.per_second + node_s * aim.per_node_s + price * aim.per_price
    for amount, limit in ((makespan, aim.deadline_s), (price, aim.max_cost)):
        if amount > limit:
            total += 20.0 * scale * (amount - limit) / limit
    return total


@pytest.mark.parametrize("aim", [TIME, LATE, MIXED], ids=["time", "late", "mixed"])
@pytest.mark.parametrize("integers", [True, False], ids=["ties", "doubles"])
@pytest.mark.parametrize("layout", ["related", "table"])
def test_incremental_paths_equal_those_computed_from_order_and_machines(form, layout, integers, aim):
    made = layered(np.random.default_rng(5), integers=integers, layout=layout)
    assert serves_one_at_a_time(made)
    _, _, state, moves = wandered(made, aim, 11)
    assert moves > 20
    standing = Standing(made, state.order.tolist(), state.machine.tolist())
    assert standing.is_valid_order()
    finish = standing.finishes()
    assert state.finish.tolist() == finish
    assert state.tail.tolist() == pytest.approx(standing.tails(), rel=1e-12)
    assert (state.previous.tolist(), state.following.tolist()) == standing.neighbours()
    assert state.order[state.position].tolist() == list(range(len(made)))
    for place, line in standing.lines.items():
        ends = (line[0], line[-1]) if line else (len(made), len(made))
        assert (int(state.first[place]), int(state.last[place])) == ends
    assert state.total[0] == max(finish)
    assert not state.stale.any()


@pytest.mark.parametrize("aim", [TIME, LATE, MIXED], ids=["time", "late", "mixed"])
def test_best_energy_belongs_to_the_best_state_and_is_not_above_the_first_energy(form, aim):
    made = layered(np.random.default_rng(7), integers=False, layout="related")
    _, _, still, _ = wandered(made, aim, 3, steps=0)
    _, _, state, _ = wandered(made, aim, 3)
    best = Standing(made, state.best_order.tolist(), state.best_machine.tolist())
    assert best.is_valid_order()
    expected = energy_of(made, aim, state.best_machine.tolist(), max(best.finishes()))
    assert state.total[3] == pytest.approx(expected, rel=1e-9)
    assert state.total[3] < still.total[3]


@pytest.mark.parametrize("aim", [TIME, MIXED], ids=["time", "mixed"])
@pytest.mark.parametrize("integers", [True, False], ids=["ties", "doubles"])
def test_compiled_and_plain_kernels_take_the_same_moves(monkeypatch, integers, aim):
    made = layered(np.random.default_rng(9), integers=integers, layout="table")
    states = []
    for form in ("plain", "compiled"):
        monkeypatch.setenv("WEFT_KERNELS", form)
        states.append(wandered(made, aim, 21)[2])
    for plain, compiled in zip(*states, strict=True):
        assert plain.tolist() == compiled.tolist()


def test_tasks_of_a_binding_variable_move_together_to_candidate_machines():
    made = layered(np.random.default_rng(7), integers=False, layout="table")
    shared = [v for v in range(len(made.graph.variables)) if (made.graph.variable == v).sum() > 1]
    assert shared
    for seed in range(3):
        _, _, state, _ = wandered(made, TIME, seed)
        for variable in range(len(made.graph.variables)):
            machines = set(state.machine[made.graph.variable == variable].tolist())
            assert len(machines) == 1
            assert machines <= set(made.candidates_of(variable).tolist())


def test_tasks_do_not_wait_on_unlimited_machines_or_for_tasks_of_0_seconds():
    tasks = {f"t{index}": {"work": index % 3} for index in range(9)}
    tasks |= {"join": {"kind": "virtual", "after": list(tasks)}, "end": {"work": 1, "after": "join"}}
    made = instance(tasks, platform({"occupancy": "unlimited"}, {"speed": 2.0}))
    for seed in range(4):
        _, _, state, _ = wandered(made, TIME, seed, steps=400)
        standing = Standing(made, state.order.tolist(), state.machine.tolist())
        assert state.finish.tolist() == standing.finishes()
        assert (state.previous.tolist(), state.following.tolist()) == standing.neighbours()


def test_kernel_variant_for_transfer_times_proportional_to_bytes_equals_the_reference():
    tasks = {
        f"t{index}": {
            "work": 1 + index % 4,
            "outputs": {f"f{index}": f"{1 + index % 3}MB"},
            "inputs": [f"f{other}" for other in (index - 3, index - 5) if other >= 0],
        }
        for index in range(20)
    }
    made = instance(tasks, platform({}, {"speed": 2.0}, {"speed": 3.0}))
    assert build_single_problem(made).fixed is None
    for seed in range(3):
        _, _, state, moves = wandered(made, TIME, seed)
        assert moves > 20
        standing = Standing(made, state.order.tolist(), state.machine.tolist())
        assert state.finish.tolist() == standing.finishes()


def test_energy_never_increases_at_temperature_zero():
    made = layered(np.random.default_rng(4), integers=False, layout="related")
    _, _, still, _ = wandered(made, TIME, 8, steps=0)
    _, _, state, moves = wandered(made, TIME, 8, heat=0.0)
    assert moves > 0
    assert state.total[0] < still.total[0]
    assert state.total[0] == pytest.approx(state.total[3], rel=1e-9)
