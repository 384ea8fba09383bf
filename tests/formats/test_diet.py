"""DIET's XML: published files, ports, containers, and streams that can or cannot be unfolded."""

from dataclasses import replace

import pytest
from hypothesis import given

from damage import damaged, reads_or_refuses
from graph_edges import edges_of
from weft.errors import InvalidInput
from weft.formats.diet import Diet
from weft.formats.files import detect_format
from weft.formats.format import SourceFile
from weft.formats.services import add_program
from weft.instance import compile_instance
from weft.platform.machine import Machine, ServiceProgram
from weft.platform.platform import Platform
from weft.workflow.checks import check
from weft.workflow.task import Dependency, Input, JobSpec, Output, Task
from weft.workflow.unfold import unfold

DAG = b"""<?xml version="1.0"?>
<!DOCTYPE dag SYSTEM "file:///nowhere/dag.dtd">
<dag name="sample">
  <!-- a remark -->
  <node id="n1" path="split" est="3">
    <arg name="in" type="DIET_FILE" value="in.dat"/>
    <arg name="k" type="DIET_INT" value="4"/>
    <arg name="m" type="DIET_MATRIX" value="file->m.dat"/>
    <arg name="far" type="DIET_FILE" value="http://host/far"/>
    <out name="left" type="DIET_MATRIX" base_type="DIET_DOUBLE" nb_rows="3" nb_cols="5"/>
    <out name="right" type="DIET_STRING" sink="n3#b"/>
  </node>
  <node id="n2" path="work">
    <in name="a" type="DIET_MATRIX" source="n1#left"/>
    <inOut name="b" type="DIET_INT" source="n1#right"/>
  </node>
  <node id="n3" path="join">
    <in name="a" type="DIET_STRING" depth="1" source=" ( n2#b ; n1#left[0][2] ) "/>
    <in name="c" type="DIET_CHAR" source="n2#b"/>
    <prec id="n1"/>
  </node>
</dag>
"""


def source_of(data):
    return SourceFile(name="sample.xml", data=data)


def read(data):
    return Diet().read(source_of(data))


def refusal(data):
    with pytest.raises(InvalidInput) as caught:
        read(data)
    return caught.value.problems[0]


def dag(inside):
    return b"<dag>\n" + inside + b"\n</dag>"


def test_nodes_become_tasks_of_services_and_ports_become_data():
    workflow = read(DAG)
    check(workflow)
    first, second, third = workflow.tasks
    assert workflow.name == "sample"
    assert [task.service for task in workflow.tasks] == ["split", "work", "join"]
    far = Input(file="n1#far.far", source="http://host/far")
    assert first.inputs == (Input(file="in.dat"), Input(file="m.dat"), far)
    assert first.outputs == (Output(file="n1#left", size=120), Output(file="n1#right"))
    assert first.attributes["arguments"]["k"] == {"type": "DIET_INT", "value": "4"}
    assert (first.attributes["program"], first.attributes["est"]) == ("split", "3")
    assert second.inputs == (Input(file="n1#left", size=120), Input(file="n1#right"))
    assert second.outputs == (Output(file="n2#b", size=4),)
    assert third.after == (Dependency(task="n1"), Dependency(task="n2"))
    assert [given.file for given in third.inputs] == ["n1#right", "n2#b", "n1#left"]
    assert first.work is None


def test_candidate_machines_are_those_that_offer_the_service():
    graph = unfold(read(dag(b'<node id="a" path="succ"/>')))
    machines = (Machine(name="other", services=("double",)), Machine(name="right", services=("succ",)))
    made = compile_instance(graph, Platform(name="p", machines=machines))
    assert [machines[index].name for index in made.candidates_of(0)] == ["right"]


