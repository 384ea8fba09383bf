from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.documents import Document, DocumentNode, from_python
from weft.errors import InvalidInput, Problem, SourceLocation, format_path
from weft.platform.file_format import MACHINE, PLATFORM_RECORDS, read_platform
from weft.platform.machine import Machine
from weft.platform.platform import DEFAULT_LINK, Link, Platform, Share

# The example of the file format.
EXAMPLE: dict[str, Any] = {
    "weft": 1,
    "machines": {
        "pegasus": {
            "speed": 2.5,
            "cores": 1,
            "memory": "1GB",
            "arch": "x86_64",
            "os": "linux",
            "site": "ucm",
        },
        "altix{1..16}": {"speed": 3.0, "site": "uibk"},
        "barbora": {
            "nodes": 64,
            "cores": 36,
            "memory": "192GB",
            "price_per_node_hour": 0.8,
            "site": "it4i",
            "queue": "fifo",
        },
    },
    "sites": {"uibk": {"bandwidth": "160MB/s", "latency": "0.1ms"}},
    "links": {
        "default": {"bandwidth": "1MB/s", "latency": "50ms"},
        "between": [{"pair": ["ucm", "uibk"], "bandwidth": "12.5MB/s", "latency": "20ms"}],
    },
}


def _read(value: object, file: str | None = None) -> Platform:
    node = from_python(value)
    return read_platform(node, Document(file=file, root=node))


def _problems(value: object) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        _read(value)
    return [str(problem) for problem in caught.value.problems]


def test_example_of_the_platform_format_is_read() -> None:
    platform = _read(EXAMPLE, "grid/testbed.yaml")
    assert platform.name == "testbed"
    assert len(platform.machines) == 18
    assert platform.machines[0] == Machine(
        name="pegasus", speed=2.5, memory=1e9, arch="x86_64", os="linux", site="ucm"
    )
    assert [machine.name for machine in platform.machines[1:17]] == [f"altix{n}" for n in range(1, 17)]
    assert {machine.speed for machine in platform.machines[1:17]} == {3.0}
    assert platform.machines[17].price_per_node_hour == 0.8
    assert platform.sites == {"uibk": Link(bandwidth_Bps=160e6, latency_s=1e-4)}
    assert platform.default_link == Link(bandwidth_Bps=1e6, latency_s=0.05)
    assert platform.links == (("ucm", "uibk", Link(bandwidth_Bps=12.5e6, latency_s=0.02)),)


def test_every_machine_key_is_read() -> None:
    values = {
        "nodes": 4,
        "cores": 8,
        "memory": "4GiB",
        "memory_per_node": "1GiB",
        "startup": "1.5s",
        "parallel_startup": "3s",
        "disk": 1e12,
        "gpus": 2,
        "speed": {"default": 2, "dock": 2.5},
        "price_per_node_hour": 1,
        "services": ["gee"],
        "arch": "aarch64",
        "os": "linux",
        "site": "here",
        "availability": 0.5,
        "queue": "easy",
        "occupancy": "unlimited",
        "attributes": {"rack": 3, "fast": True, "tier": "a"},
        "backend": {"kind": "slurm", "options": ["-p", "long"]},
        "resources": {"licence": 4},
    }
    assert set(values) == set(MACHINE.help)
    (machine,) = _read({"machines": {"m": values}}).machines
    assert machine == Machine(
        name="m",
        nodes=4,
        cores=8,
        memory=4 * 2**30,
        memory_per_node=2**30,
        startup_s=1.5,
        parallel_startup_s=3.0,
        disk=1e12,
        gpus=2,
        speed=2.0,
        speeds={"dock": 2.5},
        price_per_node_hour=1.0,
        services=("gee",),
        arch="aarch64",
        os="linux",
        site="here",
        availability=0.5,
        queue="easy",
        occupancy="unlimited",
        attributes={"rack": 3, "fast": True, "tier": "a"},
        backend={"kind": "slurm", "options": ["-p", "long"]},
        resources={"licence": 4.0},
    )


@pytest.mark.parametrize("nothing", [None, {}, {"nodes": None, "memory": None, "site": None}])
def test_missing_keys_have_defaults(nothing: object) -> None:
    platform = _read({"machines": {"m": nothing}, "sites": None, "links": None, "virtual": None})
    assert platform == Platform(machines=(Machine(name="m"),))
    assert platform.default_link == DEFAULT_LINK


def test_single_service_may_be_given_without_a_list() -> None:
    assert _read({"machines": {"m": {"services": "dock"}}}).machines[0].services == ("dock",)


def test_speed_is_1_if_no_default_speed_is_stated() -> None:
    (machine,) = _read({"machines": {"m": {"speed": {"dock": 3}}}}).machines
    assert (machine.speed, machine.speeds) == (1.0, {"dock": 3.0})


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ({}, DEFAULT_LINK),
        ({"bandwidth": 5}, Link(bandwidth_Bps=5.0)),
        ({"bandwidth": "inf"}, Link(bandwidth_Bps=math.inf)),
        ({"bandwidth": math.inf, "latency": 2}, Link(bandwidth_Bps=math.inf, latency_s=2.0)),
        ({"latency": "1ms"}, Link(latency_s=1e-3)),
    ],
)
def test_links_are_read(link: dict[str, object], expected: Link) -> None:
    assert _read({"machines": {"m": {}}, "links": {"default": link}}).default_link == expected


