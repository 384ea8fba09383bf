"""All errors of a file are reported at once, with line and column."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import workflows
from weft.formats.format import SourceFile
from weft.formats.native import WeftYaml
from weft.workflow.checks import check, find_problems
from weft.workflow.task import Task
from weft.workflow.workflow import Workflow
from workflow.workflow_texts import InvalidInput, messages_of, problems_in

MISTAKES = """\
weft: 1
params: {n: 3, bad: "=m+1"}
taks: {}
tasks:
  a:
    wrok: 10
    outputs: {mesh: 1MB}
  b:
    after: ["a[", aa, "a[k]"]
    work: -3
    inputs: ["x.{1..3}", "y.{k}"]
    command: ./b {q} {n}
  c:
    sweep: {n: [1], l: 5..1}
    nodes: 0
    outputs: {mesh: 5}
  d:
    after: d
    memory: 5 apples
  e: {kind: transfer, from: nowhere, to: there, file: mesh}
loops:
  scf: {from: b, to: zz, until: b.exit == 0}
"""

EXPECTED = [
    (2, 16, "unknown name 'm'"),
    (3, 1, "unknown key 'taks'"),
    (6, 5, "unknown key 'wrok'"),
    (9, 13, "'a[' has no closing bracket"),
    (9, 19, "b depends on 'aa', which does not exist"),
    (9, 23, "unknown name 'k'"),
    (9, 23, "a[...] has an index, but a has no sweep"),
    (10, 5, "work is -3"),
    (11, 26, "{k} in 'y.{k}' is unknown"),
    (12, 5, "{q} in './b {q} {n}' is unknown"),
    (14, 13, "sweep variable 'n' has the name of a parameter"),
    (15, 5, "node count 0"),
    (18, 5, "d depends on itself"),
    (19, 13, "5 apples"),
    (22, 18, "loop scf: there is no task 'zz'"),
    (22, 26, "unknown name 'b.exit'"),
]


def test_all_errors_of_a_file_are_reported_in_order():
    with pytest.raises(InvalidInput) as raised:
        WeftYaml().read(SourceFile(name="flow.yaml", data=MISTAKES.encode()))
    found = [
        (problem.location.line, problem.location.column, problem.what) for problem in raised.value.problems
    ]
    assert len(found) == len(EXPECTED), found
    for (line, column, what), (wanted_line, wanted_column, part) in zip(found, EXPECTED, strict=True):
        assert (line, column) == (wanted_line, wanted_column), (what, part)
        assert part in what
    assert {problem.location.file for problem in raised.value.problems} == {"flow.yaml"}


def test_problems_found_by_unfolding_have_locations():
    found = problems_in(
        """\
        tasks:
          a: {sweep: {k: 5..1}}
          b: {sweep: {k: 1..3}, outputs: {x: 1}}
          c: {sweep: {k: 1..3}, after: "b[k+1]", work: 2-k}
          m: {kind: transfer, from: nowhere, to: B, file: x, size: 1}
          d: {sweep: {k: [1, 1]}}
          e: {after: f}
          f: {after: e, nodes: 0..1}
          g: {after: "a[k]", sweep: {k: 1..3}}
        """
    )
    assert [(problem.location.line, problem.what.partition(" at column")[0]) for problem in found] == [
        (3, "sweep variable k has no values"),
        (4, "several subtasks of b write 'x'"),
        (5, "b[4] does not exist"),
        (5, "2 - k gives -1"),
        (6, "m moves 'x' from 'nowhere', where no task runs"),
        (7, "the sweep contains d[1] twice"),
        (8, "a cycle: e → f → e"),
        (9, "node count 0"),
    ]
    assert all(problem.rule or problem.advice for problem in found)


def test_invalid_entry_of_after_does_not_change_the_reported_locations_of_other_entries():
    found = problems_in("tasks:\n  t:\n    after:\n      - 'a['\n      - b\n      - {if: 1}\n      - c\n")
    assert [(problem.location.line, problem.location.column) for problem in found] == [
        (5, 9),
        (6, 9),
        (7, 9),
        (8, 9),
    ]
    assert [problem.path for problem in found][1::2] == [
        ("tasks", "t", "after", 1),
        ("tasks", "t", "after", 3),
    ]


def test_expanded_entry_of_inputs_does_not_change_the_locations_of_other_entries():
    (found,) = problems_in("tasks:\n  t:\n    inputs:\n      - 'a.{1..9}'\n      - 'b.{k}'\n")
    assert (found.location.line, found.path) == (6, ("tasks", "t", "inputs", 1))


def test_similar_names_are_suggested():
    (found,) = problems_in("params: {atoms: 3}\ntasks: {t: {work: 2*atom}}")
    assert "atoms" in found.advice
    (found,) = problems_in("tasks: {lapw1: , b: {after: lapw2}}")
    assert found.advice == "did you mean 'lapw1'?"
    (found,) = problems_in("params: {atoms: 3}\ntasks: {t: {command: 'x {atom}'}}")
    assert found.advice == "did you mean {atoms}?"


@pytest.mark.parametrize(
    "text",
    [
        "tasks: {t: {inputs: [{file: a, from: 'http://{h}'}]}}",
        "tasks: {t: {outputs: {a: {to: '{h}'}}}}",
        "tasks: {t: {machine: 'm-{h}'}}",
        "tasks: {t: {command: [a, '{h}']}}",
        "tasks: {t: {command: a, arguments: ['{h}']}}",
        "tasks: {t: {stdin: '{h}'}}",
        "tasks: {t: {epilog: '{h}'}}",
        "tasks: {t: {progress: '{h}'}}",
        "tasks: {t: {checkpoint: {files: ['{h}']}}}",
        "tasks: {t: {command: 'echo {h.result.x}'}}",
        "tasks: {t: {machine: A}, m: {kind: transfer, from: A, to: B, file: 'f{h}'}}",
    ],
)
def test_unknown_names_in_templates_are_reported_for_every_key(text):
    (found,) = messages_of(text)
    assert found.startswith("{h")


@pytest.mark.parametrize(
    "text",
    [
        "tasks: {t: {cores: hh}}",
        "tasks: {t: {memory: hh}}",
        "tasks: {t: {resources: {licence: hh}}}",
        "tasks: {t: {seconds: {P: hh}}}",
        "tasks: {t: {nodes: 1..hh}}",
        "tasks: {t: {outputs: {a: {seconds: hh}}}}",
        "tasks: {t: {inputs: [{file: a, size: hh}]}}",
        "tasks: {t: {time_limit: hh}}",
        "tasks: {t: {checkpoint: {files: a, every: hh}}}",
        "tasks: {t: {sweep: {k: 1..hh}}}",
        "tasks: {a: {machine: A}, t: {kind: transfer, from: A, to: B, file: f, size: hh}}",
        "tasks: {a: , t: {after: {task: a, if: hh == 0}}}",
        "tasks: {t: }\nloops: {l: {from: t, to: t, max_iterations: hh}}",
        "tasks: {t: }\nloops: {l: {from: t, to: t, until: hh > 1}}",
    ],
)
def test_unknown_names_in_formulas_are_reported_for_every_key(text):
    (found,) = messages_of(text)
    assert "unknown name 'hh'" in found


@pytest.mark.parametrize("keys", ["memory: -4GB", "time_limit: -5min", "work: -2s"])
def test_negative_amounts_with_a_unit_are_reported_as_negative(keys):
    (found,) = problems_in(f"tasks: {{t: {{{keys}}}}}")
    assert found.what.endswith("is not allowed")
    assert found.rule == "must be at least 0"


def test_formulas_that_fail_during_unfolding_are_reported():
    found = messages_of(
        """\
        params: {z: 0, big: "=2**1000 * 2**1000"}
        tasks:
          a: {work: 1/z, machine: A, outputs: {x: 0-1}}
          b: {inputs: [x], work: big}
          c: {seconds: z - 1, memory: 1/z, nodes: z}
          m: {kind: transfer, from: A, to: B, file: x, size: z - 5}
          d: {sweep: {k: z}}
        loops: {l: {from: b, to: a, max_iterations: z, expect: 1/z}}
        """
    )
    assert len(found) == 11, found


def test_duplicate_or_missing_tasks_of_workflow_records_are_reported():
    twice = Workflow(name="w", tasks=(Task(name="a"), Task(name="a")))
    assert "two tasks are named 'a'" in [problem.what for problem in find_problems(twice)]
    with pytest.raises(InvalidInput, match="has no tasks"):
        check(Workflow(name="w", tasks=()))


class TestWriters:
    """A file has one writer, unless only one of its writers runs at a time."""

    def test_two_writers_of_a_file_are_reported(self):
        text = "tasks: {a: {outputs: [x]}, b: {outputs: [x]}}"
        assert messages_of(text) == ["'x' is written by a and by b"]

    def test_two_writers_with_equal_templates_are_reported(self):
        text = "params: {p: 1}\ntasks: {a: {outputs: ['x.{p}']}, b: {outputs: [x.1]}}"
        assert messages_of(text) == ["'x.1' is written by a and by b"]

    def test_sweep_whose_output_name_lacks_a_variable_is_reported(self):
        text = "tasks: {a: {sweep: {i: 1..2, j: 1..2}, outputs: ['x.{i}']}}"
        assert messages_of(text) == ["several subtasks of a write 'x.1'"]

    def test_sweep_variable_with_one_value_need_not_be_in_the_output_name(self):
        assert messages_of("tasks: {a: {sweep: {i: 1..2, j: [7]}, outputs: ['x.{i}']}}") == []

    def test_directories_and_wildcards_may_have_several_writers(self):
        assert messages_of("tasks: {a: {sweep: {i: 1..2}, outputs: [out/, '*.log']}}") == []

    def test_file_may_have_several_writers_in_branches_and_loops(self):
        branches = "tasks: {a: , b: {after: {task: a, if: exit_code == 0}, outputs: [x]}, c: {after: a, outputs: [x]}}"
        assert messages_of(branches) == []
        loop = "tasks: {i: {outputs: [x]}, a: {inputs: [x], outputs: [x]}}\nloops: {l: {from: a, to: a, max_iterations: 2}}"
        assert messages_of(loop) == []

    def test_task_that_lists_an_output_twice_is_reported(self):
        assert messages_of("tasks: {a: {outputs: [x, x]}}") == ["a writes 'x' twice"]


def test_problems_do_not_depend_on_the_order_of_check_and_unfold():
    from weft.workflow.unfold import unfold
    from workflow.workflow_texts import read

    workflow = read("tasks: {a: {outputs: [x]}, b: {outputs: [x]}}")
    assert len(unfold(workflow)) == 2
    assert len(find_problems(workflow)) == len(find_problems(workflow)) == 1


@settings(suppress_health_check=list(HealthCheck))
@given(workflows())
def test_any_workflow_gives_problems_or_a_graph(workflow):
    from weft.workflow.unfold import unfold

    found = find_problems(workflow)
    assert all(problem.what for problem in found)
    if not found:
        assert len(unfold(workflow)) >= len(workflow.tasks)


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 10),
        st.sampled_from(["a", "k", "1..3", "a[k]", "{k}", "", "="]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(["k", "task", "file", "seconds", "1", "pairs", "zip"]), inner, max_size=2
        ),
    ),
    max_leaves=4,
)


@given(st.data())
def test_any_value_under_any_key_is_read_or_reported(data):
    from weft.documents import Document, from_python
    from weft.workflow.file_format import TASK, read_workflow

    chosen = data.draw(st.lists(st.sampled_from(sorted(TASK.help)), max_size=4, unique=True))
    task = {key: data.draw(VALUES) for key in chosen}
    root = {"weft": 1, "tasks": {"a": task, "b": data.draw(VALUES)}, "loops": data.draw(VALUES)}
    workflow, reader = read_workflow(Document(root=from_python(root)))
    assert isinstance(find_problems(workflow, reader.problems), list)
