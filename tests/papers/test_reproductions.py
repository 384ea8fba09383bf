"""Every registered reproduction: its cells, its rows, and that its rows can fail."""

from __future__ import annotations

import json
import pickle

import pytest

from weft.papers import REPRODUCTIONS
from weft.papers.reproduction import ResultRow, Results, ToleranceBand, give_reasons
from weft.randomness import generator

ALL = pytest.mark.parametrize("name", list(REPRODUCTIONS))
DEMANDED = {
    "s1-dynamic": {"A1.9", "A1.10"},
    "s1-tuning": {"A1.3", "A1.4", "A1.5", "A1.6", "A1.7", "A1.8"},
    "s2-local": {"A2.2", "A2.3"},
    "s2-alpha": {"A2.4", "A2.5", "A2.6", "A2.9"},
    "s3-degradation": {"A3.1", "A3.3"},
    "s3-requirements": {"A3.2"},
    "s4-samples": {"A4.4", "A4.8"},
    "s4-tables": {"A4.5", "A4.6", "A4.7", "S4.13"},
    "s5-scenario": {"A5.1", "A5.2", "A5.3", "A5.4", "A5.5", "A5.6", "A5.7"},
    "s5-starvation": {"A5.8"},
    "u1": {"U1"},
    "u2": {"U2"},
    "u3": {"U3"},
    "u4": {f"A3.{number}" for number in range(1, 10)},
}
NOT_DRAWN = {"s3-degradation", "s3-requirements", "s5-starvation"}
"""Names of the experiments without random numbers."""
LONG = {"s5-scenario", "u1", "u2", "u3", "u4"}
"""Experiments whose runs take seconds; they have their own, shorter tests."""
UNBREAKABLE = {"A1.3", "A1.6", "A2.6", "A4.7", "A4.8", "S4.13"}
"""Acceptance tests that equal measures cannot violate: the grid, the reference, monotone sweeps, comparisons.
"""


class Constant(dict):
    """Measures that all have the same value, except the disturbance."""

    def __missing__(self, key):
        return self["value"]

    def __contains__(self, key):
        return True


def results_of(reproduction, value, *, full):
    cells = reproduction.cells(full=full)
    return Results({cell.name: [Constant(value=value, disturbance=0.0)] * 2 for cell in cells})


def test_all_experiments_are_registered():
    assert list(REPRODUCTIONS) == sorted(DEMANDED)


@ALL
@pytest.mark.parametrize("full", [False, True])
def test_cells_have_unique_names_and_can_be_pickled(name, full):
    reproduction = REPRODUCTIONS.load(name)()
    assert reproduction.name == name
    cells = reproduction.cells(full=full)
    assert len({cell.name for cell in cells}) == len(cells)
    assert pickle.loads(pickle.dumps((reproduction, cells[-1])))[1] == cells[-1]
    assert all(cell.runs >= 1 and cell.work >= 0 for cell in cells)
    settings = [json.dumps(dict(cell.settings)) for cell in cells]
    # Two cells of s1-tuning have no settings: the operators and the tuned settings.
    assert len(set(settings)) == len(cells) - (name == "s1-tuning")


@ALL
def test_cells_of_the_quick_form_are_a_subset_of_the_cells_of_the_full_form(name):
    reproduction = REPRODUCTIONS.load(name)()
    full = {cell.name: cell for cell in reproduction.cells(full=True)}
    for cell in reproduction.cells(full=False):
        assert cell.settings == full[cell.name].settings
        assert cell.runs <= full[cell.name].runs


@ALL
@pytest.mark.parametrize("full", [False, True])
def test_all_acceptance_experiments_have_rows(name, full):
    reproduction = REPRODUCTIONS.load(name)()
    rows = reproduction.rows(results_of(reproduction, 1.0, full=full), full=full)
    assert {row.accepts for row in rows if row.accepts} == DEMANDED[name]
    assert all((row.band is not None) == bool(row.accepts) for row in rows)
    assert [row.figure for row in rows if (row.band is None) != bool(row.why)] == [], (
        "a reason for the others"
    )
    assert len({(row.table, row.figure) for row in rows}) == len(rows)
    assert {row.runs for row in rows} & {2}


@ALL
def test_extreme_measures_are_out_of_tolerance(name):
    reproduction = REPRODUCTIONS.load(name)()
    rows = reproduction.rows(results_of(reproduction, 1e6, full=False), full=False)
    outside = {row.accepts for row in rows if row.within is False}
    assert outside == DEMANDED[name] - UNBREAKABLE


