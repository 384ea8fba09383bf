"""Every registered format follows the interface; new ones are included without a change here.

A format that reads needs a sample below: it must recognise and read it, and reject damaged copies.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_edges import edges_of
from planning_examples import workflow
from weft.errors import InvalidInput
from weft.formats import FORMATS
from weft.formats.files import detect_format
from weft.formats.format import PlatformReader, SourceFile
from weft.instance import compile_instance
from weft.platform.platform import Platform
from weft.workflow.checks import check
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Workflow

SAMPLES = {
    "weft": b"""weft: 1
name: sample
params: {n: 2}
tasks:
  first: {work: 3, outputs: {x: 4MB}}
  many: {sweep: {k: 1..n}, work: k, inputs: [x], nodes: [1, 2], speedup: {amdahl: 0.1}}
  last: {after: many, seconds: {m1: 4, "*": 5}}
""",
    "wfformat": b"""{"name": "sample", "schemaVersion": "1.5", "workflow": {
 "specification": {
  "tasks": [{"name": "one", "id": "one", "parents": [], "children": ["two"], "outputFiles": ["x"]},
            {"name": "two", "id": "two", "parents": ["one"], "children": [], "inputFiles": ["x"]}],
  "files": [{"id": "x", "sizeInBytes": 40}]},
 "execution": {"makespanInSeconds": 9, "executedAt": "2020-01-01T00:00:00Z", "tasks": [
  {"id": "one", "runtimeInSeconds": 4.5}, {"id": "two", "runtimeInSeconds": 1.5}]}}}
""",
    "dax": b"""<?xml version="1.0" encoding="UTF-8"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="sample" jobCount="2">
  <job id="ID0" namespace="S" name="one" version="1.0" runtime="4.5">
    <uses file="x" link="output" size="40"/>
  </job>
  <job id="ID1" namespace="S" name="two" version="1.0" runtime="1.5">
    <uses file="x" link="input" size="40"/>
  </job>
  <child ref="ID1"><parent ref="ID0"/></child>
</adag>
""",
    "stg": b"""  2
  0  0  0
  1  5  1  0
  2  7  1  1
  3  0  1  2
# a remark
""",
    "psplib": b"""projects : 1
jobs (incl. supersource/sink ): 4
RESOURCES
  - renewable                 :  1   R
************************************************************************
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          2           2   3
   2        2          1           4
   3        1          1           4
   4        1          0
************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  N 1
------------------------------------------------------------------------
  1      1     0       0    0
  2      1     3       2    4
         2     5       1    3
  3      1     4       2    0
  4      1     0       0    0
************************************************************************
RESOURCEAVAILABILITIES:
  R 1  N 1
    3    4
************************************************************************
""",
    "instance-json": b"""{"kind": "hetero-dag", "cost": [2.5, 4], "speed": [1, 2.0, 3],
 "edges": [[0, 1, 6.5]], "bw": [[0, 2, 4.5], [2, 0, 1], [4.5, 1, 0]]}
""",
    "gridway": b"""# five runs of one program
EXECUTABLE   = bin.${GW_ARCH}
ARGUMENTS    = --seed ${TASK_ID} of ${TOTAL_TASKS}
INPUT_FILES  = seq.${GW_TASK_ID} seq, http://host/pdb.gz pdb.gz [shared compressed]
STDOUT_FILE  = out.${JOB_ID}
REQUIREMENTS = (ARCH = "i6?6" | ARCH = "x86*") & CPU_MHZ >= 0;
RANK         = 2 * CPU_MHZ + FREE_MEM_MB / 3
TOTAL_TASKS  = 5
""",
    "dagman": b"""# one before the other
JOB A one.jt
JOB B two.jt
PARENT A CHILD B
RETRY B 2
""",
    "diet": b"""<?xml version="1.0"?>
<dag>
  <node id="n1" path="succ">
    <arg name="in" type="DIET_INT" value="56"/>
    <out name="out1" type="DIET_INT"/>
  </node>
  <node id="n2" path="double">
    <prec id="n1"/>
    <in name="in" type="DIET_INT" source="n1#out1"/>
  </node>
