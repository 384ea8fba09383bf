"""Statistics over repetitions, against values computed by hand."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.papers.statistics import improvement_percent, precision_percent, share_percent, summarise


def test_precision_and_improvement_equal_values_computed_by_hand():
    # Reference 400 s; the best of the first generation is 2000 s, the best found 500 s.
    assert precision_percent(500.0, 400.0) == 25.0
    assert improvement_percent(2000.0, 500.0) == 300.0
    assert precision_percent(300.0, 400.0) == -25.0


def test_summary_has_five_numbers():
    found = summarise([4.0, 1.0, 10.0, 2.0, 3.0])
    assert (found.number, found.least, found.median, found.most) == (5, 1.0, 3.0, 10.0)
    assert (found.lower_quartile, found.upper_quartile) == (2.0, 4.0)
    assert found.mean == 4.0
    # Squared differences: 0 + 9 + 36 + 4 + 1 = 50; divided by 4 and by 5.
    assert found.standard_error == pytest.approx(math.sqrt(2.5))


def test_quartiles_are_interpolated():
    found = summarise([1.0, 2.0, 3.0, 4.0])
    assert (found.lower_quartile, found.median, found.upper_quartile) == (1.75, 2.5, 3.25)


def test_a_single_value_has_no_standard_error():
    found = summarise([7.0])
    assert (found.mean, found.median, found.lower_quartile, found.upper_quartile) == (7.0, 7.0, 7.0, 7.0)
    assert math.isnan(found.standard_error)


def test_an_empty_sample_is_refused():
    with pytest.raises(InvalidInput, match="at least one"):
        summarise([])


def test_share_percent_is_the_percentage_of_true_values():
    assert share_percent([1.0, 0.0, 1.0, 1.0]) == 75.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_summary_agrees_with_the_statistics_module(values):
    found = summarise(values)
    assert found.median == pytest.approx(statistics.median(values), abs=1e-9)
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    assert [found.lower_quartile, found.upper_quartile] == pytest.approx([quarters[0], quarters[2]], abs=1e-6)
    assert found.standard_error == pytest.approx(statistics.stdev(values) / math.sqrt(len(values)), abs=1e-6)
