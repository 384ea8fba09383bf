"""Reference of arrivals: when all input data of a task would be on each machine.

Machines of one location have the same links, so arrivals are computed per location. Machines on a host
that has some of the data differ: for them the latest arrival from *another* host counts. Every location
therefore stores its two latest arrivals from different hosts. O(d l + p) for a task with d predecessors on a platform of l locations and p machines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from weft.instance.instance import Instance

__all__ = ["Arrivals"]

_ROWS = 256
"""Maximum number of rows of the link matrices that are kept as lists."""


class Arrivals:
    """Arrival times of data, in Python floats because arrays of a few elements are slow."""

    def __init__(self, instance: Instance) -> None:
        graph, self.network = instance.graph, instance.network
        self.location = self.network.location.tolist()
        self.host = self.network.host.tolist()
        self.locations = len(self.network.latency_s)
        self.on_host: dict[int, list[int]] = {}
        for machine, host in enumerate(self.host):
            self.on_host.setdefault(host, []).append(machine)
        self.pointer, self.before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
        self.bytes, self.files = graph.edge_bytes.tolist(), graph.edge_files.tolist()
        self.fixed_s = graph.edge_seconds.tolist()
        self.links = lru_cache(maxsize=_ROWS)(self._links)

    def _links(self, location: int) -> list[tuple[float, float]]:
        """Return (latency, seconds per byte) from a location to every location."""
        latency, inverse = self.network.latency_s[location], self.network.inverse_bandwidth[location]
        return list(zip(latency.tolist(), inverse.tolist(), strict=True))

    def ready_s(
        self, task: int, earliest_s: float, machine: Sequence[int], finish_s: Sequence[float]
    ) -> list[float]:
        """Return, per machine, when the data of all predecessors with a known finish have arrived there."""
        base, arrivals = earliest_s, []
        for edge in range(self.pointer[task], self.pointer[task + 1]):
            before = self.before[edge]
            finish = finish_s[before]
            if self.bytes[edge] or self.files[edge] or self.fixed_s[edge]:
                if not math.isnan(finish):
                    arrivals.append((finish, edge, machine[before]))
            elif finish > base:
                base = finish
        if not arrivals:
            return [base] * len(self.location)
        return self._spread(base, arrivals)

    def _spread(self, base: float, arrivals: list[tuple[float, int, int]]) -> list[float]:
        first, second = [base] * self.locations, [base] * self.locations
        first_host = [-1] * self.locations
        at_home: dict[int, float] = {}
        for finish, edge, source in arrivals:
            host, size, files, fixed = (
                self.host[source],
                self.bytes[edge],
                self.files[edge],
                self.fixed_s[edge],
            )
            at_home[host] = max(finish, at_home.get(host, base))
            for place, (latency, inverse) in enumerate(self.links(self.location[source])):
                arrival = finish + (fixed + files * latency + size * inverse)
                if arrival > first[place]:
                    if host != first_host[place]:
                        second[place], first_host[place] = first[place], host
                    first[place] = arrival
                elif arrival > second[place] and host != first_host[place]:
                    second[place] = arrival
        ready = [first[place] for place in self.location]
        for host, finish in at_home.items():
            place = self.location[self.on_host[host][0]]
            elsewhere = second[place] if first_host[place] == host else first[place]
            for machine in self.on_host[host]:
                ready[machine] = max(finish, elsewhere)
        return ready

    def moved_s(self, start_s: float, source: int, size: float) -> list[float]:
        """Return, per machine, when a file that leaves ``source`` at ``start_s`` arrives there."""
        links, home = self.links(self.location[source]), self.host[source]
        at_place = [start_s + (latency + size * inverse) for latency, inverse in links]
        return [
            start_s if host == home else at_place[place]
            for host, place in zip(self.host, self.location, strict=True)
        ]
