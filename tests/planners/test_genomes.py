"""Genomes: decoded schedules are valid, the rules compare as documented, and plans can be decoded again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planning_examples import instance, planned, platform
from planning_strategies import platforms, workflows
from random_genomes import random_genome
from weft.errors import Infeasible, InvalidInput
from weft.instance import BusyInterval, compile_instance
from weft.planners.decoding import (
    APPEND,
    EXCLUSIVE,
    INSERTION,
    UNLIMITED,
    decode,
    decode_population,
    encode_schedule,
    select_modes,
)
from weft.schedule.metrics import measure_schedule
from weft.schedule.verification import verify
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
BUSY = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 2.0]), st.integers(1, 2)), max_size=2)


def compiled(flow, where, held=()):
    busy = tuple(
        BusyInterval(machine=machine, start_s=start, finish_s=start + 7.0, nodes=nodes)
        for machine, start, nodes in held
        if machine < len(where.machines)
    )
    try:
        return compile_instance(unfold(flow), where, busy=busy)
    except (Infeasible, InvalidInput):
        assume(False)


@given(flow=workflows(), where=platforms(), held=BUSY, seed=st.integers(0, 99))
@SEARCH
def test_decoded_schedules_are_valid_and_stricter_rules_start_no_task_earlier(flow, where, held, seed):
    made = compiled(flow, where, held)
    genome = random_genome(made, np.random.default_rng(seed))
    found = {rule: decode(made, *genome, rule=rule) for rule in (APPEND, INSERTION, EXCLUSIVE, UNLIMITED)}
    for rule in (APPEND, INSERTION, EXCLUSIVE):
        assert verify(found[rule], made.graph, where) == []
        # A start that leaves the machine to one task is also possible under the other rules.
        assert (found[rule].start_s <= found[EXCLUSIVE].start_s).all()
        assert (found[rule].start_s >= found[UNLIMITED].start_s).all()
    if not held and (made.capacity == 1).all():
        assert (found[INSERTION].start_s <= found[APPEND].start_s).all()
        assert found[APPEND].start_s.tolist() == found[EXCLUSIVE].start_s.tolist()


@given(flow=workflows(), where=platforms(), held=BUSY, rule=st.sampled_from([APPEND, INSERTION]))
@SEARCH
def test_decoding_an_encoded_schedule_starts_no_task_later(flow, where, held, rule):
    made = compiled(flow, where, held)
    schedule = planned(made)
    order, bound, modes = encode_schedule(made, schedule)
    again = decode(made, order, bound, modes, rule=rule)
    assert (again.start_s <= schedule.start_s).all()
    assert again.machine.tolist() == schedule.machine.tolist()
    assert again.nodes.tolist() == schedule.nodes.tolist()
    assert verify(again, made.graph, where) == []


@given(flow=workflows(), where=platforms(), seed=st.integers(0, 99))
@SEARCH
def test_genome_of_a_decoded_schedule_decodes_to_the_same_schedule(flow, where, seed):
    made = compiled(flow, where)
    genome = random_genome(made, np.random.default_rng(seed))
    schedule = decode(made, *genome, rule=INSERTION)
    found = encode_schedule(made, schedule)
    assert found.bound.tolist() == genome.bound.tolist()
    assert found.modes.tolist() == genome.modes.tolist()
    position = np.argsort(found.order)
    for task in range(len(made)):
        assert (position[made.graph.predecessors(task)] < position[task]).all()


def test_order_of_tasks_on_every_machine_is_kept_when_durations_change():
    tasks = {f"t{index}": {"work": 1} for index in range(6)} | {"end": {"work": 1, "after": "t0"}}
    made = instance(tasks, platform({}, {"speed": 1.5}))
    schedule = planned(made)
    order, bound, modes = encode_schedule(made, schedule)
    samples = np.random.default_rng(3).uniform(0.5, 9, (50, len(made)))
    found = decode_population(made, order, bound, modes, seconds=samples, rule=APPEND, times=True)
    for machine in range(2):
        mine = order[schedule.machine[order] == machine]
        assert (np.diff(found.start_s[:, mine], axis=1) > 0).all()


def test_node_seconds_and_cost_are_those_of_the_schedule():
    tasks = {"a": {"work": 4, "nodes": [1, 2, 4], "speedup": {"amdahl": 0.2}}, "b": {"work": 3, "after": "a"}}
    made = instance(tasks, platform({"nodes": 4, "price_per_node_hour": 2.0}, {"price_per_node_hour": 0.5}))
    for seed in range(5):
        genome = random_genome(made, np.random.default_rng(seed))
        expected = measure_schedule(decode(made, *genome, rule=INSERTION), made)
        found = decode_population(made, *genome, rule=INSERTION)
        assert found.node_seconds[0] == pytest.approx(expected.node_seconds)
        assert found.cost[0] == pytest.approx(expected.cost)


MOLDABLE = {"a": {"work": 4, "nodes": [1, 2, 4], "speedup": {"amdahl": 0.2}}, "b": {"work": 3, "after": "a"}}


def test_mode_index_is_looked_up_by_machine_and_count():
    made = instance(MOLDABLE, platform({"nodes": 2}, {"nodes": 4}))
    bound = np.array([[0, 0], [1, 0], [1, 1]], dtype=np.uint32)
    counts = np.array([[2, 1], [4, 1], [1, 1]], dtype=np.uint32)
    modes = select_modes(made, bound, counts)
    for row, (machines, requested) in enumerate(zip(bound, counts, strict=True)):
        for task in range(2):
            mode = made.modes(task)
            assert mode.machine[modes[row, task]] == machines[task]
            assert mode.count[modes[row, task]] == requested[task]
    assert (
        select_modes(made, bound).tolist() == select_modes(made, bound, np.ones(2, dtype=np.uint32)).tolist()
    )
    with pytest.raises(InvalidInput, match=r"the given mode of a does not exist on m0; .* \[1, 2\]"):
        select_modes(made, bound[0], counts[1])
    with pytest.raises(InvalidInput, match="a is bound to machine number 3; there are 2 machines"):
        select_modes(made, np.array([3, 0], dtype=np.uint32))


def test_a_schedule_of_another_instance_is_refused():
    made = instance(MOLDABLE, platform({"nodes": 2}, {"nodes": 4}))
    schedule = planned(made)
    with pytest.raises(InvalidInput, match="the tasks of the schedule are not those of the instance"):
        encode_schedule(made, replace(schedule, tasks=("x", "y")))
    with pytest.raises(InvalidInput, match="a is scheduled on 3 nodes of m1, which is not one of its modes"):
        encode_schedule(
            made,
            replace(
                schedule,
                nodes=np.array([3, 1], dtype=np.uint32),
                machine=np.array([1, 1], dtype=np.uint32),
            ),
        )


def test_a_machine_on_which_a_task_cannot_run_is_refused():
    tasks = {"a": {"work": 1, "requirements": 'name == "m0"'}}
    with pytest.raises(Infeasible, match="a cannot run on m1"):
        select_modes(instance(tasks, platform({}, {})), np.array([1], dtype=np.uint32))
