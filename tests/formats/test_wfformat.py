"""Reading WfFormat: every version, the rules for files, damaged input."""

import json
import random

import pytest
from hypothesis import given

from damage import damaged, reads_or_refuses
from graph_edges import edges_of
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.wfformat import WfFormat
from weft.workflow.task import Dependency, Input, JobSpec, Output
from weft.workflow.unfold import unfold

SPECIFIED = ("workflow", "specification", "tasks")


def split(tasks, ran=(), files=(), **more):
    """Return a document of version 1.5."""
    tasks = [{"name": entry["id"], "parents": [], "children": []} | entry for entry in tasks]
    workflow = {"specification": {"tasks": tasks, "files": list(files)}}
    if ran:
        workflow["execution"] = {"makespanInSeconds": 1, "executedAt": "then", "tasks": list(ran)}
    return {"name": "small", "schemaVersion": "1.5", "workflow": workflow} | more


def joined(tasks, version="1.4", key="tasks"):
    return {"name": "old", "schemaVersion": version, "workflow": {key: tasks}}


def source_of(document):
    return SourceFile(
        name="small.json", data=document if isinstance(document, bytes) else json.dumps(document).encode()
    )


def read(document):
    return WfFormat().read(source_of(document))


def problems(document):
    with pytest.raises(InvalidInput) as caught:
        read(document)
    return caught.value.problems


def graph_facts(workflow):
    graph = unfold(workflow)
    work = [None if work != work else work for work in graph.work.tolist()]
    return graph.names, edges_of(graph, "bytes", "files"), work


def test_version_with_separate_specification_and_execution_is_read():
    workflow = read(
        split(
            [
                {"id": "a_1", "children": ["b_2"], "outputFiles": ["x"]},
                {"id": "b_2", "name": "merge", "parents": ["a_1"], "inputFiles": ["x", "y"]},
                {"id": "c_3"},
            ],
            [
                {"id": "b_2", "runtimeInSeconds": 2.5, "coreCount": 4, "memoryInBytes": 1000},
                {"id": "a_1", "runtimeInSeconds": 7, "command": {"program": "run", "arguments": ["-o", "x"]}},
            ],
            [{"id": "x", "sizeInBytes": 100}, {"id": "y", "sizeInBytes": 5}],
        )
    )
    first, second, third = workflow.tasks
    assert workflow.name == "small"
    assert (first.name, first.work, first.job) == ("a_1", 7.0, JobSpec(command=("run", "-o", "x")))
    assert first.outputs == (Output(file="x", size=100),)
    assert first.attributes == {"program": "run"}
    assert second.after == (Dependency(task="a_1"),)
    assert second.inputs == (Input(file="x", size=100), Input(file="y", size=5))
    assert second.attributes == {"program": "merge", "coreCount": 4, "memoryInBytes": 1000}
    assert second.nodes == (1,)
    assert second.resources == {}
    assert third.work is None
    assert third.job is None


@pytest.mark.parametrize(
    ("version", "key"), [("1.1", "jobs"), ("1.2", "jobs"), ("1.3", "tasks"), ("1.4", "tasks")]
)
def test_versions_with_one_task_list_are_read_with_parents_by_name_or_id(version, key):
    seconds, size = ("runtimeInSeconds", "sizeInBytes") if version == "1.4" else ("runtime", "size")
    tasks = [
        {"name": "split", "id": "ID1", seconds: 3.0, "files": [{"link": "output", "name": "f", size: 10}]},
        {
            "name": "work",
            "id": "ID2",
            "category": "Work",
            seconds: 4,
            "parents": ["split"],
            "cores": 2,
            "files": [{"link": "input", "name": "f", size: 10}],
        },
        {"name": "last", "id": "ID3", seconds: 5, "parents": ["ID2"], "files": []},
    ]
    workflow = read(joined(tasks, version, key))
    assert [task.name for task in workflow.tasks] == ["ID1", "ID2", "ID3"]
    assert [task.work for task in workflow.tasks] == [3.0, 4.0, 5.0]
    assert [task.after for task in workflow.tasks] == [
        (),
        (Dependency(task="ID1"),),
        (Dependency(task="ID2"),),
    ]
    assert workflow.tasks[1].attributes == {"program": "Work", "cores": 2}
    assert graph_facts(workflow)[1] == {("ID1", "ID2"): (10, 1), ("ID2", "ID3"): (0, 0)}


def test_missing_version_is_derived_from_the_structure():
    document = joined([{"name": "only", "runtime": 1, "files": []}])
    del document["schemaVersion"]
    assert read(document).tasks[0].name == "only"


