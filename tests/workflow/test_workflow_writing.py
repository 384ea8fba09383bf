"""Writing and reading a workflow gives an equal workflow."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from strategies import platforms, workflows
from weft.documents import Document, from_python
from weft.expressions import parse
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml, read_platform_file, write_platform
from weft.formats.yaml_document import parse_document
from weft.workflow.file_format import read_workflow, workflow_document
from weft.workflow.task import MeasuredSeconds, Task
from weft.workflow.workflow import Workflow
from workflow.test_workflow_reading import KEYS
from workflow.workflow_texts import read


def again(workflow):
    """Return a workflow written as YAML and read again, without validation."""
    found, reader = read_workflow(parse_document(WeftYaml().write(workflow), "again.yaml"))
    assert [problem.what for problem in reader.problems] == []
    return found


@settings(suppress_health_check=list(HealthCheck))
@given(workflows())
def test_any_workflow_is_read_back_unchanged(workflow):
    assert again(workflow) == workflow


@settings(suppress_health_check=list(HealthCheck))
@given(workflows())
def test_workflow_written_as_plain_data_is_read_back_unchanged(workflow):
    found, reader = read_workflow(Document(root=from_python(workflow_document(workflow))))
    assert (found, reader.problems) == (workflow, [])


@settings(suppress_health_check=list(HealthCheck))
@given(platforms())
def test_any_platform_is_read_back_unchanged(platform):
    assert read_platform_file(SourceFile(name="p.yaml", data=write_platform(platform).encode())) == platform


@pytest.mark.parametrize("text", KEYS)
def test_every_key_is_read_back_unchanged(text):
    task = Task(name="t", **KEYS[text])
    assert again(Workflow(name="w", tasks=(task,))).tasks == (task,)


def test_defaults_of_a_workflow_are_written_as_keys_of_every_task():
    workflow = read("defaults: {retries: 1}\ntasks: {a: , b: {retries: 2}}")
    assert [entry["retries"] for entry in workflow_document(workflow)["tasks"].values()] == [1, 2]
    assert again(workflow).tasks == workflow.tasks


def test_default_values_of_tasks_are_not_written():
    assert workflow_document(Workflow(name="w", tasks=(Task(name="t"),))) == {
        "weft": 1,
        "name": "w",
        "tasks": {"t": {}},
    }


def test_a_formula_that_looks_like_a_number_stays_a_formula():
    task = Task(name="t", work=parse("5"), cores=parse("2"))
    assert again(Workflow(name="w", tasks=(task,))).tasks == (task,)


def test_measured_node_counts_are_written_although_not_all_of_them_are_allowed():
    task = Task(name="t", work=8.0, nodes=(1,), speedup=MeasuredSeconds(seconds={1: 8.0, 4: 3.0}))
    assert workflow_document(Workflow(name="w", tasks=(task,)))["tasks"]["t"]["nodes"] == [1]
    assert again(Workflow(name="w", tasks=(task,))).tasks == (task,)
