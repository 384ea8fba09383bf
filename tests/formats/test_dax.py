"""DAX: published files, both versions of the language, damaged input."""

import pytest
from hypothesis import given

from damage import damaged, reads_or_refuses
from weft.errors import InvalidInput
from weft.formats.dax import Dax
from weft.formats.format import SourceFile
from weft.workflow.task import Dependency, Input, JobSpec, Output
from weft.workflow.unfold import unfold

OLD = b"""<?xml version="1.0" encoding="UTF-8"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="pair">
  <job id="ID1" namespace="Demo" name="split" version="1.0" runtime="13.5">
    <uses file="in" link="input" size="7"/>
    <uses file="half" link="output" size="100"/>
  </job>
  <job id="ID2" namespace="Demo" name="join" runtime="2" cores="8">
    <uses file="half" link="input" size="100"/>
    <uses file="log" link="inout"/>
  </job>
  <child ref="ID2"><parent ref="ID1"/></child>
</adag>
"""
NEW = b"""<d:adag xmlns:d="http://pegasus.isi.edu/schema/DAX" version="3.6" name="diamond">
  <d:file name="f.a"><d:pfn url="file:///data/f.a" site="local"/></d:file>
  <d:job id="j1" name="preprocess">
    <d:argument>-a "top level" -i <d:file name="f.a"/> -o <d:file name="f{b}"/></d:argument>
    <d:profile namespace="pegasus" key="runtime">60</d:profile>
    <d:uses name="preprocess" executable="true"/>
    <d:uses name="f.a" link="input"/>
    <d:uses name="f{b}" link="output"/>
  </d:job>
  <d:job id="j2" name="analyze"><d:uses name="f{b}" link="input"/></d:job>
</d:adag>
"""


def source_of(data):
    return SourceFile(name="pair.xml", data=data)


def read(data):
    return Dax().read(source_of(data))


def adag(inside):
    return b"<adag>\n" + inside + b"\n</adag>"


def refusal(data):
    with pytest.raises(InvalidInput) as caught:
        read(data)
    return caught.value.problems[0]


def test_dax_version_2_is_read():
    workflow = read(OLD)
    first, second = workflow.tasks
    assert workflow.name == "pair"
    assert (first.name, first.work, first.nodes) == ("ID1", 13.5, (1,))
    assert first.attributes == {"program": "split", "namespace": "Demo"}
    assert first.inputs == (Input(file="in", size=7),)
    assert first.outputs == (Output(file="half", size=100),)
    assert second.nodes == (8,)
    assert second.after == (Dependency(task="ID1"),)
    assert second.inputs == (Input(file="half", size=100),)
    assert second.outputs == (Output(file="log"),)


def test_dax_version_3_is_read_with_arguments_profiles_and_prefixes():
    first, second = read(NEW).tasks
    assert first.work == 60
    assert first.job == JobSpec(command=("preprocess", "-a", "top level", "-i", "f.a", "-o", "f{{b}}"))
    assert first.inputs == (Input(file="f.a", source="file:///data/f.a"),)
    assert second.work is None
    assert second.job == JobSpec(command=("analyze",))
    assert unfold(read(NEW)).edge_count == 1


def test_programs_streams_and_environment_are_read():
    data = adag(
        b"""<executable name="say"><pfn url="file:///bin/echo" site="local"/></executable>
        <executable name="far"><pfn url="gsiftp://host/bin/far" site="grid"/></executable>
        <job id="a" name="say"><argument>hello</argument><profile namespace="env" key="LANG"> C </profile>
          <stdin name="f.in" link="input"/><stdout name="f.out" link="output"/><stderr name="f.err"/>
          <uses name="f.out" link="output"/></job>
        <job id="b" name="far"/><job id="c"/>"""
    )
    first, second, third = read(data).tasks
    assert first.job == JobSpec(
        command=("/bin/echo", "hello"), env={"LANG": "C"}, stdin="f.in", stdout="f.out", stderr="f.err"
    )
    assert second.job == JobSpec(command=("far",))
    assert third.job is None