MADE = b'<node id="a" path="x"><out name="o" type="t"/></node>'


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (dag(b'<node path="x"/>'), 2, "node without id"),
        (dag(b'<node id="x"/>'), 2, "node without path"),
        (dag(b'<node id="a" path="x"/>\n<node id="a" path="x"/>'), 3, "ids of nodes must be unique"),
        (dag(b'<job id="a"/>'), 2, "element job"),
        (dag(b'<node id="a" path="x">\n<inout name="p"/></node>'), 3, "did you mean 'inOut'?"),
        (dag(b'<node id="a" path="x">\n<in name="p"/></node>'), 3, "in 'p' without source"),
        (dag(b'<node id="a" path="x">\n<out type="DIET_INT"/></node>'), 3, "out without name"),
        (dag(b'<node id="ab" path="x">\n<prec id="abc"/></node>'), 3, "did you mean 'ab'?"),
        (dag(b'<node id="a" path="x">\n<in name="p" source="b#o"/></node>'), 3, "no node 'b'"),
        (dag(b'<node id="a" path="x">\n<in name="p" source="b"/></node>'), 3, "a port is NODE#PORT"),
        (dag(MADE + b'<node id="b" path="x">\n<in name="p" source="(a#o;"/></node>'), 3, "a container (NODE"),
        (dag(MADE + b'<node id="b" path="x">\n<in name="p" source="a#q"/></node>'), 3, "no port a#q"),
        (dag(b""), 1, "no nodes"),
        (b"<adag/>", 1, "first element is 'adag'"),
        (b"<data>\n<source name='a'/></data>", 1, "input data of a functional workflow"),
        (b"<dag>\n<node></dag>", 2, "not well-formed"),
        (b"", None, "empty"),
    ],
)
def test_error_about_an_invalid_dag_names_the_line(data, line, words):
    problem = refusal(data)
    assert problem.location.line == line
    assert words in str(problem)


def test_error_about_a_cycle_in_diet_lists_its_nodes():
    ports = b'<node id="%b" path="x"><in name="i" source="%b#o"/><out name="o"/></node>'
    assert "wait for each other" in refusal(dag(ports % (b"a", b"b") + ports % (b"b", b"a"))).what


@pytest.mark.parametrize(
    "declaration",
    [
        b'<!DOCTYPE dag [<!ENTITY a "ha">]>',
        b'<!DOCTYPE dag [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        b'<!DOCTYPE dag [<!ENTITY % x SYSTEM "http://localhost/x">%x;]>',
        b'<!DOCTYPE dag [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>',
    ],
)
def test_xml_entities_in_diet_are_rejected(declaration):
    assert "entities" in str(refusal(declaration + dag(b'<node id="a" path="x"/>')))


def test_document_type_named_in_a_file_is_not_opened(tmp_path):
    grammar = tmp_path / "dag.dtd"
    grammar.write_text("this is no grammar <<<")
    declared = f'<!DOCTYPE dag SYSTEM "{grammar.as_uri()}">'.encode()
    assert read(declared + dag(b'<node id="a" path="x"/>')).tasks[0].name == "a"


def test_deep_nesting_is_rejected():
    deep = b"<x>" * 50_000 + b"</x>" * 50_000
    assert "element x" in str(refusal(dag(b'<node id="a" path="x">' + deep + b"</node>")))


# Functional workflows.


def functional(processors, links, interface=b'<source name="s" type="t"/><source name="r" type="t"/>'):
    return (
        b'<workflow name="f">\n<interface>' + interface + b'<sink name="end" type="t"/></interface>\n<processors>'
        + processors + b"</processors>\n<links>" + links + b"</links></workflow>"
    )  # fmt: skip


def processor(name, ports, strategy=b""):
    return b'<processor name="' + name + b'">' + ports + b'<diet path="serve"/>' + strategy + b"</processor>"


def strategy(inside):
    return b"<iterationstrategy>" + inside + b"</iterationstrategy>"


ONE = b'<in name="a" type="t"/><out name="o" type="DIET_INT"/>'
TWO = b'<in name="a" type="t"/><in name="b" type="t"/><out name="o" type="DIET_INT" depth="%b" %b/>'
LOOP = (
    b'\n<loop name="L"><in name="a" type="DIET_INT"/><out name="b" type="DIET_INT"/>'
    b'<inLoop name="x" init="%b"/><outLoop name="y" final="b"/><while>$x lt 3</while><do>y=x</do></loop>'
)
FEED = b'<link from="s" to="P:a"/><link from="%b" to="P:b"/>'
PORTS = b'<port name="a"/><port name="b"/>'


