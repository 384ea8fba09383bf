"""Loops: one iteration is unfolded; files may come from the previous iteration."""

from __future__ import annotations

import pytest

from workflow.workflow_texts import edges, graph_of, messages_of, problems_in, sources


def bodies(graph):
    return {body.loop.name: [graph.names[task] for task in body.tasks] for body in graph.loops}


def test_the_declared_back_edge_is_not_an_edge():
    graph = graph_of(
        "tasks: {a: , b: {after: a}, z: {after: b}}\nloops: {l: {from: b, to: a, max_iterations: 3}}"
    )
    assert edges(graph) == {("a", "b"), ("b", "z")}
    assert bodies(graph) == {"l": ["a", "b"]}


def test_tasks_outside_the_paths_of_a_loop_are_not_in_its_body():
    graph = graph_of(
        """\
        tasks:
          before: {}
          a: {after: before}
          side: {after: a}
          b: {after: a}
          c: {after: b}
          z: {after: [c, side]}
        loops: {l: {from: c, to: a, until: c.exit_code == 0}}
        """
    )
    assert bodies(graph) == {"l": ["a", "b", "c"]}


def test_dependency_on_a_loop_means_a_dependency_on_its_last_task():
    text = "tasks: {a: , b: {after: a}, z: {after: l}}\nloops: {l: {from: b, to: a, max_iterations: 3}}"
    graph = graph_of(text)
    assert sources(graph, "z") == ["b"]
    assert bodies(graph) == {"l": ["a", "b"]}


def test_a_file_written_later_in_the_body_comes_from_the_previous_iteration():
    graph = graph_of(
        """\
        tasks:
          start: {outputs: [density]}
          scf: {inputs: [density], outputs: {potential: 1MB}}
          mix: {inputs: [potential], outputs: [density]}
          end: {inputs: [density]}
        loops: {l: {from: mix, to: scf, max_iterations: 9}}
        """
    )
    assert edges(graph) == {("start", "scf"), ("scf", "mix"), ("mix", "end"), ("start", "end")}
    assert bodies(graph) == {"l": ["scf", "mix"]}


def test_wildcards_connect_the_tasks_of_a_body():
    text = (
        "tasks: {a: {outputs: [out/]}, b: {inputs: [out/x]}}\nloops: {l: {from: b, to: a, max_iterations: 2}}"
    )
    assert bodies(graph_of(text)) == {"l": ["a", "b"]}


def test_loop_may_have_a_single_task():
    assert bodies(graph_of("tasks: {a: , b: }\nloops: {l: {from: a, to: a, max_iterations: 2}}")) == {
        "l": ["a"]
    }


def test_loops_may_be_nested():
    graph = graph_of(
        """\
        tasks: {a: , b: {after: a}, c: {after: b}, d: {after: inner}}
        loops:
          outer: {from: d, to: a, max_iterations: 2}
          inner: {from: c, to: b, until: c.result.delta < 0.1}
        """
    )
    assert bodies(graph) == {"outer": ["a", "b", "c", "d"], "inner": ["b", "c"]}


def test_loop_inside_a_sweep_is_a_separate_loop_for_every_point():
    graph = graph_of(
        """\
        tasks:
          a: {sweep: {k: 1..2}, inputs: ["x.{k}"], outputs: ["y.{k}"]}
          b: {sweep: {k: 1..2}, inputs: ["y.{k}"], outputs: ["x.{k}"]}
          z: {sweep: {k: 1..2}, after: "l[k]"}
        loops: {l: {from: b, to: a, until: b.result.delta < 0.1*k, max_iterations: 9}}
        """
    )
    assert edges(graph) == {("a[1]", "b[1]"), ("a[2]", "b[2]"), ("b[1]", "z[1]"), ("b[2]", "z[2]")}
    assert bodies(graph) == {"l": ["a[1]", "a[2]", "b[1]", "b[2]"]}


def test_loop_may_contain_a_sweep():
    graph = graph_of(
        """\
        params: {kpoints: 3}
        tasks:
          lapw0: {outputs: [potential]}
          lapw1: {sweep: {k: 1..kpoints}, inputs: [potential]}
          conv: {after: lapw1}
        loops: {scf: {from: conv, to: lapw0, until: conv.exit_code == 0, max_iterations: 40, expect: 4*kpoints}}
        """
    )
    assert bodies(graph) == {"scf": list(graph.names)}
    assert graph.loops[0].expect == 12


def test_number_of_iterations_is_unknown_if_expect_is_not_stated():
    graph = graph_of("tasks: {a: }\nloops: {l: {from: a, to: a, max_iterations: 40}}")
    assert graph.loops[0].expect is None


def test_cycle_formed_by_after_keys_inside_a_loop_is_an_error():
    text = "tasks: {a: {after: b}, b: {after: a}}\nloops: {l: {from: b, to: a, max_iterations: 2}}"
    assert messages_of(text) == ["a cycle: a → b → a"]


def test_error_about_a_cycle_of_files_suggests_a_loop():
    (found,) = problems_in("tasks: {a: {inputs: [y], outputs: [x]}, b: {inputs: [x], outputs: [y]}}")
    assert found.what == "a cycle: a → b → a"
    assert "loops" in found.advice


@pytest.mark.parametrize(
    ("loop", "what"),
    [
        ("{from: b, to: a}", "loop l has neither until nor max_iterations"),
        ("{from: b, to: aa, max_iterations: 2}", "loop l: there is no task 'aa'"),
        ("{from: a, to: b, max_iterations: 2}", "loop l: a does not depend on b"),
        ("{from: b, to: a, max_iterations: 0}", "max_iterations 0"),
        ("{from: b, to: a, max_iterations: n - 3}", "max_iterations 0"),
        ("{from: b, to: a, max_iterations: 2, expect: 1.5}", "expect 1.5"),
        ("{from: b, to: a, max_iterations: 2, on_exhausted: fial}", "'fial' is not allowed"),
        ("{from: b, to: a, until: c.exit_code == 0}", "unknown name 'c.exit_code'"),
    ],
)
def test_invalid_loops_are_reported(loop, what):
    (found,) = messages_of(f"params: {{n: 3}}\ntasks: {{a: , b: {{after: a}}}}\nloops: {{l: {loop}}}")
    assert found.startswith(what)


def test_overlapping_loops_are_rejected():
    text = """\
        tasks: {a: , b: {after: a}, c: {after: b}}
        loops: {one: {from: b, to: a, max_iterations: 2}, two: {from: c, to: b, max_iterations: 2}}
        """
    assert messages_of(text) == ["loops one and two overlap"]


def test_a_loop_with_the_name_of_a_task_is_rejected():
    found = messages_of("tasks: {a: }\nloops: {a: {from: a, to: a, max_iterations: 2}}")
    assert found == ["'a' is both a task and a loop"]
