"""Placement by due dates equals its reference bit for bit, with compiled and plain kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kernels.due_dates_reference import InTime
from kernels.random_graphs import busy_stretches, faceted, layered
from kernels.two_forms import columns, in_both_forms
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.planners.heft_moldable import schedule_by_due_date
from weft.planners.problem import compile_problem
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.randomness import generator
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def both(made, rng):
    """Return the schedules of kernel and reference for random due dates and prices, and which tasks are
    in time.
    """
    due = np.where(rng.integers(5, size=len(made)) > 0, rng.integers(0, 25, size=len(made)), np.inf)
    prices = rng.integers(0, 3, size=len(made.machines)).astype(float)
    problem, order = compile_problem(made), order_by_rank(upward_ranks(made))
    problem = problem._replace(machines=problem.machines._replace(price=prices))
    found = schedule_by_due_date(made, problem, order, due)
    reference = InTime(made, due.tolist(), prices.tolist())
    for task in order.tolist():
        reference.place(task)
    return columns(found), columns(reference.schedule()), found.finish_s <= due


@given(flow=workflows(), where=platforms(), held=busy_stretches(), seed=st.integers(0, 9))
@SEARCH
def test_instances_with_all_features_are_placed_as_by_the_reference(monkeypatch, flow, where, held, seed):
    try:
        made = compile_instance(unfold(flow), where, busy=held(where))
    except (Infeasible, InvalidInput):
        assume(False)
    assume(not len(made.graph.demand_by_count.rows))
    for form in in_both_forms(monkeypatch):
        found, expected, _ = both(made, generator(seed, "due"))
        assert found == expected, form


@pytest.mark.parametrize("integers", [True, False], ids=["ties", "no ties"])
def test_larger_graphs_are_placed_as_by_the_reference(form, integers):
    in_time = []
    for seed in range(12):
        rng = generator(seed, "due", str(integers))
        layout = ("related", "classes", "table", "facets")[seed % 4]
        made = (
            faceted(rng, integers=integers)
            if layout == "facets"
            else layered(rng, integers=integers, layout=layout)
        )
        found, expected, kept = both(made, rng)
        assert found == expected
        in_time += kept.tolist()
    assert 0.2 < np.mean(in_time) < 0.8, "both rules are exercised"