def unfolded(data, **counts):
    workflow = read(data)
    check(workflow)
    params = {**workflow.params, **{f"{name}_items": count for name, count in counts.items()}}
    return unfold(replace(workflow, params=params))


def edges(graph):
    return sorted({(source, target) for source, target, *_ in edges_of(graph)})


def test_every_item_of_a_source_becomes_a_task():
    graph = unfolded(functional(processor(b"P", ONE), b'<link from="s" to="P:a"/>'), s=3)
    assert list(graph.names) == ["P[0]", "P[1]", "P[2]"]


def test_items_of_ports_without_a_strategy_are_paired_up_to_the_shorter_source():
    graph = unfolded(functional(processor(b"P", TWO % (b"0", b"")), FEED % b"r"), s=4, r=2)
    assert list(graph.names) == ["P[0]", "P[1]"]


def test_cross_strategy_combines_all_items_and_later_processors_inherit_them():
    crossed = processor(b"P", TWO % (b"0", b""), strategy(b"<cross>" + PORTS + b"</cross>"))
    links = FEED % b"s" + b'<link from="P:o" to="Q:a"/><link from="Q:o" to="end"/>'
    graph = unfolded(functional(crossed + processor(b"Q", ONE), links), s=2)
    assert [name for name in graph.names if name[0] == "P"] == ["P[0,0]", "P[0,1]", "P[1,0]", "P[1,1]"]
    assert edges(graph) == [(f"P[{i},{j}]", f"Q[{i},{j}]") for i in (0, 1) for j in (0, 1)]


def test_port_of_greater_depth_gathers_the_innermost_axis():
    crossed = processor(b"P", TWO % (b"0", b""), strategy(b"<cross>" + PORTS + b"</cross>"))
    gather = processor(b"Q", b'<in name="a" type="t" depth="1"/><out name="o" type="t"/>')
    graph = unfolded(functional(crossed + gather, FEED % b"r" + b'<link from="P:o" to="Q:a"/>'), s=2, r=3)
    assert edges(graph) == [(f"P[{i},{j}]", f"Q[{i}]") for i in (0, 1) for j in (0, 1, 2)]


def test_container_of_known_size_is_split_into_its_elements():
    made = processor(b"P", TWO % (b"1", b'card="2"'))
    links = FEED % b"r" + b'<link from="P:o" to="Q:a"/>'
    graph = unfolded(functional(made + processor(b"Q", ONE), links), s=2, r=2)
    assert edges(graph) == [(f"P[{i}]", f"Q[{i},{k}]") for i in (0, 1) for k in (0, 1)]


def test_constants_are_shared_by_all_tasks():
    interface = b'<source name="s" type="t"/><constant name="c" type="t" value="3"/>'
    only = processor(b"P", TWO % (b"0", b""), strategy(b'<dot><port name="a"/></dot>'))
    graph = unfolded(functional(only, FEED % b"c", interface), s=3)
    assert list(graph.names) == ["P[0]", "P[1]", "P[2]"]
    fixed = functional(processor(b"P", ONE), b'<link from="c" to="P:a"/>', interface)
    assert list(unfolded(fixed).names) == ["P"]


def test_inout_port_is_read_and_written():
    both = b'<in name="a" type="t"/><inOut name="b" type="DIET_DOUBLE"/>'
    (task,) = read(functional(processor(b"P", both), FEED % b"r")).tasks
    assert task.outputs == (Output(file="P#b.{i}", size=8),)


