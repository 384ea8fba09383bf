"""Comparisons of planners: wins, ratios, gaps, and the tables, lines and page that show them."""

from __future__ import annotations

import csv
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.reports.comparison import (
    PlannerComparison,
    PlannerResult,
    WorkflowResults,
    comparison_csv,
    comparison_html,
    comparison_title,
    refusal_lines,
    result_table,
    standing_table,
)
from weft.reports.text import TextTable

NONE = "cannot do that"


def comparison(table, bound_s=1.0, **head):
    """Return a comparison with these makespans by workflow and planner; None: the planner has no plan."""
    rows = [
        WorkflowResults(
            workflow=name,
            tasks=3,
            edges=2,
            lower_bound_s=bound_s,
            results=tuple(
                PlannerResult(planner=planner, makespan_s=None, reason=NONE)
                if makespan_s is None
                else PlannerResult(planner=planner, makespan_s=makespan_s, planning_s=0.25)
                for planner, makespan_s in results.items()
            ),
        )
        for name, results in table.items()
    ]
    planners = tuple(next(iter(table.values())))
    return PlannerComparison(
        **{"platform": "grid", "seed": 3, "planners": planners, "workflows": tuple(rows), **head}
    )


def standings(made):
    return {standing.planner: standing for standing in made.standings}


class TestStandings:
    def test_standings_have_wins_and_geometric_means(self):
        made = comparison({"x": {"a": 2.0, "b": 4.0}, "y": {"a": 9.0, "b": 3.0}, "z": {"a": 5.0, "b": 5.0}})
        found = standings(made)
        assert (found["a"].wins, found["b"].wins) == (2, 2)
        assert found["a"].mean_ratio == pytest.approx(3 ** (1 / 3))
        assert found["b"].mean_ratio == pytest.approx(2 ** (1 / 3))
        assert found["a"].planning_s == 0.75
        assert [standing.planner for standing in made.standings] == ["b", "a"], "the smaller ratio first"

    def test_standings_are_ordered_by_wins_then_by_ratio(self):
        made = comparison({"x": {"a": 5.0, "b": 4.0}, "y": {"a": 5.0, "b": 4.0}, "z": {"a": 1.0, "b": 9.0}})
        assert [(standing.planner, standing.wins) for standing in made.standings] == [("b", 2), ("a", 1)]
        assert standings(made)["a"].mean_ratio < standings(made)["b"].mean_ratio

    def test_all_plans_that_differ_only_by_rounding_win(self):
        made = comparison({"x": {"a": 1.0, "b": 1.0 + 1e-10, "c": 1.0 + 1e-8}})
        assert [standing.wins for standing in made.standings] == [1, 1, 0]
        assert [standing.planner for standing in made.standings] == ["a", "b", "c"]

    def test_workflows_without_a_plan_are_not_counted(self):
        found = standings(comparison({"x": {"a": None, "b": 4.0}, "y": {"a": 6.0, "b": 3.0}}))
        assert (found["a"].planned, found["a"].wins, found["a"].mean_ratio) == (1, 0, 2.0)
        assert found["a"].planning_s == 0.25

    def test_planner_without_any_plan_is_last(self):
        made = comparison({"x": {"a": None, "b": 4.0}})
        assert [standing.planner for standing in made.standings] == ["b", "a"]
        assert standings(made)["a"].mean_ratio is None

    def test_plan_of_zero_length_wins_for_a_workflow_of_zero_work(self):
        made = comparison({"x": {"a": 0.0, "b": 2.0}}, bound_s=0.0)
        row = made.workflows[0]
        assert [row.ratio(result) for result in row.results] == [1.0, math.inf]
        assert [row.gap(result) for result in row.results] == [0.0, None]
        assert [row.wins(result) for result in row.results] == [True, False]

    @given(st.lists(st.lists(st.floats(0.1, 1e6), min_size=3, max_size=3), min_size=1, max_size=8))
    def test_wins_and_means_equal_values_computed_by_hand(self, table):
        made = comparison({str(n): dict(zip("abc", row, strict=True)) for n, row in enumerate(table)})
        for column, planner in enumerate("abc"):
            ratios = [row[column] / min(row) for row in table]
            found = standings(made)[planner]
            assert found.wins == sum(ratio <= 1 + 1e-9 for ratio in ratios)
            assert found.mean_ratio == pytest.approx(math.prod(ratios) ** (1 / len(ratios)), rel=1e-9)

    def test_gap_is_relative_to_the_lower_bound(self):
        row = comparison({"x": {"a": 5.0, "b": 4.0 * (1 + 1e-12), "c": None}}, bound_s=4.0).workflows[0]
        assert [row.gap(result) for result in row.results] == [0.25, 0.0, None]


