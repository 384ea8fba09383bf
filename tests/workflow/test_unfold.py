"""The task graph of a workflow: its columns and their order."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import subprocess
import sys

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

from strategies import workflows
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml
from weft.workflow.checks import check_and_unfold, find_problems
from weft.workflow.task import Dependency, Input, MeasuredSeconds, Output, Task
from weft.workflow.task_graph import COMPUTE, TRANSFER, VIRTUAL
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Workflow
from workflow.workflow_texts import edges, graph_of, read

EXAMPLE = """\
    name: wien2k
    params: {kpoints: 50, atoms: 64, matrix: 6000, w1: "=(7*atoms*matrix**2 + matrix**3) / 1e9"}
    defaults: {retries: 1, contract: 0.5}
    tasks:
      lapw0: {command: "./lapw0 {inputs}", inputs: [case.struct], outputs: {potential: 100kB}, work: 0.5*w1}
      lapw1:
        sweep: {k: 1..kpoints}
        command: ./lapw1 --nodes {nodes} --k {k}
        inputs: [potential]
        outputs: {"vector.{k}": 200*matrix*atoms}
        work: w1
        nodes: [1, 2, 4, 8]
        speedup: {amdahl: 0.05}
        machine: kpoint-{k}
        requirements: memory >= 512*MB and arch == "x86_64"
        rank: speed
        checkpoint: {files: ["restart.{k}"], every: 60s, nodes: any}
        progress: progress.{k}
        contract: {factor: 0.5, grace: 10s}
      lapw2: {sweep: {k: 1..kpoints}, after: ["lapw1[k]", fermi], inputs: ["vector.{k}"], machine: "kpoint-{k}", work: 0.1*w1, command: "./lapw2 {k}"}
      fermi: {after: lapw1, work: 0.01*w1, command: ./fermi}
      conv: {after: lapw2, work: 0.001*w1, command: ./conv}
    loops:
      scf: {from: conv, to: lapw0, until: conv.exit_code == 0, max_iterations: 40, on_exhausted: fail}
    """


def test_example_of_the_file_format_unfolds_to_the_documented_graph():
    graph = graph_of(EXAMPLE)
    assert (len(graph), graph.edge_count) == (103, 250)
    w1 = (7 * 64 * 6000**2 + 6000**3) / 1e9
    assert graph.params["w1"] == w1
    assert np.isclose(graph.work.sum(), w1 * (0.5 + 50 + 5 + 0.01 + 0.001))
    assert graph.names[:2] == ("lapw0", "lapw1[1]")
    assert graph.names[51] == "fermi"
    assert graph.names[-1] == "conv"
    one, two = graph.index("lapw1[7]"), graph.index("lapw2[7]")
    assert graph.variable[one] == graph.variable[two]
    assert graph.edge_bytes[graph.edge_bytes > 1e6].tolist() == [200 * 6000 * 64] * 50
    assert graph.context(one)["k"] == 7
    assert len(graph.loops[0].tasks) == 103
    assert graph.law(one) == graph.description(one).speedup


def test_graph_has_columns_of_kinds_cores_and_resources():
    graph = graph_of(
        """\
        params: {n: 2}
        tasks:
          a: {machine: A, cores: 2*n, memory: 1GB, resources: {licence: n}, work: 5}
          b: {gpus: 1, seconds: 9}
          m: {kind: transfer, from: A, to: B, file: x, size: 1}
          v: {kind: virtual}
        """
    )
    assert graph.kind.tolist() == [COMPUTE, COMPUTE, TRANSFER, VIRTUAL]
    assert graph.cores.tolist() == [4, 0, 0, 0]
    assert graph.resource_names == ("gpus", "licence", "memory")
    assert graph.demand.tolist() == [[0, 2, 1e9], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert np.isnan(graph.work).tolist() == [False, True, True, True]
    assert (graph.explicit_names, graph.explicit_seconds.tolist()) == (("*",), [9])
    assert graph.explicit_pointer.tolist() == [0, 0, 1, 1, 1]


def test_predecessors_and_successors_are_consistent():
    graph = graph_of(EXAMPLE)
    forward = {(task, int(child)) for task in range(len(graph)) for child in graph.successors(task)}
    backward = {(int(parent), task) for task in range(len(graph)) for parent in graph.predecessors(task)}
    assert forward == backward
    for task in range(len(graph)):
        for place in range(graph.successor_pointer[task], graph.successor_pointer[task + 1]):
            edge = graph.successor_edge[place]
            assert graph.predecessor[edge] == task
            child = graph.successor[place]
            assert graph.predecessor_pointer[child] <= edge < graph.predecessor_pointer[child + 1]


@settings(suppress_health_check=list(HealthCheck))
@given(workflows())
def test_every_graph_is_in_topological_order_with_columns_of_one_length(workflow):
    assume(not find_problems(workflow))
    graph = unfold(workflow)
    for task in range(len(graph)):
        assert (graph.predecessors(task) < task).all()
    columns = (
        graph.kind,
        graph.work,
        graph.cores,
        graph.counts,
        graph.demand,
        graph.variable,
        graph.source_variable,
    )
    assert {len(column) for column in columns} == {len(graph)}
    assert len(set(graph.names)) == len(graph)
    assert (graph.edge_bytes >= 0).all()
    assert graph.variable.max() < len(graph.variables)


def test_order_of_tasks_in_the_file_is_kept_if_it_is_topological():
    text = "tasks: {c: {after: a}, a: , b: , d: {after: [b, c]}}"
    assert graph_of(text).names == ("a", "c", "b", "d")
    assert graph_of("tasks: {x: , w: , v: {after: x}}").names == ("x", "w", "v")


def test_graphs_of_the_functions_unfold_and_check_and_unfold_are_equal():
    workflow = read(EXAMPLE)
    one, two = check_and_unfold(workflow), unfold(workflow)
    assert (one.names, edges(one)) == (two.names, edges(two))
    assert one.work.tolist() == two.work.tolist()


def test_graphs_can_be_pickled():
    workflow = dataclasses.replace(read(EXAMPLE), document=None)
    again = pickle.loads(pickle.dumps(unfold(workflow)))
    assert again.workflow == workflow
    assert edges(again) == edges(unfold(workflow))


SCRIPT = """
from weft.workflow.builder import Builder
from weft.workflow.unfold import unfold
flow = Builder("w")
for name in "qwertyuiop":
    flow.task(name, outputs=[name + ".x"], machine="m" + name, resources={name: 1, "licence": 2}, seconds={name: 1})
