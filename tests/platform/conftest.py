"""Random platforms for the tests of this package."""

from __future__ import annotations

import math

import pytest
from hypothesis import strategies as st

from weft.platform.machine import OCCUPANCIES, QUEUES, Machine
from weft.platform.platform import Link, Platform, Share

_positive = st.floats(1e-6, 1e12)
_amounts = st.floats(0, 1e15)
_words = st.sampled_from(["dock", "gee", "maxdo", "layer1"])
_links = st.builds(
    Link,
    latency_s=st.floats(0, 10),
    bandwidth_Bps=st.one_of(st.floats(1e-3, 1e12), st.just(math.inf)),
)


def _machine(name: str) -> st.SearchStrategy[Machine]:
    return st.builds(
        Machine,
        name=st.just(name),
        nodes=st.integers(2, 40),
        cores=st.integers(1, 64),
        memory=st.none() | _amounts,
        disk=st.none() | _amounts,
        gpus=st.integers(0, 8),
        speed=_positive,
        speeds=st.dictionaries(_words, _positive, max_size=2),
        price_per_node_hour=st.floats(0, 100),
        services=st.lists(_words, max_size=3).map(tuple),
        arch=st.none() | st.sampled_from(["x86_64", "aarch64"]),
        os=st.none() | st.just("linux"),
        site=st.none() | st.sampled_from(["uibk", "ucm", "it4i"]),
        availability=st.floats(0.01, 1),
        queue=st.sampled_from(QUEUES),
        occupancy=st.sampled_from(OCCUPANCIES),
        attributes=st.dictionaries(
            st.sampled_from(["rack", "tier"]), st.text(max_size=5) | st.floats(-1e9, 1e9) | st.booleans()
        ),
        backend=st.sampled_from([{}, {"kind": "local"}, {"kind": "slurm", "options": ["-p", "long"]}]),
        resources=st.dictionaries(st.just("licence"), _amounts),
    )


@st.composite
def _platforms(draw: st.DrawFn) -> Platform:
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True))
    machines = tuple(draw(_machine(name)) for name in names)
    sites = list(dict.fromkeys(machine.site_name for machine in machines))
    places = list(dict.fromkeys([*names, *sites]))
    pairs = [(a, b) for index, a in enumerate(places) for b in places[:index]]
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=6, unique=True)) if pairs else []
    divisible = [machine.name for machine in machines if not machine.is_time_shared]
    shared = draw(st.lists(st.sampled_from(divisible), max_size=3, unique=True)) if divisible else []
    return Platform(
        name=draw(st.sampled_from(["platform", "grid"])),
        machines=machines,
        sites=draw(st.dictionaries(st.sampled_from(sites), _links, max_size=3)),
        default_link=draw(_links),
        links=tuple((a, b, draw(_links)) for a, b in chosen),
        virtual=tuple(
            Share(
                machine=name, service=service, nodes=1, name=draw(st.none() | st.just(f"{service} of {name}"))
            )
            for name in shared
            for service in draw(st.lists(_words, min_size=1, max_size=2, unique=True))
        ),
    )


@pytest.fixture(scope="session")
def platforms() -> st.SearchStrategy[Platform]:
    """Return a strategy of valid platforms with sites, pairs of every kind and shares."""
    return _platforms()