def test_apostrophe_in_arguments_is_not_a_quote():
    data = adag(b'<job id="a" name="say"><argument>it\'s late</argument></job>')
    assert read(data).tasks[0].job == JobSpec(command=("say", "it's", "late"))


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (adag(b'<job name="x"/>'), 2, "job has no attribute id"),
        (adag(b'<job id="a"/>\n<job id="a"/>'), 3, "unique"),
        (adag(b'<job id="ab"/>\n<child ref="abc">\n<parent ref="ab"/></child>'), 4, "did you mean 'ab'"),
        (adag(b'<job id="a"/><child ref="a">\n<parent ref="zz"/></child>'), 3, "no job 'zz'"),
        (adag(b'<job id="a"/><child ref="a">\n<parent/></child>'), 3, "parent has no attribute ref"),
        (adag(b'<job id="a" runtime="-1"/>'), 2, "runtime='-1'"),
        (adag(b'<job id="a" runtime="nan"/>'), 2, "at least 0"),
        (adag(b'<job id="a" runtime="1_0"/>'), 2, "at least 0"),
        (adag(b'<job id="a" runtime="soon"/>'), 2, "at least 0"),
        (adag(b'<job id="a" cores="0"/>'), 2, "at least 1"),
        (adag(b'<job id="a" cores="two"/>'), 2, "whole number"),
        (adag(b'<job id="a">\n<uses file="f" link="input" size="-3"/></job>'), 3, "size='-3'"),
        (adag(b'<job id="a">\n<uses file="f" link="sideways"/></job>'), 3, "sideways"),
        (adag(b'<job id="a">\n<uses link="input"/></job>'), 3, "has no name"),
        (adag(b'<dax id="a" file="more.dax"/>'), 2, "sub-workflow"),
        (adag(b""), None, "no jobs"),
        (b"<workflow/>", 1, "adag"),
        (b"", None, "empty"),
        (b"tasks: {}", 1, "not well-formed"),
        (b"<adag>\n<job id='a'></adag>", 2, "not well-formed"),
        (b"<?xml version='1.0' encoding='martian'?><adag/>", None, "martian"),
    ],
)
def test_error_about_an_invalid_dax_file_names_the_line(data, line, words):
    problem = refusal(data)
    assert problem.location.line == line
    assert words in str(problem)


def test_error_about_a_cycle_in_dax_lists_its_jobs():
    edges = b'<child ref="a"><parent ref="b"/></child><child ref="b"><parent ref="a"/></child>'
    assert "wait for each other" in refusal(adag(b'<job id="a"/><job id="b"/>' + edges)).what


@pytest.mark.parametrize(
    "declaration",
    [
        b'<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;">]>',
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>',
        b'<!DOCTYPE a [<!ENTITY % x SYSTEM "http://localhost/x">%x;]>',
    ],
)
def test_xml_entities_in_dax_are_rejected(declaration):
    assert "entities" in str(refusal(declaration + adag(b'<job id="a" name="b"/>')))


def test_number_of_reported_problems_is_limited():
    with pytest.raises(InvalidInput) as caught:
        read(adag(b"<job/>" * 5000))
    assert len(caught.value.problems) == 20


def test_deeply_nested_dax_is_read():
    assert read(adag(b'<job id="a"/>' + b"<x>" * 50_000 + b"</x>" * 50_000)).tasks[0].name == "a"


def test_dax_files_are_recognised():
    assert Dax().recognises(source_of(OLD))
    assert Dax().recognises(source_of(NEW))
    assert not Dax().recognises(source_of(b"<html><body/></html>"))
    assert not Dax().recognises(source_of(b"digraph { adag }"))


def test_writing_dax_is_rejected():
    with pytest.raises(InvalidInput, match="cannot be written"):
        Dax().write(read(OLD))


@given(damaged([OLD, NEW]))
def test_damaged_file_is_read_or_rejected(data):
    assert reads_or_refuses(read, data)


@pytest.mark.parametrize(
    ("file", "jobs", "edges", "work"),
    [
        ("dax/Montage_25.xml", 25, 45, 227.75),
        ("dax/Montage_100.xml", 100, 233, 1079.34),
        ("dax/CyberShake_30.xml", 30, 52, 760.53),
        ("dax/Epigenomics_24.xml", 24, 27, 17720.15),
        ("dax/Inspiral_30.xml", 30, 35, 6617.07),
        ("papers/HEFT_paper.xml", 10, 15, 127),
        ("papers/floodplain.xml", 7, 10, 160200),
    ],
)
def test_published_dax_files_are_read(bench_data, file, jobs, edges, work):
    path = bench_data / file
    source = SourceFile(name=path.name, data=path.read_bytes())
    assert Dax().recognises(source)
    graph = unfold(Dax().read(source))
    assert len(graph) == jobs
    assert graph.edge_count >= edges
    assert graph.work.sum() == pytest.approx(work)


def test_rigid_tasks_keep_their_number_of_processors(bench_data):
    path = bench_data / "papers" / "floodplain.xml"
    workflow = Dax().read(SourceFile(name=path.name, data=path.read_bytes()))
    assert {task.name: task.nodes for task in workflow.tasks}["sin"] == (160,)
    assert all(task.nodes != (1,) for task in workflow.tasks)
