"""Sizing selects one mode per machine: the planned, the fastest, or the smallest that is nearly as fast."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from policies.stub_view import mode
from weft.policies.placement import earliest_finish, size_modes

WITHOUT = SimpleNamespace(plan=None)
MODES = [mode(0, 1, 9.0), mode(0, 2, 5.0), mode(0, 4, 4.8), mode(0, 8, 4.8), mode(3, 1, 2.0), mode(3, 2, 2.5)]


@pytest.mark.parametrize(("how", "counts"), [("fastest", [(0, 4), (3, 1)]), ("frugal", [(0, 2), (3, 1)])])
def test_sizing_returns_one_mode_per_machine(how, counts):
    assert [(found.machine, found.count) for found in size_modes(WITHOUT, 0, MODES, how)] == counts


def test_planned_count_is_used_if_it_is_possible():
    planned = SimpleNamespace(plan=SimpleNamespace(planned_tasks={0: SimpleNamespace(machine=3, count=2)}))
    assert [(m.machine, m.count) for m in size_modes(planned, 0, MODES, "fastest")] == [(0, 2), (3, 2)]
    assert [(m.machine, m.count) for m in size_modes(planned, 1, MODES, "fastest")] == [(0, 4), (3, 1)]
    assert [(m.machine, m.count) for m in size_modes(planned, 0, MODES[2:5], "fastest")] == [(0, 4), (3, 1)]


def test_list_with_one_mode_per_machine_is_returned_unchanged():
    assert size_modes(WITHOUT, 0, [], "fastest") == []
    assert size_modes(WITHOUT, 0, MODES[1:2], "frugal") == MODES[1:2]
    apart = [mode(0, 1, 9.0), mode(1, 1, 3.0)]
    assert size_modes(WITHOUT, 0, apart, "fastest") == apart


def test_earliest_finish_returns_the_first_of_equal_modes():
    modes = [mode(0, 1, 3.0, 8.0), mode(1, 1, 2.0, 7.0), mode(2, 1, 1.0, 7.0)]
    assert earliest_finish(modes).machine == 1
