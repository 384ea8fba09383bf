"""Seconds of data between machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.platform.arrays import compile_network
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform, link_between
from weft.predictors.transfer import edge_seconds_to, transfer_seconds

MACHINES = (
    Machine(name="a", site="s"),
    Machine(name="b", site="s"),
    Machine(name="c", site="t"),
    Machine(name="c/dock", site="t", host="c"),
    Machine(name="d"),
)
PLATFORM = Platform(
    name="p",
    machines=tuple(machine for machine in MACHINES if machine.host is None),
    sites={"s": Link(latency_s=0.001, bandwidth_Bps=1e8)},
    default_link=Link(latency_s=0.05, bandwidth_Bps=1e6),
    links=(("s", "t", Link(latency_s=0.02, bandwidth_Bps=float("inf"))),),
    virtual=(),
)


def test_the_parts_add_up():
    link = Link(latency_s=0.5, bandwidth_Bps=100.0)
    assert transfer_seconds(link, 1000.0, 3, 2.0) == 2.0 + 1.5 + 10.0
    assert transfer_seconds(link, float("nan"), 3, 2.0) == 3.5
    assert transfer_seconds(None, 1000.0, 3, 2.0) == 0.0


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([0.0, 1e6, float("nan")]), st.integers(0, 3)), max_size=5
    )
)
@settings(max_examples=40, deadline=None)
def test_arrays_agree_with_links(edges):
    compiled = compile_network(PLATFORM, MACHINES)
    sources = np.array([edge[0] for edge in edges], dtype=np.uint32)
    size, files = np.array([edge[1] for edge in edges]), np.array([float(edge[2]) for edge in edges])
    fixed = np.full(len(edges), 0.25)
    found = edge_seconds_to(compiled, sources, None, size, files, fixed)
    assert found.shape == (len(edges), len(MACHINES))
    for row, (source, amount, number) in enumerate(edges):
        for column, target in enumerate(MACHINES):
            link = link_between(PLATFORM, MACHINES[source], target)
            assert found[row, column] == pytest.approx(
                transfer_seconds(link, amount, number, 0.25), rel=1e-12
            )


def test_targets_may_be_one_machine_or_several():
    compiled = compile_network(PLATFORM, MACHINES)
    sources = np.array([0, 2], dtype=np.uint32)
    every = edge_seconds_to(compiled, sources, None, [1e6, 2e6], [1, 1], [0, 0])
    one = edge_seconds_to(compiled, sources, 4, [1e6, 2e6], [1, 1], [0, 0])
    assert one.tolist() == every[:, [4]].tolist() == [[1.05], [2.05]]
    some = edge_seconds_to(compiled, sources, np.array([3, 0], dtype=np.uint32), [1e6, 2e6], [1, 1], [0, 0])
    assert some.tolist() == every[:, [3, 0]].tolist()
    assert every[1, 3] == 0.0  # a share of the same host
    assert every[0, 3] == 0.02  # infinite bandwidth: only the latency
