from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.platform.generator import DISTRIBUTIONS, random_platform
from weft.platform.platform import DEFAULT_LINK, Link
from weft.randomness import generator


def _speeds(machines: int, **options: Any) -> np.ndarray:
    platform = random_platform(machines, rng=generator(7, "platform"), **options)
    return np.array([machine.speed for machine in platform.machines])


@given(st.integers(2, 40), st.floats(1, 1000), st.sampled_from(DISTRIBUTIONS), st.integers(0, 2**32))
def test_heterogeneity_is_the_ratio_of_fastest_to_slowest_speed(
    machines: int, heterogeneity: float, distribution: str, seed: int
) -> None:
    platform = random_platform(
        machines, rng=generator(seed), heterogeneity=heterogeneity, distribution=distribution
    )
    speeds = [machine.speed for machine in platform.machines]
    assert max(speeds) / min(speeds) == heterogeneity
    assert min(speeds) == 1.0
    assert list(platform.find_problems()) == []


@pytest.mark.parametrize(
    ("distribution", "mean"), [("uniform", 2.5), ("log-uniform", 3 / np.log(4)), ("classes", (1 + 2 + 4) / 3)]
)
def test_mean_speed_is_as_documented(distribution: str, mean: float) -> None:
    assert _speeds(20_000, distribution=distribution).mean() == pytest.approx(mean, rel=0.02)


def test_speeds_of_classes_are_geometric_steps() -> None:
    speeds = _speeds(500, distribution="classes", classes=4, heterogeneity=8)
    np.testing.assert_allclose(np.unique(speeds.round(9)), [1, 2, 4, 8])


def test_a_single_machine_has_speed_1() -> None:
    assert _speeds(1, heterogeneity=5.0).tolist() == [1.0]


def test_random_node_counts_reach_their_bounds() -> None:
    platform = random_platform(200, rng=generator(1), nodes=(2, 5))
    assert {machine.nodes for machine in platform.machines} == {2, 3, 4, 5}


def test_sites_have_equal_numbers_of_machines_and_links_within_and_between_them() -> None:
    platform = random_platform(6, rng=generator(1), sites=3, between_latency_s=0.5, between_bandwidth_Bps=2.0)
    assert [machine.site for machine in platform.machines] == ["s1", "s1", "s2", "s2", "s3", "s3"]
    assert platform.sites == dict.fromkeys(["s1", "s2", "s3"], DEFAULT_LINK)
    assert platform.default_link == Link(latency_s=0.5, bandwidth_Bps=2.0)


def test_link_values_are_drawn_for_each_pair_of_sites() -> None:
    platform = random_platform(
        4, rng=generator(1), sites=4, between_latency_s=(0.1, 0.2), bandwidth_Bps=(1e6, 2e6)
    )
    assert len(platform.links) == 6
    assert len({link.latency_s for _, _, link in platform.links}) == 6
    assert all(0.1 <= link.latency_s <= 0.2 for _, _, link in platform.links)
    assert len({link.bandwidth_Bps for link in platform.sites.values()}) == 4


def test_prices_are_proportional_to_speeds() -> None:
    platform = random_platform(5, rng=generator(1), price_per_speed=0.5)
    assert all(machine.price_per_node_hour == 0.5 * machine.speed for machine in platform.machines)


def test_the_same_generator_state_gives_the_same_platform() -> None:
    first, again, other = (random_platform(9, rng=generator(seed), sites=2) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("machines", "options", "words"),
    [
        (0, {}, "0 machines"),
        (100_001, {}, "from 1 to 100,000"),
        (3, {"heterogeneity": 0.9}, "heterogeneity 0.9"),
        (3, {"heterogeneity": float("nan")}, "finite"),
        (3, {"heterogeneity": float("inf")}, "finite"),
        (3, {"distribution": "normal"}, "uniform, log-uniform, classes"),
        (3, {"classes": 1}, "at least 2"),
        (3, {"nodes": 0}, "nodes from 0"),
        (3, {"nodes": (5, 2)}, "smaller bound first"),
        (3, {"nodes": 10**10}, "between 1 and"),
        (3, {"sites": 4}, "at most one per machine"),
        (3, {"sites": 0}, "0 sites"),
        (3, {"bandwidth_Bps": 0.0}, "bandwidth 0.0"),
        (3, {"latency_s": -1.0}, "latency -1.0"),
        (3, {"price_per_speed": -1.0}, "at least 0"),
    ],
)
def test_error_about_an_invalid_platform_option_states_the_violated_rule(
    machines: int, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        random_platform(machines, rng=generator(1), **options)
    assert words in str(caught.value)
