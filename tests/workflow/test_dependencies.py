"""All forms of dependencies, and their edges."""

from __future__ import annotations

import pytest

from weft.expressions import parse
from weft.workflow.subtasks import ENTRIES, LIMITS
from workflow.workflow_texts import edges, graph_of, messages_of, sources


def pairs(after, a="k: 1..4", b="k: 1..4"):
    """Return the pairs of indices of all edges from subtasks of a to subtasks of b."""
    text = f"tasks: {{a: {{sweep: {{{a}}}}}, b: {{sweep: {{{b}}}, after: {after}}}}}"
    return sorted((one[2:-1], two[2:-1]) for one, two in edges(graph_of(text)))


def test_dependency_without_index_connects_all_pairs():
    assert len(pairs("a")) == 16


def test_dependency_between_a_sweep_and_a_single_task_connects_every_point():
    graph = graph_of("tasks: {a: {sweep: {k: 1..3}}, f: {after: a}, b: {sweep: {k: 1..2}, after: f}}")
    assert sources(graph, "f") == ["a[1]", "a[2]", "a[3]"]
    assert sources(graph, "b[2]") == ["f"]


def test_same_value_connects_equal_points():
    assert pairs('"a[k]"') == [("1", "1"), ("2", "2"), ("3", "3"), ("4", "4")]


def test_fan_out_connects_one_point_to_several():
    found = pairs('"a[(j-1)//2 + 1]"', a="k: 1..2", b="j: 1..4")
    assert found == [("1", "1"), ("1", "2"), ("2", "3"), ("2", "4")]


def test_fan_in_connects_several_points_to_one():
    found = pairs('"a[2*j-1..2*j]"', b="j: 1..2")
    assert found == [("1", "1"), ("2", "1"), ("3", "2"), ("4", "2")]


def test_window_of_points_is_clipped_at_the_ends():
    found = pairs('"a[k-1..k+1]"', a="k: 1..3", b="k: 1..3")
    assert found == [("1", "1"), ("1", "2"), ("2", "1"), ("2", "2"), ("2", "3"), ("3", "2"), ("3", "3")]


def test_empty_window_of_points_gives_no_edge():
    assert pairs('"a[k+10..k+11]"') == []


def test_dependency_over_several_variables_matches_each_of_them():
    found = pairs('"a[i, k]"', a="i: 1..2, k: 1..2", b="i: 1..2, k: 1..2")
    assert found == [("1,1", "1,1"), ("1,2", "1,2"), ("2,1", "2,1"), ("2,2", "2,2")]


def test_a_star_selects_all_values_of_a_variable():
    found = pairs('"a[k, *]"', a="i: 1..2, j: 1..3", b="k: 1..2")
    assert found == [("1,1", "1"), ("1,2", "1"), ("1,3", "1"), ("2,1", "2"), ("2,2", "2"), ("2,3", "2")]
    assert len(pairs('"a[*, *]"', a="i: 1..2, j: 1..3", b="k: 1..2")) == 12


def test_range_and_single_value_can_be_combined():
    found = pairs('"a[1..k, 2]"', a="i: 1..2, j: 1..2", b="k: 1..2")
    assert found == [("1,2", "1"), ("1,2", "2"), ("2,2", "2")]


def test_missing_value_combined_with_a_range_gives_no_edge():
    assert pairs('"a[*, k]"', a="i: 1..2, j: 1..2", b="k: 5..6") == []


def test_text_values_are_matched():
    assert pairs("\"a['y z']\"", a="k: [x, y z]", b="j: [1]") == [("y z", "1")]


def test_fractional_values_are_matched_despite_rounding():
    found = pairs('"a[t + 0.1]"', a="t: 0.1..0.4 step 0.1", b="t: 0.1..0.3 step 0.1")
    assert found == [("0.2", "0.1"), ("0.3", "0.2"), ("0.4", "0.3")]
    assert len(pairs('"a[t..t + 0.1]"', a="t: 0.1..0.4 step 0.1", b="t: 0.1..0.3 step 0.1")) == 6


def test_integers_and_floats_are_equal_values():
    assert pairs('"a[k/2]"', a="k: [1, 2]", b="k: [2, 4]") == [("1", "2"), ("2", "4")]


def test_explicit_pairs_give_their_edges():
    assert pairs("{task: a, pairs: [[1, 2], [1, 3]]}") == [("1", "2"), ("1", "3")]


def test_explicit_pairs_may_have_several_variables():
    found = pairs("{task: a, pairs: [[[1, 2], 3]]}", a="i: 1..2, j: 1..2")
    assert found == [("1,2", "3")]


def test_chain_within_one_sweep_connects_successive_points():
    graph = graph_of("tasks: {a: {sweep: {k: 1..3}, after: 'a[k-1..k-1]'}}")
    assert edges(graph) == {("a[1]", "a[2]"), ("a[2]", "a[3]")}


def test_a_window_over_the_same_sweep_excludes_the_task_itself():
    graph = graph_of("tasks: {a: {sweep: {k: 1..3}, after: 'a[k-1..k]'}}")
    assert edges(graph) == {("a[1]", "a[2]"), ("a[2]", "a[3]")}


def test_indices_may_use_parameters():
    text = "params: {d: 2}\ntasks: {a: {sweep: {k: 1..3}}, b: {after: 'a[d + 1]'}}"
    assert edges(graph_of(text)) == {("a[3]", "b")}


