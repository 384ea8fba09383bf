"""Movement: what data take in an exact model.

A literal per pair of binding variables says that they share a host. Where all links take the same, that is
all that matters; otherwise a rule per location of the target adds up what its link from the source takes:
O(edges x locations) rules, not one per pair of machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.planners.exact.case import Case, Lag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.planners.exact.solver import Expression, Literal, Model

__all__ = ["Movement"]


class Movement:
    """Adds rules for data to a model in which variables are bound to places."""

    def __init__(self, model: Model, case: Case, placed: Sequence[dict[int, Literal]]) -> None:
        self.model = model
        self.case = case
        self.placed = placed
        network = case.instance.network
        # Places are single machines wherever data take time.
        first = [machines[0] for machines in case.places.machines]
        self.host = [int(network.host[machine]) for machine in first]
        self.location = [int(network.location[machine]) for machine in first]
        self.single_hosts = len(np.unique(network.host)) == len(network.latency_s)
        self._shared: dict[tuple[int, int], Literal] = {}
        self._there: dict[tuple[int, bool], dict[int, Literal]] = {}

    def between(self, before: Expression, after: Expression, lag: Lag) -> None:
        """Let the data of a lag arrive between two moments."""
        model = self.model
        if lag.uniform is not None:
            model.at_most(before + lag.uniform, after, [~self._apart_not(lag)])
            return
        sources = self._literals(lag.source, hosts=False)
        shared = [] if self.single_hosts else [~self._apart_not(lag)]
        for location, here in self._literals(lag.target, hosts=False).items():
            links = [(there, int(lag.ticks[source, location])) for source, there in sources.items()]
            used = [(there, ticks) for there, ticks in links if ticks]
            if used:
                moving = model.total([there for there, _ in used], [ticks for _, ticks in used])
                model.at_most(before + moving, after, [here, *shared])

    def _apart_not(self, lag: Lag) -> Literal:
        """Give the literal that says that two variables share a host."""
        pair = (min(lag.source, lag.target), max(lag.source, lag.target))
        if pair not in self._shared:
            self._shared[pair] = self._share(*pair)
        return self._shared[pair]

    def _share(self, one: int, other: int) -> Literal:
        model, shared = self.model, self.model.literal()
        here, there = self._literals(one, hosts=True), self._literals(other, hosts=True)
        for host in sorted({*here, *there}):
            if host not in there:
                model.some_of([~shared, ~here[host]])
            elif host not in here:
                model.some_of([~shared, ~there[host]])
            else:
                model.some_of([~shared, ~here[host], there[host]])
                model.some_of([~shared, here[host], ~there[host]])
                model.some_of([shared, ~here[host], ~there[host]])
        return shared

    def _literals(self, variable: int, *, hosts: bool) -> dict[int, Literal]:
        """Give the literals of a variable being on each of its hosts, or at each of its locations."""
        key = (variable, hosts)
        if key not in self._there:
            of_place = self.host if hosts else self.location
            parts: dict[int, list[Literal]] = {}
            for place, literal in self.placed[variable].items():
                parts.setdefault(of_place[place], []).append(literal)
            self._there[key] = {where: self._any(found) for where, found in sorted(parts.items())}
        return self._there[key]

    def _any(self, literals: list[Literal]) -> Literal:
        if len(literals) == 1:
            return literals[0]
        union = self.model.literal()
        self.model.one_of([~union, *literals])
        return union
