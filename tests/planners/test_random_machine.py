"""Random machines: every candidate is equally likely, and the seed determines the plan."""

from __future__ import annotations

from collections import Counter

from planning_examples import MAKESPAN, instance, platform
from weft.planners.baselines import RandomMachine
from weft.planners.planner import Budget, PlanRequest
from weft.randomness import generator


def machines_of(made, seed):
    plan = RandomMachine().plan(
        PlanRequest(instance=made, objective=MAKESPAN, budget=Budget(), rng=generator(seed, "random"))
    )
    return plan.schedule.machine.tolist()


def test_the_seed_determines_the_plan():
    made = instance({f"t{index}": {"work": 1} for index in range(20)}, "identical:4")
    assert machines_of(made, 1) == machines_of(made, 1)
    assert machines_of(made, 1) != machines_of(made, 2)


def test_every_candidate_is_drawn_about_equally_often_and_no_other():
    tasks = {f"t{index}": {"work": 1, "requirements": 'name != "m1"'} for index in range(3000)}
    drawn = Counter(machines_of(instance(tasks, platform({}, {}, {}, {})), 3))
    assert set(drawn) == {0, 2, 3}
    # The standard deviation is 26.
    assert all(abs(times - 1000) < 130 for times in drawn.values())


def test_pinned_variables_keep_their_machine():
    tasks = {f"t{index}": {"work": 1, "machine": "A"} for index in range(3)}
    made = instance(tasks, "identical:9", pinned={"A": "m5"})
    assert {made.machines[machine].name for machine in machines_of(made, 4)} == {"m5"}
