"""The network as arrays: what planners and simulations read instead of asking for every pair of machines.

Machines as columns: what requirement and rank expressions are evaluated over, all machines at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, Problem
from weft.platform.machine import Machine
from weft.platform.platform import Link, Platform, site_link

__all__ = ["MOST_LOCATIONS", "Network", "compile_network", "machine_columns"]


MOST_LOCATIONS = 5_000
"""The matrices grow with the square of the locations; so many take 400 MB."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Links between network locations, and the location and host of every machine.

    Machines of one location have the same links to everything. Each machine named in a pair is a location,
    and each site with links of its own; all other sites, being alike, are one location together. Data
    between machines on the same ``host`` move at no cost; the matrices speak only of different hosts, their
    diagonal of two hosts at one location.
    """

    location: NDArray[np.uint32]
    """The index of a machine's network location."""
    host: NDArray[np.uint32]
    """The index of a machine's physical host."""
    latency_s: NDArray[np.float64]
    """By location and location."""
    inverse_bandwidth: NDArray[np.float64]
    """Seconds per byte, by location and location; 0 where bandwidth is infinite."""
    mean_latency_s: float
    """Mean over all ordered pairs of machines on different hosts; 0 with a single host."""
    mean_inverse_bandwidth: float
    """Mean over the same pairs."""


def compile_network(platform: Platform, machines: Sequence[Machine]) -> Network:
    """Compile the links between some machines of a platform (as ``planned_machines`` gives them) into arrays.

    Time and memory are O(machines + links + locations^2).
    """
    locations = _locations(platform, machines)
    _, first = np.unique(locations, return_index=True)
    representatives = [machines[index] for index in first]
    _check_size(len(representatives))
    hosts = _indices([machine.host_name for machine in machines])
    latency_s, inverse_bandwidth = _LinkMatrices(platform, representatives).filled()
    weights = _ordered_pairs(locations, hosts, len(representatives))
    return Network(
        location=locations,
        host=hosts,
        latency_s=latency_s,
        inverse_bandwidth=inverse_bandwidth,
        mean_latency_s=_mean(latency_s, weights),
        mean_inverse_bandwidth=_mean(inverse_bandwidth, weights),
    )


def _check_size(size: int) -> None:
    if size > MOST_LOCATIONS:
        what = f"{size:,} machines and sites have links of their own"
        advice = "give machines that are linked alike a common site"
        problem = Problem(what=what, rule=f"at most {MOST_LOCATIONS:,}", advice=advice, path=("links",))
        raise InvalidInput(problem)


def _locations(platform: Platform, machines: Sequence[Machine]) -> NDArray[np.uint32]:
    named = {name for first, second, _ in platform.links for name in (first, second)}
    own = {site for site, link in platform.sites.items() if link != platform.default_link}

    def location(machine: Machine) -> tuple[str, str]:
        if machine.host_name in named:
            return ("machine", machine.host_name)
        site = machine.site_name
        return ("site", site) if site in named or site in own else ("elsewhere", "")

    return _indices([location(machine) for machine in machines])


def _indices(keys: Sequence[object]) -> NDArray[np.uint32]:
    """Number keys in the order of their first appearance."""
    numbers: dict[object, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.uint32, len(keys))


