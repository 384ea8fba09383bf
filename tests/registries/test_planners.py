"""Conformance of every planner in the registry; new planners are included automatically."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from planning_examples import MAKESPAN, instance, lines, platform
from weft.errors import Infeasible
from weft.instance import BusyInterval
from weft.instance.compilation import extract_part
from weft.planners import PLANNERS
from weft.planners.planner import Budget, Plan, PlanRequest, Unsupported
from weft.platform.platform import Link, Share
from weft.randomness import generator
from weft.schedule.bounds import lower_bounds
from weft.schedule.costs import cheapest_cost, schedule_cost
from weft.schedule.objective import OBJECTIVES
from weft.schedule.verification import verify
from weft.workflow.task_graph import SubgraphEdge, SubgraphTask, build_subgraph

GRID = platform(
    {"speed": 1.0, "arch": "x86_64", "site": "a"},
    {"speed": 2.0, "nodes": 4, "memory": 8e9, "site": "a", "price_per_node_hour": 2.0},
    {"speed": 3.0, "cores": 8, "resources": {"licence": 1}, "services": ("dock",)},
    {"nodes": 6, "backend": {"kind": "local"}},
    sites={"a": Link(bandwidth_Bps=1e8)},
    links=(("a", "m2", Link(bandwidth_Bps=5e6, latency_s=0.1)),),
)
SHARES = platform(
    {"nodes": 4, "services": ("dock",)},
    {"speed": 2.0},
    virtual=(Share(machine="m0", service="dock", nodes=2),),
)
TIME_SHARED = platform({"occupancy": "shared", "nodes": 2}, {"speed": 2.0})
OPEN = platform({"occupancy": "unlimited"}, {"occupancy": "unlimited", "speed": 2.0})

CHAIN = {
    "a": {"work": 3, "outputs": {"x": "9MB"}},
    "b": {"work": 4, "inputs": ["x"], "outputs": {"y": {"seconds": 2}}},
    "c": {"work": 5, "inputs": ["y"]},
}
SWEEP = {
    "split": {"work": 1, "outputs": {"part": "4MB"}},
    "many": {"sweep": {"k": "1..8"}, "work": "k", "inputs": ["part"], "outputs": {"r.{k}": "2MB"}},
    "pair": {"sweep": {"j": "1..4"}, "work": 2, "after": "many[2*j-1..2*j]"},
    "join": {"work": 2, "after": ["pair"], "inputs": ["r.1", "r.8"]},
}
MOLDABLE = {
    "wide": {"sweep": {"k": "1..4"}, "work": "10*k", "nodes": [1, 2, 4], "speedup": {"amdahl": 0.1}},
    "measured": {"nodes": "1..4", "speedup": {"seconds": {1: 9, 2: 5, 4: 3}}, "after": "wide"},
    "rigid": {"work": 4, "nodes": 3, "after": "wide"},
}
DEMANDING = {
    "memory": {"sweep": {"k": "1..3"}, "work": 3, "memory": "3GB", "requirements": "memory >= 1"},
    "licence": {"sweep": {"k": "1..3"}, "work": 2, "resources": {"licence": 1}},
    "cores": {"sweep": {"k": "1..3"}, "work": 2, "cores": 3},
    "arch": {"work": 2, "requirements": 'arch == "x86_64"', "after": ["memory", "licence"]},
}
MOVING = {
    "a": {"work": 3, "machine": "A", "outputs": ["x"]},
    "move": {"kind": "transfer", "from_": "A", "to": "B", "file": "x", "size": "8MB"},
    "b": {"work": 3, "machine": "B", "inputs": ["x"]},
    "on": {"kind": "transfer", "from_": "B", "to": "C", "file": "z", "size": "3MB", "after": "b"},
    "c": {"work": 3, "machine": "A", "after": "a"},
    "end": {"kind": "virtual", "after": ["b", "c", "on"]},
}
SERVICES = {
    "dock": {"sweep": {"k": "1..4"}, "work": 4, "service": "dock"},
    "rest": {"sweep": {"k": "1..4"}, "work": 4, "after": "dock[k]"},
}
LOOP = {"first": {"work": 2}, "body": {"work": 3, "after": "first"}, "check": {"work": 1, "after": "body"}}
LOOPS = {"again": {"last": "check", "first": "first", "until": "check.exit_code == 0", "expect": 3}}

INSTANCES = {
    "chain": lambda: instance(CHAIN, GRID),
    "sweep": lambda: instance(SWEEP, GRID),
    "sweep on identical machines": lambda: instance(SWEEP, "identical:3"),
    "moldable": lambda: instance(MOLDABLE, GRID),
    "moldable on one cluster": lambda: instance(MOLDABLE, "cluster:5"),
    "demanding": lambda: instance(DEMANDING, GRID),
    "transfers": lambda: instance(MOVING, GRID),
    "shares": lambda: instance(SERVICES, SHARES),
    "unlimited": lambda: instance(SWEEP, OPEN),
    "time-shared": lambda: instance(SWEEP, TIME_SHARED),
    "loop": lambda: instance(LOOP, GRID, LOOPS),
    "seconds": lambda: instance(
        {"a": {"seconds": {"m0": 3, "m1": 4}}, "b": {"seconds": 2, "after": "a"}}, GRID
    ),
    "one virtual task": lambda: instance({"a": {"kind": "virtual"}}, GRID),
}


@pytest.fixture(params=list(PLANNERS), scope="module")
def planner(request):
    return PLANNERS.load(request.param)()


@pytest.fixture(params=INSTANCES)
def case(request):
    return request.param


@cache
def make_case(case):
    """Return an instance, cached because no planner changes it."""
    return INSTANCES[case]()


@pytest.fixture
def made(case):
    return make_case(case)


@cache
def bound_s(case):
    """Return the lower bound of an instance, cached because it is the same for all planners."""
    return lower_bounds(make_case(case)).best_s


def plan_with(planner, made, objective=MAKESPAN):
    """Plan with a budget of steps, so that no clock is involved."""
    if planner.supports(made, objective) is not None:
        pytest.skip("the planner does not support this instance")
    return planner.plan(
        PlanRequest(
            instance=made, objective=objective, budget=Budget(steps=50), rng=generator(7, "conformance")
        )
    )


SIMPLE = instance({"a": {"work": 1}}, "identical:1")
OTHERS = [
    (name, objective)
    for name in PLANNERS
    for objective in OBJECTIVES.values()
    if not objective.is_makespan and PLANNERS.load(name)().supports(SIMPLE, objective) is None
]
"""Planners with the objectives they support besides the makespan."""


def test_a_planner_has_its_registered_name_and_a_title(planner):
    assert planner.name in PLANNERS
    assert PLANNERS.load(planner.name) is type(planner)
    assert len(planner.title) > 10


def test_unsupported_objective_is_refused_and_the_reason_is_stated(planner):
    answers = {
        (case, name): planner.supports(make_case(case), objective)
        for case in INSTANCES
        for name, objective in OBJECTIVES.items()
    }
    refused = {key: answer for key, answer in answers.items() if answer is not None}
    assert {
        key: answer
        for key, answer in refused.items()
        if not isinstance(answer, Unsupported) or not answer.reason
    } == {}


def test_schedules_are_valid_reproducible_and_not_below_the_lower_bound(planner, case, made):
    plan, again = plan_with(planner, made), plan_with(planner, made)
    assert isinstance(plan, Plan)
    assert plan.steps >= 1
    assert verify(plan.schedule, made.graph, made.platform) == []
    assert plan.schedule.makespan_s >= bound_s(case) * (1 - 1e-9)
    assert plan.bound_s <= plan.schedule.makespan_s * (1 + 1e-9)
    assert (lines(again.schedule), again.steps) == (lines(plan.schedule), plan.steps)


@pytest.mark.parametrize(("name", "objective"), OTHERS, ids=lambda value: getattr(value, "name", value))
def test_plans_for_other_objectives_are_valid_and_not_below_the_least_cost(name, objective, case, made):
    plan = plan_with(PLANNERS.load(name)(), made, objective)
    assert verify(plan.schedule, made.graph, made.platform) == []
    assert plan.schedule.makespan_s >= bound_s(case) * (1 - 1e-9)
    assert schedule_cost(plan.schedule, made) >= cheapest_cost(made) * (1 - 1e-9)
    again = plan_with(PLANNERS.load(name)(), made, objective)
    assert lines(again.schedule) == lines(plan.schedule)


def test_pins_busy_intervals_and_earliest_starts_are_respected(planner):
    held = (
        BusyInterval(machine=0, start_s=0.0, finish_s=6.0, nodes=1),
        BusyInterval(machine=1, start_s=2.0, finish_s=4.0, nodes=3),
    )
    earliest = np.array([0.0, 1.0, 5.0, 0.0, 0.0, 0.0])
    made = instance(MOVING, GRID, pinned={"A": "m0", "B": "m1"}, busy=held, earliest_start_s=earliest)
    schedule = plan_with(planner, made).schedule
    assert verify(schedule, made.graph, made.platform) == []
    assert (schedule.start_s >= earliest).all()
    found = lines(schedule)
    assert [found[name][0] for name in ("a", "c", "b")] == ["m0", "m0", "m1"]
    assert found["a"][2] >= 6


def rest_of_a_transfer():
    """Return the rest of MOVING after its first task, whose abstract machine has no tasks left."""
    whole = instance(MOVING, GRID)
    names = ("move", "b", "on")
    tasks = [whole.graph.index(name) for name in names]
    graph, order = build_subgraph(
        whole.graph,
        [
            SubgraphTask(task=tasks[0], name="move", variable=1, source_variable=0),
            SubgraphTask(task=tasks[1], name="b", variable=1),
            SubgraphTask(task=tasks[2], name="on", variable=2, source_variable=1),
        ],
        [SubgraphEdge(tail=0, head=1), SubgraphEdge(tail=1, head=2)],
        ["A", "B", "C"],
    )
    machines = len(whole.machines)
    return extract_part(
        whole,
        graph,
        np.array([tasks[row] for row in order], dtype=np.uint32),
        left=np.ones(len(names)),
        speed=np.ones(machines),
        usable=np.ones(machines, dtype=bool),
        pinned={0: 2},
        earliest_start_s=np.zeros(len(names)),
        busy=(),
    )


def test_the_pin_of_a_variable_without_tasks_is_kept(planner):
    """The source of a transfer keeps its machine after its last task has ended."""
    made = rest_of_a_transfer()
    found = lines(plan_with(planner, made).schedule)
    took, machine = found["move"][3] - found["move"][2], found["move"][0]
    there = [each.name for each in made.machines].index(machine)
    assert took == pytest.approx(made.transfer_s(0, 2, there))
    assert found["b"][0] == machine
    assert found["b"][2] >= found["move"][3]


def test_a_task_without_a_machine_is_infeasible():
    with pytest.raises(Infeasible, match="no machine can run wide"):
        instance({"wide": {"work": 1, "nodes": 99}}, GRID)


SCRIPT = """
import json, sys
import weft
from weft.errors import InvalidInput
from weft.planners import PLANNERS

