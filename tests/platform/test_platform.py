from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.platform.machine import Machine
from weft.platform.platform import DEFAULT_LINK, Link, Platform, Share, link_between, planned_machines

INSIDE = Link(bandwidth_Bps=1.0)
FAR = Link(bandwidth_Bps=2.0)
MIXED = Link(bandwidth_Bps=3.0)
EXACT = Link(bandwidth_Bps=4.0)
ELSE = Link(bandwidth_Bps=5.0)

A = Machine(name="a", site="A")
A2 = Machine(name="a2", site="A")
B = Machine(name="b", site="B")
ALONE = Machine(name="alone")


def _platform(*links: tuple[str, str, Link]) -> Platform:
    return Platform(machines=(A, A2, B, ALONE), sites={"A": INSIDE}, default_link=ELSE, links=links)


@pytest.mark.parametrize(
    ("links", "a", "b", "expected"),
    [
        ((), A, A, None),
        ((), A, A2, INSIDE),
        ((), A, B, ELSE),
        ((), A, ALONE, ELSE),
        ((("A", "B", FAR),), A, B, FAR),
        ((("B", "A", FAR),), A2, B, FAR),
        ((("A", "B", FAR), ("a", "B", MIXED)), A, B, MIXED),
        ((("A", "B", FAR), ("a", "B", MIXED)), A2, B, FAR),
        ((("A", "B", FAR), ("a", "B", MIXED), ("b", "a", EXACT)), A, B, EXACT),
        ((("A", "b", FAR), ("a", "B", MIXED)), A, B, FAR),
        ((("a", "B", MIXED), ("A", "b", FAR)), A, B, MIXED),
        ((("a", "a2", EXACT),), A, A2, EXACT),
        ((("a", "A", MIXED),), A, A2, MIXED),
        ((("A", "alone", MIXED),), A, ALONE, MIXED),
    ],
)
def test_most_specific_link_is_used(
    links: tuple[tuple[str, str, Link], ...], a: Machine, b: Machine, expected: Link | None
) -> None:
    platform = _platform(*links)
    assert list(platform.find_problems()) == []
    assert link_between(platform, a, b) == expected
    assert link_between(platform, b, a) == expected


def test_default_link_has_one_gigabyte_per_second() -> None:
    platform = Platform(machines=(A, B))
    link = link_between(platform, A, B)
    assert link == DEFAULT_LINK
    assert DEFAULT_LINK.seconds(1e9) == 1.0


def test_link_of_infinite_bandwidth_takes_only_its_latency() -> None:
    assert Link(latency_s=0.5, bandwidth_Bps=math.inf).seconds(1e12) == 0.5


def test_planned_machines_equal_the_machines_of_a_platform_without_shares() -> None:
    assert planned_machines(_platform()) == (A, A2, B, ALONE)


def test_host_is_planned_as_its_shares_and_a_machine_with_the_remaining_nodes() -> None:
    host = Machine(
        name="m", nodes=4, memory=8e9, disk=4e9, gpus=3, resources={"licence": 2.0}, speeds={"x": 3.0}
    )
    platform = Platform(
        machines=(host, B),
        virtual=(
            Share(machine="m", service="x", nodes=1),
            Share(machine="m", service="y", nodes=2, name="why"),
        ),
    )
    assert list(platform.find_problems()) == []
    rest, x, y, other = planned_machines(platform)
    assert (rest.name, rest.nodes, rest.memory, rest.gpus, rest.resources) == (
        "m",
        1,
        2e9,
        2,
        {"licence": 0.5},
    )
    assert (x.name, x.nodes, x.memory, x.disk, x.gpus) == ("m/x", 1, 2e9, 1e9, 0)
    assert (y.name, y.nodes, y.memory, y.gpus, y.services) == ("why", 2, 4e9, 1, ("y",))
    assert (x.host_name, x.site_name, x.only_service, x.rate("x")) == ("m", "m", "x", 3.0)
    assert other is B
    assert link_between(platform, x, y) is None
    assert link_between(platform, x, B) == DEFAULT_LINK


def test_machine_without_remaining_nodes_is_not_planned() -> None:
    platform = Platform(
        machines=(Machine(name="m", nodes=2),), virtual=(Share(machine="m", service="x", nodes=2),)
    )
    assert [machine.name for machine in planned_machines(platform)] == ["m/x"]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_shares_never_exceed_the_resources_of_the_machine(
    platforms: st.SearchStrategy[Platform], data: st.DataObject
) -> None:
    platform = data.draw(platforms)
    planned = planned_machines(platform)
    for machine in platform.machines:
        parts = [part for part in planned if part.host_name == machine.name]
        assert sum(part.nodes for part in parts) == machine.nodes
        for name, amount in machine.amounts.items():
            total = sum(part.amounts[name] for part in parts)
            assert total <= amount * (1 + 1e-12)