@pytest.mark.parametrize("name", [name for name in REPRODUCTIONS if name not in LONG])
def test_equal_seeds_give_equal_measures(name):
    reproduction = REPRODUCTIONS.load(name)()
    cells = reproduction.cells(full=False)
    cell = min(cells[1:] or cells, key=lambda found: found.work)
    first, again, other = (reproduction.run(cell, generator(seed, name)) for seed in (1, 1, 2))
    decided = [key for key in first if key != "cpu_s"]
    assert [first[key] for key in decided] == [again[key] for key in decided]
    assert ([first[key] for key in decided] == [other[key] for key in decided]) == (name in NOT_DRAWN)
    assert json.loads(json.dumps(first, allow_nan=False)) == first


@pytest.mark.parametrize(
    ("band", "text", "inside", "outside"),
    [
        (ToleranceBand(most=30.0), "≤ 30 %", [-5.0, 30.0], [30.1]),
        (ToleranceBand(least=1.5), "≥ 1.5 %", [1.5, 9.0], [1.4]),
        (ToleranceBand(least=-45.0, most=-33.0), "-45 to -33 %", [-45.0, -40.0], [-32.0, -46.0]),
        (ToleranceBand(least=2880, most=2880), "2,880 %", [2880], [2879, 2881]),
    ],
)
def test_tolerances_have_a_text_and_include_their_bounds(band, text, inside, outside):
    assert band.text("%") == text
    assert all(value in band for value in inside)
    assert not any(value in band for value in outside)
    assert float("nan") not in band


@pytest.mark.parametrize(
    ("ours", "error", "chance", "within"),
    [
        (85.0, 5.0, False, True),
        (75.0, 5.0, True, None),
        (70.0, 5.0, True, None),
        (69.9, 5.0, False, False),
        (75.0, float("nan"), False, False),
        (79.9, 0.0, False, False),
    ],
)
def test_figure_outside_its_tolerance_by_at_most_two_standard_errors_counts_as_chance(
    ours, error, chance, within
):
    row = ResultRow(table="t", figure="f", ours=ours, error=error, band=ToleranceBand(least=80.0))
    found = row.left_to_chance()
    assert (found.by_chance, found.within) == (chance, within)
    assert found.as_record()["by_chance"] == chance


def test_row_without_a_tolerance_shows_the_reason_that_its_table_states():
    rows = [
        ResultRow(table="times of jobs", figure="a", ours=1.0),
        ResultRow(table="times of jobs", figure="b", ours=1.0, why="its own"),
        ResultRow(table="other", figure="c", ours=1.0),
        ResultRow(table="other", figure="d", ours=1.0, band=ToleranceBand(most=2.0), accepts="A1"),
    ]
    found = give_reasons(rows, "otherwise", {"times": "of the table"})
    assert [row.why for row in found] == ["of the table", "its own", "otherwise", ""]
    assert found[0].as_record()["not_judged"] == "of the table"


def test_rows_show_value_error_and_unit():
    row = ResultRow(table="t", figure="f", ours=1234.56, unit="s", error=0.25)
    assert (row.text, row.within) == ("1,234.6 ± 0.2 s", None)
    assert ResultRow(table="t", figure="f", ours=2e-16, digits=0).text == "2.0e-16"
    assert ResultRow(table="t", figure="f", ours=0.0, digits=0).text == "0"


def rows_of(name):
    reproduction = REPRODUCTIONS.load(name)()
    return reproduction.rows(results_of(reproduction, 1.0, full=True), full=True)


def test_every_row_without_a_verdict_states_the_reason():
    """No row with a number of the paper says that there is none; chance and load are reasons too."""
    rows = rows_of("s2-local")
    told = {(bool(row.paper), row.why) for row in rows if row.band is None}
    one_range = "the paper has one range for all selections"
    assert told == {(True, one_range), (False, "no figure in the paper")}
    rows = [row for row in rows_of("s4-samples") if row.table == "differences between graphs"]
    assert {(row.paper, row.why) for row in rows if row.band is None} == {
        ("in-tree worse", "not reproduced, see docs/papers"),
        ("equal", "the paper claims it most for xDCP, which is judged"),
    }
    near = ResultRow(table="t", figure="f", ours=1.5, error=1.0, band=ToleranceBand(most=1.0))
    assert near.left_to_chance().as_record()["not_judged"].startswith("outside its tolerance by less")
    assert near.as_record()["not_judged"] is None
