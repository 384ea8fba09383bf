"""Bands of machines that share one row of the chart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reports.plan_views import view_of
from weft.reports.gantt_layout import group_machines


def bands(machines, sites=(), most=4, chosen=None):
    view = view_of([], [1] * machines, machine_sites=tuple(sites))
    found = group_machines(view, list(range(machines)) if chosen is None else chosen, most)
    return [(band.name, list(band.machines)) for band in found]


def test_bands_are_sites_in_the_order_of_their_first_machine() -> None:
    assert bands(5, ["b", "a", "b", "", "a"]) == [("b", [0, 2]), ("a", [1, 4]), ("m4", [3])]


def test_machines_without_sites_form_bands_of_neighbours() -> None:
    expected = [("m1 - m2", [0, 1]), ("m3 - m4", [2, 3]), ("m5", [4])]
    assert bands(5, most=3) == expected
    assert bands(5, ["s"] * 5, most=3) == expected
    assert bands(5, list("abcde"), most=3) == expected


def test_sites_beyond_the_limit_are_joined() -> None:
    assert bands(6, ["a", "a", "b", "b", "c", "d"], most=2) == [("a - b", [0, 1, 2, 3]), ("c - d", [4, 5])]


def test_bands_contain_only_the_requested_machines() -> None:
    assert bands(6, ["a", "a", "b", "b", "c", "c"], chosen=[1, 2, 3]) == [("a", [1]), ("b", [2, 3])]
    assert bands(3, chosen=[]) == []


@given(st.lists(st.sampled_from(["", "x", "y", "z"]), max_size=60), st.integers(1, 9))
def test_every_machine_is_in_one_band_and_the_number_of_bands_is_limited(sites: list[str], most: int) -> None:
    found = bands(len(sites), sites, most)
    assert sorted(machine for _, machines in found for machine in machines) == list(range(len(sites)))
    assert len(found) <= most
