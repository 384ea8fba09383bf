"""What happens to machines: slowdowns, failures, competing processes and silences, as one stream in time.

The stream is generated as far as it is read and depends on the seed and the scenario alone, never on what a
run does: two policies meet the same disturbances. Each entry of a scenario (with ``mtbf``: each machine of
it) draws from a generator of its own, so that another entry added below changes none above.

S1 section 13: perturbations come at uniformly distributed random intervals, here between 0 and twice the
mean; each slows one machine of the set, by a factor and for a time drawn uniformly from their ranges.
Deviation: the paper gives neither factor nor time; the scenario does. Failures and repairs are exponential.
"""

from __future__ import annotations

import enum
import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from weft.platform.machine import Machine
from weft.randomness import generator
from weft.simulation.scenario import (
    Failure,
    Load,
    Perturbation,
    Scenario,
    Silence,
    Span,
    positions_matching,
)

__all__ = ["Disturbance", "What", "disturbances"]


class What(enum.Enum):
    """What happens to a machine; everything but a failure that is never repaired has its end."""

    SLOWED = "slowed"
    """It becomes ``value`` times slower, on top of other slowdowns."""
    RELIEVED = "relieved"
    """A slowdown by ``value`` is over."""
    FAILED = "failed"
    """It is down until as many repairs as failures have come."""
    REPAIRED = "repaired"
    LOADED = "loaded"
    """``value`` more processes compete."""
    UNLOADED = "unloaded"
    """``value`` processes fewer compete."""
    JOB_MANAGER_SILENT = "job manager silent"
    JOB_MANAGER_BACK = "job manager back"
    GATEKEEPER_SILENT = "gatekeeper silent"
    GATEKEEPER_BACK = "gatekeeper back"


class Disturbance(NamedTuple):
    """One thing that happens to one machine."""

    at_s: float
    what: What
    machine: int
    """The position among the platform's machines, which is also the ``host`` of a compiled network."""
    value: float = 0.0


_SILENCES = {
    "job-manager": ((What.JOB_MANAGER_SILENT, What.JOB_MANAGER_BACK),),
    "gatekeeper": ((What.GATEKEEPER_SILENT, What.GATEKEEPER_BACK),),
    "both": (
        (What.JOB_MANAGER_SILENT, What.JOB_MANAGER_BACK),
        (What.GATEKEEPER_SILENT, What.GATEKEEPER_BACK),
    ),
}


def disturbances(scenario: Scenario, machines: Sequence[Machine], seed: int) -> Iterator[Disturbance]:
    """Give everything that happens to a platform's machines, by time; it may never end.

    At one time the order is that of the entries: perturbations, failures, loads, silences.
    """
    names = [machine.name for machine in machines]
    streams: list[Iterator[Disturbance]] = []
    for number, perturbation in enumerate(scenario.perturbations):
        rng = generator(seed, "perturbations", str(number))
        streams.append(_perturbed(perturbation, positions_matching(perturbation.machines, names), rng))
    for number, failure in enumerate(scenario.failures):
        streams += _failing(failure, names, seed, number)
    streams += [_loaded(load, positions_matching(load.machines, names)) for load in scenario.loads]
    streams += [_silent(each, positions_matching(each.machines, names)) for each in scenario.silences]
    return heapq.merge(*streams, key=_time)


def _time(item: Disturbance) -> float:
    return item.at_s


def _perturbed(
    perturbation: Perturbation, machines: list[int], rng: np.random.Generator
) -> Iterator[Disturbance]:
    begins = _begins(perturbation, machines, rng)
    return _with_ends(begins, perturbation.lasting_s, rng)


def _begins(
    perturbation: Perturbation, machines: list[int], rng: np.random.Generator
) -> Iterator[Disturbance]:
    if perturbation.every_s is None:
        for machine in machines:
            yield Disturbance(perturbation.at_s, What.SLOWED, machine, _drawn(perturbation.slowdown, rng))
        return
    at_s = perturbation.at_s
    while machines:
        at_s += rng.uniform(0.0, 2.0 * perturbation.every_s)
        if at_s > perturbation.until_s:
            return
        machine = machines[int(rng.integers(len(machines)))]
        yield Disturbance(at_s, What.SLOWED, machine, _drawn(perturbation.slowdown, rng))


def _with_ends(
    begins: Iterable[Disturbance], lasting_s: Span, rng: np.random.Generator
) -> Iterator[Disturbance]:
    """Put the end of every slowdown between the begins of later ones."""
    ends: list[tuple[float, int, Disturbance]] = []
    for number, begin in enumerate(begins):
        while ends and ends[0][0] <= begin.at_s:
            yield heapq.heappop(ends)[2]
        yield begin
        end_s = begin.at_s + _drawn(lasting_s, rng)
        if math.isfinite(end_s):
            end = Disturbance(end_s, What.RELIEVED, begin.machine, begin.value)
            heapq.heappush(ends, (end_s, number, end))
    while ends:
        yield heapq.heappop(ends)[2]


def _drawn(span: Span, rng: np.random.Generator) -> float:
    return span.low if span.low == span.high else float(rng.uniform(span.low, span.high))


def _failing(failure: Failure, names: Sequence[str], seed: int, number: int) -> list[Iterator[Disturbance]]:
    machines = positions_matching(failure.machines, names)
    if failure.mtbf_s is None:
        pair = (What.FAILED, What.REPAIRED)
        return [_between(machines, pair, failure.at_s, failure.at_s + failure.repair_s)]
    return [
        _failures(machine, failure, generator(seed, "failures", str(number), names[machine]))
        for machine in machines
    ]


def _failures(machine: int, failure: Failure, rng: np.random.Generator) -> Iterator[Disturbance]:
    now = 0.0
    while failure.mtbf_s is not None:
        now += rng.exponential(failure.mtbf_s)
        yield Disturbance(now, What.FAILED, machine)
        if not math.isfinite(failure.repair_s):
            return
        now += rng.exponential(failure.repair_s)
        yield Disturbance(now, What.REPAIRED, machine)


def _loaded(load: Load, machines: list[int]) -> Iterator[Disturbance]:
    return _between(machines, (What.LOADED, What.UNLOADED), load.at_s, load.until_s, float(load.processes))


def _silent(silence: Silence, machines: list[int]) -> Iterator[Disturbance]:
    end_s = silence.at_s + silence.lasting_s
    parts = [_between(machines, pair, silence.at_s, end_s) for pair in _SILENCES[silence.what]]
    return heapq.merge(*parts, key=_time)


def _between(
    machines: list[int], pair: tuple[What, What], begin_s: float, end_s: float, value: float = 0.0
) -> Iterator[Disturbance]:
    """Give the begin on all machines, then the end on all of them unless it never comes."""
    yield from (Disturbance(begin_s, pair[0], machine, value) for machine in machines)
    if math.isfinite(end_s):
        yield from (Disturbance(end_s, pair[1], machine, value) for machine in machines)
