"""Random platforms with machines of a given heterogeneity.

Speeds lie between 1 and the heterogeneity h; with two or more machines the slowest has exactly 1 and the
fastest exactly h. Their mean is about (1 + h)/2 (uniform), (h - 1)/ln h (log-uniform), or the mean of the
classes.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, Problem, shorten, suggest
from weft.platform.machine import MOST_MACHINES, Machine
from weft.platform.platform import DEFAULT_LINK, Link, NamedPair, Platform

DISTRIBUTIONS = ("uniform", "log-uniform", "classes")
"""Distributions of speeds: uniform, log-uniform, or a few classes in geometric steps."""

_MOST_SITES = 1_000
"""Maximum number of sites; a link is drawn for every pair of sites."""

Range = float | tuple[float, float]
"""A value, or two bounds of a uniform distribution."""


def random_platform(
    machines: int,
    *,
    rng: np.random.Generator,
    heterogeneity: float = 4.0,
    distribution: str = "uniform",
    classes: int = 3,
    nodes: int | tuple[int, int] = 1,
    sites: int = 1,
    bandwidth_Bps: Range = DEFAULT_LINK.bandwidth_Bps,  # noqa: N803 -- B is bytes, b would be bits
    latency_s: Range = DEFAULT_LINK.latency_s,
    between_bandwidth_Bps: Range = 1e8,  # noqa: N803
    between_latency_s: Range = 0.01,
    price_per_speed: float | None = None,
) -> Platform:
    """Return a random platform of machines ``m1, m2, ...``, in blocks of equal size at sites ``s1, s2, ...``.

    ``nodes`` may be two inclusive bounds. ``bandwidth_Bps`` and ``latency_s`` hold within a site,
    ``between_...`` between two sites; if two bounds are given, a value is drawn for each link.
    ``price_per_speed`` is the price of a node per hour and unit of speed.
    """
    low, high = (nodes, nodes) if isinstance(nodes, int) else nodes
    _check(machines, heterogeneity, distribution, classes, (low, high), sites)
    speeds = _speeds(machines, rng, heterogeneity, distribution, classes)
    counts = rng.integers(low, high, size=machines, endpoint=True)
    names = [f"s{index + 1}" for index in range(sites)]
    inside = {name: _draw_link(rng, bandwidth_Bps, latency_s) for name in names}
    default_link, links = _between(rng, names, between_bandwidth_Bps, between_latency_s)
    made = tuple(
        Machine(
            name=f"m{index + 1}",
            nodes=int(counts[index]),
            speed=float(speeds[index]),
            price_per_node_hour=(price_per_speed or 0.0) * float(speeds[index]),
            site=names[index * sites // machines],
        )
        for index in range(machines)
    )
    name = f"random-{machines}"
    platform = Platform(name=name, machines=made, sites=inside, default_link=default_link, links=links)
    if problems := list(platform.find_problems()):
        raise InvalidInput(problems)
    return platform


def _speeds(
    machines: int, rng: np.random.Generator, heterogeneity: float, distribution: str, classes: int
) -> NDArray[np.float64]:
    if machines == 1:
        return np.ones(1)
    draws = rng.random(machines)
    order = np.argsort(draws, kind="stable")
    slowest, fastest = order[0], order[-1]
    # Scale the draws to the whole interval, then set both ends, which rounding may miss.
    shares = (draws - draws[slowest]) / max(draws[fastest] - draws[slowest], math.ulp(1.0))
    if distribution == "uniform":
        speeds = 1.0 + (heterogeneity - 1.0) * shares
    else:
        if distribution == "classes":
            shares = np.minimum(np.floor(shares * classes), classes - 1) / max(classes - 1, 1)
        speeds = heterogeneity**shares
    found: NDArray[np.float64] = np.clip(speeds, 1.0, heterogeneity)
    found[slowest], found[fastest] = 1.0, heterogeneity
    return found


def _between(
    rng: np.random.Generator, names: list[str], bandwidth: Range, latency: Range
) -> tuple[Link, tuple[NamedPair, ...]]:
    if not isinstance(bandwidth, tuple) and not isinstance(latency, tuple):
        return Link(bandwidth_Bps=bandwidth, latency_s=latency), ()
    pairs = itertools.combinations(names, 2)
    return DEFAULT_LINK, tuple((a, b, _draw_link(rng, bandwidth, latency)) for a, b in pairs)


def _draw_link(rng: np.random.Generator, bandwidth: Range, latency: Range) -> Link:
    return Link(bandwidth_Bps=_draw(rng, bandwidth), latency_s=_draw(rng, latency))


def _draw(rng: np.random.Generator, value: Range) -> float:
    return float(rng.uniform(*value)) if isinstance(value, tuple) else float(value)


def _check(
    machines: int, heterogeneity: float, distribution: str, classes: int, nodes: tuple[int, int], sites: int
) -> None:
    most_sites = min(machines, _MOST_SITES)
    least_classes = 1 if heterogeneity == 1 else 2
    rules = [
        (1 <= machines <= MOST_MACHINES, f"{shorten(machines)} machines", f"from 1 to {MOST_MACHINES:,}"),
        (1 <= heterogeneity < math.inf, f"heterogeneity {heterogeneity}", "finite and at least 1"),
        (classes >= least_classes, f"{shorten(classes)} classes", f"at least {least_classes}"),
        (
            1 <= nodes[0] <= nodes[1],
            f"nodes from {nodes[0]} to {nodes[1]}",
            "at least 1, the smaller bound first",
        ),
        (
            1 <= sites <= most_sites,
            f"{shorten(sites)} sites",
            f"from 1 to {_MOST_SITES:,}, at most one per machine",
        ),
    ]
    problems = [Problem(what=what, rule=f"must be {rule}") for holds, what, rule in rules if not holds]
    if distribution not in DISTRIBUTIONS:
        problems.append(
            Problem(
                what=f"unknown distribution {shorten(repr(distribution))}",
                rule=f"must be one of {', '.join(DISTRIBUTIONS)}",
                advice=suggest(distribution, DISTRIBUTIONS),
            )
        )
    if problems:
        raise InvalidInput(problems)
