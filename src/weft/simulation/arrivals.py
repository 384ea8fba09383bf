"""Which workflow is submitted when: the arrivals of a scenario, drawn where it leaves them open."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.simulation.scenario import Arrival, Scenario, Series, Trace

__all__ = ["arrivals_of"]


def arrivals_of(scenario: Scenario, rng: np.random.Generator) -> list[Arrival]:
    """List all arrivals by time; of several at one time, those that are written first come first.

    ``rng`` is that of the component "arrivals", of which nobody else draws: the same seed gives the same
    arrivals under every policy and platform.
    """
    found = [arrival for entry in scenario.arrivals for arrival in _each(entry, rng)]
    return sorted(found, key=lambda arrival: arrival.at_s)


def _each(entry: Arrival | Series | Trace, rng: np.random.Generator) -> Iterator[Arrival]:
    match entry:
        case Arrival():
            yield entry
        case Trace(arrivals=arrivals):
            yield from arrivals
        case Series():
            yield from _series(entry, rng)


def _series(series: Series, rng: np.random.Generator) -> Iterator[Arrival]:
    """Draw an order (S5 section 6: without replacement) and intervals (of a Poisson process) if asked to."""
    count = len(series.workflows)
    order = rng.permutation(count).tolist() if series.shuffled else range(count)
    after_s = series.every_s * np.arange(count, dtype=np.float64)
    if series.poisson:
        after_s = np.add.accumulate(rng.exponential(series.every_s, count))
    for position, passed_s in zip(order, after_s.tolist(), strict=True):
        at_s = series.from_s + passed_s
        yield Arrival(workflow=series.workflows[position], at_s=at_s, owner=series.owner)
