"""An executed run as WfFormat: valid by the schema, with the executed graph, and readable as a workflow."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

import weft
from driven_engine import platform_of
from reports.executed_journals import example_journal, journal_of
from reports.test_execution import reuse_journal
from reports.test_execution_path import journals
from weft.backends.backend import Product
from weft.backends.file_record import FileRecord
from weft.backends.simulation.scenario import Scenario
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.wfformat import WfFormat
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.reports.execution import build_executed_run
from weft.reports.execution_records import ExecutionRecords, ProcessUsage
from weft.reports.wfformat import write_wfformat
from weft.workflow.unfold import unfold


@pytest.fixture(scope="module")
def schema(bench_data):
    return json.loads((bench_data / "wfcommons" / "schema" / "wfcommons-schema-1.5.json").read_text())


def validate(schema, text):
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.FormatChecker()
    assert (
        list(jsonschema.Draft7Validator(schema, format_checker=checker).iter_errors(json.loads(text))) == []
    )


def read_back(text):
    """Return names, edges and work of the workflow that weft reads from a file."""
    graph = unfold(WfFormat().read(SourceFile(name="run.json", data=text.encode())))
    edges = {
        (graph.names[before], name)
        for task, name in enumerate(graph.names)
        for before in graph.predecessors(task).tolist()
    }
    return edges, dict(zip(graph.names, graph.work.tolist(), strict=True))


def looped():
    flow = weft.Builder("looped")
    flow.task("begin", work=2, inputs=[{"file": "start", "size": 7}], outputs={"state": 10})
    flow.task("check", work=3, inputs=["state"], outputs=["answer"])
    flow.task("report", work=1, inputs=["answer"])
    flow.loop("again", last="check", first="begin", max_iterations=3, on_exhausted="continue")
    return flow.build()


def test_every_iteration_is_a_task_after_the_previous_iteration(schema):
    text = write_wfformat(journal_of(looped(), platform_of(1.0), policy="fcfs").executed())
    validate(schema, text)
    edges, work = read_back(text)
    assert edges == {
        ("begin", "check"),
        ("check", "begin#2"),
        ("begin#2", "check#2"),
        ("check#2", "begin#3"),
        ("begin#3", "check#3"),
        ("check#3", "report"),
    }
    assert work == {
        "begin": 2, "begin#2": 2, "begin#3": 2, "check": 3, "check#2": 3, "check#3": 3, "report": 1,
    }  # fmt: skip
    document = json.loads(text)
    reads = {task["name"]: task["inputFiles"] for task in document["workflow"]["specification"]["tasks"]}
    assert (reads["check#2"], reads["report"], reads["begin#3"]) == (["state.2"], ["answer.3"], ["start"])
    assert document["workflow"]["execution"]["makespanInSeconds"] == 16


def test_measurements_files_and_machines_are_those_of_the_run(schema):
    flow = weft.Builder("flow", description="a flow")
    flow.task("make", work=10, command=["make", "-j", "{nodes}"], outputs=["part.*"])
    flow.task("use", work=5, inputs=["part.*"])
    machine = Machine(name="big box", nodes=2, cores=4, os="Linux", arch="x86_64", memory=8e9, speed=2.0)
    made = Product(
        execution=1,
        run=0,
        task=0,
        name="make",
        kind="make",
        workflow="flow",
        attempt=0,
        files=(
            FileRecord(name="part.1", size_bytes=11, digest="x"),
            FileRecord(name="part.2", size_bytes=22, digest="y"),
        ),
    )
    records = ExecutionRecords(
        products={0: made}, measured={0: ProcessUsage(cpu_s=4, max_rss_bytes=1e6)}, zero_at_s=1_000_000_000
    )
    platform = Platform(machines=(machine,))
    text = write_wfformat(journal_of(flow.build(), platform, policy="fcfs").executed(records))
    validate(schema, text)
    document = json.loads(text)
    assert document["description"] == "a flow"
    specification, execution = (document["workflow"][key] for key in ("specification", "execution"))
    make, use = specification["tasks"]
    assert make["outputFiles"] == use["inputFiles"] == ["part.1", "part.2"]
    assert specification["files"] == [
        {"id": "part.1", "sizeInBytes": 11},
        {"id": "part.2", "sizeInBytes": 22},
    ]
    assert execution["executedAt"] == "2001-09-09T01:46:40+00:00"
    assert execution["tasks"][0] == {
        "id": "make",
        "runtimeInSeconds": 5,
        "executedAt": "2001-09-09T01:46:40+00:00",
        "command": {"program": "make", "arguments": ["-j", "{nodes}"]},
        "coreCount": 4,
        "avgCPU": 80,
        "memoryInBytes": 1e6,
        "machines": ["big.box"],
    }
    assert execution["machines"] == [
        {
            "nodeName": "big.box",
            "system": "linux",
            "architecture": "x86_64",
            "memoryInBytes": 8_000_000_000,
            "cpu": {"coreCount": 8},
        }
    ]


@given(journals())
def test_executed_graph_of_a_workflow_without_loops_equals_the_workflow(written):
    executed = written.executed()
    if executed.outcome != "completed":
        return
    graph = executed.state.runs[0].compiled.graph
    expected = {
        (graph.names[before], name)
        for task, name in enumerate(graph.names)
        for before in graph.predecessors(task).tolist()
    }
    edges, work = read_back(write_wfformat(executed))
    assert edges == expected
    done = {each.task: each.ran_s for each in executed.attempts if each.ending == "completed"}
    assert work == pytest.approx(done)


def test_edges_through_a_task_that_never_ran_become_edges_between_its_neighbours():
    flow = weft.Builder("flow")
    flow.task("a", work=1)
    flow.task("gate", kind="virtual", after=["a"])
    flow.task("b", work=1, after=["gate"])
    edges, _ = read_back(write_wfformat(journal_of(flow.build(), platform_of(1.0), policy="fcfs").executed()))
    assert edges == {("a", "b")}


def test_a_run_with_disturbances_is_valid_and_acyclic(schema):
    executed = example_journal().executed()
    for run in (0, 4, 5):
        text = write_wfformat(executed, run)
        validate(schema, text)
        edges, work = read_back(text)
        graph = executed.state.runs[run].compiled.graph
        # Run 0 repeated its loop three times; only its last task is outside the loop.
        assert len(work) == ((len(graph) - 1) * 3 + 1 if run == 0 else len(graph))
        assert len(edges) >= graph.edge_count
    with pytest.raises(InvalidInput, match="a WfFormat file holds one run"):
        write_wfformat(executed)


def test_reused_task_has_its_original_duration():
    history, state, platform = reuse_journal()
    product = Product(
        execution=1, run=0, task=0, name="first", kind="first", workflow="row", attempt=0, seconds=42
    )
    _, work = read_back(
        write_wfformat(
            build_executed_run(history, state, platform, records=ExecutionRecords(products={0: product}))
        )
    )
    assert work == {"first": 42, "middle": 10, "last": 10}


def test_a_run_without_completed_tasks_has_no_trace():
    flow = weft.Builder("flow")
    flow.task("job", work=1, retries=0)
    scenario = Scenario(exit_codes={"job": (1,)})
    executed = journal_of(flow.build(), platform_of(1.0), scenario=scenario, policy="fcfs").executed()
    with pytest.raises(InvalidInput, match="no task that completed"):
        write_wfformat(executed)