class _LinkMatrices:
    """Fills the matrices from the least exact description to the most exact, in ``link_between``'s order."""

    def __init__(self, platform: Platform, representatives: Sequence[Machine]) -> None:
        self.platform = platform
        size = len(representatives)
        self.latency_s = np.full((size, size), platform.default_link.latency_s)
        self.inverse_bandwidth = np.full((size, size), 1.0 / platform.default_link.bandwidth_Bps)
        self.at_site: dict[str, list[int]] = {}
        self.of_host: dict[str, list[int]] = {}
        for index, machine in enumerate(representatives):
            self.at_site.setdefault(machine.site_name, []).append(index)
            self.of_host[machine.host_name] = [index]

    def filled(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Write every level over the ones before it."""
        for site, members in self.at_site.items():
            self._write(members, members, site_link(self.platform, site))
        # Of two pairs on one level the one written first counts, so it is the last to be filled in.
        pairs = self.platform.links[::-1]
        # What joins two machines that are no sites of others is written on the last level only.
        wide = [pair for pair in pairs if not (self._is_machine(pair[0]) and self._is_machine(pair[1]))]
        for first, second, link in wide:
            self._write(self.at_site.get(first, []), self.at_site.get(second, []), link)
        for first, second, link in wide:
            self._write(self.of_host.get(first, []), self.at_site.get(second, []), link)
            self._write(self.at_site.get(first, []), self.of_host.get(second, []), link)
        known = [pair for pair in pairs if pair[0] in self.of_host and pair[1] in self.of_host]
        rows = [self.of_host[first][0] for first, _, _ in known]
        columns = [self.of_host[second][0] for _, second, _ in known]
        self._write_each(rows, columns, [link for _, _, link in known])
        return self.latency_s, self.inverse_bandwidth

    def _is_machine(self, name: str) -> bool:
        """Say whether a name means one machine, not a site of others."""
        return name in self.of_host and self.at_site.get(name, self.of_host[name]) == self.of_host[name]

    def _write(self, rows: list[int], columns: list[int], link: Link) -> None:
        """Write a link between all of some places and all of others."""
        if len(rows) == len(columns) == 1:
            self._write_each(rows, columns, [link])
        elif rows and columns:
            for matrix, value in (
                (self.latency_s, link.latency_s),
                (self.inverse_bandwidth, 1.0 / link.bandwidth_Bps),
            ):
                matrix[np.ix_(rows, columns)] = value
                matrix[np.ix_(columns, rows)] = value

    def _write_each(self, rows: list[int], columns: list[int], links: list[Link]) -> None:
        """Write a link each between pairs of places; of the same pair the last counts."""
        for matrix, values in (
            (self.latency_s, [link.latency_s for link in links]),
            (self.inverse_bandwidth, [1.0 / link.bandwidth_Bps for link in links]),
        ):
            matrix[rows, columns] = values
            matrix[columns, rows] = values


def _ordered_pairs(
    locations: NDArray[np.uint32], hosts: NDArray[np.uint32], size: int
) -> NDArray[np.float64]:
    """Count the ordered pairs of machines on different hosts, by location and location."""
    counts = np.bincount(locations, minlength=size).astype(np.float64)
    pairs = np.outer(counts, counts)
    # A host stands at one location, so pairs on one host (and a machine with itself) lie on the diagonal.
    per_host = np.bincount(hosts).astype(np.float64)
    host_location = np.zeros(per_host.size, dtype=np.intp)
    host_location[hosts] = locations
    pairs[np.diag_indices(size)] -= np.bincount(host_location, weights=per_host**2, minlength=size)
    return pairs


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    total = float(weights.sum())
    return float((values * weights).sum() / total) if total > 0 else 0.0


def machine_columns(machines: Sequence[Machine]) -> dict[str, NDArray[Any]]:
    """Give one array per name that expressions may use, with one entry per machine.

    Counts are integers; other numbers are floats, nan where nothing is stated; text is an object array, None
    where nothing is stated. A machine's site is always known: without a stated one it is a site of its own.
    Attributes and resources come under their own names: as numbers or true/false if that is what every
    machine has, else as an object array. Names of machines' own keys win over them.
    """
    found: dict[str, NDArray[Any]] = {}
    for name in _free_names(machines):
        found[name] = _array([_free_value(machine, name) for machine in machines])
    return found | _own(machines)


def _own(machines: Sequence[Machine]) -> dict[str, NDArray[Any]]:
    return {
        "name": _objects([machine.name for machine in machines]),
        "nodes": _counts([machine.nodes for machine in machines]),
        "cores": _counts([machine.cores for machine in machines]),
        "memory": _numbers([machine.memory for machine in machines]),
        "disk": _numbers([machine.disk for machine in machines]),
        "gpus": _counts([machine.gpus for machine in machines]),
        "speed": _numbers([machine.speed for machine in machines]),
        "availability": _numbers([machine.availability for machine in machines]),
        "price_per_node_hour": _numbers([machine.price_per_node_hour for machine in machines]),
        "arch": _objects([machine.arch for machine in machines]),
        "os": _objects([machine.os for machine in machines]),
        "site": _objects([machine.site_name for machine in machines]),
        "queue": _objects([machine.queue for machine in machines]),
        "occupancy": _objects([machine.occupancy for machine in machines]),
        "host": _objects([machine.host_name for machine in machines]),
    }


def _free_names(machines: Sequence[Machine]) -> list[str]:
    """List attribute and resource names in the order of their first appearance."""
    names: dict[str, None] = {}
    for machine in machines:
        names.update(dict.fromkeys(machine.attributes))
        names.update(dict.fromkeys(machine.resources))
    return list(names)


def _free_value(machine: Machine, name: str) -> object:
    found = machine.attributes.get(name)
    return machine.resources.get(name) if found is None else found


def _array(values: Sequence[object]) -> NDArray[Any]:
    stated = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in stated):
        return np.array(values, dtype=bool) if len(stated) == len(values) else _objects(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in stated):
        return _numbers(values)
    return _objects(values)


def _counts(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _objects(values: Sequence[object]) -> NDArray[np.object_]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
