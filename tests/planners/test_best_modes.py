"""Best machines and modes of binding variables, compared with an enumeration of all machines."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from planning_examples import instance, platform
from planning_strategies import platforms, workflows
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.planners import problem
from weft.planners.list_planner import place_tasks
from weft.planners.problem import best_machines, restrict_to_best_modes
from weft.planners.ranks import order_by_rank, upward_ranks
from weft.schedule.costs import cheapest_cost, schedule_cost
from weft.workflow.task_graph import COMPUTE
from weft.workflow.unfold import unfold

SEARCH = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def totals(made, price=None):
    """Return {variable: {machine: total seconds, or total cost if prices are given}}."""
    found = {}
    for task in range(len(made)):
        if made.graph.kind[task] != COMPUTE:
            continue
        group, modes = made.groups[int(made.group[task])], made.modes(task)
        weighed = modes.seconds * (1.0 if price is None else price[group.machine] * group.nodes)
        own = found.setdefault(int(made.graph.variable[task]), [])
        own.append(
            {machine: min(weighed[modes.machine == machine]) for machine in set(modes.machine.tolist())}
        )
    sums = {}
    for variable, tasks in found.items():
        able = set.intersection(*map(set, tasks))
        if variable in made.pinned:
            able = {made.pinned[variable]}
        sums[variable] = {machine: sum(task[machine] for task in tasks) for machine in able}
    return sums


@given(flow=workflows(), where=platforms())
@SEARCH
def test_best_machine_of_a_variable_has_the_least_total_time_or_cost(flow, where):
    try:
        made = compile_instance(unfold(flow), where)
    except (Infeasible, InvalidInput):
        assume(False)
    for price in (None, made.price_per_node_s):
        bound, expected = best_machines(made, price).tolist(), totals(made, price)
        for variable, machine in enumerate(bound):
            if variable not in expected:
                assert machine == len(made.machines)
            else:
                own = expected[variable]
                assert own[machine] == pytest.approx(min(own.values()))


@given(flow=workflows(), where=platforms())
@SEARCH
def test_a_plan_of_the_cheapest_modes_costs_least(flow, where):
    try:
        made = compile_instance(unfold(flow), where)
    except (Infeasible, InvalidInput):
        assume(False)
    schedule = place_tasks(
        made, order_by_rank(upward_ranks(made)), problem=restrict_to_best_modes(made, made.price_per_node_s)
    )
    assert schedule_cost(schedule, made) == pytest.approx(cheapest_cost(made))


def test_batches_of_variables_do_not_change_the_result(monkeypatch):
    tasks = {f"t{index}": {"work": index + 1.0, "machine": f"A{index % 5}"} for index in range(12)}
    made = instance(tasks, platform({"speed": 1.0}, {"speed": 3.0}, {"speed": 2.0}), pinned={"A2": "m2"})
    at_once = best_machines(made).tolist()
    monkeypatch.setattr(problem, "_CHUNK", 1)
    assert best_machines(made).tolist() == at_once
    assert at_once[made.graph.variables.index("A2")] == 2
    assert sorted(at_once) == [1, 1, 1, 1, 2]


def test_placement_chooses_among_equally_good_modes_by_finish_time():
    made = instance({f"t{index}": {"work": 1} for index in range(4)}, "identical:4")
    schedule = place_tasks(made, order_by_rank(upward_ranks(made)), problem=restrict_to_best_modes(made))
    assert schedule.makespan_s == 1
