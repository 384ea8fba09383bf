"""Annealing kernels of weave equal slow references, compiled and plain, and keep states and scores consistent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.decoder_reference import decode_by_reference
from kernels.random_graphs import faceted, layered
from kernels.weave_reference import Standing
from planning_examples import instance, platform
from planning_strategies import BUSY, compiled_busy, platforms, workflows
from random_genomes import random_genome, random_order
from weft.kernels import compilation
from weft.kernels.weave import (
    SHARED_DRAWS,
    SINGLE_WORDS,
    SharedScore,
    SharedState,
    anneal_shared,
    anneal_single,
)
from weft.planners.decoding import Genome
from weft.planners.evaluation import LinearObjective, linearise_objective
from weft.planners.weave_search import (
    build_shared_workspace,
    build_single_objective,
    build_single_problem,
    build_single_state,
    serves_one_at_a_time,
)
from weft.schedule.objective import make_objective

SEARCH = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
TIME = LinearObjective(0.0, 1.0, 0.0, 0.0, math.inf, math.inf)
LATE = LinearObjective(0.0, 1.0, 0.0, 0.0, 5.0, math.inf)
MIXED = LinearObjective(2.0, 0.5, 0.25, 1.0, 12.0, 90.0)
VARIATES = -np.log((np.arange(2048) + 0.5) / 2048)


def wandered(made, aim, seed, *, steps=1500, heat=2.0, cooling=0.999):
    """Anneal from a random genome; return problem, objective and final state."""
    rng = np.random.default_rng(seed)
    order, bound, modes = random_genome(made, rng)
    genome = Genome(order.astype(np.uint32), bound.astype(np.uint32), modes.astype(np.uint32))
    field, terms = build_single_problem(made), build_single_objective(made, aim, 10.0)
    state = build_single_state(field, genome)
    words = rng.integers(0, 2**63 - 1, SINGLE_WORDS * steps, dtype=np.int64)
    moves = compilation.run_kernel(
        anneal_single, (field, terms, steps, heat, cooling, words, VARIATES), (state,), work_s=0.0
    )
    return field, terms, state, moves


def single_energy(made, aim, machine, makespan, scale=10.0):
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
    expected = single_energy(made, aim, state.best_machine.tolist(), max(best.finishes()))
    assert state.total[3] == pytest.approx(expected, rel=1e-9)
    assert state.total[3] < still.total[3]


@pytest.mark.parametrize("aim", [TIME, MIXED], ids=["time", "mixed"])
@pytest.mark.parametrize("integers", [True, False], ids=["ties", "doubles"])
def test_compiled_and_plain_kernels_take_the_same_moves_on_single_machines(monkeypatch, integers, aim):
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


def random_state(made, workspace, rng):
    """Draw a state: a topological order, candidate machines and modes."""
    order = random_order(made, rng)
    bound = np.zeros(len(made.graph.variables), dtype=np.uint32)
    for variable in range(len(bound)):
        bound[variable] = made.pinned.get(variable, rng.choice(made.candidates_of(variable)))
    way = workspace.ways.first[1:].copy()
    for task in np.flatnonzero(made.group >= 0).tolist():
        first, end = workspace.ways.first[task : task + 2].tolist()
        here = workspace.ways.machine[first:end] == bound[made.graph.variable[task]]
        way[task] = first + rng.choice(np.flatnonzero(here))
    return SharedState(order=order, place=np.argsort(order).astype(np.uint32), mode=way, bound=bound)


def unknown():
    return SharedScore(*(np.full(1, math.inf) for _ in SharedScore._fields))


def run(workspace, state, best, score, rng, *, steps=1, heat=0.0, fresh=0):
    """Run ``steps`` annealing steps of the kernel."""
    shop, links, ways, _, goal, moves, layout, scratch = workspace
    uniform, exponential = rng.random(SHARED_DRAWS * steps), rng.standard_exponential(steps)
    inputs = (shop, links, ways, goal, moves, fresh, heat, steps, uniform, exponential, scratch)
    return compilation.run_kernel(anneal_shared, inputs, (layout, state, best, score), work_s=0.0)


def reference_of(made, workspace, state):
    """Return starts, finishes, node-seconds and cost of a state, decoded by the reference."""
    modes = np.zeros(len(made), dtype=np.uint32)
    compute = made.group >= 0
    modes[compute] = workspace.mode[state.mode[compute]]
    return decode_by_reference(made, state.order.tolist(), state.bound.tolist(), modes.tolist(), "insertion")


@given(flow=workflows(), where=platforms(), held=BUSY, seed=st.integers(0, 99))
@SEARCH
def test_schedules_equal_those_of_the_decoder_reference(form, flow, where, held, seed):
    made = compiled_busy(flow, where, held)
    rng = np.random.default_rng(seed)
    workspace = build_shared_workspace(made, TIME)
    state, score = random_state(made, workspace, rng), unknown()
    best = SharedState(*(part.copy() for part in state))
    run(workspace, state, best, score, rng, fresh=1)
    start, finish, _, _ = reference_of(made, workspace, state)
    assert workspace.layout.start.tolist() == start
    assert workspace.layout.finish.tolist() == finish
    assert score.value[0] == max(finish, default=0.0)


def project(seed, *, integers):
    """Return moldable and rigid tasks with two resources on one machine; integers make many ties."""
    rng = np.random.default_rng(seed)

    def draw():
        return float(rng.integers(1, 7)) if integers else float(rng.uniform(0.5, 7.0))

    described = {}
    for index in range(24):
        before = sorted(set(rng.integers(0, index, size=min(index, 2)).tolist())) if index > 3 else []
        described[f"t{index}"] = {
            "work": draw(),
            **({"nodes": [1, 2, 4], "speedup": {"amdahl": 0.25}} if index % 3 else {}),
            "memory": f"{rng.integers(0, 4)}GB",
            "resources": {"licence": int(rng.integers(0, 3))},
            "after": [f"t{other}" for other in before],
        }
    keys = {"nodes": 6, "memory": 8e9, "resources": {"licence": 4.0}, "price_per_node_hour": 36.0}
    return instance(described, platform(keys))


def made_from(kind, seed):
    if kind == "faceted":
        return faceted(np.random.default_rng(seed), integers=seed % 2 == 0)
    return project(seed, integers=seed % 2 == 0)


def valued(aim, made, workspace, state):
    """Return the excess over the limits and the objective of a state, from the reference's schedule."""
    _, finish, node_s, cost = reference_of(made, workspace, state)
    missed = sum(
        (amount - limit) / limit
        for amount, limit in ((max(finish), aim.deadline_s), (cost, aim.max_cost))
        if amount > limit
    )
    return missed, aim.value(max(finish), node_s, cost)


