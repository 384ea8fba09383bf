"""Mixtures of two plans: every task has its mode from one of them, together with its binding variable."""

from __future__ import annotations

import numpy as np
import pytest

from planning_examples import instance, platform
from random_genomes import random_genome
from weft.planners.decoding import decode, decode_population
from weft.planners.pareto_front import keep_budgets, mix_genomes
from weft.randomness import generator
from weft.schedule.verification import verify

TASKS = {
    "first": {"work": 8, "nodes": "1..3"},
    "twin": {"work": 5, "sweep": {"k": "1..3"}, "machine": "same", "after": "first"},
    "wide": {"work": 9, "nodes": "1..4", "sweep": {"k": "1..4"}, "after": "first"},
    "last": {"work": 2, "after": ["twin", "wide"]},
}


@pytest.mark.parametrize("seed", range(4))
def test_every_task_of_a_mixture_has_the_mode_of_one_of_the_two_plans(seed: int) -> None:
    made = instance(TASKS, platform({"nodes": 4}, {"nodes": 3, "speed": 2}))
    rng = generator(seed, "mixing")
    first, second = random_genome(made, rng), random_genome(made, rng)
    orders, bound, modes = mix_genomes(made, first, second)
    variable = made.graph.variable
    for order, machines, chosen in zip(orders, bound, modes, strict=True):
        as_first = machines[variable] == first.bound[variable]
        as_second = machines[variable] == second.bound[variable]
        assert (as_first | as_second).all()
        assert ((as_first & (chosen == first.modes)) | (as_second & (chosen == second.modes))).all()
        schedule = decode(made, order, machines, chosen)
        assert verify(schedule, made.graph, made.platform) == []
    decoded = decode_population(made, orders, bound, modes)
    assert len(decoded.makespan_s) == len(orders) >= 2
    # From either end the share of the other plan grows.
    changed = (modes != first.modes).sum(axis=1)
    half = len(changed) // 2
    assert (np.diff(changed[:half]) >= 0).all()
    assert (np.diff(changed[half:]) <= 0).all()


def test_mixture_can_combine_the_levels_of_one_plan_with_levels_of_another_plan() -> None:
    law = {"seconds": {1: 60, 4: 30}}
    tasks = {
        "a": {"work": 60, "nodes": [1, 4], "speedup": law},
        "b": {"work": 60, "nodes": [1, 4], "speedup": law, "after": "a"},
    }
    made = instance(tasks, platform({"nodes": 4}))
    narrow, wide = (
        random_genome(made, generator(0))._replace(modes=np.full(2, mode, np.uint32)) for mode in (0, 1)
    )
    decoded = decode_population(made, *mix_genomes(made, narrow, wide))
    pairs = set(zip(decoded.makespan_s.tolist(), decoded.node_seconds.tolist(), strict=True))
    assert (90.0, 180.0) in pairs, "one of them wide lies between both narrow and both wide"


@pytest.mark.parametrize("seed", range(4))
def test_mixtures_keep_the_budgets_exactly_if_their_schedules_are_valid(seed: int) -> None:
    consuming = {
        "work": 60,
        "nodes": [1, 4],
        "speedup": {"seconds": {1: 60, 4: 30}},
        "consumes": {"credits": {1: 1, 4: 3}},
    }
    tasks = {"each": {**consuming, "sweep": {"k": "1..4"}}, "fixed": {"work": 1, "consumes": {"credits": 2}}}
    made = instance(tasks, platform({"nodes": 4}, {"nodes": 4}), budgets={"credits": 8, "other": 1})
    rng = generator(seed, "budgets")
    mixed = mix_genomes(made, random_genome(made, rng), random_genome(made, rng))
    kept = keep_budgets(made, mixed[2])
    for row, genome in enumerate(zip(*mixed, strict=True)):
        rules = {found.rule for found in verify(decode(made, *genome), made.graph, made.platform)}
        assert rules == (set() if kept[row] else {"budget"})


def test_mixtures_of_a_workflow_without_budgets_are_all_kept() -> None:
    made = instance(TASKS, platform({"nodes": 4}))
    assert keep_budgets(made, np.zeros((3, len(made)), dtype=np.uint32)).tolist() == [True] * 3
