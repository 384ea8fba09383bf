"""Generate the disturbances of machines, ordered by time: slowdowns, failures, loads and silences.

The stream is generated lazily. It depends on the seed and the scenario only, not on the run, so that two
policies see the same disturbances. Each entry of a scenario (with ``mtbf``: each machine of an entry) draws
from its own random generator, so adding an entry at the end does not change the disturbances of earlier
entries.

Perturbations follow docs/papers/dynamic-grid.md, section 13: intervals are uniform between 0 and twice the
mean. Each perturbation slows one machine of the set by a factor and for a time, both drawn uniformly from
their ranges. Times to failure and repair times are exponentially distributed. Deviation: the paper states
neither factor nor time; the scenario states them.
"""

from __future__ import annotations

import enum
import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from weft.backends.simulation.scenario import (
    CompetingLoad,
    Failure,
    Perturbation,
    Scenario,
    Silence,
    Span,
    match_positions,
)
from weft.platform.machine import Machine
from weft.randomness import generator


class DisturbanceKind(enum.Enum):
    """What happens to a machine: a disturbance begins or ends. A permanent disturbance has no end."""

    SLOWED = "slowed"
    """The machine becomes ``value`` times slower; the factors of several slowdowns multiply."""
    RELIEVED = "relieved"
    """A slowdown by ``value`` ends."""
    FAILED = "failed"
    """The machine fails; it is down until the number of repairs equals the number of failures."""
    REPAIRED = "repaired"
    LOADED = "loaded"
    """``value`` competing processes start."""
    UNLOADED = "unloaded"
    """``value`` competing processes end."""
    JOB_MANAGER_SILENT = "job manager silent"
    JOB_MANAGER_BACK = "job manager back"
    GATEKEEPER_SILENT = "gatekeeper silent"
    GATEKEEPER_BACK = "gatekeeper back"


class Disturbance(NamedTuple):
    """One change of one machine."""

    at_s: float
    what: DisturbanceKind
    machine: int
    """Index of the machine in the platform; it equals the machine's ``host`` in a compiled network."""
    value: float = 0.0


_JOB_MANAGER = (DisturbanceKind.JOB_MANAGER_SILENT, DisturbanceKind.JOB_MANAGER_BACK)
_GATEKEEPER = (DisturbanceKind.GATEKEEPER_SILENT, DisturbanceKind.GATEKEEPER_BACK)
_SILENCES = {"job-manager": [_JOB_MANAGER], "gatekeeper": [_GATEKEEPER], "both": [_JOB_MANAGER, _GATEKEEPER]}


def generate_disturbances(
    scenario: Scenario, machines: Sequence[Machine], seed: int
) -> Iterator[Disturbance]:
    """Yield all disturbances of a platform's machines, ordered by time; the stream may be infinite.

    Disturbances at the same time are ordered by section: perturbations, failures, loads, silences.
    """
    names = [machine.name for machine in machines]
    streams: list[Iterator[Disturbance]] = []
    for number, perturbation in enumerate(scenario.perturbations):
        rng = generator(seed, "perturbations", str(number))
        streams.append(
            _generate_perturbations(perturbation, match_positions(perturbation.machines, names), rng)
        )
    for number, failure in enumerate(scenario.failures):
        streams += _failure_streams(failure, names, seed, number)
    streams += [_generate_loads(load, match_positions(load.machines, names)) for load in scenario.loads]
    streams += [_generate_silences(each, match_positions(each.machines, names)) for each in scenario.silences]
    return heapq.merge(*streams, key=_time_of)


def _time_of(item: Disturbance) -> float:
    return item.at_s


def _generate_perturbations(
    perturbation: Perturbation, machines: list[int], rng: np.random.Generator
) -> Iterator[Disturbance]:
    begins = _generate_slowdowns(perturbation, machines, rng)
    return _insert_ends(begins, perturbation.lasting_s, rng)


def _generate_slowdowns(
    perturbation: Perturbation, machines: list[int], rng: np.random.Generator
) -> Iterator[Disturbance]:
    if perturbation.every_s is None:
        for machine in machines:
            yield Disturbance(
                perturbation.at_s, DisturbanceKind.SLOWED, machine, _draw(perturbation.slowdown, rng)
            )
        return
    at_s = perturbation.at_s
    while machines:
        at_s += rng.uniform(0.0, 2.0 * perturbation.every_s)
        if at_s > perturbation.until_s:
            return
        machine = machines[int(rng.integers(len(machines)))]
        yield Disturbance(at_s, DisturbanceKind.SLOWED, machine, _draw(perturbation.slowdown, rng))


def _insert_ends(
    begins: Iterable[Disturbance], lasting_s: Span, rng: np.random.Generator
) -> Iterator[Disturbance]:
    """Yield slowdowns and their ends, ordered by time; ``lasting_s`` is the range of their durations."""
    ends: list[tuple[float, int, Disturbance]] = []
    for number, begin in enumerate(begins):
        while ends and ends[0][0] <= begin.at_s:
            yield heapq.heappop(ends)[2]
        yield begin
        end_s = begin.at_s + _draw(lasting_s, rng)
        if math.isfinite(end_s):
            end = Disturbance(end_s, DisturbanceKind.RELIEVED, begin.machine, begin.value)
            heapq.heappush(ends, (end_s, number, end))
    while ends:
        yield heapq.heappop(ends)[2]


def _draw(span: Span, rng: np.random.Generator) -> float:
    return span.low if span.low == span.high else float(rng.uniform(span.low, span.high))


def _failure_streams(
    failure: Failure, names: Sequence[str], seed: int, number: int
) -> list[Iterator[Disturbance]]:
    machines = match_positions(failure.machines, names)
    if failure.mtbf_s is None:
        pair = (DisturbanceKind.FAILED, DisturbanceKind.REPAIRED)
        return [_generate_interval(machines, pair, failure.at_s, failure.at_s + failure.repair_s)]
    return [
        _generate_failures(machine, failure, generator(seed, "failures", str(number), names[machine]))
        for machine in machines
    ]


def _generate_failures(machine: int, failure: Failure, rng: np.random.Generator) -> Iterator[Disturbance]:
    now = 0.0
    while failure.mtbf_s is not None:
        now += rng.exponential(failure.mtbf_s)
        yield Disturbance(now, DisturbanceKind.FAILED, machine)
        if not math.isfinite(failure.repair_s):
            return
        now += rng.exponential(failure.repair_s)
        yield Disturbance(now, DisturbanceKind.REPAIRED, machine)


def _generate_loads(load: CompetingLoad, machines: list[int]) -> Iterator[Disturbance]:
    return _generate_interval(
        machines,
        (DisturbanceKind.LOADED, DisturbanceKind.UNLOADED),
        load.at_s,
        load.until_s,
        float(load.processes),
    )


def _generate_silences(silence: Silence, machines: list[int]) -> Iterator[Disturbance]:
    end_s = silence.at_s + silence.lasting_s
    parts = [_generate_interval(machines, pair, silence.at_s, end_s) for pair in _SILENCES[silence.what]]
    return heapq.merge(*parts, key=_time_of)


def _generate_interval(
    machines: list[int],
    pair: tuple[DisturbanceKind, DisturbanceKind],
    begin_s: float,
    end_s: float,
    value: float = 0.0,
) -> Iterator[Disturbance]:
    """Yield the first kind of ``pair`` for all machines, then the second unless ``end_s`` is infinite."""
    yield from (Disturbance(begin_s, pair[0], machine, value) for machine in machines)
    if math.isfinite(end_s):
        yield from (Disturbance(end_s, pair[1], machine, value) for machine in machines)
