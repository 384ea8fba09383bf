"""Sweeps: points, their order, and growing sweeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.expressions import parse
from weft.workflow.quantity import MAX_POINTS, Range, Sweep, growth_file, is_growing, list_points
from weft.workflow.subtasks import LIMITS, TASKS
from weft.workflow.unfold import unfold
from weft.workflow.workflow import set_growth_lines
from workflow.workflow_texts import edges, graph_of, messages_of


def points(sweep, params="", zipped=False):
    graph = graph_of(
        f"params: {{{params}}}\ntasks: {{t: {{sweep: {{{sweep}}}, zip: {str(zipped).lower()}}}}}"
    )
    return list(graph.points), list(graph.names)


def test_a_range_includes_both_ends():
    assert points("k: 1..3") == ([(1,), (2,), (3,)], ["t[1]", "t[2]", "t[3]"])


def test_ranges_may_use_parameters_and_negative_numbers():
    assert points("k: -n..n-1", "n: 2")[0] == [(-2,), (-1,), (0,), (1,)]


def test_decimal_ranges_include_the_end_without_rounding_errors():
    found, names = points("t: 0.4..1.0 step 0.2")
    assert found == [(0.4,), (0.6,), (0.8,), (1.0,)]
    assert names == ["t[0.4]", "t[0.6]", "t[0.8]", "t[1]"]


@given(st.integers(-50, 50), st.integers(0, 60), st.sampled_from(["0.1", "0.2", "0.25", "0.3", "1", "3"]))
def test_decimal_ranges_equal_exact_decimal_arithmetic(low, count, step):
    high = low + count * float(step)
    found = Range(low=parse(str(low)), high=parse(f"{high:.12g}"), step=parse(step)).values({})
    assert len(found) == count + 1
    assert found == pytest.approx([low + index * float(step) for index in range(count + 1)])


def test_the_last_variable_of_a_cross_product_varies_fastest():
    assert points("i: 1..2, s: [x, y]")[1] == ["t[1,x]", "t[1,y]", "t[2,x]", "t[2,y]"]


def test_zip_pairs_the_values_of_its_variables():
    assert points("i: 1..2, s: [x, y]", zipped=True)[1] == ["t[1,x]", "t[2,y]"]


def test_sweep_values_may_come_from_a_parameter():
    assert points("l: lengths", "lengths: [4, 5]")[0] == [(4,), (5,)]
    assert points("l: 'range(1, len(lengths))'", "lengths: [4, 5]")[0] == [(1,), (2,)]


def test_true_and_false_are_valid_sweep_values():
    assert points("b: [true, false]")[1] == ["t[true]", "t[false]"]


def test_work_is_evaluated_at_every_point():
    few = graph_of("params: {l: [3, 1, 2]}\ntasks: {t: {sweep: {j: 1..3}, work: 'l[j-1]'}}")
    assert few.work.tolist() == [3, 1, 2]
    many = graph_of("tasks: {t: {sweep: {j: 1..100}, work: 2*j + 1, memory: j*kB}}")
    assert many.work.tolist() == [2 * j + 1 for j in range(1, 101)]
    assert many.demand[:, 0].tolist() == [1000 * j for j in range(1, 101)]


def test_sweep_over_many_values_of_mixed_types_is_unfolded():
    values = ", ".join([*map(str, range(40)), "x"])
    graph = graph_of(f"tasks: {{t: {{sweep: {{k: [{values}]}}, work: '5 if k == 1 else 7'}}}}")
    assert graph.work.tolist() == [7, 5] + [7] * 39


def test_explicit_seconds_may_depend_on_the_point():
    graph = graph_of("tasks: {t: {sweep: {k: 1..2}, seconds: {P1: k, P2: 10*k}}}")
    assert graph.explicit_names == ("P1", "P2")
    assert graph.explicit_seconds.tolist() == [1, 10, 2, 20]
    assert graph.explicit_pointer.tolist() == [0, 2, 4]


def test_node_counts_may_depend_on_the_point():
    graph = graph_of("tasks: {t: {sweep: {k: 1..2}, nodes: [1, 1..2*k]}}")
    assert [graph.count_sets[index] for index in graph.counts] == [(1, 2), (1, 2, 3, 4)]


class TestGrowth:
    """A sweep over the lines of a file, which is one task until the file exists."""

    TEXT = """\
        tasks:
          split: {{outputs: [{output}]}}
          each: {{sweep: {{chunk: "{lines}"}}, outputs: ["done.{{chunk}}"]}}
          tidy: {{sweep: {{chunk: "{lines}"}}, after: "each[chunk]"}}
          merge: {{after: each}}
        """

    @pytest.mark.parametrize(
        ("output", "lines"),
        [("split.parts", "lines(split.parts)"), ("parts", "lines(split.parts)"), ("a b", "lines('a b')")],
    )
    def test_a_growing_sweep_depends_on_the_writer_of_the_file(self, output, lines):
        graph = graph_of(self.TEXT.format(output=output, lines=lines))
        assert graph.names == ("split", "each[*]", "tidy[*]", "merge")
        assert edges(graph) == {
            ("split", "each[*]"),
            ("split", "tidy[*]"),
            ("each[*]", "tidy[*]"),
            ("each[*]", "merge"),
        }

    @pytest.mark.parametrize("output", ["{chunk}", "{chunk}.l", "split.{chunk}", "{chunk}*", "{chunk}/"])
    def test_names_of_its_own_outputs_never_replace_the_writer_of_the_file(self, output):
        graph = graph_of(f"""\
            tasks:
              split: {{inputs: [data.csv, split.x], outputs: [l]}}
              each: {{sweep: {{chunk: "lines(split.l)"}}, outputs: ["{output}"]}}
              other: {{sweep: {{chunk: "lines(split.l)"}}, outputs: ["o.{{chunk}}"]}}
            """)
        assert {("split", "each[*]"), ("split", "other[*]")} <= set(edges(graph))
        assert not any(target == "split" for _, target in edges(graph))

    def test_tasks_that_do_not_precede_a_growing_sweep_wait_for_files_that_it_may_write(self):
        graph = graph_of("""\
            tasks:
              split: {outputs: [l]}
              each: {sweep: {chunk: "lines(split.l)"}, outputs: ["{chunk}"]}
              use: {inputs: [alpha]}
            """)
        assert edges(graph) == {("split", "each[*]"), ("each[*]", "use")}

    def test_subtasks_of_known_lines_still_depend_on_the_writer_of_the_file(self):
        text = """\
            tasks:
              split: {outputs: [l]}
              each: {sweep: {chunk: "lines(split.l)"}, outputs: ["{chunk}"]}
            """
        grown = unfold(set_growth_lines(graph_of(text).workflow, {"split.l": ("a", "b")}))
        assert edges(grown) == {("split", "each[a]"), ("split", "each[b]")}

    @pytest.mark.parametrize("file", ["nothing.l", "each.l", "list", "'*'"])
    def test_a_sweep_over_a_file_that_no_other_task_writes_is_refused(self, file):
        text = f"""\
            tasks:
              each: {{sweep: {{chunk: "lines({file})"}}, outputs: ["{{chunk}}", l]}}
            """
        (message,) = messages_of(text)
        assert "which no other task writes" in message

    def test_only_sweeps_over_lines_of_a_file_are_growing(self):
        assert is_growing(parse("lines(split.parts)"))
        assert growth_file(parse("lines('x')")) == "x"
        assert not is_growing(parse("len(lines(x))"))
        assert not is_growing((1, 2))


@pytest.mark.parametrize(
    ("sweep", "what"),
    [
        ("k: 3..1", "sweep variable k has no values"),
        ("k: []", "sweep variable k has no values"),
        ("k: 1..3 step 0", "the step of a range is 0"),
        ("k: 1..3 step -1", "the step of a range is -1"),
        ("k: 5", None),
        ("k: n", "sweep variable k: n gives 3"),
        ("k: 1..1e9", "range 1..1000000000.0 has more than 1,000,000 values"),
        ("i: 1..2000, j: 1..2000", "the sweep has 4000000 points"),
        (
            "i: 1..2, j: 1..3, zip: true",
            "paired sweep variables have different numbers of values: i has 2, j has 3",
        ),
        ("k: [.nan]", "sweep variable k takes the value nan"),
        ("k: [null]", "sweep variable k takes the value None"),
        ("k: [1, 1.0]", "the sweep contains t[1] twice"),
        ("k: [1, '1']", "the sweep contains t[1] twice"),
        ("n: [1]", "sweep variable 'n' has the name of a parameter"),
    ],
)
def test_invalid_sweeps_are_reported(sweep, what):
    found = messages_of(f"params: {{n: 3}}\ntasks: {{t: {{sweep: {{{sweep}}}}}}}")
    assert found == ([] if what is None else [what])


def test_an_invalid_sweep_gives_one_problem():
    found = messages_of(
        "tasks: {a: {sweep: {k: 3..1}, work: 2*k, nodes: 1..k}, b: {sweep: {k: 1..2}, after: 'a[k]'}, c: {after: 'a[1..2]'}}"
    )
    assert found == ["sweep variable k has no values"]


def test_the_order_of_points_equals_row_major_order():
    sweep = Sweep(variables=(("i", (1, 2)), ("j", (3, 4, 5)), ("k", (6, 7))))
    grid = np.stack(np.meshgrid([1, 2], [3, 4, 5], [6, 7], indexing="ij"), axis=-1).reshape(-1, 3)
    assert [list(point) for point in list_points(sweep, {})] == grid.tolist()
    assert MAX_POINTS == 1_000_000


def test_sweeps_with_too_many_points_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sweep was allowed alone; a thousand of them exhausted the memory."""
    monkeypatch.setitem(LIMITS, TASKS, 35)
    tasks = "\n".join(f"  t{number}: {{sweep: {{i: 1..10}}, work: 1}}" for number in range(50))
    (message,) = messages_of(f"name: w\ntasks:\n{tasks}\n")
    assert message == "the workflow unfolds to 40 tasks or more"
