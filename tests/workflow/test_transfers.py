"""Explicit transfers between writers and readers: no data are counted twice (docs/papers/unified.md,
section 7).
"""

from __future__ import annotations

import pytest

from workflow.workflow_texts import edges, graph_of, messages_of, problems_in

CHAIN = """\
    tasks:
      one: {{machine: M1, outputs: {{x: 5MB}}}}
      move: {{kind: transfer, from: M1, to: M2, file: x{size}}}
      two: {{machine: M2, inputs: [x]{after}}}
    """


def test_bytes_of_a_transferred_file_belong_to_the_transfer_and_not_to_the_edges():
    graph = graph_of(CHAIN.format(size="", after=""))
    assert edges(graph) == {("one", "move"), ("move", "two")}
    assert graph.transfer_bytes.tolist() == [0, 5e6, 0]
    assert graph.edge_bytes.sum() == graph.edge_files.sum() == 0


def test_edge_from_the_writer_has_no_bytes_when_a_transfer_delivers_the_file():
    graph = graph_of(CHAIN.format(size="", after=", after: one"))
    assert ("one", "two") in edges(graph)
    assert graph.edge_bytes.sum() == graph.edge_files.sum() == 0


def test_size_stated_by_the_transfer_takes_precedence():
    assert graph_of(CHAIN.format(size=", size: 2*MB", after="")).transfer_bytes.tolist() == [0, 2e6, 0]


def test_transfer_has_binding_variables_of_source_and_destination():
    graph = graph_of(CHAIN.format(size="", after=""))
    move = graph.index("move")
    assert graph.variables[graph.variable[move]] == "M2"
    assert graph.variables[graph.source_variable[move]] == "M1"
    assert graph.source_variable[graph.index("one")] == len(graph.variables)


def test_task_that_does_not_read_from_a_transfer_has_a_data_edge_from_the_writer():
    graph = graph_of(
        """\
        tasks:
          one: {machine: M1, outputs: {x: 5MB}}
          move: {kind: transfer, from: M1, to: M2, file: x}
          here: {machine: M1, inputs: [x]}
          there: {machine: M2, inputs: [x]}
          elsewhere: {inputs: [x]}
        """
    )
    assert edges(graph) == {("one", "move"), ("one", "here"), ("move", "there"), ("one", "elsewhere")}
    assert graph.edge_bytes.tolist().count(5e6) == 2


def test_transfers_may_be_chained():
    graph = graph_of(
        """\
        tasks:
          one: {machine: M1, outputs: {x: 5MB}}
          onward: {kind: transfer, from: M2, to: M3, file: x}
          move: {kind: transfer, from: M1, to: M2, file: x}
          two: {machine: M3, inputs: [x]}
        """
    )
    assert edges(graph) == {("one", "move"), ("move", "onward"), ("onward", "two")}
    assert graph.transfer_bytes.tolist() == [0, 5e6, 5e6, 0]
    assert graph.edge_bytes.sum() == 0


def test_file_written_on_another_machine_is_copied_to_the_source_of_the_transfer():
    graph = graph_of(
        """\
        tasks:
          one: {outputs: {x: 5MB}}
          hub: {machine: M1, after: one}
          move: {kind: transfer, from: M1, to: M2, file: x}
        """
    )
    edge = graph.predecessor_pointer[graph.index("move")]
    assert edges(graph) == {("one", "hub"), ("one", "move")}
    assert graph.edge_bytes[edge] == 5e6


def test_transfers_of_a_sweep_match_by_file_name():
    graph = graph_of(
        """\
        tasks:
          a: {sweep: {k: 1..2}, machine: "m-{k}", outputs: {"v.{k}": k*MB}}
          t: {sweep: {i: 1..2}, kind: transfer, from: "m-{i}", to: hub, file: "v.{i}"}
          b: {machine: hub, inputs: ["v.{1..2}"]}
        """
    )
    assert edges(graph) == {("a[1]", "t[1]"), ("a[2]", "t[2]"), ("t[1]", "b"), ("t[2]", "b")}
    assert graph.transfer_bytes.tolist() == [0, 0, 1e6, 2e6, 0]


def test_a_file_without_writer_may_be_transferred():
    graph = graph_of("tasks: {a: {machine: A}, m: {kind: transfer, from: A, to: B, file: f}}")
    assert (edges(graph), graph.unsized_files, graph.transfer_bytes.tolist()) == (set(), 1, [0, 0])


def test_an_unknown_source_of_a_transfer_is_a_problem():
    (found,) = problems_in("tasks: {a: {outputs: [x]}, m: {kind: transfer, from: A, to: B, file: x}}")
    assert found.what == "m moves 'x' from 'A', where no task runs"
    assert found.path == ("tasks", "m", "from")
    assert "machine: A" in found.advice


@pytest.mark.parametrize("size", ["-1", "0 - 1"])
def test_negative_sizes_are_rejected(size):
    (found,) = messages_of(
        f"tasks: {{a: {{machine: A}}, m: {{kind: transfer, from: A, to: B, file: f, size: {size}}}}}"
    )
    assert found == "size -1"


def test_tasks_of_an_abstract_machine_share_a_binding_variable():
    graph = graph_of(
        "tasks: {a: {machine: M}, b: {machine: M}, c: , d: {sweep: {k: 1..2}, machine: 'n{k}'}, v: {kind: virtual}}"
    )
    assert [graph.variables[index] for index in graph.variable] == ["M", "M", "c", "n1", "n2", "v"]


def test_a_task_with_the_name_of_an_abstract_machine_is_not_bound_to_it():
    graph = graph_of("tasks: {M: , a: {machine: M}}")
    assert graph.variable[0] != graph.variable[1]
