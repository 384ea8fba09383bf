"""Every policy of the registry implements the interface; new ones are tested automatically."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from planning_examples import instance, platform
from planning_strategies import platforms, workflows
from policy_runs import run_all
from weft.errors import Infeasible, InvalidInput
from weft.instance import compile_instance
from weft.policies import POLICIES
from weft.policies.policy import make_policy
from weft.registry import list_options
from weft.workflow.unfold import unfold

POOR = platform({"speed": 1.0}, {"speed": 2.0, "nodes": 4}, {"speed": 0.5})
TASKS = {
    "split": {"work": 1, "outputs": {"part": "4MB"}},
    "many": {"sweep": {"k": "1..8"}, "work": "k", "inputs": ["part"], "outputs": {"r.{k}": "2MB"}},
    "pair": {"sweep": {"j": "1..4"}, "work": 2, "after": "many[2*j-1..2*j]", "nodes": [1, 2, 4], "speedup": {"amdahl": 0.1}},
    "join": {"work": 2, "after": ["pair"], "inputs": ["r.1", "r.8"]},
}  # fmt: skip


def with_options(name):
    """Return the names of a policy with every value of its options."""
    kind = POLICIES.load(name)
    hints = {field.name: field.type for field in list_options(kind)}
    words = {
        "intra": ["rank", "index", "priority"],
        "sizing": ["fastest", "frugal"],
        "by": ["transfer", "finish"],
    }
    words |= {"rounds": ["tasks", "workflows"], "placement": ["finish", "rank"]}
    words |= {"inter": ["g-heft", "aging", "aging-e", "fcfs", "srpt", "foft"]}
    words |= {key: ["true", "false"] for key, hint in hints.items() if hint == "bool"}
    assert set(hints) <= set(words)
    return [f"{name}:{key}={word}" for key in hints for word in words[key]] or [name]


EVERY = sorted({text for name in POLICIES for text in with_options(name)})


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_policy_has_its_registered_name_and_a_title(name):
    policy = make_policy(name)
    assert policy.name == name
    assert policy.title
    assert not policy.title.endswith(".")
    assert isinstance(policy.needs_plan, bool)
    key = policy.order.of(instance(TASKS, POOR)).key(0)
    assert isinstance(key, float)


@pytest.mark.parametrize("text", EVERY)
def test_all_tasks_complete_and_runs_are_reproducible(text):
    made = instance(TASKS, POOR)
    arrivals = [(0.0, "a"), (3.0, "a"), (3.0, "a")]
    found = [run_all({"a": made}, arrivals, text) for _ in range(2)]
    assert found[0].lines == found[1].lines
    assert found[0].decisions == found[1].decisions
    assert found[0].endings() == ["completed"] * 3
    assert [len(lines) for lines in found[0].lines.values()] == [len(made)] * 3
    _check_machines(found[0], made)
    for run, (arrival, _) in enumerate(arrivals):
        _check_order(found[0].lines[run], made, arrival)


def _check_machines(ran, made):
    """Assert that no machine runs tasks on more nodes than it has."""
    changes = []
    for lines in ran.lines.values():
        for line in lines.values():
            changes.append((line.start_s, line.nodes, line.machine))
            changes.append((line.finish_s, -line.nodes, line.machine))
    taken = [0] * len(made.machines)
    for _, nodes, machine in sorted(changes):
        taken[machine] += nodes
        assert taken[machine] <= made.capacity[machine]


def _check_order(lines, made, arrival):
    """Assert that no task starts before its arrival or before its data arrive."""
    graph = made.graph
    for task, name in enumerate(graph.names):
        assert lines[name].start_s >= arrival
        for edge in range(graph.predecessor_pointer[task], graph.predecessor_pointer[task + 1]):
            before = lines[graph.names[graph.predecessor[edge]]]
            moving = made.edge_s(int(edge), before.machine, lines[name].machine)
            assert lines[name].start_s >= before.finish_s + moving - 1e-9


@settings(suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(list(POLICIES)),
    flow=workflows(),
    where=platforms(),
    second_s=st.sampled_from([0.0, 2.5]),
)
def test_runs_of_instances_with_all_features_satisfy_the_invariants(name, flow, where, second_s):
    try:
        made = compile_instance(unfold(flow), where)
    except (Infeasible, InvalidInput):
        assume(False)
    # The engine refuses what is not legal: a busy machine, an unknown count, a task that is not ready.
    ran = run_all({"a": made}, [(0.0, "a"), (second_s, "a")], name)
    assert ran.endings() == ["completed", "completed"]


_PROGRAM = """
import json, sys
sys.path[:0] = {path!r}
from planning_examples import instance
from policy_runs import run_all
from registries.test_policies import POOR, TASKS
from weft.policies import POLICIES
found = {{}}
for name in POLICIES:
    ran = run_all({{"a": instance(TASKS, POOR)}}, [(0.0, "a"), (1.0, "a")], name)
    found[name] = [[d.run, d.task, d.machine, d.count] for d in ran.decisions]
print(json.dumps(found, sort_keys=True))
"""


def test_decisions_do_not_depend_on_the_hash_seed():
    """PYTHONHASHSEED does not change the decisions of any policy."""
    program = _PROGRAM.format(path=[path for path in sys.path if path])
    found = []
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert set(found[0]) == set(POLICIES)
