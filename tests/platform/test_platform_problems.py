from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform, Share

LINK = Link()
MACHINES = (Machine(name="a", site="A", nodes=4), Machine(name="b", site="B"), Machine(name="c", site="B"))


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"machines": ()}, ("machines",), "at least one machine"),
        ({"machines": (Machine(name="a"), Machine(name="a"))}, ("machines",), "2 machines are named 'a'"),
        ({"machines": (Machine(name="a", speed=0.0),)}, ("machines", "a", "speed"), "above 0"),
        ({"sites": {"AA": LINK}}, ("sites", "AA"), "unknown site 'AA'"),
        ({"sites": {"A": Link(latency_s=-1.0)}}, ("sites", "A", "latency"), "at least 0"),
        ({"default_link": Link(bandwidth_Bps=0.0)}, ("links", "default", "bandwidth"), "above 0"),
        ({"default_link": Link(bandwidth_Bps=math.nan)}, ("links", "default", "bandwidth"), "above 0"),
        ({"default_link": Link(bandwidth_Bps=1e-320)}, ("links", "default", "bandwidth"), "above 0"),
        ({"default_link": Link(latency_s=math.inf)}, ("links", "default", "latency"), "finite"),
        ({"links": (("a", "x", LINK),)}, ("links", "between", 0, "pair"), "unknown machine or site 'x'"),
        ({"links": (("a", "a", LINK),)}, ("links", "between", 0, "pair"), "to itself"),
        ({"links": (("a", "B", LINK), ("B", "a", LINK))}, ("links", "between", 1), "links.between[0]"),
        (
            {"links": (("a", "b", Link(bandwidth_Bps=-1.0)),)},
            ("links", "between", 0, "bandwidth"),
            "above 0",
        ),
        (
            {"machines": (*MACHINES, Machine(name="B")), "links": (("A", "B", LINK),)},
            ("links", "between", 0, "pair"),
            "unambiguous",
        ),
        ({"virtual": (Share(machine="z", service="s", nodes=1),)}, ("virtual", 0, "machine"), "'z'"),
        ({"virtual": (Share(machine="a", service="", nodes=1),)}, ("virtual", 0, "service"), "is empty"),
        ({"virtual": (Share(machine="a", service="s", nodes=0),)}, ("virtual", 0, "nodes"), "at least 1"),
        (
            {"virtual": (Share(machine="a", service="s", nodes=5),)},
            ("virtual", 0, "nodes"),
            "the machine has 4",
        ),
        (
            {"virtual": tuple(Share(machine="a", service=f"s{n}", nodes=2) for n in range(4))},
            ("virtual", 2, "nodes"),
            "take 6 nodes",
        ),
        (
            {"virtual": (Share(machine="a", service="s", nodes=1), Share(machine="a", service="s", nodes=1))},
            ("virtual", 1),
            "set another name",
        ),
        (
            {"virtual": (Share(machine="a", service="s", nodes=1, name="b"),)},
            ("virtual", 0),
            "the name of another machine",
        ),
        (
            {"virtual": (Share(machine="a", service="s", nodes=1, name=" "),)},
            ("virtual", 0, "name"),
            "visible",
        ),
    ],
)
def test_each_violated_rule_of_a_platform_gives_one_problem_that_names_the_path(
    values: dict[str, Any], path: tuple[str | int, ...], words: str
) -> None:
    faults = list(Platform(**{"machines": MACHINES, **values}).find_problems())
    assert [fault.path for fault in faults] == [path]
    assert words in str(faults[0])


def test_error_about_an_unknown_name_in_a_platform_suggests_the_nearest_name() -> None:
    platform = Platform(machines=(Machine(name="altix1"),), links=(("altix1", "altixx", LINK),))
    assert "did you mean 'altix1'?" in str(next(platform.find_problems()))


def test_link_may_name_a_site_with_one_machine_of_the_same_name() -> None:
    machines = (Machine(name="a", site="a"), Machine(name="b"))
    assert list(Platform(machines=machines, links=(("a", "b", LINK),)).find_problems()) == []


def test_machines_with_different_values_are_all_checked() -> None:
    machines = (Machine(name="a"), Machine(name="b", nodes=0), Machine(name="c"), Machine(name="d", cores=0))
    paths = [fault.path for fault in Platform(machines=machines).find_problems()]
    assert paths == [("machines", "b", "nodes"), ("machines", "d", "cores")]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_platforms_are_valid(platforms: st.SearchStrategy[Platform], data: st.DataObject) -> None:
    platform = data.draw(platforms)
    # Random sites have unambiguous names, so there must be no problem.
    assert list(platform.find_problems()) == []
