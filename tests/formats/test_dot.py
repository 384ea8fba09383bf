"""DOT with weights: syntax, published graphs, round trips, damaged input."""

import csv

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from damage import damaged, reads_or_refuses
from graph_edges import edges_of
from weft.errors import InvalidInput
from weft.expressions import parse
from weft.formats.dot import Dot
from weft.formats.format import SourceFile
from weft.workflow.quantity import Range, Sweep
from weft.workflow.task import Dependency, Input, Output, Task, TaskKind
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Workflow

SMALL = b"""// a task graph
strict digraph "fork join" {
    graph [CCR=10.0, "No of nodes"=4];
    node [Weight=3, shape=box] edge [Weight=1]
    a [Weight=2.5]; /* the
    first */ "b c" [label="x"]
# of the preprocessor
    a -> "b c" -> d [Weight=2]
    a -> e
    e -> d [Weight=0];
    rankdir = LR
}
"""


def read(data, name="small.dot"):
    return Dot().read(SourceFile(name=name, data=data if isinstance(data, bytes) else data.encode()))


def refusal(data):
    with pytest.raises(InvalidInput) as caught:
        read(data)
    return caught.value.problems[0]


def graph_facts(workflow):
    graph = unfold(workflow)
    work = dict(zip(graph.names, graph.work.tolist(), strict=True))
    return set(graph.names), edges_of(graph, "bytes", "seconds"), work


def test_dot_nodes_edges_chains_and_defaults_are_read():
    workflow = read(SMALL)
    tasks = {task.name: task for task in workflow.tasks}
    assert workflow.name == "fork join"
    assert [task.name for task in workflow.tasks] == ["a", "b c", "d", "e"]
    assert {name: task.work for name, task in tasks.items()} == {"a": 2.5, "b c": 3, "d": 3, "e": 3}
    assert tasks["a"].outputs == (Output(file="a->b c", seconds=2), Output(file="a->e", seconds=1))
    assert tasks["d"].inputs == (Input(file="b c->d"),)
    assert tasks["d"].after == (Dependency(task="e"),)
    assert graph_facts(workflow)[1] == {
        ("a", "b c"): (0, 2),
        ("b c", "d"): (0, 2),
        ("a", "e"): (0, 1),
        ("e", "d"): (0, 0),
    }


def test_defaults_apply_to_later_statements():
    workflow = read("digraph { a [Weight=1]; node [Weight=5]; a -> b; b [Weight=7]; c }")
    assert [task.work for task in workflow.tasks] == [1, 7, 5]


def test_dot_strings_may_be_escaped_joined_and_unicode():
    workflow = read('digraph { "a \\"b\\"" + "c" [Weight="1.5e1"]; Ω [Weight=.5]; -3 [Weight=1] }')
    assert [(task.name, task.work) for task in workflow.tasks] == [('a "b"c', 15), ("Ω", 0.5), ("-3", 1)]


def test_in_a_strict_graph_only_the_last_of_duplicate_edges_counts():
    body = "digraph {\na [Weight=1] b [Weight=1]\na -> b [Weight=1]\na -> b [Weight=4] }"
    assert graph_facts(read("strict " + body))[1] == {("a", "b"): (0, 4)}
    problem = refusal(body)
    assert (problem.location.line, "first is in line 3" in problem.what) == (4, True)


def test_names_that_look_like_edges_get_separate_files():
    text = 'digraph { node [Weight=1] "a->b" -> c [Weight=2] a -> "b->c" [Weight=3] "{x}" -> c [Weight=4] }'
    edges = graph_facts(read(text))[1]
    assert edges == {("a->b", "c"): (0, 2), ("a", "b->c"): (0, 3), ("{x}", "c"): (0, 4)}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("digraph {\n a:n -> b }", (2, 3), "ports"),
        ("digraph { subgraph x { a } }", (1, 11), "subgraphs"),
        ("digraph { { a } }", (1, 11), "subgraphs"),
        ("digraph { a -> { b } }", (1, 16), "subgraphs"),
        ("digraph { a -- b }", (1, 13), "undirected"),
        ("graph { a }", (1, 1), "digraph"),
        ("digraph { a [label=<b>x</b>] }", (1, 20), "HTML"),
        ('digraph { "a }', (1, 11), "closing quote"),
        ("digraph { /* a }", (1, 11), "no end"),
        ("digraph { a ! }", (1, 13), "no meaning"),
        ("digraph { a [Weight=] }", (1, 21), "name is expected"),
        ("digraph { a -> }", (1, 16), "name is expected"),
        ("digraph { a", (1, 12), "name is expected"),
        ("digraph { node a }", (1, 16), "[ is expected"),
        ("digraph x y {}", (1, 11), "{ is expected"),
        ("digraph {} digraph {}", (1, 12), "one graph"),
        ("", (1, 1), "digraph"),
        ("digraph {\n a }", (2, None), "no Weight"),
        ("digraph {\n a [Weight=1]\n a -> b }", (3, None), "'b' has no Weight"),
        ("digraph { a [weight=1] }", (1, None), "instead of 'weight'"),
        ("digraph { a [Weight=x] }", (1, None), "at least 0"),
        ("digraph { a [Weight=-1] }", (1, None), "at least 0"),
        ('digraph { a [Weight="nan"] }', (1, None), "at least 0"),
        ('digraph { a [Weight="1e999"] }', (1, None), "at least 0"),
        ("digraph { a [Weight=1] b [Weight=2]\n a -> b [Weight=-1] }", (2, None), "edge a -> b"),
        ('digraph { "" [Weight=1] }', (1, None), "empty name"),
        ("digraph {}", (None, None), "no nodes"),
        ("digraph { node [Weight=1] a -> b -> a }", (None, None), "wait for each other"),
        ("digraph { node [Weight=1] a -> a }", (None, None), "wait for each other"),
    ],
)
def test_error_about_an_invalid_dot_file_names_the_location(text, place, words):
    problem = refusal(text)
    assert (problem.location.line, problem.location.column) == place
    assert words in str(problem)