def test_listed_children_add_only_edges_that_are_missing():
    tasks = [{"id": "a", "children": ["b", "b", "c"]}, {"id": "b", "parents": ["a"]}, {"id": "c"}]
    workflow = read(split(tasks))
    assert [task.after for task in workflow.tasks] == [(), (Dependency(task="a"),), (Dependency(task="a"),)]


def test_edges_that_follow_from_files_are_added():
    workflow = read(split([{"id": "b", "inputFiles": ["f"]}, {"id": "a", "outputFiles": ["f"]}]))
    names, edges, _ = graph_facts(workflow)
    assert edges == {("a", "b"): (0, 1)}
    assert names == ("a", "b")


def test_file_with_several_writers_is_an_output_of_the_first_writer():
    tasks = [
        {"id": "a", "outputFiles": ["f"]},
        {"id": "b", "outputFiles": ["f"]},
        {"id": "c", "parents": ["a", "b"], "inputFiles": ["f"]},
    ]
    workflow = read(split(tasks, files=[{"id": "f", "sizeInBytes": 8}]))
    assert [len(task.outputs) for task in workflow.tasks] == [1, 0, 0]
    assert graph_facts(workflow)[1] == {("a", "c"): (8, 1), ("b", "c"): (0, 0)}


def test_file_that_a_task_reads_and_writes_is_an_input_if_another_task_writes_it():
    tasks = [
        {"id": "u", "parents": ["a"], "inputFiles": ["f"], "outputFiles": ["f"]},
        {"id": "a", "outputFiles": ["f"]},
        {"id": "v", "inputFiles": ["g"], "outputFiles": ["g"]},
    ]
    workflow = read(split(tasks))
    update, _, alone = workflow.tasks
    assert (len(update.inputs), len(update.outputs)) == (1, 0)
    assert (len(alone.inputs), len(alone.outputs)) == (0, 1)
    assert set(graph_facts(workflow)[1]) == {("a", "u")}


def test_input_file_that_would_cause_a_cycle_is_ignored():
    tasks = [
        {"id": "a", "inputFiles": ["late", "early"]},
        {"id": "b", "parents": ["a"], "outputFiles": ["late"]},
        {"id": "z", "outputFiles": ["early"]},
    ]
    workflow = read(split(tasks))
    assert [given.file for given in workflow.tasks[0].inputs if given.file == "late"] == []
    assert set(graph_facts(workflow)[1]) >= {("a", "b")}


def test_braces_in_texts_of_other_tools_are_escaped():
    tasks = [{"id": "a", "outputFiles": ["f{k}"]}, {"id": "b", "inputFiles": ["f{k}"]}]
    ran = [{"id": "a", "runtimeInSeconds": 1, "command": {"program": "awk", "arguments": ["{x} ${HOME}"]}}]
    workflow = read(split(tasks, ran))
    assert workflow.tasks[0].job == JobSpec(command=("awk", "{{x}} ${HOME}"))
    assert set(graph_facts(workflow)[1]) == {("a", "b")}


@pytest.mark.parametrize(
    ("tasks", "path", "words"),
    [
        ([{"id": "a", "parents": ["x"]}], (*SPECIFIED, 0, "parents", 0), "no task 'x'"),
        (
            [{"id": "aa", "children": [], "parents": ["aab"]}],
            (*SPECIFIED, 0, "parents", 0),
            "did you mean 'aa'",
        ),
        ([{"id": "a", "children": ["x"]}], (*SPECIFIED, 0, "children", 0), "no task 'x'"),
        ([{"id": "a", "parents": "b"}], (*SPECIFIED, 0, "parents"), "must be a list"),
        ([{"id": "a", "parents": 0}], (*SPECIFIED, 0, "parents"), "must be a list"),
        ([{"id": "b"}, {"id": "a", "parents": ["b", 7]}], (*SPECIFIED, 1, "parents", 1), "7 is a number"),
        ([{"id": "a"}, {"id": "a"}], (*SPECIFIED, 1, "id"), "unique"),
        ([{"id": ""}], (*SPECIFIED, 0, "id"), "empty"),
        ([{"id": 3}], (*SPECIFIED, 0, "id"), "3 is a number"),
        ([{"id": None, "name": None}], (*SPECIFIED, 0, "name"), "no value"),
        ([{"id": "a", "inputFiles": [""]}], (*SPECIFIED, 0, "inputFiles", 0), "not empty"),
        ([{"id": "a", "outputFiles": [{}]}], (*SPECIFIED, 0, "outputFiles", 0), "an object"),
    ],
)
def test_error_about_an_invalid_task_entry_names_its_path_in_the_document(tasks, path, words):
    (problem,) = problems(split(tasks))
    assert problem.path == path
    assert words in str(problem)


