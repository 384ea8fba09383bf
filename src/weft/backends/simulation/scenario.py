"""Scenario records: what actually happens in a simulated run, as opposed to what the engine estimates.

A scenario describes the arrivals of workflows, true durations, disturbances of machines, and how tasks and
loops end. Only the simulation backend reads it; the engine, planners and policies do not.
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
from weft.workflow.templates import format_value
from weft.workflow.workflow import Parameter

NETWORKS = ("unshared", "shared")
"""Whether each transfer has the full bandwidth of its link, or transfers on a link share it."""

SILENT_PARTS = ("both", "job-manager", "gatekeeper")
"""The services of a machine that can stop answering (docs/papers/adaptive-jobs.md, section 5)."""

FAILURE_WORDS = ("oom", "preempted", "staging", "no-exit-code")
"""Kinds of failures with which an attempt can end without an exit code."""

End = int | str
"""The exit code of an attempt, or one of FAILURE_WORDS."""

Result = Mapping[str, str | float | bool | None]
"""The contents of a task's result file."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The range of a uniformly distributed number; equal bounds make it a constant."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionTerms:
    """What a submission states besides workflow and time."""

    owner: str | None = None
    priority: float = 1.0
    """Weight of the run against other runs, in policies that order workflows; above 0."""
    params: Mapping[str, Parameter] = field(default_factory=dict)
    """Changed parameters of the workflow."""
    results: str | None = None
    """Folder of the project below which the outputs are placed; None: the folder of the workflow."""

    def name_key(self, workflow: str) -> str:
        """Return the name of a workflow with these parameters, the key under which it is compiled."""
        if not self.params:
            return workflow
        texts = (
            f"{name}={value if isinstance(value, Expression) else format_value(value)}"
            for name, value in sorted(self.params.items())
        )
        return f"{workflow} ({', '.join(texts)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival(SubmissionTerms):
    """The submission of one workflow."""

    workflow: str
    """Path of the workflow file, relative to the folder of the scenario file."""
    at_s: float = 0.0

    @property
    def key(self) -> str:
        """Return the name of the workflow with its parameters, the key under which it is compiled."""
        return self.name_key(self.workflow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(SubmissionTerms):
    """A sequence of workflows submitted at intervals."""

    workflows: tuple[str, ...]
    shuffled: bool = False
    """Whether the order is drawn (without replacement) instead of given."""
    from_s: float = 0.0
    every_s: float = 0.0
    """The interval between two submissions, or its mean."""
    poisson: bool = False
    """Whether intervals are exponentially distributed, including the one before the first submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalTrace:
    """Arrivals read from a trace file."""

    file: str
    arrivals: tuple[Arrival, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """True durations of tasks, relative to their estimates."""

    noise: float = 0.0
    """Standard deviation of the true duration, as a fraction of its mean."""
    bias: float = 1.0
    """Mean of the true duration, as a multiple of the estimate."""
    tasks: Mapping[str, Durations] = field(default_factory=dict)
    """Overrides by task name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """A temporary slowdown of machines (docs/papers/dynamic-grid.md, section 13)."""

    machines: tuple[str, ...]
    slowdown: Span
    lasting_s: Span
    at_s: float = 0.0
    """When all these machines slow down; with ``every_s``: when the series of slowdowns starts."""
    every_s: float | None = None
    """Mean interval between slowdowns, each of one machine drawn from the set; None: all slow down once."""
    until_s: float = math.inf
    """With ``every_s``: no slowdown starts after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure of machines, once at a given time or repeatedly."""

    machines: tuple[str, ...]
    repair_s: float = math.inf
    """Duration of the repair; with ``mtbf_s``: its mean."""
    at_s: float = 0.0
    mtbf_s: float | None = None
    """Mean time from the start or a repair to the next failure of each machine; None: one at ``at_s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetingLoad:
    """Competing processes on machines: n processes leave 1/(n + 1) of the speed to the task."""

    machines: tuple[str, ...]
    processes: int
    at_s: float = 0.0
    until_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Machines that keep computing but do not answer requests."""

    machines: tuple[str, ...]
    at_s: float = 0.0
    lasting_s: float = math.inf
    what: str = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension:
    """The batch system suspends the running attempts of a task."""

    task: str
    at_s: float
    lasting_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """The batch system cancels the running attempts of a task."""

    task: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequirementChange:
    """A task changes its requirements or rank while it runs (docs/papers/adaptive-jobs.md, section 2)."""

    task: str
    after: float
    """Share of the task's work after which the change happens."""
    requirements: Expression | None = None
    rank: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that happens in a simulated run. Default: arrivals at 0 s, and all estimates are exact."""

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
    """By task: how its successive attempts end; the last value applies to all later attempts."""
    results: Mapping[str, tuple[Result, ...]] = field(default_factory=dict)
    """By task: what its successive attempts write as result; the last value applies to all later attempts."""
    iterations: Mapping[str, int] = field(default_factory=dict)
    """By loop: the true number of iterations."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """By file: the number of lines that a growing sweep reads from it."""
    network: str = NETWORKS[0]
    overhead_per_task_s: float = 0.0
    stage_latency_s: float = 0.0
    """Seconds that every stage (prolog, start, epilog) takes in addition to moving data; cancelling and
    cleaning up take half of it.
    """
    profiles: Mapping[str, int] = field(default_factory=dict)
    """By task: the iterations its application reports (profile in docs/papers/adaptive-jobs.md)."""
    denied: tuple[str, ...] = ()
    """Machines that refuse access."""
    replanning_s_per_point: float = 0.0
    """Seconds that re-planning takes per evaluated schedule."""
    document: Document | None = field(default=None, compare=False, repr=False)
    """The document it was read from, for error locations; ignored in comparisons."""

    @property
    def folder(self) -> PurePath:
        """Return the folder of the scenario file, the base of relative paths of workflows and traces."""
        file = self.document.file if self.document is not None else None
        return PurePath(file).parent if file is not None else PurePath()


UNDISTURBED = Scenario()
"""The default scenario."""


def match_positions(patterns: Iterable[str], names: Sequence[str]) -> list[int]:
    """Return the positions of all names that equal a pattern or match its wildcards."""
    wanted = tuple(patterns)
    exact = frozenset(wanted)
    wild = tuple(pattern for pattern in wanted if any(sign in pattern for sign in "*?["))
    return [
        position
        for position, name in enumerate(names)
        if name in exact or any(fnmatchcase(name, pattern) for pattern in wild)
    ]


def matches_task(name: str, label: str) -> bool:
    """Return whether ``name`` is the label of a subtask (``lapw1[3]``) or names its task (``lapw1``)."""
    return label == name or label.partition("[")[0] == name


def find_task_value(values: Mapping[str, _Found], label: str) -> _Found | None:
    """Return the value for a subtask: the one under its own name, else the one of its task, else None."""
    own = values.get(label)
    return own if own is not None else values.get(label.partition("[")[0])


def draw_arrivals(scenario: Scenario, rng: np.random.Generator) -> list[Arrival]:
    """Return all arrivals ordered by time; arrivals at the same time keep the order of the scenario.

    ``rng`` must be the generator of the component "arrivals", which is used for nothing else: the same seed
    gives the same arrivals under every policy and platform.
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
    """Yield the arrivals of a series; order and intervals are drawn at random if the series requires it.

    Orders are drawn without replacement (docs/papers/many-workflows.md, section 6), intervals exponentially.
    """
    count = len(series.workflows)
    order = rng.permutation(count).tolist() if series.shuffled else range(count)
    after_s = series.every_s * np.arange(count, dtype=np.float64)
    if series.poisson:
        after_s = np.add.accumulate(rng.exponential(series.every_s, count))
    for position, passed_s in zip(order, after_s.tolist(), strict=True):
        at_s = series.from_s + passed_s
        yield Arrival(
            workflow=series.workflows[position],
            at_s=at_s,
            owner=series.owner,
            priority=series.priority,
            params=series.params,
            results=series.results,
        )