def precedence_holds(made, order):
    place = {task: position for position, task in enumerate(order.tolist())}
    return sorted(place) == list(range(len(made))) and all(
        place[before] < place[task]
        for task in range(len(made))
        for before in made.graph.predecessors(task).tolist()
    )


@pytest.mark.parametrize("kind", ["project", "faceted"])
@pytest.mark.parametrize("name", ["makespan", "cost", "on-demand", "static"])
def test_state_and_score_are_consistent_after_many_moves(form, kind, name):
    for seed in range(2):
        made = made_from(kind, seed)
        aim = linearise_objective(made, make_objective(name))._replace(deadline_s=25.0, max_cost=1.5)
        workspace = build_shared_workspace(made, aim)
        workspace = workspace._replace(goal=workspace.goal._replace(penalty=5.0))
        rng = np.random.default_rng(seed)
        state, score = random_state(made, workspace, rng), unknown()
        best = SharedState(*(part.copy() for part in state))
        spent = run(workspace, state, best, score, rng, fresh=1)
        first = score.value[0]
        for heat in (math.inf, 0.1 * abs(first), 0.0):
            spent += run(workspace, state, best, score, rng, steps=40, heat=heat)
            assert precedence_holds(made, state.order)
            assert state.place.tolist() == np.argsort(state.order).tolist()
            now = valued(aim, made, workspace, state)
            assert (score.missed[0], score.value[0]) == pytest.approx(now, rel=1e-12, abs=1e-12)
            found = valued(aim, made, workspace, best)
            assert (score.best_missed[0], score.best_value[0]) == pytest.approx(found, rel=1e-12, abs=1e-12)
            assert found <= (now[0] + 1e-9, math.inf)
        assert 121 <= spent <= 121 + 3 * 2


def test_compiled_and_plain_kernels_take_the_same_moves_on_shared_machines(monkeypatch):
    ends = []
    for form in ("plain", "compiled"):
        monkeypatch.setenv("WEFT_KERNELS", form)
        for kind in ("project", "faceted"):
            made, rng = made_from(kind, 1), np.random.default_rng(7)
            workspace = build_shared_workspace(made, TIME)
            state, score = random_state(made, workspace, rng), unknown()
            best = SharedState(*(part.copy() for part in state))
            run(workspace, state, best, score, rng, fresh=1)
            run(workspace, state, best, score, rng, steps=300, heat=0.3)
            ends.append([part.tolist() for part in (*state, *best, *score)])
    assert ends[:2] == ends[2:]


def test_justification_never_makes_a_schedule_longer(form):
    shorter = 0
    for seed in range(0, 12, 2):
        made, rng = project(seed, integers=True), np.random.default_rng(seed)
        workspace = build_shared_workspace(made, TIME)
        workspace = workspace._replace(moves=workspace.moves._replace(justify_share=1.0))
        state, score = random_state(made, workspace, rng), unknown()
        best = SharedState(*(part.copy() for part in state))
        run(workspace, state, best, score, rng, fresh=1)
        before = score.value[0]
        run(workspace, state, best, score, rng, steps=1, heat=math.inf)
        assert precedence_holds(made, state.order)
        assert score.value[0] <= before * (1 + 1e-12)
        shorter += bool(score.value[0] < before)
    assert shorter > 0


@given(
    amounts=st.lists(
        st.tuples(st.floats(0, 5), st.sampled_from([0.0, 0.5, 1 / 3, 2e9, 3.7])), min_size=1, max_size=6
    ),
    odd=st.booleans(),
)
@SEARCH
def test_packed_comparison_agrees_with_comparing_each_amount(amounts, odd):
    totals = {"a": 5.0, "b": 4e9}
    tasks = {
        f"t{index}": {"work": 1.0, "resources": {"a": (a if odd else float(round(a))), "b": b}}
        for index, (a, b) in enumerate(amounts)
    }
    made = instance(tasks, platform({"nodes": 3, "resources": totals}))
    workspace = build_shared_workspace(made, TIME)
    need, guard, free = workspace.ways.need.tolist(), workspace.shop.guard, int(workspace.shop.step_free[0])
    whole = not odd and all(b != 1 / 3 for _, b in amounts)
    for subset in range(1 << len(need)):
        chosen = [index for index in range(len(need)) if subset >> index & 1]
        left, fits = free, True
        for index in chosen:
            fits = fits and (left - need[index]) & guard == 0
            left -= need[index] if fits else 0
        in_truth = len(chosen) <= 3 and all(
            sum(made.graph.demand[index, column] for index in chosen) <= totals[name] * (1 + 1e-9)
            for column, name in enumerate(made.graph.resource_names)
        )
        assert in_truth or not fits
        if whole or len(chosen) < 2:
            assert fits == in_truth