@pytest.mark.parametrize(
    ("processors", "links", "words"),
    [
        (b'\n<loop name="L"/>', b"", "loop 'L' without inLoop"),
        (b'\n<condition name="C"/>', b"", "condition 'C': the condition is missing"),
        (b'\n<condition name="C"><if>$a lt 1</if></condition>', b"", "no port $a"),
        (b'\n<condition name="C"><if>1 le @N@</if></condition>', b"", "unknown text '@N@'"),
        (b'\n<condition name="C"><if>(1 le 2</if></condition>', b"", "a closing parenthesis is missing"),
        (b'\n<condition name="C"><if>1 le</if></condition>', b"", "it ends too early"),
        (
            b'\n<condition name="C"><outThen name="t"/><if>1 lt 2</if><then>u=1</then></condition>',
            b"",
            "'u=1' assigns no port",
        ),
        (b'\n<condition name="C"><outThen name="t"/><if>1 lt 2</if></condition>', b"", "t gets no value"),
        (b'\n<merge name="M"/>', b"", "merge 'M' with 0 in and 0 out ports"),
        (
            b'\n<merge name="M"><in name="a"/><in name="b"/><out name="o"/></merge>',
            b'<link from="s" to="M:a"/><link from="r" to="M:b"/>',
            "not the branches of one condition",
        ),
        (LOOP % b"wrong", b"", "must name a port in of the loop"),
        (LOOP % b"a", b'<link from="s" to="L:a"/><link from="s" to="L:x"/>', "loop 'L' without a body"),
        (b'\n<filter name="F"/>', b"", "element filter 'F'"),
        (b'\n<subWorkflow name="S" class="x"/>', b"", "element subWorkflow 'S'"),
        (b'\n<procesor name="S"/>', b"", "did you mean 'processor'?"),
        (
            b'\n<processor name="P"><in name="a"/><beanshell>x</beanshell></processor>',
            b"",
            "element beanshell",
        ),
        (b'\n<processor name="P"><in name="a"/></processor>', b"", "without a service"),
        (b"\n" + processor(b"P", b"<in/>"), b"", "in without name"),
        (b"\n" + processor(b"P", ONE) * 2, b"", "a second processor 'P'"),
        (b"\n" + processor(b"P", ONE), b"", "P:a without a link"),
        (b"\n" + processor(b"P", ONE), b'<link from="s" to="P:aa"/>', "did you mean 'P:a'?"),
        (b"\n" + processor(b"P", ONE), b'<link from="P:a" to="end"/>', "no port 'P:a' that writes"),
        (b"\n" + processor(b"P", ONE), b'<link from="s"/>', "a link is"),
        (
            b"\n" + processor(b"P", ONE),
            b'<link from="s" to="P:a"/><link from="r" to="P:a"/>',
            "a second link",
        ),
        (b"\n" + processor(b"P", ONE), b'<link from="P:o" to="P:a"/>', "wait for each other"),
        (
            b"\n" + processor(b"P", ONE, strategy(b"")),
            b'<link from="s" to="P:a"/>',
            "one element dot or cross",
        ),
        (
            b"\n" + processor(b"P", ONE, strategy(b'<match><port name="a"/></match>')),
            b'<link from="s" to="P:a"/>',
            "element match",
        ),
        (
            b"\n" + processor(b"P", ONE, strategy(b'<dot><port name="x"/></dot>')),
            b'<link from="s" to="P:a"/>',
            "port 'x' in the iterationstrategy",
        ),
        (
            b"\n" + processor(b"P", TWO % (b"0", b""), strategy(b'<dot><port name="a"/></dot>')),
            FEED % b"r",
            "port 'b' is not in the iterationstrategy",
        ),
        (
            b"\n" + processor(b"P", TWO % (b"2", b'card="2"')) + processor(b"Q", ONE),
            FEED % b"r" + b'<link from="P:o" to="Q:a"/>',
            "a container of unknown size",
        ),
        (
            b"\n" + processor(b"P", ONE) + processor(b"Q", b'<in name="a" depth="2"/>'),
            b'<link from="s" to="P:a"/><link from="P:o" to="Q:a"/>',
            "Q:a gathers 2 levels",
        ),
        (
            b"\n" + processor(b"P", ONE) + processor(b"Q", b'<in name="a" depth="-1"/>'),
            b'<link from="s" to="P:a"/><link from="P:o" to="Q:a"/>',
            "depth='-1'",
        ),
    ],
)
def test_elements_that_cannot_be_unfolded_are_reported(processors, links, words):
    problem = refusal(functional(processors, links))
    assert words in str(problem)
    assert problem.location.line in (4, 5) or "wait for each other" in words


