"""Shared transfers compared with progressive filling, and checked byte by byte."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.simulation.progressive_filling import end_times, max_min_rates
from strategies import platforms
from weft.backends.simulation.transfers import SharedTransfers, UnsharedTransfers
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform, find_link, link_between, planned_machines
from weft.platform.short_forms import parse_short_form

SITES = Platform(
    machines=tuple(Machine(name=name, site=name[0]) for name in ("a1", "a2", "a3", "b1", "b2", "c1")),
    sites={"a": Link(latency_s=0.5, bandwidth_Bps=8.0)},
    default_link=Link(latency_s=2.0, bandwidth_Bps=2.0),
    links=(
        ("a", "b", Link(latency_s=1.0, bandwidth_Bps=4.0)),
        ("a3", "b", Link(latency_s=0, bandwidth_Bps=1.0)),
    ),
)
MACHINES = planned_machines(SITES)
A1, A2, A3, B1, B2, C1 = range(6)


def ends_of(model, begun, stops=()):
    """Return the ends of transfers (number, source, target, bytes, files, fixed_s, start) in a model."""
    events = sorted(
        [(start, 0, number, rest) for number, *rest, start in begun] + [(at, 1, n, None) for n, at in stops]
    )
    ends, now = {}, 0.0
    while events or model.next_end() < math.inf:
        upcoming = events[0][0] if events else math.inf
        now = min(model.next_end(), upcoming)
        for number in model.ended(now):
            ends[number] = now
        while events and events[0][0] == now:
            _, kind, number, rest = events.pop(0)
            if kind == 0:
                model.start(number, *rest, now)
            else:
                model.cancel(number, now)
    return ends


def test_a_single_transfer_takes_latency_plus_size_over_bandwidth():
    begun = [(7, A1, B1, 40.0, 3.0, 5.0, 10.0)]
    assert ends_of(SharedTransfers(SITES, MACHINES), begun) == {7: 10 + 5 + 3 * 1 + 40 / 4}
    assert ends_of(UnsharedTransfers(SITES, MACHINES), begun) == {7: 10 + 5 + 3 * 1 + 40 / 4}


def test_concurrent_transfers_share_the_bandwidth_equally():
    begun = [
        (0, A1, B1, 40.0, 0.0, 0.0, 0.0),
        (1, A2, B2, 40.0, 0.0, 0.0, 0.0),
        (2, B1, A1, 4.0, 0.0, 0.0, 8.0),
    ]
    # 8 s at 2 B/s leave 24 each; the third needs 3 s at 4/3 B/s; then 20 each at 2 B/s.
    assert ends_of(SharedTransfers(SITES, MACHINES), begun) == pytest.approx({0: 21.0, 1: 21.0, 2: 11.0})
    assert ends_of(UnsharedTransfers(SITES, MACHINES), begun) == {0: 10.0, 1: 10.0, 2: 9.0}


@pytest.mark.parametrize(
    ("first", "second", "shares"),
    [
        ((A1, B1), (A2, B2), True),
        ((A1, B1), (B2, A2), True),
        ((A1, A2), (A1, A3), True),
        ((A1, A2), (A1, B1), False),
        ((A3, B1), (A1, B1), False),
        ((A3, B1), (A3, B2), True),
        ((A1, C1), (A2, C1), True),
        ((A1, C1), (B1, C1), False),
    ],
)
def test_transfers_share_bandwidth_only_if_they_use_the_same_link(first, second, shares):
    platform = SITES
    begun = [(0, *first, 16.0, 0.0, 0.0, 0.0), (1, *second, 1600.0, 0.0, 0.0, 0.0)]
    alone = ends_of(SharedTransfers(platform, MACHINES), begun[:1])[0]
    together = ends_of(SharedTransfers(platform, MACHINES), begun)[0]
    assert together == pytest.approx(alone * (2 if shares else 1))


def test_every_pair_of_machines_without_a_site_has_its_own_link():
    platform = parse_short_form("identical:4,bandwidth=10B/s")
    begun = [(n, *pair, 100.0, 1.0, 0.0, 0.0) for n, pair in enumerate([(0, 1), (0, 2), (1, 2), (2, 1)])]
    assert ends_of(SharedTransfers(platform, planned_machines(platform)), begun) == {
        0: 10.0,
        1: 10.0,
        2: 20.0,
        3: 20.0,
    }


def test_transfer_uses_no_bandwidth_during_its_latency():
    begun = [(0, A1, B1, 40.0, 0.0, 0.0, 0.0), (1, A1, B1, 4.0, 50.0, 0.0, 0.0)]
    assert ends_of(SharedTransfers(SITES, MACHINES), begun) == {0: 10.0, 1: 51.0}


@pytest.mark.parametrize("model", [SharedTransfers, UnsharedTransfers])
def test_transfers_of_0_bytes_or_at_infinite_bandwidth_take_only_latency_and_fixed_time(model):
    fast = Platform(machines=SITES.machines, default_link=Link(latency_s=3.0, bandwidth_Bps=math.inf))
    begun = [
        (0, A1, A1, 1e9, 5.0, 7.0, 2.0),
        (1, A1, B1, 0.0, 0.0, 6.0, 2.0),
        (2, A1, B1, 1e9, 2.0, 0.0, 2.0),
    ]
    assert ends_of(model(fast, MACHINES), begun) == {0: 2.0, 1: 8.0, 2: 8.0}


@pytest.mark.parametrize("model", [SharedTransfers, UnsharedTransfers])
def test_transfers_that_end_together_are_returned_in_order_of_start(model):
    model = model(SITES, MACHINES)
    for flow, source in ((5, A1), (3, A2), (9, A1), (1, A2)):
        model.start(flow, source, C1 if flow == 9 else B1, 4.0, 0.0, 1.0, 0.0)
    assert model.next_end() < math.inf
    assert model.ended(100.0) == ([9, 5, 3, 1] if isinstance(model, SharedTransfers) else [5, 3, 1, 9])
    assert model.ended(100.0) == []
    assert model.next_end() == math.inf


@pytest.mark.parametrize("model", [SharedTransfers, UnsharedTransfers])
def test_transfer_number_can_be_reused_after_the_transfer_ended(model):
    model = model(SITES, MACHINES)
    model.start(1, A1, B1, 4.0, 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="transfer 1"):
        model.start(1, A1, B1, 4.0, 0.0, 0.0, 0.0)
    model.cancel(1, 0.5)
    model.cancel(2, 0.5)
    model.start(1, A1, B1, 8.0, 0.0, 0.0, 0.5)
    assert model.next_end() == 0.5 if isinstance(model, SharedTransfers) else model.next_end() == 2.5
    assert model.ended(2.4) == []
    assert model.ended(2.5) == [1]
    model.start(1, A1, B1, 8.0, 0.0, 0.0, 2.5)
    model.advance(9.0)
    model.cancel(1, 9.0)
    assert model.ended(9.0) == []


TRANSFERS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 5),
        st.one_of(st.integers(0, 12), st.floats(0, 50)),
        st.integers(0, 2),
        st.sampled_from([0, 0, 1, 2.5]),
        st.integers(0, 10),
        st.one_of(st.none(), st.integers(0, 15)),
    ),
    max_size=14,
)


def begun_and_stopped(drawn):
    begun = [(n, *each[:2], *map(float, each[2:6])) for n, each in enumerate(drawn)]
    stops = [(n, float(each[5] + each[6])) for n, each in enumerate(drawn) if each[6] is not None]
    return begun, stops


def reference_ends(begun, stops):
    """Return the ends of the same transfers by the reference implementation."""
    flows, capacities = [], {}
    for number, source, target, size, files, fixed_s, start in begun:
        found = find_link(SITES, MACHINES[source], MACHINES[target])
        if found is None:
            flows.append((number, None, 0, start))
        else:
            capacities[found[0]] = int(found[1].bandwidth_Bps)
            flows.append((number, found[0], size, start + fixed_s + files * found[1].latency_s))
    return end_times(flows, capacities, dict(stops))


@given(TRANSFERS)
def test_end_times_of_transfers_equal_those_of_progressive_filling(drawn):
    begun, stops = begun_and_stopped(drawn)
    expected = {number: float(at) for number, at in reference_ends(begun, stops).items()}
    found = ends_of(SharedTransfers(SITES, MACHINES), begun, stops)
    # A transfer that ends at the time of its cancellation may count either way: rounding decides.
    close = {
        n for n, at in stops if any(n in each and abs(each[n] - at) < 1e-6 for each in (expected, found))
    }
    assert {n: at for n, at in found.items() if n not in close} == pytest.approx(
        {n: at for n, at in expected.items() if n not in close}, rel=1e-9, abs=1e-9
    )


@given(TRANSFERS)
def test_bytes_are_conserved_and_links_are_not_overloaded(drawn):
    """On every link, the bytes moved equal the bandwidth times the time in which data was waiting."""
    begun = [each for each in begun_and_stopped(drawn)[0] if each[1] != each[2]]
    model = SharedTransfers(SITES, MACHINES)
    sizes, links, left = {}, {}, {}
    for now in range(80):
        for number, source, target, size, files, fixed_s, start in begun:
            if start == now:
                model.start(number, source, target, size, files, fixed_s, float(now))
                links[number] = find_link(SITES, MACHINES[source], MACHINES[target])
                sizes[number] = left[number] = size
        before = dict(left)
        left = {number: model.left_bytes(number, now + 1.0) for number in sizes}
        for key, link in dict(links.values()).items():
            here = [number for number in sizes if links[number][0] == key]
            moved = sum(before[number] - left[number] for number in here)
            assert -1e-9 <= moved <= link.bandwidth_Bps * (1 + 1e-9)
            busy = [number for number in here if 0 < left[number] < before[number] < sizes[number]]
            if busy:  # at least one transfer used the link all the time
                assert moved == pytest.approx(link.bandwidth_Bps)
    ended = model.ended(1e9)
    assert sorted(ended) == sorted(sizes)
    assert all(model.left_bytes(number, 1e9) == 0.0 for number in sizes)


def test_reference_implementation_of_progressive_filling_handles_several_links():
    # The textbook example: two short flows on links of 1 and 3, a long one over both.
    rates = max_min_rates({"long": ("x", "y"), "x": ("x",), "y": ("y",)}, {"x": 1, "y": 3})
    assert {flow: float(rate) for flow, rate in rates.items()} == {"long": 0.5, "x": 0.5, "y": 2.5}


@settings(max_examples=25)
@given(platforms(), st.data())
def test_an_unshared_transfer_takes_the_time_planners_assume(platform, data):
    machines = planned_machines(platform)
    source = data.draw(st.integers(0, len(machines) - 1))
    target = data.draw(st.integers(0, len(machines) - 1))
    link = link_between(platform, machines[source], machines[target])
    expected = 0.0 if link is None else 2.0 + 3 * link.latency_s + 1e6 / link.bandwidth_Bps
    for model in (SharedTransfers(platform, machines), UnsharedTransfers(platform, machines)):
        assert ends_of(model, [(0, source, target, 1e6, 3.0, 2.0, 0.0)])[0] == pytest.approx(
            expected, rel=1e-12
        )


def test_thousands_of_transfers_on_one_link_end_at_the_expected_times():
    model = SharedTransfers(SITES, MACHINES)
    for number in range(3000):
        model.start(number, A1, B1, float(number % 7 + 1), 0.0, 0.0, 0.0)
    ends = [(now, model.ended(now)) for now in iter(model.next_end, math.inf)]
    ends = [(now, numbers) for now, numbers in ends if numbers]
    total = sum(number % 7 + 1 for number in range(3000))
    assert ends[-1][0] == pytest.approx(total / 4.0, rel=1e-9)
    assert sorted(number for _, numbers in ends for number in numbers) == list(range(3000))
    assert {number % 7 for number in ends[-1][1]} == {6}
