from __future__ import annotations

import math
from typing import Any

import pytest

from weft.platform.machine import MOST, Machine


def test_a_machine_with_defaults_has_no_problems() -> None:
    machine = Machine(name="m")
    assert list(machine.find_problems()) == []
    assert (machine.nodes, machine.cores, machine.speed, machine.memory) == (1, 1, 1.0, None)
    assert (machine.site_name, machine.host_name) == ("m", "m")


def test_amounts_contain_memory_only_if_it_is_stated() -> None:
    assert Machine(name="m").amounts == {"gpus": 0.0}
    machine = Machine(name="m", memory=8e9, gpus=2, resources={"licence": 4})
    assert machine.amounts == {"memory": 8e9, "gpus": 2.0, "licence": 4}


def test_the_rate_is_the_speed_for_the_service_times_availability() -> None:
    machine = Machine(name="m", speed=2.0, speeds={"dock": 5.0}, availability=0.5)
    assert machine.rate(None) == 1.0
    assert machine.rate("dock") == 2.5
    assert machine.rate("other") == 1.0


@pytest.mark.parametrize(
    ("machine", "service", "offered"),
    [
        (Machine(name="m"), None, True),
        (Machine(name="m"), "dock", False),
        (Machine(name="m", services=("dock",)), "dock", True),
        (Machine(name="m", services=("dock",)), None, True),
        (Machine(name="m", speeds={"dock": 2.0}), "dock", True),
        (Machine(name="m", speeds={"dock": 2.0}), "gee", False),
        (Machine(name="m/x", host="m", only_service="x", services=("x",)), "x", True),
        (Machine(name="m/x", host="m", only_service="x", services=("x",)), None, False),
        (Machine(name="m/x", host="m", only_service="x", speeds={"dock": 2.0}), "dock", False),
    ],
)
def test_machine_offers_its_services(machine: Machine, service: str | None, offered: bool) -> None:
    assert machine.offers(service) is offered


@pytest.mark.parametrize(
    ("kind", "is_core"), [("local", True), ("dask", True), ("ssh", True), ("slurm", False), (None, False)]
)
def test_a_node_is_a_core_on_machines_that_users_share(kind: str | None, is_core: bool) -> None:
    backend = {} if kind is None else {"kind": kind}
    assert Machine(name="m", backend=backend).node_is_core is is_core


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"name": ""}, (), "a visible character"),
        ({"name": "  "}, (), "a visible character"),
        ({"name": "a\nb"}, (), "printable"),
        ({"name": "a" * 201}, (), "at most 200"),
        ({"name": "m{1..3}"}, (), "a range in braces"),
        ({"nodes": 0}, ("nodes",), "between 1 and"),
        ({"nodes": -3}, ("nodes",), "-3 nodes"),
        ({"nodes": MOST + 1}, ("nodes",), "1,000,000,000"),
        ({"cores": 0}, ("cores",), "between 1 and"),
        ({"gpus": -1}, ("gpus",), "between 0 and"),
        ({"memory": -1.0}, ("memory",), "at least 0"),
        ({"memory": math.nan}, ("memory",), "finite"),
        ({"disk": math.inf}, ("disk",), "finite"),
        ({"speed": 0.0}, ("speed",), "above 0"),
        ({"speed": math.inf}, ("speed",), "finite"),
        ({"speed": math.nan}, ("speed",), "above 0"),
        ({"speeds": {"dock": -2.0}}, ("speed", "dock"), "above 0"),
        ({"speeds": {"default": 2.0}}, ("speed",), "default"),
        ({"price_per_node_hour": -0.1}, ("price_per_node_hour",), "at least 0"),
        ({"availability": 0.0}, ("availability",), "above 0 and at most 1"),
        ({"availability": 1.1}, ("availability",), "above 0 and at most 1"),
        ({"availability": math.nan}, ("availability",), "above 0 and at most 1"),
        ({"queue": "fifi"}, ("queue",), "did you mean 'fifo'?"),
        ({"occupancy": "leased"}, ("occupancy",), "exclusive, unlimited, shared"),
        ({"arch": ""}, ("arch",), "empty"),
        ({"site": " "}, ("site",), "empty"),
        ({"services": ("dock", "")}, ("services", 1), "is empty"),
        ({"backend": {"kind": 3}}, ("backend", "kind"), "name of a backend"),
        ({"resources": {"licence": -1.0}}, ("resources", "licence"), "at least 0"),
        ({"resources": {"memory": 1.0}}, ("resources", "memory"), "built-in key 'memory'"),
        ({"attributes": {"speed": 1.0}}, ("attributes", "speed"), "built-in key 'speed'"),
        ({"attributes": {"rack": math.inf}}, ("attributes", "rack"), "finite number"),
        ({"attributes": {"x": 1}, "resources": {"x": 1}}, ("attributes", "x"), "must be unique"),
    ],
)
def test_each_violated_rule_of_a_machine_gives_one_problem_that_names_the_path(
    values: dict[str, Any], path: tuple[str, ...], words: str
) -> None:
    faults = list(Machine(**{"name": "m", **values}).find_problems())
    assert [fault.path for fault in faults] == [path]
    assert words in str(faults[0])


def test_all_problems_of_a_machine_are_reported_at_once() -> None:
    machine = Machine(name="m", nodes=0, speed=-1.0, availability=2.0, queue="lifo")
    assert [fault.path for fault in machine.find_problems()] == [
        ("nodes",),
        ("speed",),
        ("availability",),
        ("queue",),
    ]


def test_renamed_machines_differ_only_in_name() -> None:
    machine = Machine(name="m", nodes=4, attributes={"rack": 3})
    first, second = machine.under_names(["m1", "m2"])
    assert first == Machine(name="m1", nodes=4, attributes={"rack": 3})
    assert second.name == "m2"