def test_pairing_ports_of_different_depth_is_rejected():
    crossed = processor(b"P", TWO % (b"0", b""), strategy(b"<cross>" + PORTS + b"</cross>"))
    paired = processor(b"Q", b'<in name="a" type="t"/><in name="b" type="t"/>')
    links = FEED % b"r" + b'<link from="P:o" to="Q:a"/><link from="s" to="Q:b"/>'
    assert "over 2 and 1 levels in processor 'Q'" in refusal(functional(crossed + paired, links)).what


def test_include_is_rejected():
    assert "element include 'x.xml'" in refusal(b'<workflow><include file="x.xml"/></workflow>').what


FUNCTIONAL = functional(
    processor(b"P", TWO % (b"1", b'card="2"'), strategy(b"<cross>" + PORTS + b"</cross>"))
    + processor(b"Q", ONE),
    FEED % b"r" + b'<link from="P:o" to="Q:a"/>',
)


@given(damaged([DAG, FUNCTIONAL]))
def test_damaged_file_is_read_or_rejected(data):
    assert reads_or_refuses(read, data)


def test_writing_diet_is_rejected():
    with pytest.raises(InvalidInput, match="cannot be written"):
        Diet().write(read(DAG))


@pytest.mark.parametrize(
    ("file", "tasks", "edges"),
    [
        ("scalar.xml", 5, 5),
        ("string.xml", 4, 3),
        ("matrix.xml", 3, 2),
        ("file.xml", 3, 2),
        ("convert_dag.xml", 3, 2),
        ("container.xml", 4, 4),
        ("container2.xml", 4, 4),
        ("dag-ramses.xml", 2, 1),
        ("func_scalar.xml", 5, 5),
        ("func_string.xml", 3, 2),
        ("inout_sink.xml.in", 1, 0),
        ("inout_sink_LCADD.xml.in", 1, 0),
        ("inout_sink_PSPRINT.xml.in", 1, 0),
        ("inout_sink_vectors.xml.in", 1, 0),
    ],
)
def test_published_diet_files_are_read(bench_data, file, tasks, edges):
    path = bench_data / "diet-examples" / file
    source = SourceFile(name=file, data=path.read_bytes())
    assert detect_format(source).name == "diet"
    workflow = Diet().read(source)
    check(workflow)
    graph = unfold(workflow)
    assert (len(graph), graph.edge_count) == (tasks, edges)


@pytest.mark.parametrize(
    ("file", "line", "words"),
    [
        ("loop.xml.in", 25, "unknown text '@MAXLOOP@)'"),
        ("loop_container.xml.in", 25, "unknown text '@MAXLOOP@)'"),
        ("data.xml", 2, "input data of a functional workflow"),
    ],
)
def test_published_files_that_cannot_be_unfolded_report_the_reason(bench_data, file, line, words):
    path = bench_data / "diet-examples" / file
    with pytest.raises(InvalidInput) as caught:
        Diet().read(SourceFile(name=file, data=path.read_bytes()))
    assert caught.value.problems[0].location.line == line
    assert words in str(caught.value)


def test_published_string_example_is_unfolded_if_the_length_of_its_list_is_stated(bench_data):
    data = (bench_data / "diet-examples" / "func_string.xml").read_bytes()
    static = data.replace(b'depth="1"/>', b'depth="1" card="2"/>', 1)
    graph = unfolded(static, str_input=2)
    assert len(graph) == 4 + 8
    assert graph.edge_count == 8


def test_recognition_of_a_file_with_many_xml_instructions_takes_linear_time():
    # The pattern of the first element tried every way to divide the instructions: for 30 of them it took years.
    assert not Diet().recognises(source_of(b"<?xml?>\n" * 5000 + b"<other/>"))
    assert Diet().recognises(source_of(b"<?xml?>\n<!-- ?> -->\n" * 50 + b"<dag>"))


def test_environment_variables_of_a_task_take_precedence_over_those_of_its_service():
    task = Task(name="a", service="s", job=JobSpec(env={"A": "1"}))
    program = ServiceProgram(command="true", env={"A": "2", "B": "3"})
    assert add_program(task, program, (), "").job.env == {"A": "1", "B": "3"}
