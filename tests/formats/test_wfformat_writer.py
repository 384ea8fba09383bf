"""Writing WfFormat: valid for its schema, and read back as the same graph."""

import json

import pytest

from graph_edges import edges_of
from weft.errors import InvalidInput
from weft.expressions import parse
from weft.formats.format import SourceFile
from weft.formats.wfformat import WfFormat
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import Dependency, Input, JobSpec, Output, Task
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Loop, Workflow


def read(text):
    return WfFormat().read(SourceFile(name="small.json", data=text.encode()))


def graph_facts(workflow):
    graph = unfold(workflow)
    work = [None if work != work else work for work in graph.work.tolist()]
    return graph.names, edges_of(graph, "bytes", "files"), work


def described_workflow():
    """Return a workflow with a sweep, formulas, shared files and an external file."""
    sweep = Sweep(variables=(("k", Range(low=parse("1"), high=parse("3"))),))
    return Workflow(
        name="wien 2k",
        params={"size": 100},
        tasks=(
            Task(
                name="start",
                work=2.0,
                inputs=(Input(file="case.struct", size=7),),
                outputs=(Output(file="pot", size=50),),
            ),
            Task(
                name="each",
                sweep=sweep,
                work=parse("10*k"),
                inputs=(Input(file="pot"),),
                outputs=(Output(file="vector.{k}", size=parse("size*k")), Output(file="log {k}")),
            ),
            Task(
                name="end",
                after=(Dependency(task="each"),),
                inputs=(Input(file="vector.2"),),
                job=JobSpec(command=("tail", "{size}", "")),
            ),
        ),
    )


def test_written_wfformat_reads_back_the_same():
    workflow = described_workflow()
    text = WfFormat().write(workflow)
    again = read(text)
    assert graph_facts(again) == graph_facts(workflow)
    assert text == WfFormat().write(workflow)
    assert again.tasks[1].name == "each[1]"
    assert again.tasks[0].inputs == (Input(file="case.struct", size=7),)


def test_ids_of_similar_names_are_unique():
    tasks = tuple(Task(name=name, work=1.0) for name in ("a b", "a.b", "a,b", "\N{GREEK SMALL LETTER BETA}"))
    document = json.loads(WfFormat().write(Workflow(name="w", tasks=tasks)))
    ids = [entry["id"] for entry in document["workflow"]["specification"]["tasks"]]
    assert len(set(ids)) == 4
    assert [task.name for task in read(json.dumps(document)).tasks] == [task.name for task in tasks]


@pytest.mark.parametrize(
    ("workflow", "words"),
    [
        (
            Workflow(
                name="w",
                tasks=(Task(name="a", work=1.0),),
                loops=(Loop(name="again", first="a", last="a", max_iterations=3),),
            ),
            "loop again",
        ),
        (
            Workflow(
                name="w",
                tasks=(
                    Task(name="a"),
                    Task(name="b", after=(Dependency(task="a", condition=parse("exit_code == 0")),)),
                ),
            ),
            "condition",
        ),
        (Workflow(name="w", tasks=(Task(name="a", seconds={"P1": 3}),)), "differ by machine"),
        (
            Workflow(
                name="w",
                tasks=(
                    Task(name="a", outputs=(Output(file="f", seconds=3),)),
                    Task(name="b", inputs=(Input(file="f"),)),
                ),
            ),
            "fixed seconds",
        ),
    ],
)
def test_writing_a_workflow_that_wfformat_cannot_express_is_rejected(workflow, words):
    with pytest.raises(InvalidInput, match=words):
        WfFormat().write(workflow)


def test_published_traces_are_read_and_written(bench_data):
    """The expected counts and sums were computed from the JSON of the files by another program."""
    jsonschema = pytest.importorskip("jsonschema")
    folder = bench_data / "wfcommons"
    schema = json.loads((folder / "schema" / "wfcommons-schema-1.5.json").read_text())
    files = sorted(folder.glob("v1.*/*.json"))
    assert len(files) >= 20
    for file in files:
        document = json.loads(file.read_bytes())
        flow = document["workflow"]
        source = SourceFile(name=file.name, data=file.read_bytes())
        assert WfFormat().recognises(source), file
        workflow = WfFormat().read(source)
        entries = (
            flow["specification"]["tasks"] if "specification" in flow else flow.get("tasks") or flow["jobs"]
        )
        ran = flow["execution"]["tasks"] if "specification" in flow else entries
        assert len(workflow.tasks) == len(entries), file
        expected = sum(entry.get("runtimeInSeconds", entry.get("runtime")) for entry in ran)
        names, edges, work = graph_facts(workflow)
        assert sum(work) == pytest.approx(expected), file
        assert len(edges) == sum(len(set(entry["parents"])) for entry in entries), file
        written = WfFormat().write(workflow)
        jsonschema.Draft7Validator(schema).validate(json.loads(written))
        assert graph_facts(read(written)) == (names, edges, work), file


def test_written_wfformat_is_valid_for_the_schema(bench_data):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((bench_data / "wfcommons" / "schema" / "wfcommons-schema-1.5.json").read_text())
    written = json.loads(WfFormat().write(described_workflow()))
    assert list(jsonschema.Draft7Validator(schema).iter_errors(written)) == []