def test_shares_are_read() -> None:
    platform = _read(
        {
            "machines": {"m": {"nodes": 4}},
            "virtual": [
                {"machine": "m", "service": "layer1", "nodes": 2},
                {"machine": "m", "service": "layer2", "name": "second"},
            ],
        }
    )
    assert platform.virtual == (
        Share(machine="m", service="layer1", nodes=2),
        Share(machine="m", service="layer2", nodes=1, name="second"),
    )


@pytest.mark.parametrize(
    ("machine", "path", "words"),
    [
        ({"node": 3}, "machines.m", "did you mean 'nodes'?"),
        ({"price": 3}, "machines.m", "did you mean 'price_per_node_hour'?"),
        ({"nodes": 0}, "machines.m.nodes", "at least 1"),
        ({"nodes": 1.5}, "machines.m.nodes", "whole number"),
        ({"nodes": "many"}, "machines.m.nodes", "whole number"),
        ({"nodes": True}, "machines.m.nodes", "whole number"),
        ({"nodes": 10**200}, "machines.m.nodes", "between 1 and"),
        ({"cores": [1]}, "machines.m.cores", "whole number"),
        ({"gpus": -1}, "machines.m.gpus", "at least 0"),
        ({"memory": "much"}, "machines.m.memory", "a size such as 4GB"),
        ({"memory": "-4GB"}, "machines.m.memory", "a size such as 4GB"),
        ({"memory": -1}, "machines.m.memory", "at least 0"),
        ({"memory": True}, "machines.m.memory", "a size such as 4GB"),
        ({"memory": 10**400}, "machines.m.memory", "bits"),
        ({"memory": math.nan}, "machines.m.memory", "finite"),
        ({"speed": 0}, "machines.m.speed", "above 0"),
        ({"speed": "fast"}, "machines.m.speed", "must be a number"),
        ({"speed": {"dock": "fast"}}, "machines.m.speed.dock", "must be a number"),
        ({"speed": {"dock": -1}}, "machines.m.speed.dock", "above 0"),
        ({"availability": 2}, "machines.m.availability", "at most 1"),
        ({"availability": "50%"}, "machines.m.availability", "must be a number"),
        ({"price_per_node_hour": -1}, "machines.m.price_per_node_hour", "at least 0"),
        ({"queue": "fifoo"}, "machines.m.queue", "did you mean 'fifo'?"),
        ({"occupancy": 3}, "machines.m.occupancy", "exclusive, unlimited"),
        ({"site": False}, "machines.m.site", "must be text"),
        ({"arch": ["x"]}, "machines.m.arch", "must be text"),
        ({"services": [["x"]]}, "machines.m.services[0]", "must be text"),
        ({"attributes": {"rack": [1]}}, "machines.m.attributes.rack", "text, a number or true/false"),
        ({"attributes": {"rack": 10**400}}, "machines.m.attributes.rack", "bits"),
        ({"attributes": 3}, "machines.m.attributes", "must be a mapping"),
        ({"resources": {"licence": "four"}}, "machines.m.resources.licence", "must be a number"),
        ({"resources": {"gpus": 4}}, "machines.m.resources.gpus", "built-in key 'gpus'"),
        ({"backend": "local"}, "machines.m.backend", "must be a mapping"),
        ({"backend": {"kind": 3}}, "machines.m.backend.kind", "name of a backend"),
        ("text", "machines.m", "must be a mapping"),
    ],
)
def test_invalid_machine_is_reported_as_one_problem_that_names_the_path(
    machine: object, path: str, words: str
) -> None:
    (problem,) = _problems({"machines": {"m": machine}})
    assert problem.startswith(f"{path}: ")
    assert words in problem
    assert len(problem) < 400


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "must be a mapping"),
        ([], "must be a mapping"),
        (None, "must be a mapping"),
        ({}, "at least one machine"),
        ({"machines": {}}, "at least one machine"),
        ({"machines": None}, "at least one machine"),
        ({"machines": ["a"]}, "must be a mapping"),
        ({"machine": {"a": {}}, "machines": {"b": {}}}, "did you mean 'machines'?"),
        ({"weft": 2, "machines": {"m": {}}}, "this weft reads version 1"),
        ({"weft": "one", "machines": {"m": {}}}, "this weft reads version 1"),
        ({"weft": True, "machines": {"m": {}}}, "this weft reads version 1"),
        ({"name": ["x"], "machines": {"m": {}}}, "must be text"),
        ({"machines": {"m{1..3}": {}, "m2": {}}}, "2 machines are named 'm2'"),
        ({"machines": {"m{3..1}": {}}}, "is descending"),
        ({"machines": {"m{1..9999999}": {}}}, "at most 1,000,000"),
        ({"machines": {" ": {}}}, "visible character"),
        ({"machines": {"m": {}}, "sites": {"n": {}}}, "unknown site 'n'"),
        ({"machines": {"m": {}}, "sites": {"m": {"bandwith": 3}}}, "did you mean 'bandwidth'?"),
        ({"machines": {"m": {}}, "sites": {"m": {"bandwidth": "3 apples"}}}, "a rate such as 160MB/s"),
        ({"machines": {"m": {}}, "sites": {"m": {"latency": -1}}}, "at least 0"),
        ({"machines": {"m": {}}, "sites": ["m"]}, "must be a mapping"),
        ({"machines": {"m": {}}, "links": {"default": {"bandwidth": 0}}}, "above 0"),
        ({"machines": {"m": {}}, "links": {"default": 3}}, "must be a mapping"),
        ({"machines": {"m": {}}, "links": {"betwen": []}}, "did you mean 'between'?"),
        (
            {"machines": {"m": {}}, "links": {"between": [{"pair": ["m"]}]}},
            "the pair has 1 name; must be the names of two",
        ),
        ({"machines": {"m": {}}, "links": {"between": [{}]}}, "without the key 'pair'"),
        ({"machines": {"m": {}}, "links": {"between": ["m"]}}, "must be a mapping"),
        (
            {"machines": {"m": {}}, "links": {"between": [{"pair": ["m", "x"]}]}},
            "unknown machine or site 'x'",
        ),
        ({"machines": {"m": {}}, "virtual": [{"machine": "m"}]}, "without the key 'service'"),
        ({"machines": {"m": {}}, "virtual": [{"machine": "x", "service": "s"}]}, "unknown machine 'x'"),
        (
            {"machines": {"m": {}}, "virtual": [{"machine": "m", "service": "s", "nodes": 2}]},
            "the machine has 1",
        ),
        ({"machines": {"m": {}}, "virtual": ["m"]}, "must be a mapping"),
    ],
)
def test_invalid_platform_is_reported_as_one_problem(value: object, words: str) -> None:
    (problem,) = _problems(value)
    assert words in problem