</dag>
""",
    "dot": b"""digraph "sample" {
  a [Weight=3];
  b [Weight=4];
  a -> b [Weight=2];
}
""",
}
PLAIN = {
    "a": {"work": 3, "outputs": {"x": {"seconds": 2}}},
    "b": {"work": 4, "inputs": ["x"]},
    "c": {"work": 5, "inputs": ["x"]},
    "d": {"work": 1, "after": ["b", "c"]},
}
SIZED = {
    "a": {"work": 3, "outputs": {"x": 100, "y": 7}},
    "b": {"work": 4, "inputs": ["x"], "outputs": {"z": 9}},
    "c": {"work": 5, "inputs": ["y", "z"]},
}
COMPANIONS = {
    "one.jt": b"EXECUTABLE = /bin/echo\nSTDOUT_FILE = x\n",
    "two.jt": b"EXECUTABLE = /bin/cat\nSTDIN_FILE = x\n",
}
"""Files that samples refer to."""
SINGLE = ("gridway",)
"""Formats whose files describe one job, without edges."""
READING = [name for name in FORMATS if FORMATS.load(name)().reads]
CARRYING = [name for name in READING if isinstance(FORMATS.load(name)(), PlatformReader)]


@pytest.fixture(autouse=True, scope="module")
def companions(tmp_path_factory):
    """Change to a directory with the files that samples refer to."""
    folder = tmp_path_factory.mktemp("companions")
    for name, data in COMPANIONS.items():
        (folder / name).write_bytes(data)
    with contextlib.chdir(folder):
        yield


@pytest.fixture(params=list(FORMATS), scope="module")
def form(request):
    return FORMATS.load(request.param)()


@pytest.fixture(params=READING, scope="module")
def reader(request):
    return FORMATS.load(request.param)()


def sample(name):
    return SourceFile(name="sample", data=SAMPLES[name])


def facts(graph):
    """Return the facts that must be preserved: tasks, times, node counts and edges with their data."""
    columns = (graph.kind.tolist(), graph.work.tolist(), [graph.count_sets[index] for index in graph.counts])
    tasks = {name: repr(values) for name, *values in zip(graph.names, *columns, strict=True)}
    pointer = graph.explicit_pointer.tolist()
    given_seconds = {
        name: sorted(
            (graph.explicit_names[graph.explicit_machine[at]], float(graph.explicit_seconds[at]))
            for at in range(pointer[task], pointer[task + 1])
        )
        for task, name in enumerate(graph.names)
    }
    return tasks, given_seconds, edges_of(graph, "bytes", "files", "seconds")


def test_format_has_its_registered_name_and_properties(form):
    assert form.name in FORMATS
    assert FORMATS.load(form.name) is type(form)
    assert len(form.title) > 5
    assert form.extensions
    assert all(ending.startswith(".") for ending in form.extensions)
    assert form.reads or form.writes


def test_every_reading_format_has_a_sample():
    assert set(READING) == set(SAMPLES)


def test_sample_is_recognised_by_its_own_reader_only(reader):
    recognising = [name for name in READING if FORMATS.load(name)().recognises(sample(reader.name))]
    assert recognising == [reader.name]
    assert detect_format(sample(reader.name)).name == reader.name


def test_byte_order_mark_is_ignored(reader):
    marked = SourceFile(name="sample", data=b"\xef\xbb\xbf" + SAMPLES[reader.name])
    assert reader.recognises(marked)
    assert facts(unfold(reader.read(marked))) == facts(unfold(reader.read(sample(reader.name))))


def test_sample_is_a_valid_workflow(reader):
    found = reader.read(sample(reader.name))
    check(found)
    assert len(unfold(found)) >= 2
    assert unfold(found).edge_count >= 1 or reader.name in SINGLE


@pytest.mark.parametrize("tasks", [PLAIN, SIZED], ids=["plain", "sized"])
def test_written_text_is_recognised_and_can_be_read_back(form, tasks):
    flow = workflow(tasks)
    if not form.writes:
        with pytest.raises(InvalidInput, match="cannot be written"):
            form.write(flow)
        return
    try:
        text = form.write(flow)
    except InvalidInput as error:
        refused = error.problems
        assert all(problem.what and (problem.rule or problem.advice) for problem in refused)
        return
    assert text.endswith("\n")
    if form.reads:
        source = SourceFile(name="written", data=text.encode())
        assert form.recognises(source)
        assert detect_format(source).name == form.name
        assert facts(unfold(form.read(source))) == facts(unfold(flow))


def test_writing_format_can_write_at_least_one_plain_graph(form):
    if not form.writes:
        return
    written = 0
    for tasks in (PLAIN, SIZED):
        try:
            written += bool(form.write(workflow(tasks)))
        except InvalidInput:
            continue
    assert written


def test_sample_reads_back_the_same_after_it_is_written(reader):
    if not reader.writes:
        return
    first = unfold(reader.read(sample(reader.name)))
    text = reader.write(first.workflow)
    assert facts(unfold(reader.read(SourceFile(name="sample", data=text.encode())))) == facts(first)


@pytest.mark.parametrize("name", CARRYING)
def test_machines_of_a_sample_can_run_its_tasks(name):
    carrier = FORMATS.load(name)()
    platform = carrier.read_platform(sample(name))
    assert list(platform.find_problems()) == []
    made = compile_instance(unfold(carrier.read(sample(name))), platform)
    assert all(len(made.candidates_of(variable)) for variable in range(len(made.graph.variables)))


def assert_read_or_rejected(reader, data):
    """Assert that input gives a workflow or platform, or an InvalidInput with a place."""
    source = SourceFile(name="damaged", data=data)
    assert isinstance(reader.recognises(source), bool)
    reading = [reader.read, *([reader.read_platform] if isinstance(reader, PlatformReader) else [])]
    for read in reading:
        try:
            found = read(source)
        except InvalidInput as error:
            problems = error.problems
            assert problems
            assert all(
                problem.location is not None and problem.location.file == "damaged" for problem in problems
            )
        else:
            assert isinstance(found, Workflow | Platform)


def test_every_truncation_is_read_or_rejected(reader):
    data = SAMPLES[reader.name]
    for end in range(len(data)):
        assert_read_or_rejected(reader, data[:end])


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes_are_read_or_rejected(reader, flips):
    data = bytearray(SAMPLES[reader.name])
    for position, value in flips:
        data[position % len(data)] = value
    assert_read_or_rejected(reader, bytes(data))


@pytest.mark.parametrize("other", SAMPLES)
def test_files_of_other_formats_are_read_or_rejected(reader, other):
    assert_read_or_rejected(reader, SAMPLES[other])
