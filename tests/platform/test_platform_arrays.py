from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.platform.arrays import MOST_LOCATIONS, compile_network
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform, Share, link_between, planned_machines
from weft.platform.short_forms import parse_short_form


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_link_arrays_equal_link_between(platforms: st.SearchStrategy[Platform], data: st.DataObject) -> None:
    platform = data.draw(platforms)
    machines = planned_machines(platform)
    net = compile_network(platform, machines)
    latencies, inverses = [], []
    for i, a in enumerate(machines):
        for j, b in enumerate(machines):
            link = link_between(platform, a, b)
            assert (link is None) == (net.host[i] == net.host[j])
            if link is not None:
                row, column = net.location[i], net.location[j]
                assert net.latency_s[row, column] == link.latency_s
                assert net.inverse_bandwidth[row, column] == 1 / link.bandwidth_Bps
                latencies.append(link.latency_s)
                inverses.append(1 / link.bandwidth_Bps)
    assert net.mean_latency_s == pytest.approx(np.mean(latencies) if latencies else 0.0)
    assert net.mean_inverse_bandwidth == pytest.approx(np.mean(inverses) if inverses else 0.0)


def test_transfers_within_one_host_take_no_time() -> None:
    platform = Platform(
        machines=(Machine(name="m", nodes=3),),
        default_link=Link(latency_s=1.0),
        virtual=(Share(machine="m", service="x", nodes=1),),
    )
    net = compile_network(platform, planned_machines(platform))
    assert net.host.tolist() == [0, 0]
    assert (net.mean_latency_s, net.mean_inverse_bandwidth) == (0.0, 0.0)


def test_infinite_bandwidth_has_zero_seconds_per_byte() -> None:
    platform = Platform(
        machines=(Machine(name="a"), Machine(name="b")), default_link=Link(bandwidth_Bps=math.inf)
    )
    assert compile_network(platform, platform.machines).inverse_bandwidth.tolist() == [[0.0]]


def test_sites_with_equal_links_are_one_location() -> None:
    platform = parse_short_form("identical:20000,latency=1ms")
    assert platform is not None
    net = compile_network(platform, platform.machines)
    assert net.latency_s.shape == (1, 1)
    assert net.mean_latency_s == pytest.approx(1e-3)
    assert net.host.tolist() == list(range(20000))


def test_sites_and_machines_with_links_are_separate_locations() -> None:
    machines = tuple(
        Machine(name=name, site=site) for name, site in [("a", "A"), ("b", "A"), ("c", "B"), ("d", "C")]
    )
    platform = Platform(
        machines=machines,
        sites={"A": Link(bandwidth_Bps=2.0)},
        links=(("b", "B", Link(bandwidth_Bps=4.0)),),
    )
    net = compile_network(platform, machines)
    assert net.location.tolist() == [0, 1, 2, 3]
    assert net.inverse_bandwidth[0, 1] == 0.5
    assert net.inverse_bandwidth[1, 2] == 0.25
    assert net.inverse_bandwidth[0, 2] == 1e-9


def test_too_many_locations_are_rejected_before_allocation() -> None:
    names = [f"m{index}" for index in range(MOST_LOCATIONS + 2)]
    platform = Platform(
        machines=tuple(Machine(name=name) for name in names),
        links=tuple((names[0], name, Link()) for name in names[1:]),
    )
    with pytest.raises(InvalidInput, match="into one site"):
        compile_network(platform, platform.machines)