def test_all_problems_of_a_platform_file_are_reported_together() -> None:
    problems = _problems(
        {
            "weft": 3,
            "machines": {"a": {"nodes": 0, "sped": 2}, "b": {"speed": -1}},
            "links": {"default": {"latency": "late"}},
            "extra": 1,
        }
    )
    assert len(problems) == 6


def test_problem_of_a_key_that_defines_several_machines_is_reported_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        _read({"machines": {"altix{1..16}": {"speed": 0}}})
    (problem,) = caught.value.problems
    assert problem.path == ("machines", "altix{1..16}", "speed")


def test_problems_of_a_platform_file_have_line_numbers() -> None:
    speed = DocumentNode(value=0, location=SourceLocation(line=4, column=12), path=("machines", "m", "speed"))
    machine = DocumentNode(
        value={"speed": speed},
        location=SourceLocation(line=3, column=3),
        path=("machines", "m"),
        key_locations={"speed": SourceLocation(file="p.yaml", line=4, column=5)},
    )
    machines = DocumentNode(
        value={"m": machine}, location=SourceLocation(line=2, column=1), path=("machines",)
    )
    root = DocumentNode(value={"machines": machines}, location=SourceLocation(line=1, column=1))
    with pytest.raises(InvalidInput) as caught:
        read_platform(root, Document(file="p.yaml", root=root))
    (problem,) = caught.value.problems
    assert str(problem.location) == "p.yaml:4:5"
    assert format_path(problem.path) == "machines.m.speed"


def test_invalid_range_of_machine_names_is_reported_together_with_other_problems() -> None:
    problems = _problems({"machines": {"a{2..1}": {"site": "s", "node": 2}, "b": {}}, "sites": {"s": {}}})
    assert [problem.split(": ")[0] for problem in problems] == ["machines.a{2..1}"] * 2


def test_at_most_100_000_machines_are_allowed() -> None:
    problems = _problems({"machines": {"a{1..60000}": {}, "b{1..60000}": {}}})
    assert "the platform has 120,000 machines; at most 100,000 are allowed" in problems[0]


def test_every_key_has_one_line_of_help() -> None:
    for record in PLATFORM_RECORDS.values():
        assert all(text and "\n" not in text for text in record.help.values())


def test_defaults_of_the_machine_fields_equal_those_of_the_class() -> None:
    machine = Machine(name="m")
    for field in MACHINE.fields:
        key = field.key if field.attribute in ("", "*") else field.attribute
        assert getattr(machine, key) == field.default


_KEYS = [
    *("machines", "m", "m{1..2}", "default", "between"),
    *(key for record in PLATFORM_RECORDS.values() for key in record.help),
]
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_trees = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.fixed_dictionaries(
        {"machines": _trees}, optional={"links": _trees, "sites": _trees, "virtual": _trees}
    )
)
def test_any_value_is_read_as_a_platform_or_rejected(value: dict[str, object]) -> None:
    problems: tuple[Problem, ...] = ()
    platform = None
    try:
        platform = _read(value)
    except InvalidInput as error:
        problems = error.problems
    assert bool(problems) == (platform is None)
    assert platform is None or list(platform.find_problems()) == []
