"""Machines and links as arrays, for planners, simulations and the evaluation of expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, Problem
from weft.platform.machine import BUILT_IN_NAMES, LIVE_NAMES, Machine
from weft.platform.platform import Link, Platform, site_link
from weft.records import dataclass

MOST_LOCATIONS = 5_000
"""Maximum number of locations; with so many, the matrices (locations x locations) take 400 MB."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Links between network locations, and the location and host of every machine.

    Machines at one location have equal links to all others. Each machine named in a pair is a location, and
    so is each site with links of its own; all other sites together are one location. Transfers between
    machines on the same ``host`` cost nothing. The matrices describe different hosts; their diagonal
    describes two hosts at one location.
    """

    location: NDArray[np.uint32]
    """Per machine: the index of its location."""
    host: NDArray[np.uint32]
    """Per machine: the index of its physical host."""
    latency_s: NDArray[np.float64]
    """Seconds, locations x locations."""
    inverse_bandwidth: NDArray[np.float64]
    """Seconds per byte, locations x locations; 0 for infinite bandwidth."""
    mean_latency_s: float
    """Mean latency over all ordered pairs of machines on different hosts; 0 for a single host."""
    mean_inverse_bandwidth: float
    """Mean seconds per byte over the same pairs."""


def compile_network(platform: Platform, machines: Sequence[Machine]) -> Network:
    """Return the links between machines of a platform (see ``planned_machines``) as arrays.

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
        advice = "put machines with equal links into one site"
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
    """Return the index of each key; distinct keys are numbered in the order of first appearance."""
    numbers: dict[object, int] = {}
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.uint32, len(keys))


class _LinkMatrices:
    """Fills the matrices of a Network from the least to the most specific link (see ``link_between``)."""

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
        """Return the latencies and the inverse bandwidths; specific links overwrite general ones."""
        for site, members in self.at_site.items():
            self._write(members, members, site_link(self.platform, site))
        # Of two pairs on one level the first in the file takes precedence, so it is written last.
        pairs = self.platform.links[::-1]
        # Pairs of two machines that are not sites of other machines belong to the last level only.
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
        """Return whether a name is the name of a single machine rather than of a site with other machines."""
        return name in self.of_host and self.at_site.get(name, self.of_host[name]) == self.of_host[name]

    def _write(self, rows: list[int], columns: list[int], link: Link) -> None:
        """Set the link between every location in ``rows`` and every location in ``columns``."""
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
        """Set one link per pair (row, column) of locations; if a pair occurs twice, its last link is kept."""
        for matrix, values in (
            (self.latency_s, [link.latency_s for link in links]),
            (self.inverse_bandwidth, [1.0 / link.bandwidth_Bps for link in links]),
        ):
            matrix[rows, columns] = values
            matrix[columns, rows] = values


def _ordered_pairs(
    locations: NDArray[np.uint32], hosts: NDArray[np.uint32], size: int
) -> NDArray[np.float64]:
    """Return, for each pair of locations, the number of ordered pairs of machines on different hosts."""
    counts = np.bincount(locations, minlength=size).astype(np.float64)
    pairs = np.outer(counts, counts)
    # A host has one location, so pairs on one host (and a machine with itself) lie on the diagonal.
    per_host = np.bincount(hosts).astype(np.float64)
    host_location = np.zeros(per_host.size, dtype=np.intp)
    host_location[hosts] = locations
    pairs[np.diag_indices(size)] -= np.bincount(host_location, weights=per_host**2, minlength=size)
    return pairs


def _mean(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    total = float(weights.sum())
    return float((values * weights).sum() / total) if total > 0 else 0.0


_COUNTS = ("nodes", "cores", "gpus")
_NUMBERS = ("memory", "memory_per_node", "disk", "speed", "availability", "price_per_node_hour")


def machine_columns(machines: Sequence[Machine]) -> dict[str, NDArray[Any]]:
    """Return one array per name that expressions may use, with one entry per machine.

    Arrays of counts are integers, of other numbers floats (NaN if not stated), of texts objects (None if not
    stated). A machine without a site is a site of its own. Each attribute and each resource has an array
    under its name: of floats if all stated values are numbers, of booleans if all machines state a boolean,
    else of objects. Built-in keys take precedence.
    """
    found: dict[str, NDArray[Any]] = {}
    for name in _free_names(machines):
        found[name] = _array([_free_value(machine, name) for machine in machines])
    return found | _built_in(machines)


AMPLE_BYTES = 1e18
"""Bytes assumed for memory or disk that is not stated, so that no requirement excludes the machine."""


def idle_columns(machines: Sequence[Machine], *, unknown_bytes: float = math.nan) -> dict[str, NDArray[Any]]:
    """Return one array per name of ``LIVE_NAMES`` that no machine states, with the values of idle machines.

    ``unknown_bytes`` is the value for memory and disk that a machine does not state; such amounts are
    unknown until they are measured.
    """
    cores = np.array([machine.core_count for machine in machines], dtype=np.float64)
    free = cores * [machine.availability for machine in machines]
    sizes = {"free_memory": [each.memory for each in machines], "free_disk": [each.disk for each in machines]}
    found: dict[str, NDArray[Any]] = {
        "free_nodes": np.array([machine.nodes for machine in machines], dtype=np.int64),
        "load": cores - free,
        "free_cpu": free,
        **{name: np.nan_to_num(_numbers(values), nan=unknown_bytes) for name, values in sizes.items()},
    }
    stated = _free_names(machines)
    return {name: found[name] for name in LIVE_NAMES if name not in stated}


def _built_in(machines: Sequence[Machine]) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for name in BUILT_IN_NAMES:
        key = {"site": "site_name", "host": "host_name"}.get(name, name)
        values = [getattr(machine, key) for machine in machines]
        found[name] = (
            np.array(values, dtype=np.int64) if name in _COUNTS else _array(values, name in _NUMBERS)
        )
    return found


def _free_names(machines: Sequence[Machine]) -> list[str]:
    """Return the names of attributes and resources in the order of first appearance."""
    names: dict[str, None] = {}
    for machine in machines:
        names.update(dict.fromkeys(machine.attributes))
        names.update(dict.fromkeys(machine.resources))
    return list(names)


def _free_value(machine: Machine, name: str) -> object:
    found = machine.attributes.get(name)
    return machine.resources.get(name) if found is None else found


def _array(values: Sequence[object], numeric: bool | None = None) -> NDArray[Any]:
    """Return an array of floats if ``numeric`` is true, of objects if it is false.

    If ``numeric`` is None, the type follows from the values.
    """
    stated = [value for value in values if value is not None]
    if numeric is None and all(isinstance(value, bool) for value in stated):
        return np.array(values, dtype=bool) if len(stated) == len(values) else _objects(values)
    if numeric is None:
        numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in stated)
    return _numbers(values) if numeric else _objects(values)


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def _objects(values: Sequence[object]) -> NDArray[np.object_]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found
