"""A scenario: what really happens in a simulated run, apart from what anybody believes.

Arrivals of workflows, true durations, disturbances of machines, ends of tasks and loops. An engine, a planner
or a policy never sees it; only the simulated world reads it.

Which workflow is submitted when: the arrivals of a scenario, drawn where it leaves them open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TypeVar

import numpy as np

from weft.documents import Document
from weft.expressions import Expression

__all__ = [
    "FAILURE_WORDS",
    "NETWORKS",
    "SILENT_PARTS",
    "UNDISTURBED",
    "Arrival",
    "ArrivalTrace",
    "Cancellation",
    "CompetingLoad",
    "Durations",
    "End",
    "Failure",
    "Perturbation",
    "RequirementChange",
    "Result",
    "Scenario",
    "Series",
    "Silence",
    "Span",
    "Suspension",
    "draw_arrivals",
    "find_task_value",
    "match_positions",
    "matches_task",
]


NETWORKS = ("unshared", "shared")
"""Whether transfers have the bandwidth of their link alone, or share it."""

SILENT_PARTS = ("both", "job-manager", "gatekeeper")
"""What of a machine does not answer (S3 section 5, the polling ladder)."""

FAILURE_WORDS = ("oom", "preempted", "staging", "no-exit-code")
"""How an attempt may end instead of by an exit code."""

End = int | str
"""The exit code of an attempt, or one of FAILURE_WORDS."""

Result = Mapping[str, str | float | bool | None]
"""What a task writes into its result file."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A number drawn uniformly between two others; of two equal ones it is that number."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One workflow that is submitted at one time."""

    workflow: str
    """As the scenario names it: a path from the folder of the scenario file."""
    at_s: float = 0.0
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Workflows that arrive one after the other."""

    workflows: tuple[str, ...]
    shuffled: bool = False
    """Whether their order is drawn (without replacement) instead of stated."""
    from_s: float = 0.0
    every_s: float = 0.0
    """The interval between two arrivals, or its mean."""
    poisson: bool = False
    """Whether the intervals, the one before the first arrival included, are drawn (exponentially)."""
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalTrace:
    """Arrivals that stand in a file of their own."""

    file: str
    arrivals: tuple[Arrival, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """How long tasks really take, relative to their estimate."""

    noise: float = 0.0
    """Standard deviation of the true seconds, as a share of their mean."""
    bias: float = 1.0
    """Mean of the true seconds, relative to the estimate."""
    tasks: Mapping[str, Durations] = field(default_factory=dict)
    """Tasks for which this differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """Machines that become slower for a time (S1 section 13)."""

    machines: tuple[str, ...]
    slowdown: Span
    lasting_s: Span
    at_s: float = 0.0
    """When all of the machines are slowed; with ``every_s``: from when on some are."""
    every_s: float | None = None
    """Mean interval between two perturbations, each of one machine of the set; None: there is only one."""
    until_s: float = math.inf
    """With ``every_s``: no perturbation begins later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Machines that fail, once at a stated time or again and again."""

    machines: tuple[str, ...]
    repair_s: float = math.inf
    """How long the repair takes; with ``mtbf_s``: its mean."""
    at_s: float = 0.0
    mtbf_s: float | None = None
    """Mean time between a machine's repair and its next failure; None: it fails once, at ``at_s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetingLoad:
    """Competing processes on machines: n of them leave 1/(n + 1) of the speed."""

    machines: tuple[str, ...]
    processes: int
    at_s: float = 0.0
    until_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Machines that go on computing but do not answer when asked."""

    machines: tuple[str, ...]
    at_s: float = 0.0
    lasting_s: float = math.inf
    what: str = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """The remote side suspends the attempts of a task that run at that time."""

    task: str
    at_s: float
    lasting_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """The remote side cancels the attempts of a task that run at that time."""

    task: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementChange:
    """A task changes what it asks of machines while it runs (S3 section 2)."""

    task: str
    after: float
    """When this share of its work is done."""
    requirements: Expression | None = None
    rank: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that really happens. The default: workflows arrive at once and everything is as believed."""

    name: str = "as-believed"
    arrivals: tuple[Arrival | Series | ArrivalTrace, ...] = ()
    durations: Durations = field(default_factory=Durations)
    perturbations: tuple[Perturbation, ...] = ()
    failures: tuple[Failure, ...] = ()
    loads: tuple[CompetingLoad, ...] = ()
    silences: tuple[Silence, ...] = ()
    suspensions: tuple[Suspension, ...] = ()
    cancellations: tuple[Cancellation, ...] = ()
    requirements: tuple[RequirementChange, ...] = ()
    exit_codes: Mapping[str, tuple[End, ...]] = field(default_factory=dict)
    """By task: how it ends, each time it does so by itself; the last one holds from then on."""
    results: Mapping[str, tuple[Result, ...]] = field(default_factory=dict)
    """By task: what it writes, likewise."""
    iterations: Mapping[str, int] = field(default_factory=dict)
    """By loop: how often its body really runs."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """By file: how many lines a growing sweep finds in it."""
    network: str = NETWORKS[0]
    overhead_per_task_s: float = 0.0
    stage_latency_s: float = 0.0
    """What every stage (prolog, start, epilog) takes besides moving data; cancelling, cleaning up: half."""
    profiles: Mapping[str, int] = field(default_factory=dict)
    """By task: how many iterations its application has and reports (S3's performance profile)."""
    denied: tuple[str, ...] = ()
    """Machines to which access is refused."""
    replanning_s_per_point: float = 0.0
    """What a re-plan costs per point (schedule) it visits."""
    document: Document | None = field(default=None, compare=False, repr=False)
    """Where it was read from, so that errors can point there; not part of what it says."""

    @property
    def folder(self) -> PurePath:
        """Give the folder from which the paths of workflows and traces are counted."""
        file = self.document.file if self.document is not None else None
        return PurePath(file).parent if file is not None else PurePath()


UNDISTURBED = Scenario()
"""The scenario of a run without one."""


def match_positions(patterns: Iterable[str], names: Sequence[str]) -> list[int]:
    """Give the positions of the names that a pattern means: the same name, or one its wildcards fit."""
    wanted = tuple(patterns)
    exact = frozenset(wanted)
    wild = tuple(pattern for pattern in wanted if any(sign in pattern for sign in "*?["))
    return [
        position
        for position, name in enumerate(names)
        if name in exact or any(fnmatchcase(name, pattern) for pattern in wild)
    ]


def matches_task(name: str, label: str) -> bool:
    """Say whether a name means a subtask: its own (``lapw1[3]``) or that of its task (``lapw1``)."""
    return label == name or label.partition("[")[0] == name


def find_task_value(values: Mapping[str, _Found], label: str) -> _Found | None:
    """Give the value that holds for a subtask: under its own name, else under that of its task."""
    own = values.get(label)
    return own if own is not None else values.get(label.partition("[")[0])


def draw_arrivals(scenario: Scenario, rng: np.random.Generator) -> list[Arrival]:
    """List all arrivals by time; of several at one time, those that are written first come first.

    ``rng`` is that of the component "arrivals", of which nobody else draws: the same seed gives the same
    arrivals under every policy and platform.
    """
    found = [arrival for entry in scenario.arrivals for arrival in _expand_entry(entry, rng)]
    return sorted(found, key=lambda arrival: arrival.at_s)


def _expand_entry(entry: Arrival | Series | ArrivalTrace, rng: np.random.Generator) -> Iterator[Arrival]:
    match entry:
        case Arrival():
            yield entry
        case ArrivalTrace(arrivals=arrivals):
            yield from arrivals
        case Series():
            yield from _draw_series(entry, rng)


def _draw_series(series: Series, rng: np.random.Generator) -> Iterator[Arrival]:
    """Draw an order (S5 section 6: without replacement) and intervals (of a Poisson process) if asked to."""
    count = len(series.workflows)
    order = rng.permutation(count).tolist() if series.shuffled else range(count)
    after_s = series.every_s * np.arange(count, dtype=np.float64)
    if series.poisson:
        after_s = np.add.accumulate(rng.exponential(series.every_s, count))
    for position, passed_s in zip(order, after_s.tolist(), strict=True):
        at_s = series.from_s + passed_s
        yield Arrival(workflow=series.workflows[position], at_s=at_s, owner=series.owner)
