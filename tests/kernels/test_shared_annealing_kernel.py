"""Annealing on shared machines: schedules equal the decoder's reference, and state and score stay consistent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels.decoder_reference import decode_by_reference
from kernels.random_graphs import faceted
from planning_examples import instance, platform
from planning_strategies import BUSY, compiled_busy, platforms, workflows
from random_genomes import random_order
from weft.kernels import compilation
from weft.kernels.shared_annealing import DRAWS, SharedScore, SharedState, anneal_shared
from weft.planners.evaluation import LinearObjective, linearise_objective
from weft.planners.shared_annealing import build_workspace
from weft.schedule.objective import make_objective

SEARCH = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
TIME = LinearObjective(0.0, 1.0, 0.0, 0.0, math.inf, math.inf)


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
    uniform, exponential = rng.random(DRAWS * steps), rng.standard_exponential(steps)
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
    workspace = build_workspace(made, TIME)
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
        workspace = build_workspace(made, aim)
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


def test_compiled_and_plain_kernels_take_the_same_moves(monkeypatch):
    ends = []
    for form in ("plain", "compiled"):
        monkeypatch.setenv("WEFT_KERNELS", form)
        for kind in ("project", "faceted"):
            made, rng = made_from(kind, 1), np.random.default_rng(7)
            workspace = build_workspace(made, TIME)
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
        workspace = build_workspace(made, TIME)
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
    workspace = build_workspace(made, TIME)
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