flow = weft.Builder("mixed", params={"n": 6})
first = flow.task("first", work=2, outputs={"x": "5MB"})
flow.task("many", sweep={"k": "1..n"}, work="k", inputs=["x"], machine="point-{k}", nodes=[1, 2, 4],
          speedup={"amdahl": 0.1}, outputs={"r.{k}": "3MB"})
flow.task("more", sweep={"k": "1..n"}, work=1, inputs=["r.{k}"], machine="point-{k}",
          resources={"licence": 1})
last = flow.task("last", work=1, after="more")
flow.loop("again", last=last, first=first, max_iterations=5, expect=2)
simple = weft.Builder("simple")
simple.task("many", sweep={"k": "1..14"}, work="k % 5 + 1")
# A planner refuses instances that it does not support; every planner supports at least one of these.
tries = [(flow.build(), sys.argv[1], "makespan"), (simple.build(), "identical:3", "makespan"),
         (flow.build(), sys.argv[1], "cost"), (simple.build(), "cluster:3", "makespan")]
records = {}
for name in PLANNERS:
    for workflow, platform, objective in tries:
        try:
            planned = weft.plan(workflow, on=platform, planner=name, objective=objective, plan_steps=50)
            records[name] = planned.as_record()
        except InvalidInput:
            continue
        del records[name]["planning_s"]
        break
print(json.dumps(records))
"""
PLATFORM = """
weft: 1
machines:
  "a{1..3}": {speed: 2, nodes: 4, site: one, resources: {licence: 1}}
  b: {speed: 1, nodes: 8, resources: {licence: 2}}
links: {default: {bandwidth: 10MB/s, latency: 20ms}}
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Plan with every planner under four hash seeds, twice with plain and twice with compiled kernels."""
    grid = tmp_path_factory.mktemp("hash_seeds") / "grid.yaml"
    grid.write_text(PLATFORM)
    found = []
    for seed, form in (("0", "plain"), ("1", "plain"), ("2", "compiled"), ("3", "compiled")):
        paths = os.pathsep.join(sys.path)
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(grid)],
            env={**os.environ, "PYTHONHASHSEED": seed, "WEFT_KERNELS": form, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(run.stdout))
    return found


def test_plans_do_not_depend_on_the_hash_seed_or_on_kernel_compilation(planner, records):
    first, *others = [record[planner.name] for record in records]
    assert len(first["schedule"]) == 14
    assert others == [first] * 3
