"""Amounts that depend on the node count, and budgets: values and problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planning_examples import workflow
from weft.workflow.unfold import unfold
from workflow.workflow_texts import graph_of, messages_of, problems_in

COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True)
NUMBERS = st.integers(0, 4)


def demands(graph, name):
    """Return the demand of a task by node count."""
    task = graph.index(name)
    return {count: graph.demand_of(task, count).tolist() for count in graph.count_sets[graph.counts[task]]}


def test_a_table_gives_an_amount_per_count():
    graph = graph_of("tasks: {a: {nodes: [1, 2, 4], resources: {licence: {2: 5, 1: 2, 4: 3}}}, b: }")
    assert demands(graph, "a") == {1: [2], 2: [5], 4: [3]}
    assert graph.demand.tolist() == [[2], [0]]
    assert graph.demand_by_count.pointer.tolist() == [0, 3, 3]


def test_a_formula_may_use_the_node_count():
    graph = graph_of("params: {n: 3}\ntasks: {a: {nodes: 1..3, memory: 4*GB*nodes + n, gpus: 2}}")
    assert graph.resource_names == ("gpus", "memory")
    assert demands(graph, "a") == {count: [2, 4e9 * count + 3] for count in (1, 2, 3)}
    assert graph.demand.tolist() == [[2, 4e9 + 3]]


@pytest.mark.parametrize(
    "text",
    [
        "params: {nodes: 7}\ntasks: {a: {nodes: [1, 2], memory: 2*nodes}}",
        "tasks: {a: {sweep: {nodes: [7]}, nodes: [1, 2], memory: 2*nodes}}",
    ],
)
def test_a_parameter_or_sweep_variable_named_nodes_takes_precedence(text):
    graph = graph_of(text)
    assert graph.demand.tolist() == [[14]]
    assert len(graph.demand_by_count.rows) == 0


def test_equal_amounts_on_all_counts_do_not_depend_on_the_count():
    graph = graph_of("tasks: {a: {nodes: [1, 2], resources: {x: {1: 3, 2: 3}}, memory: 5 + 0*nodes}}")
    assert len(graph.demand_by_count.rows) == 0
    assert graph.demand.tolist() == [[5, 3]]


def test_subtasks_have_the_counts_and_amounts_of_their_points():
    graph = graph_of("tasks: {a: {sweep: {k: 1..40}, nodes: [k, k + 1], memory: k*nodes}}")
    assert demands(graph, "a[7]") == {7: [49], 8: [56]}
    assert graph.demand[:, 0].tolist() == [k * k for k in range(1, 41)]


def test_amounts_stay_with_their_tasks_when_tasks_are_sorted_topologically():
    graph = graph_of(
        """\
        tasks:
          last: {after: first, nodes: [1, 2], memory: 10*nodes}
          first: {nodes: [1, 3], memory: nodes, resources: {x: 2}}
        """
    )
    assert graph.names == ("first", "last")
    assert demands(graph, "first") == {1: [1, 2], 3: [3, 2]}
    assert demands(graph, "last") == {1: [10, 0], 2: [20, 0]}


def test_only_allowed_counts_have_amounts():
    graph = graph_of("tasks: {a: {nodes: [1, 2], memory: nodes}}")
    with pytest.raises(ValueError, match="not in tuple"):
        graph.demand_of(0, 3)


@st.composite
def random_amount_tasks(draw):
    """Draw tasks whose amounts are tables, formulas or numbers, and the expected values."""
    tasks, expected = {}, {}
    for index in range(draw(st.integers(1, 5))):
        counts = draw(COUNTS)
        keys, rows = {"nodes": counts, "work": 1}, {count: [] for count in counts}
        for name in ("r0", "r1"):
            form = draw(st.sampled_from(["none", "plain", "table", "formula"]))
            base, slope = draw(NUMBERS), draw(NUMBERS)
            table = {count: draw(NUMBERS) for count in counts}
            given_amount, meant = {
                "none": (None, dict.fromkeys(counts, 0)),
                "plain": (base, dict.fromkeys(counts, base)),
                "table": (table, table),
                "formula": (f"{base} + {slope}*nodes", {count: base + slope * count for count in counts}),
            }[form]
            if given_amount is not None:
                keys.setdefault("resources", {})[name] = given_amount
                keys.setdefault("consumes", {})[name] = given_amount
            for count in counts:
                rows[count].append(meant[count])
        if index and draw(st.booleans()):
            keys["after"] = [f"t{draw(st.integers(0, index - 1))}"]
        tasks[f"t{index}"], expected[f"t{index}"] = keys, rows
    return tasks, expected


@given(random_amount_tasks(), st.randoms(use_true_random=False))
def test_amounts_equal_their_definitions_on_every_count(drawn, random):
    tasks, expected = drawn
    names = list(tasks)
    random.shuffle(names)
    graph = unfold(workflow({name: tasks[name] for name in names}, budgets={"r0": 1, "r1": 2}))
    assert graph.budget_names == ("r0", "r1")
    kept = [int(name[1]) for name in graph.resource_names]
    for task, name in enumerate(graph.names):
        rows = expected[name]
        for count, amounts in rows.items():
            assert graph.demand_of(task, count).tolist() == [amounts[place] for place in kept]
            assert graph.consumption_of(task, count).tolist() == amounts
        least = [min(amounts[place] for amounts in rows.values()) for place in (0, 1)]
        assert graph.demand[task].tolist() == [least[place] for place in kept]
        assert graph.consumption[task].tolist() == least
        varied = any(amounts != rows[min(rows)] for amounts in rows.values())
        assert len(graph.consumption_by_count.of(task)) == (len(rows) if varied else 0)


def test_budgets_are_numbers_or_formulas():
    graph = graph_of(
        "params: {n: 4}\nbudgets: {scratch: 2kB, credits: 10*n}\ntasks: {a: {consumes: {credits: n}}}"
    )
    assert graph.budget_names == ("credits", "scratch")
    assert graph.budgets.tolist() == [40, 2000]
    assert graph.consumption.tolist() == [[4, 0]]


def test_graph_without_budgets_has_no_consumption():
    graph = graph_of("tasks: {a: , b: }")
    assert (graph.budget_names, graph.consumption.shape, graph.budgets.shape) == ((), (2, 0), (0,))
    assert np.diff(graph.consumption_by_count.pointer).tolist() == [0, 0]


def test_virtual_tasks_do_not_inherit_default_amounts():
    graph = graph_of(
        """\
        budgets: {credits: 9}
        defaults: {consumes: {credits: 2}}
        tasks: {a: , v: {kind: virtual}}
        """
    )
    assert graph.consumption.tolist() == [[2], [0]]


WRONG = {
    "a: {nodes: [1, 2, 4], memory: {1: 5}}": "there is no amount for the node counts 2, 4",
    "a: {memory: {1: 5, 2: 7}}": "there are amounts for the node counts 2, which are not allowed",
    "a: {memory: {}}": "the table of amounts is empty",
    "a: {memory: {one: 5}}": "node count 'one'",
    "a: {memory: {0: 5, 1: 2}}": "memory on 0 nodes",
    "a: {nodes: [1, 2], memory: {1: 5, 2: -3}}": "memory on 2 nodes is -3",
    "a: {nodes: [1, 2], memory: 3 - 2*nodes}": "3 - 2 * nodes gives -1",
    "a: {nodes: [1, 2], memory: 2*nods}": "unknown name 'nods'",
    "a: {nodes: [1, 2], resources: {x: {1: q, 2: 1}}}": "unknown name 'q'",
    "a: {work: 2*nodes}": "unknown name 'nodes'",
    "a: {consumes: {credit: 1}}": "a consumes 'credit', which has no budget",
    "a: {consumes: {credits: -1}}": "credits is -1",
    "a: {kind: virtual, consumes: {credits: 1}}": "a virtual task consumes credits",
}


@pytest.mark.parametrize("task", WRONG)
def test_each_error_is_reported_once(task):
    (what,) = messages_of(f"budgets: {{credits: 5}}\ntasks:\n  {task}\n")
    assert what.startswith(WRONG[task])


@pytest.mark.parametrize(
    ("budget", "what"),
    [("-1", "budget -1"), ("n - 5", "n - 5 gives -2"), ("m", "unknown name 'm'"), ("[1]", "this is a list")],
)
def test_error_about_an_invalid_budget_names_the_location(budget, what):
    (problem,) = problems_in(f"params: {{n: 3}}\nbudgets:\n  credits: {budget}\ntasks: {{a: }}")
    assert problem.what.startswith(what)
    assert (problem.path[:2], problem.location.line) == (("budgets", "credits"), 4)


def test_error_about_an_invalid_node_count_names_the_location():
    (problem,) = problems_in("tasks:\n  a:\n    nodes: [1, 2]\n    resources:\n      x: {1: 5, 3: 1, 2: 2}")
    assert problem.path == ("tasks", "a", "resources", "x")
    assert problem.location.line == 6
    assert "nodes:" in problem.advice
