"""Few lines can describe a workflow of any size: what they unfold to is limited, and large sweeps are cheap."""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from architecture.package import PACKAGE, environment
from weft.workflow.edges import Adjacency
from weft.workflow.quantity import SweepPoints
from weft.workflow.subtasks import LIMITS
from workflow.workflow_texts import edges, graph_of, messages_of, problems_in

_READ = """
import sys
from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml
from weft.workflow.checks import check_and_unfold
try:
    graph = check_and_unfold(WeftYaml().read(SourceFile(name="w.yaml", data=sys.stdin.buffer.read())))
    print(len(graph), graph.edge_count)
except InvalidInput as error:
    print(error)
"""


def limit_process() -> None:
    """Limit processor time and memory of a new process: those of a fuzz case, and what Python itself needs."""
    resource.setrlimit(resource.RLIMIT_CPU, (6, 6))
    resource.setrlimit(resource.RLIMIT_AS, (700_000_000, 700_000_000))


def unfold_in_new_process(tasks: str) -> str:
    text = f"weft: 1\nname: w\ntasks:\n{tasks}"
    done = subprocess.run(
        [sys.executable, "-c", _READ],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=environment(PYTHONPATH=str(PACKAGE.parent), OPENBLAS_NUM_THREADS="1"),
        preexec_fn=limit_process,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


CONDITION = """
  a: {work: 1, sweep: {k: 1..400000}, outputs: {'f{k}': k}}
  b: {sweep: {k: 1..400000}, inputs: ['f{k}'], after: {task: 'a[k]', if: exit_code == 0}}
"""
PLANES = """
  a: {work: 1, sweep: {i: 1..700, j: 1..1000}}
  b: {work: 2, sweep: {k: 1..1000}, after: 'a[1..700, k]'}
"""
FOLDERS = """
  a: {work: 1, sweep: {k: 1..10000}, outputs: ['d{k}/']}
  b: {work: 1, sweep: {k: 1..10000}, inputs: ['d{k}/x']}
"""
WILDCARDS = """
  a: {sweep: {k: 1..1000}, outputs: {'f*': null, 'g*': {seconds: k}}}
  b: {sweep: {k: 1..1000}, inputs: [{file: 'f*', size: 3*k}, 'g*']}
"""
LOOP = """
  a: {work: 1, sweep: {k: 1..400000}, inputs: ['g{k}'], outputs: ['f{k}']}
  b: {work: 2, sweep: {k: 1..400000}, inputs: ['f{k}'], outputs: ['g{k}']}
loops:
  l: {from: b, to: a, until: iteration > 3}
"""


@pytest.mark.parametrize(
    ("tasks", "size"),
    [
        ("  a: {work: 2*k, sweep: {k: 1..1000, t: [x], j: 1..1000}, nodes: 1..64}", (1_000_000, 0)),
        ("  a: {work: 1, sweep: {k: 1..1000000}, outputs: ['f{k}']}", (1_000_000, 0)),
        ("  a: {seconds: 1, sweep: {k: 1..1000000}, resources: {memory: 3, x: 1}}", (1_000_000, 0)),
        ("  a: {work: 1, machine: 'm{k}', sweep: {k: 1..1000000}}", (1_000_000, 0)),
        ("  a: {work: 1, sweep: {k: 1..1000000}, after: 'a[k-2..k-1]'}", (1_000_000, 1_999_997)),
        (CONDITION, (800_000, 400_000)),
        (PLANES, (701_000, 700_000)),
        (FOLDERS, (20_000, 10_000)),
        (WILDCARDS, (2_000, 1_000_000)),
        (LOOP, (800_000, 400_000)),
    ],
    ids=str,
)
def test_sweeps_of_a_million_tasks_are_unfolded_within_the_limits_of_a_fuzz_case(
    tasks: str, size: tuple[int, int]
) -> None:
    assert unfold_in_new_process(tasks).split() == [str(part) for part in size]


@pytest.mark.parametrize(
    ("tasks", "what"),
    [
        ("  a: {work: 1, sweep: {k: 1..600000}}\n  b: {work: 1, sweep: {k: 1..600000}}", "1,200,000 tasks"),
        ("  a: {work: 1, sweep: {k: 1..1000000}, outputs: ['f{k}{1..9}']}", "21,000,000 entries"),
        ("  a: {sweep: {k: 1..3000}}\n  b: {sweep: {k: 1..3000}, after: a}", "9,018,000 entries"),
        (
            "  a: {sweep: {k: 1..3000}, outputs: ['f{k}']}\n  b: {sweep: {k: 1..3000}, inputs: ['f*']}",
            "entries",
        ),
        (f"  a: {{sweep: {{k: 1..1000000, t: [{'x' * 1000}]}}}}", "characters in names"),
        (f"  a: {{sweep: {{k: 1..1000000}}, outputs: ['{'x' * 1000}{{k}}']}}", "characters in names"),
        ("  a: {sweep: {k: 1..1000000}, nodes: k}", "operations in formulas"),
        ("  a: {sweep: {k: 1..1000000}, work: '[k, 1][0]'}", "operations in formulas"),
        ("  a: {sweep: {k: 1..10000}, nodes: 1..k}", "node counts"),
        (
            "  a: {sweep: {k: 1..5000}, outputs: ['f*{k}*x']}\n  b: {sweep: {k: 1..5000}, inputs: ['f{k}x']}",
            "comparisons of file names",
        ),
        (
            "  a: {sweep: {k: 1..1000000}}\nloops: {"
            + ", ".join(f"l{number}: {{from: a, to: a, max_iterations: 2}}" for number in range(40))
            + "}",
            "40,000,000 tasks to search for loops",
        ),
    ],
)
def test_workflows_that_would_unfold_to_too_much_are_refused_quickly(tasks: str, what: str) -> None:
    found = unfold_in_new_process(tasks)
    assert what in found
    assert "are allowed" in found


def test_names_from_ranges_in_braces_are_limited_per_file() -> None:
    names = ", ".join(f"'{letter}{{1..300000}}'" for letter in "abcdef")
    found = unfold_in_new_process(f"  a: {{work: 1, outputs: [{names}]}}")
    assert "ranges in braces give 1,200,000 names, those before included" in found


def test_a_limit_is_reported_where_it_is_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "entries", 50)
    (problem,) = problems_in("tasks: {a: {sweep: {k: 1..9}, work: 1}, b: {sweep: {k: 1..9}, work: 1}}")
    assert problem.what == "the workflow unfolds to 54 entries or more"
    assert problem.path == ("tasks", "b", "sweep")
    assert problem.rule.startswith("at most 50 are allowed: 3 per task")