flow.task("z", inputs=[name + ".x" for name in "poiuytrewq"], sweep={"k": [1, 2]})
flow.task("s", after=["z[*]", "q"], sweep={"s": ["x", "y"]})
g = unfold(flow.build())
print(g.names, g.predecessor.tolist(), g.resource_names, g.demand.tolist(), g.variables, g.explicit_names)
"""


def test_task_graph_does_not_depend_on_the_hash_seed():
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(found) == 1
    assert "'z[1]'" in found.pop()


def test_ten_thousand_imported_tasks_are_unfolded():
    tasks = tuple(
        Task(
            name=f"t{number}",
            after=tuple(Dependency(task=f"t{before}") for before in (number - 1, number - 2) if before >= 0),
            inputs=(Input(file=f"f{number - 3}"),),
            outputs=(Output(file=f"f{number}", size=8), Output(file=f"g{number}")),
            work=1.0,
        )
        for number in range(10_000)
    )
    workflow = Workflow(name="large", tasks=tasks)
    assert find_problems(workflow) == []
    graph = unfold(workflow)
    assert (len(graph), graph.edge_count) == (10_000, 9_999 + 9_998 + 9_997)
    assert graph.edge_bytes.sum() == 8 * 9_997


def test_default_work_of_a_task_with_a_measured_law_is_given_by_the_law():
    law = MeasuredSeconds(seconds={1: 10.0, 2: 6.0})
    flow = Workflow(
        name="w",
        tasks=(
            Task(name="law", nodes=(1, 2), speedup=law),
            Task(name="own", nodes=(1, 2), speedup=law, work=20),
            Task(name="times", nodes=(1, 2), speedup=law, seconds=3),
        ),
    )
    assert unfold(flow).work.tolist()[:2] == [10.0, 20.0]
    assert math.isnan(unfold(flow).work[2])


def test_a_workflow_read_from_a_file_can_be_pickled():
    text = "weft: 1\ntasks: {a: {work: 3, sweep: {k: 1..2}}}\n"
    flow = WeftYaml().read(SourceFile(name="f.yaml", data=text.encode()))
    copy = pickle.loads(pickle.dumps(flow))
    assert copy == flow
    assert copy.document.location(("tasks", "a", "work")).line == 2