@pytest.mark.parametrize("runtime", [-1, -0.5, float("nan"), float("inf"), True, "3", [], 10**400, 10**4200])
def test_invalid_runtimes_are_reported(runtime):
    (problem,) = problems(split([{"id": "a"}], [{"id": "a", "runtimeInSeconds": runtime}]))
    assert problem.path == ("workflow", "execution", "tasks", 0, "runtimeInSeconds")
    assert "at least 0" in str(problem)
    assert len(str(problem)) < 300


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ()),
        ({}, ("workflow",)),
        ({"schemaVersion": "2.0", "workflow": {}}, ("schemaVersion",)),
        ({"schemaVersion": ["1.5"], "workflow": {}}, ("schemaVersion",)),
        ({"workflow": {}}, ("workflow", "jobs")),
        ({"workflow": {"tasks": []}}, ("workflow", "tasks")),
        ({"workflow": {"tasks": {"a": 1}}}, ("workflow", "tasks")),
        ({"workflow": {"tasks": [3]}}, ("workflow", "tasks", 0)),
        ({"workflow": {"specification": 3}}, ("workflow", "specification")),
        (
            split([{"id": "a"}], files=[{"id": "x", "sizeInBytes": -1}]),
            ("workflow", "specification", "files", 0, "sizeInBytes"),
        ),
        (split([{"id": "a"}], files=[{"sizeInBytes": 1}]), ("workflow", "specification", "files", 0, "id")),
        (
            split([{"id": "a"}], [{"id": "b", "runtimeInSeconds": 1}]),
            ("workflow", "execution", "tasks", 0, "id"),
        ),
        (
            split([{"id": "a"}], [{"id": "a", "command": {"program": 3}}]),
            ("workflow", "execution", "tasks", 0, "command"),
        ),
        (
            joined([{"id": "a", "files": [{"name": "f", "link": "both"}]}]),
            ("workflow", "tasks", 0, "files", 0, "link"),
        ),
        (joined([{"id": "a", "files": [{"link": "input"}]}]), ("workflow", "tasks", 0, "files", 0, "name")),
    ],
)
def test_error_about_an_invalid_document_names_the_path_of_the_invalid_value(document, path):
    found = problems(document)
    assert found[0].path == path
    assert found[0].location.file == "small.json"


def test_error_about_a_cycle_in_wfformat_lists_its_tasks():
    tasks = [{"id": "a", "parents": ["c"]}, {"id": "b", "parents": ["a"]}, {"id": "c", "parents": ["b"]}]
    (problem,) = problems(split(tasks))
    assert "wait for each other" in problem.what
    assert all(f"{one} -> {two}" in problem.what for one, two in ["ab", "bc", "ca"])


def test_problems_are_reported_together_up_to_a_limit():
    tasks = [{"id": f"t{index}", "parents": [f"x{index}"]} for index in range(1000)]
    assert len(problems(split(tasks))) == 20
    assert len(problems(split(tasks[:3]))) == 3


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b'{"workflow":\n  {"tasks": [}}', ":2:"),
        (b'{"a": "b', "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"workflow": ' + b"9" * 5000 + b"}", "too long"),
        (b'{"workflow": "\xff"}', "UTF-8"),
        (b'{"name": "\\ud800", "workflow": {"tasks": [{"id": "a"}]}}', "an unpaired surrogate"),
    ],
)
def test_error_about_invalid_json_names_line_and_column(data, words):
    (problem,) = problems(data)
    assert words in str(problem)


SMALL = split(
    [
        {"id": "a", "children": ["b"], "outputFiles": ["x"]},
        {"id": "b", "parents": ["a"], "inputFiles": ["x"]},
    ],
    [{"id": "a", "runtimeInSeconds": 1.5, "command": {"program": "p", "arguments": ["q"]}}],
    [{"id": "x", "sizeInBytes": 3}],
)


@given(damaged([json.dumps(SMALL).encode()]))
def test_damaged_file_is_read_or_rejected(data):
    assert reads_or_refuses(read, data)


def test_wfformat_files_are_recognised_and_weft_files_are_not():
    form = WfFormat()
    assert form.recognises(source_of(split([{"id": "a"}])))
    assert form.recognises(source_of(b'\n {"workflow" : {"jobs": []}}'))
    assert not form.recognises(source_of(b'{"weft": 1, "tasks": {}}'))
    assert not form.recognises(source_of(b"digraph { workflow }"))


def test_order_of_tasks_does_not_change_the_graph():
    tasks = [
        {
            "id": f"t{index}",
            "parents": [f"t{index // 2}"] if index else [],
            "inputFiles": [f"f{index // 3}"] if index else [],
            "outputFiles": [f"f{index}"],
        }
        for index in range(200)
    ]
    expected = graph_facts(read(split(tasks)))[1]
    random.Random(1).shuffle(tasks)
    assert graph_facts(read(split(tasks)))[1] == expected