def test_entries_that_a_file_states_one_by_one_are_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "entries", 5)
    monkeypatch.setitem(LIMITS, "tasks", 5)
    tasks = ", ".join(f"t{number}: {{outputs: [f{number}], inputs: [f{number - 1}]}}" for number in range(9))
    assert len(edges(graph_of(f"tasks: {{{tasks}}}"))) == 8


@pytest.mark.parametrize("count", [3, 100])
def test_formulas_that_give_no_number_are_a_problem_at_any_number_of_points(count: int) -> None:
    """From 32 points on, formulas are evaluated over arrays; text was an error without a message there."""
    assert messages_of(f"tasks: {{a: {{sweep: {{k: 1..{count}}}, work: \"'x' if k > 1 else 'y'\"}}}}") == [
        "the result is the string 'y' at column 1 of expression `'x' if k > 1 else 'y'`"
    ]


VALUES = st.lists(st.sampled_from([1, 2, 2.5, 0.30000000000000004, "x", "y", True]), min_size=1, max_size=4)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_points_read_one_by_one_equal_the_points_in_order(columns: list[list[object]]) -> None:
    points = SweepPoints(columns)  # type: ignore[arg-type]
    assert [points[place] for place in range(len(points))] == list(points)
    shortest = min(map(len, columns))
    paired = SweepPoints([column[:shortest] for column in columns], paired=True)  # type: ignore[misc]
    assert [paired[place] for place in range(len(paired))] == list(paired)
    assert len(paired) == shortest
    with pytest.raises(IndexError):
        points[len(points)]


def test_points_of_tasks_can_be_pickled_and_sliced() -> None:
    graph = graph_of("tasks: {b: {after: a}, a: {sweep: {k: 1..3, t: [x, y]}}}")
    assert list(pickle.loads(pickle.dumps(graph.points))) == [*graph.points]
    assert graph.points[1:3] == [(1, "y"), (2, "x")]
    assert graph.points[6] == ()


@given(st.integers(2, 200), st.data())
def test_reachable_nodes_equal_those_of_a_search_step_by_step(count: int, data: st.DataObject) -> None:
    node = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), max_size=3 * count))
    starts, stops = (data.draw(st.lists(node, max_size=100)) for _ in range(2))
    tails, heads = (np.array([pair[end] for pair in pairs], dtype=np.uint32) for end in (0, 1))
    found = Adjacency(tails, heads, count).reach(starts, stops)
    expected, queue = set(starts), list(starts)
    while queue:
        tail = queue.pop()
        for head in [head for each, head in pairs if each == tail and tail not in stops]:
            if head not in expected:
                expected.add(head)
                queue.append(head)
    assert set(np.flatnonzero(found).tolist()) == expected
