"""The selection kernel equals its reference bit for bit, compiled and plain."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.random_graphs import busy_stretches, faceted, forest, layered
from kernels.selection_reference import Selection
from kernels.two_forms import columns, in_both_forms
from planning_examples import instance
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import BusyInterval, compile_instance
from weft.kernels.placement import FINISH, START
from weft.kernels.selection import AVAILABILITY, LEAST, MOST, SUFFERAGE
from weft.planners.list_planner import FRUGAL, select_tasks
from weft.planners.ranks import link_equal_tasks
from weft.randomness import generator
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
CRITERIA = {"finish": FINISH, "start": START, "moment": AVAILABILITY}
SENSES = {"least": LEAST, "most": MOST, "sufferage": SUFFERAGE}
WISHES = [
    ("finish", "least"),
    ("start", "least"),
    ("moment", "least"),
    ("finish", "most"),
    ("finish", "sufferage"),
]


def both(made, criterion, sense, rng):
    """Return the schedules of kernel and reference for random offsets and ranks."""
    offset, rank = 3.0 * rng.integers(0, 2, len(made)), rng.permutation(len(made)).astype(np.uint32)
    if criterion != "finish":
        offset = np.zeros(len(made))
    found = select_tasks(made, criterion=CRITERIA[criterion], sense=SENSES[sense], offset=offset, rank=rank)
    reference = Selection(
        made,
        criterion=criterion,
        sense=sense,
        offset=offset.tolist(),
        rank=rank.tolist(),
        gaps=bool(made.busy),
        factor=FRUGAL if criterion == "finish" else 1.0,
    )
    return columns(found), columns(reference.run())


@given(
    flow=workflows(),
    where=platforms(),
    held=busy_stretches(),
    wish=st.sampled_from(WISHES),
    seed=st.integers(0, 9),
)
@SEARCH
def test_instances_with_all_features_are_placed_as_by_the_reference(
    monkeypatch, flow, where, held, wish, seed
):
    try:
        made = compile_instance(unfold(flow), where, busy=held(where))
    except (Infeasible, InvalidInput):
        assume(False)
    assume(not len(made.graph.demand_by_count.rows))
    for form in in_both_forms(monkeypatch):
        found, expected = both(made, *wish, generator(seed, "selection"))
        assert found == expected, form


# Instances do not change: they are made once for all rules and both forms.
@cache
def layered_once(seed, layout, integers):
    return layered(generator(seed, "layered", layout), integers=integers, layout=layout)


@cache
def faceted_once(seed, integers):
    return faceted(generator(seed, "faceted"), integers=integers)


@cache
def forest_once(seed):
    return forest(generator(seed, "forest"))


@pytest.mark.parametrize("layout", ["related", "classes", "table"])
@pytest.mark.parametrize("integers", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("wish", WISHES, ids="-".join)
def test_larger_graphs_are_placed_as_by_the_reference(form, layout, integers, wish):
    for seed in range(4):
        made = layered_once(seed, layout, integers)
        found, expected = both(made, *wish, generator(seed, "wish"))
        assert found == expected


@pytest.mark.parametrize("integers", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("wish", WISHES, ids="-".join)
def test_transfers_and_node_counts_are_placed_as_by_the_reference(form, integers, wish):
    for seed in range(6):
        made = faceted_once(seed, integers)
        found, expected = both(made, *wish, generator(seed, "wish"))
        assert found == expected


@pytest.mark.parametrize("where", ["identical:3", "cluster:3"])
@pytest.mark.parametrize("wish", WISHES[:3], ids="-".join)
def test_batching_of_placements_does_not_change_the_plan(form, where, wish):
    for seed in range(4):
        rng = generator(seed, "paced")
        tasks = {
            f"t{index}": {
                "work": float(rng.integers(1, 5)),
                "after": [f"t{other}" for other in sorted(set(rng.integers(0, index, size=2).tolist()))]
                if index > 8
                else [],
            }
            for index in range(40)
        }
        found, expected = both(instance(tasks, where), *wish, generator(seed, "wish"))
        assert found == expected


@pytest.mark.parametrize("wish", WISHES, ids="-".join)
def test_identical_tasks_are_placed_one_after_another(form, wish):
    alike = 0
    for seed in range(12):
        made = forest_once(seed)
        alike += int((link_equal_tasks(made, np.zeros(len(made)), np.arange(len(made))) < len(made)).sum())
        found, expected = both(made, *wish, generator(seed, "wish"))
        assert found == expected
    assert alike > 100


@pytest.mark.parametrize("sense", SENSES)
def test_error_names_a_task_that_never_fits(form, sense):
    for tasks in ({"a": {"work": 3}, "b": {"work": 3, "after": "a"}}, {"a": {"work": 3}, "b": {"work": 3}}):
        # A busy interval holds the machine from 5 s on, so there is time for one task.
        held = (BusyInterval(machine=0, start_s=5.0, finish_s=math.inf, nodes=1),)
        with pytest.raises(Infeasible, match="b cannot end at a finite time"):
            select_tasks(instance(tasks, "identical:1", busy=held), sense=SENSES[sense])
