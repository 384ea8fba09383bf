"""Numbering of rows, compared with NumPy's sort of whole rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from weft.instance.instance import number_rows

TABLES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.integers(-2, 2))


@given(TABLES)
def test_rows_are_numbered_in_sorted_order_and_equal_rows_share_a_number(table):
    assert (
        number_rows(*table.T).tolist()
        == np.unique(table, axis=0, return_inverse=True)[1].reshape(-1).tolist()
    )
