"""Pictures of workflow descriptions with sweeps, loops and transfers; names are escaped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.expressions import parse
from weft.formats.dot import parse_dot
from weft.formats.format import SourceFile
from weft.formats.picture import DotPicture, MermaidPicture, find_description_edges
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import Dependency, Input, Output, Task, TaskKind, Transfer
from weft.workflow.workflow import Loop, Workflow


def sweep(high):
    return Sweep(variables=(("k", Range(low=parse("1"), high=parse(high))),))


def wien2k():
    return Workflow(
        name="wien2k",
        params={"kpoints": 50},
        tasks=(
            Task(name="lapw0", outputs=(Output(file="potential"),)),
            Task(
                name="lapw1",
                sweep=sweep("kpoints"),
                inputs=(Input(file="potential"),),
                outputs=(Output(file="vector.{k}"),),
            ),
            Task(name="fermi", after=(Dependency(task="lapw1"),)),
            Task(
                name="lapw2",
                sweep=sweep("kpoints"),
                after=(Dependency(task="fermi"),),
                inputs=(Input(file="vector.{j}"),),
            ),
            Task(name="conv", after=(Dependency(task="lapw2", condition=parse("exit_code == 0")),)),
            Task(name="report", after=(Dependency(task="scf"),)),
        ),
        loops=(Loop(name="scf", last="conv", first="lapw0", until=parse("conv.exit_code == 0")),),
    )


def named_edges(workflow):
    names = [task.name for task in workflow.tasks]
    return {(names[source], names[target]) for source, target in find_description_edges(workflow)}


def test_edges_of_a_picture_follow_after_keys_loops_and_files():
    assert named_edges(wien2k()) == {
        ("lapw0", "lapw1"),
        ("lapw1", "fermi"),
        ("lapw1", "lapw2"),
        ("fermi", "lapw2"),
        ("lapw2", "conv"),
        ("conv", "report"),
    }


@pytest.mark.parametrize(
    ("written", "read", "meet"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a.{k}", "a.7", True),
        ("a.7", "a.{k}", True),
        ("a.{k}", "a.{j}", True),
        ("a.{k}", "b.{k}", False),
        ("{x}.dat", "run.{k}", True),
        ("{x}.dat", "run.{k}.txt", False),
        ("part-{i}-{k}", "part-3-{k}", True),
        ("part-{i}-{k}", "part-3", False),
        ("a{k}b", "ab", True),
        ("out.*", "out.7", True),
        ("{{k}}", "{{k}}", True),
        ("{{k}}", "anything", False),
        ("vec.{k}", "vector.{k}", False),
        ("vec{k}", "vector.{k}", True),
    ],
)
def test_placeholders_in_file_names_match_any_text(written, read, meet):
    tasks = (Task(name="w", outputs=(Output(file=written),)), Task(name="r", inputs=(Input(file=read),)))
    assert named_edges(Workflow(name="w", tasks=tasks)) == ({("w", "r")} if meet else set())


def with_transfer():
    move = Transfer(source="here", target="there", file="data")
    return Workflow(
        name="moved",
        tasks=(
            Task(name="make", machine="here", outputs=(Output(file="data"),)),
            Task(name="move", kind=TaskKind.TRANSFER, transfer=move),
            Task(name="use", machine="there", inputs=(Input(file="data"),)),
            Task(name="look", machine="here", inputs=(Input(file="data"),)),
            Task(name="tie", kind=TaskKind.VIRTUAL, after=(Dependency(task="use"), Dependency(task="look"))),
        ),
    )


def test_transfer_is_drawn_between_writer_and_reader():
    edges = named_edges(with_transfer())
    assert edges == {("make", "move"), ("move", "use"), ("make", "look"), ("use", "tie"), ("look", "tie")}


def test_graphviz_shows_sweeps_loops_conditions_and_kinds():
    text = DotPicture().write(wien2k())
    assert 'n1 [label="lapw1 ×50"];' in text
    assert "n0 -> n1;" in text
    assert 'n3 -> n4 [label="if exit_code == 0"];' in text
    assert 'n4 -> n0 [label="until conv.exit_code == 0", style=dashed, constraint=false];' in text
    moved = DotPicture().write(with_transfer())
    assert 'n1 [label="move", shape=ellipse];' in moved
    assert 'n4 [label="tie", shape=diamond];' in moved


def test_mermaid_shows_the_same_elements():
    lines = MermaidPicture().write(wien2k()).splitlines()
    assert lines[0] == "flowchart TD"
    assert '    n1["lapw1 ×50"]' in lines
    assert "    n0 --> n1" in lines
    assert '    n4 -.->|"until conv.exit_code == 0"| n0' in lines
    moved = MermaidPicture().write(with_transfer())
    assert 'n1(["move"])' in moved
    assert 'n4{"tie"}' in moved


def test_picture_shows_a_question_mark_for_a_sweep_of_unknown_length():
    grown = Sweep(variables=(("chunk", parse("lines(split.parts)")),))
    workflow = Workflow(name="grow", tasks=(Task(name="each", sweep=grown),))
    assert 'label="each ×?"' in DotPicture().write(workflow)


def test_loop_without_condition_shows_its_iterations():
    loop = Loop(name="again", first="a", last="a", max_iterations=3)
    text = DotPicture().write(Workflow(name="w", tasks=(Task(name="a"),), loops=(loop,)))
    assert 'n0 -> n0 [label="at most 3 times", style=dashed, constraint=false];' in text


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=30))
def test_names_in_pictures_are_escaped(name):
    workflow = Workflow(name=name, tasks=(Task(name=name), Task(name="z", after=(Dependency(task=name),))))
    graph = parse_dot(SourceFile(name="x.gv", data=DotPicture().write(workflow).encode()))
    assert list(graph.nodes) == ["n0", "n1"]
    assert len(graph.edges) == 1
    lines = MermaidPicture().write(workflow).split("\n")
    assert len(lines) == 5
    label = re.fullmatch(r'    n0\["([^"<>`;{}|&]*(?:#\d+;[^"<>`;{}|&]*)*)"\]', lines[1])
    assert label is not None
    decoded = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label[1])
    assert decoded == re.sub(r"[\x00-\x1f\x7f]+", " ", name)


def test_large_workflows_are_drawn():
    tasks = tuple(
        Task(
            name=f"t{index}",
            inputs=(Input(file=f"f{index - 1}.{{k}}"),),
            outputs=(Output(file=f"f{index}.{{k}}"),),
        )
        for index in range(1500)
    )
    workflow = Workflow(name="long", tasks=tasks)
    assert len(find_description_edges(workflow)) == 1499
    assert DotPicture().write(workflow).count("->") == 1499


@pytest.mark.parametrize("form", [DotPicture(), MermaidPicture()])
def test_reading_a_picture_is_rejected(form):
    source = SourceFile(name="x.gv", data=b"digraph { a }")
    assert not form.recognises(source)
    assert not form.reads
    with pytest.raises(InvalidInput, match="written, not read"):
        form.read(source)