def test_condition_of_a_dependency_is_stored_with_its_edge():
    graph = graph_of(
        "tasks: {z: {after: [{task: a, if: exit_code == 0}, b]}, a: , b: , c: {after: {task: a, if: exit_code == 1}}}"
    )
    found = {
        (graph.names[graph.predecessor[edge]], graph.names[task]): graph.edge_condition.get(edge)
        for task in range(len(graph))
        for edge in range(graph.predecessor_pointer[task], graph.predecessor_pointer[task + 1])
    }
    assert found == {
        ("a", "z"): parse("exit_code == 0"),
        ("b", "z"): None,
        ("a", "c"): parse("exit_code == 1"),
    }


def test_dependency_by_after_and_by_file_gives_one_edge_with_the_data():
    graph = graph_of("tasks: {a: {outputs: {x: 1kB, y: 2kB}}, b: {after: [a, a], inputs: [x, y]}}")
    assert (graph.edge_count, graph.edge_bytes.tolist(), graph.edge_files.tolist()) == (1, [3000.0], [2.0])


def test_files_make_dependencies_in_any_order_of_tasks():
    graph = graph_of("tasks: {b: {inputs: ['x.2']}, a: {sweep: {k: 1..2}, outputs: {'x.{k}': k*MB}}}")
    assert graph.names == ("a[1]", "a[2]", "b")
    assert sources(graph, "b") == ["a[2]"]
    assert graph.edge_bytes.tolist() == [2e6]


def test_wildcards_and_directories_match_their_files():
    graph = graph_of(
        "tasks: {a: {outputs: [out/, '*.log']}, b: {inputs: [out/x/y]}, c: {inputs: [z.log]}, d: {inputs: [o]}}"
    )
    assert edges(graph) == {("a", "b"), ("a", "c")}


def test_readers_of_wildcards_and_directories_depend_on_all_writers():
    graph = graph_of(
        "tasks: {b: {inputs: ['x.*']}, c: {inputs: [out/], outputs: [x.c]}, a: {sweep: {k: 1..2}, outputs:"
        " {'x.{k}': k*MB}}, d: {outputs: [out/d, y.1]}, e: {inputs: [{file: 'y.*', from: 'mine/*'}]}}"
    )
    assert edges(graph) == {("a[1]", "b"), ("a[2]", "b"), ("c", "b"), ("d", "c")}
    assert sorted(graph.edge_bytes.tolist()) == [0, 0, 1e6, 2e6]


def test_a_reader_may_state_the_size_of_a_file():
    graph = graph_of("tasks: {a: {outputs: [x, y]}, b: {inputs: [{file: x, size: 5kB}, y]}}")
    assert graph.edge_bytes.tolist() == [5000.0]
    assert graph.unsized_files == 1


def test_fixed_seconds_of_an_edge_replace_its_bytes():
    graph = graph_of("tasks: {a: {outputs: {x: {seconds: 4}}}, b: {inputs: [x]}}")
    assert (graph.edge_seconds.tolist(), graph.edge_bytes.tolist(), graph.edge_files.tolist()) == (
        [4],
        [0],
        [0],
    )
    assert graph.unsized_files == 0


def test_a_task_may_read_its_own_output():
    assert edges(graph_of("tasks: {a: {inputs: [x], outputs: [x]}}")) == set()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("tasks: {a: {sweep: {k: 1..3}}, b: {sweep: {k: 1..4}, after: 'a[k]'}}", "a[4] does not exist"),
        ("tasks: {a: , b: {after: 'a[1]'}}", "a[...] has an index, but a has no sweep"),
        ("tasks: {a: {sweep: {i: [1], j: [1]}}, b: {after: 'a[1]'}}", "a[...] has 1 indices, but a has 2"),
        (
            "tasks: {a: {sweep: {i: [1]}}, b: {after: {task: a, pairs: [[1, 1]]}}}",
            "`pairs` refers to b, which has no sweep",
        ),
        (
            "tasks: {a: , b: {sweep: {i: [1]}, after: {task: a, pairs: [[1, 1]]}}}",
            "`pairs` refers to a, which has no sweep",
        ),
        ("tasks: {a: {sweep: {k: 1..2}, after: {task: a, pairs: [[1, 5]]}}}", "pair [1, 5]: a has no 5"),
        ("tasks: {a: {after: a}}", "a depends on itself"),
        ("tasks: {a: {sweep: {k: 1..2}, after: 'a[k]'}}", "a cycle: a[1] → a[1]"),
        ("tasks: {a: {sweep: {k: 1..2}, after: 'a[3-k]'}}", "a cycle: a[1] → a[2] → a[1]"),
        ("tasks: {a: {sweep: {k: [[1]]}}}", "sweep variable k takes the value [1]"),
        ("params: {l: [[1]]}\ntasks: {a: {sweep: {k: [1]}}, b: {after: 'a[l[0]]'}}", "a[[1]] does not exist"),
    ],
)
def test_invalid_dependencies_are_reported(text, what):
    assert any(found.startswith(what) for found in messages_of(text)), messages_of(text)


def test_too_many_edges_are_rejected_early(monkeypatch):
    monkeypatch.setitem(LIMITS, ENTRIES, 100)
    for after in ("a", "'a[1..10]'"):
        (found,) = messages_of(
            f"tasks: {{a: {{sweep: {{k: 1..10}}}}, b: {{sweep: {{k: 1..10}}, after: {after}}}}}"
        )
        assert found == "the workflow unfolds to 160 entries or more"