def test_long_invalid_files_are_rejected_fast_with_a_short_message():
    for text in ("digraph {" + "[" * 300_000, "digraph {" + "a->" * 200_000, 'digraph { "' + "x" * 500_000):
        assert len(str(refusal(text))) < 300


def test_dot_files_are_recognised():
    form = Dot()
    assert form.recognises(SourceFile(name="x", data=SMALL))
    assert form.recognises(SourceFile(name="x", data=b"/* a */ // b\n# c\nDiGraph{}"))
    for other in (b"", b"graph {}", b"tasks: digraph", b"/* */" * 10_000 + b"x", b"// digraph {}\n" * 3000):
        assert not form.recognises(SourceFile(name="x", data=other))


def test_written_graph_reads_back_the_same():
    workflow = read(SMALL)
    text = Dot().write(workflow)
    assert graph_facts(read(text)) == graph_facts(workflow)
    assert Dot().write(read(text)) == text


def test_sweeps_fractions_and_names_that_need_quotes_are_written():
    sweep = Sweep(variables=(("k", Range(low=parse("1"), high=parse("2"))),))
    workflow = Workflow(
        name="node",
        tasks=(
            Task(name='say "hi"', work=1e-9, outputs=(Output(file="f", seconds=0.1),)),
            Task(name="each", sweep=sweep, seconds=parse("k/4"), inputs=(Input(file="f"),)),
            Task(name="2b", kind=TaskKind.VIRTUAL, after=(Dependency(task="each"),)),
        ),
    )
    again = read(Dot().write(workflow))
    names, edges, work = graph_facts(again)
    assert again.name == "node"
    assert names == {'say "hi"', "each[1]", "each[2]", "2b"}
    assert edges[('say "hi"', "each[2]")] == (0, 0.1)
    assert edges[("each[1]", "2b")] == (0, 0)
    assert work == {'say "hi"': 1e-9, "each[1]": 0.25, "each[2]": 0.5, "2b": 0}


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (
            (
                Task(name="a", work=1.0, outputs=(Output(file="f", size=10),)),
                Task(name="b", work=1.0, inputs=(Input(file="f"),)),
            ),
            "dot-picture",
        ),
        ((Task(name="a"),), "no known time"),
        ((Task(name="a\\", work=1.0),), "backslash"),
    ],
)
def test_writing_a_workflow_that_dot_cannot_express_is_rejected(tasks, words):
    with pytest.raises(InvalidInput, match=words):
        Dot().write(Workflow(name="w", tasks=tasks))


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\\"), min_size=1),
        st.floats(0, 1e12),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 1e6)), max_size=8),
)
@example({"\x850": 0.0}, [])
def test_random_graphs_read_back_the_same(weights, pairs):
    names = list(weights)
    edges = {(a, b): seconds for a, b, seconds in pairs if a < b < len(names)}
    tasks = tuple(
        Task(
            name=name,
            work=weights[name],
            inputs=tuple(Input(file=f"{a}-{b}") for a, b in edges if b == index),
            outputs=tuple(Output(file=f"{a}-{b}", seconds=edges[a, b]) for a, b in edges if a == index),
        )
        for index, name in enumerate(names)
    )
    workflow = Workflow(name="any", tasks=tasks)
    assert graph_facts(read(Dot().write(workflow))) == graph_facts(workflow)


@given(damaged([SMALL]))
def test_damaged_file_is_read_or_rejected(data):
    assert reads_or_refuses(read, data)


def test_published_graphs_are_read_and_written(bench_data):
    """The published optimum of every graph is at least its lower bounds: critical path and mean load."""
    folder = bench_data / "comm-delay-optimal"
    with (folder / "optimal.csv").open() as table:
        optima = [
            (row["file"], int(row["procs"]), float(row["optimal_makespan"])) for row in csv.DictReader(table)
        ]
    assert len(optima) >= 30
    for file, processors, makespan in optima:
        data = (folder / file).read_bytes()
        assert Dot().recognises(SourceFile(name=file, data=data))
        workflow = read(data, file)
        graph = unfold(workflow)
        finish = []
        for task in range(len(graph)):
            ready = max((finish[parent] for parent in graph.predecessors(task).tolist()), default=0.0)
            finish.append(ready + graph.work[task])
        assert max(max(finish), graph.work.sum() / processors) <= makespan, file
        assert makespan <= graph.work.sum(), file
        assert graph.edge_count == data.count(b"->"), file
        assert graph_facts(read(Dot().write(workflow))) == graph_facts(workflow), file