class TestTables:
    MADE = comparison({"x": {"long-name": 2.0, "b": 4.0}, "y": {"long-name": None, "b": 3.0}}, bound_s=2.0)

    def test_table_of_results_has_one_row_per_workflow(self):
        assert result_table(self.MADE).lines() == [
            "workflow     planner    makespan        gap  ratio    time",
            "x (3 tasks)  long-name       2 s  *    0.0%  1.000  250 ms",
            "             b               4 s     100.0%  2.000  250 ms",
            "y (3 tasks)  long-name         -          -      -       -",
            "             b               3 s  *   50.0%  1.000  250 ms",
        ]

    def test_table_of_standings_has_one_row_per_planner(self):
        assert standing_table(self.MADE).lines() == [
            "planner    wins  mean ratio  planned    time",
            "long-name     1       1.000   1 of 2  250 ms",
            "b             1       1.414   2 of 2  500 ms",
        ]

    def test_title_counts_planners_and_workflows(self):
        assert comparison_title(self.MADE) == "2 workflows on grid, 2 planners"

    def test_equal_reasons_for_missing_plans_are_printed_once(self):
        assert refusal_lines(self.MADE) == ["long-name, y: cannot do that"]
        many = comparison({f"w{n}": {"a": None, "b": 1.0} for n in range(5)})
        assert refusal_lines(many) == ["a, w0 and 4 others: cannot do that"]
        assert refusal_lines(many, verbose=True) == ["a, w0, w1, w2, w3, w4: cannot do that"]

    def test_an_unknown_gap_is_shown_as_unknown(self):
        table = result_table(comparison({"x": {"a": 1.0}}, bound_s=0.0))
        assert table.rows[0][4] == "unknown"

    def test_table_without_rows_has_a_heading(self):
        assert TextTable(heading=("a", "bc"), rows=(), texts=1).lines() == ["a  bc"]


def test_csv_contains_all_numbers_in_full_precision():
    made = comparison({"x, y": {"a": 1 / 3, "b": None}}, bound_s=0.1)
    first, second = csv.DictReader(comparison_csv(made).splitlines())
    assert float(first["makespan_s"]) == 1 / 3
    assert float(first["gap"]) == (1 / 3) / 0.1 - 1
    assert {key: first[key] for key in ("workflow", "tasks", "edges", "platform", "seed", "planner", "wins")} == {
        "workflow": "x, y", "tasks": "3", "edges": "2", "platform": "grid", "seed": "3", "planner": "a",
        "wins": "1",
    }  # fmt: skip
    assert (second["makespan_s"], second["ratio"], second["wins"], second["reason"]) == ("", "", "0", NONE)


def test_comparison_page_is_complete_and_shows_names_unchanged():
    made = comparison({"<script>x": {"a&b": 1.0, "b": None}}, platform="<grid>")
    page = comparison_html(made)
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    assert "<script" not in page
    assert "&lt;script&gt;x (3 tasks)" in page
    assert "<td>a&amp;b</td>" in page
    assert "<li>b, &lt;script&gt;x: cannot do that</li>" in page
    assert "Without a plan" not in comparison_html(comparison({"x": {"a": 1.0}}))
