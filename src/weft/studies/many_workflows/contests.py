"""A contest: workflows that arrive, under each policy of S5, and what S5 measures (spec s5 section 7)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby

from weft.engine.history.history import History
from weft.engine.history.measures import slowdowns
from weft.engine.history.steps import Steps
from weft.engine.settings import Settings
from weft.engine.state.known import Known, Library
from weft.policies.naming import policy_named
from weft.simulation.scenario import Arrival, Scenario
from weft.simulation.simulate import Simulation
from weft.studies.following import Followed, followed
from weft.studies.many_workflows.applications import compiled
from weft.studies.many_workflows.orders import BOUND_S
from weft.studies.statistics import Summary, summary

__all__ = ["ALL", "BOX", "LABELS", "TIMES_S", "boxed", "contest", "run_one", "sampled"]

LABELS = {
    "srpt": "SRPT",
    "foft": "FOFT",
    "aging-e": "AGING e",
    "fcfs": "FCFS",
    "basic": "BASIC",
    "aging": "AGING",
    "g-heft": "G-HEFT",
}
"""The paper's names of the policies, in the order of its mean slowdowns, the smallest first."""
ALL = "all"
"""Instead of an application: the workflows of all of them."""
BOX = ("least", "lower_quartile", "median", "mean", "upper_quartile", "most")
TIMES_S = tuple(float(time_s) for time_s in range(0, 3200, 50))
"""When workflows and tasks are counted for the charts."""
_LAST = 0.9
"""After this share of the run the last tenth begins."""


def run_one(arrivals: Sequence[Arrival], policy: str, *, servers: int, overhead_s: float = 0.0) -> Followed:
    """Simulate the arrivals under one policy."""
    return followed(
        Simulation(
            library=Library(compiled(servers)),
            arrivals=arrivals,
            policy=policy_named(policy),
            settings=Settings(),
            scenario=Scenario(overhead_per_task_s=overhead_s),
        )
    )


def contest(arrivals: Sequence[Arrival], *, servers: int, overhead_s: float = 0.0) -> dict[str, float]:
    """Simulate the same arrivals under all policies; measures are called policy.measure."""
    found = {}
    for policy in LABELS:
        ran = run_one(arrivals, policy, servers=servers, overhead_s=overhead_s)
        found.update({f"{policy}.{name}": value for name, value in _measures(ran)})
    return found


def boxed(application: str, number: str) -> str:
    """Name the measure that is one number of a box plot."""
    return f"{application}.slowdown_{number}"


def sampled(curve: str, time_s: float) -> str:
    """Name the measure that is one point of a curve."""
    return f"{curve}_at_{time_s:g}_s"


def _measures(ran: Followed) -> Iterator[tuple[str, float]]:
    history = ran.history
    by_application = slowdowns(history)
    everybody = [value for values in by_application.values() for value in values]
    ends_s = [run.ended_s for run in history.runs if run.ended_s is not None]
    yield "end_s", history.end_s
    yield "completed", float(len(everybody))
    yield "over_bound_percent", 100.0 * (history.end_s / BOUND_S - 1.0)
    yield "flow_s", math.fsum(run.response_s or 0.0 for run in history.runs)
    yield from _dispersion(everybody)
    for name, values in ((ALL, everybody), *by_application.items()):
        found = summary(values)
        yield from ((boxed(name, number), getattr(found, number)) for number in BOX)
    yield "wave_tasks", _wave(ran)
    late = sum(end_s > _LAST * history.end_s for end_s in ends_s)
    yield "last_tenth_percent", 100.0 * late / len(history.runs)
    yield from _curve("active", history.active)
    yield from _curve("ready", _waiting(history))


def _dispersion(values: Sequence[float]) -> Iterator[tuple[str, float]]:
    found: Summary = summary(values)
    number = len(values)
    yield "deviation", math.sqrt(math.fsum((value - found.mean) ** 2 for value in values) / number)
    yield "absolute_deviation", math.fsum(abs(value - found.mean) for value in values) / number
    yield "quartile_range", found.upper_quartile - found.lower_quartile
    yield "range", found.most - found.least


def _wave(ran: Followed) -> float:
    """Give how many tasks of the same rank start one after the other, on average."""
    started = sorted(
        (attempt.started_s, attempt.number, attempt.run, attempt.task)
        for attempt in ran.history.attempts.values()
        if attempt.started_s is not None
    )
    of_run = [_ranks(run.known) for run in ran.engine.state.runs]
    ranks = [of_run[run][task] for _, _, run, task in started]
    return len(ranks) / sum(1 for _ in groupby(ranks))


@cache
def _ranks(known: Known) -> dict[str, float]:
    return dict(zip(known.names, known.ranks, strict=True))


def _waiting(history: History) -> Steps:
    """Count ready tasks, those included that wait in the queue of a machine."""
    changes = dict[float, int]()
    before = 0
    for time_s, value in zip(history.ready.times_s, history.ready.values, strict=True):
        changes[time_s] = changes.get(time_s, 0) + value - before
        before = value
    for attempt in history.attempts.values():
        if attempt.started_s is not None and attempt.started_s > attempt.assigned_s:
            changes[attempt.assigned_s] = changes.get(attempt.assigned_s, 0) + 1
            changes[attempt.started_s] = changes.get(attempt.started_s, 0) - 1
    steps = Steps()
    for time_s in sorted(changes):
        steps.add(time_s, changes[time_s])
    return steps


def _curve(name: str, steps: Steps) -> Iterator[tuple[str, float]]:
    yield f"most_{name}", float(steps.most)
    for time_s in TIMES_S:
        place = bisect_right(steps.times_s, time_s)
        yield sampled(name, time_s), float(steps.values[place - 1]) if place else 0.0
