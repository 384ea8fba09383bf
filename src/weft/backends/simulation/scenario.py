"""Scenario records: what actually happens in a simulated run, as opposed to what the engine estimates.

A scenario describes the arrivals of workflows, true durations, disturbances of machines, and how tasks and
loops end. Only the simulation backend reads it; the engine, planners and policies do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import TypeVar

import numpy as np

from weft.documents import Document
from weft.expressions import Expression
from weft.workflow.templates import format_value
from weft.workflow.workflow import Parameter

NETWORKS = ("unshared", "shared")
"""``unshared``: each transfer has the full bandwidth of its link; ``shared``: transfers share it."""

SILENT_PARTS = ("both", "job-manager", "gatekeeper")
"""The services of a machine that can stop answering (docs/papers/adaptive-jobs.md, section 5)."""

FAILURE_WORDS = ("oom", "preempted", "staging", "no-exit-code")
"""Kinds of failures with which an attempt can end without an exit code."""

End = int | str
"""The exit code of an attempt, or one of FAILURE_WORDS."""

Result = Mapping[str, str | float | bool | None]
"""The contents of a task's result file."""

_Found = TypeVar("_Found")
_Submitted = TypeVar("_Submitted", bound="SubmissionTerms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The range of a uniformly distributed number; if both bounds are equal, the number is constant."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionTerms:
    """Properties of a submission besides its workflow and its time."""

    owner: str | None = None
    priority: float = 1.0
    """Weight of the run compared with other runs, for policies that order workflows; above 0."""
    params: Mapping[str, Parameter] = field(default_factory=dict)
    """By name: the value of a workflow parameter that differs from the value in the file."""
    results: str | None = None
    """Folder of the project below which outputs are placed; None: the folder of the workflow."""

    def name_key(self, workflow: str) -> str:
        """Return the name of a workflow followed by these parameters; it is compiled under this key."""
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
        """Return the name of the workflow followed by its parameters; it is compiled under this key."""
        return self.name_key(self.workflow)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(SubmissionTerms):
    """A sequence of workflows submitted at intervals."""

    workflows: tuple[str, ...]
    shuffled: bool = False
    """Whether the order of the workflows is random (each is drawn once) instead of given."""
    from_s: float = 0.0
    every_s: float = 0.0
    """The interval in seconds between two submissions; with ``poisson``, its mean."""
    poisson: bool = False
    """Whether intervals are exponentially distributed, including the interval before the first submission."""


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
    """By task name: durations that replace the common ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """A temporary slowdown of machines (docs/papers/dynamic-grid.md, section 13)."""

    machines: tuple[str, ...]
    slowdown: Span
    lasting_s: Span
    at_s: float = 0.0
    """Time at which all these machines slow down; with ``every_s``, time at which the series of slowdowns
    starts.
    """
    every_s: float | None = None
    """Mean interval between slowdowns of one random machine each; None: all machines slow down once."""
    until_s: float = math.inf
    """With ``every_s``: time after which no slowdown starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure of machines, once at a given time or repeatedly."""

    machines: tuple[str, ...]
    repair_s: float = math.inf
    """Duration of the repair; with ``mtbf_s``, the mean duration."""
    at_s: float = 0.0
    mtbf_s: float | None = None
    """Mean time from the start, or from a repair, to the next failure of each machine. None: the machines
    fail once, at ``at_s``.
    """


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
    """Completed share of the task's work at which the change happens."""
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
    """By task: how its successive attempts end. The last value applies to all later attempts."""
    results: Mapping[str, tuple[Result, ...]] = field(default_factory=dict)
    """By task: the results of its successive attempts. The last value applies to all later attempts."""
    iterations: Mapping[str, int] = field(default_factory=dict)
    """By loop: the true number of iterations."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """By file: the number of lines that a growing sweep reads from the file."""
    network: str = NETWORKS[0]
    overhead_per_task_s: float = 0.0
    stage_latency_s: float = 0.0
    """Seconds that every stage (prolog, start, epilog) takes in addition to moving data. Cancelling and
    cleaning up take half of this time.
    """
    profiles: Mapping[str, int] = field(default_factory=dict)
    """By task: the number of iterations that its application reports (profile in
    docs/papers/adaptive-jobs.md).
    """
    denied: tuple[str, ...] = ()
    """Machines that refuse access."""
    replanning_s_per_point: float = 0.0
    """Seconds that re-planning takes per evaluated schedule."""
    document: Document | None = field(default=None, compare=False, repr=False)
    """The document from which the scenario was read, for locations in errors; ignored in comparisons."""

    @property
    def folder(self) -> PurePath:
        """Return the folder of the scenario file; relative paths of workflows and traces start there."""
        file = self.document.file if self.document is not None else None
        return PurePath(file).parent if file is not None else PurePath()


UNDISTURBED = Scenario()
"""The default scenario: no disturbances, and all estimates are exact."""


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
    """Return whether ``name`` is a subtask's label (``lapw1[3]``) or the name of its task (``lapw1``)."""
    return label == name or label.partition("[")[0] == name


def find_task_value(values: Mapping[str, _Found], label: str) -> _Found | None:
    """Return the value for a subtask: under its own label, else under the name of its task, else None."""
    own = values.get(label)
    return own if own is not None else values.get(label.partition("[")[0])


def override_params(scenario: Scenario, params: Mapping[str, Parameter]) -> Scenario:
    """Return a scenario in which ``params`` replace the values of parameters that its arrivals state.

    Parameters that an arrival does not state are not added to it.
    """

    def override(entry: _Submitted) -> _Submitted:
        return replace(entry, params={name: params.get(name, value) for name, value in entry.params.items()})

    def override_entry(entry: Arrival | Series | ArrivalTrace) -> Arrival | Series | ArrivalTrace:
        if isinstance(entry, ArrivalTrace):
            return replace(entry, arrivals=tuple(map(override, entry.arrivals)))
        return override(entry)

    return replace(scenario, arrivals=tuple(map(override_entry, scenario.arrivals)))


def draw_arrivals(scenario: Scenario, rng: np.random.Generator) -> list[Arrival]:
    """Return all arrivals ordered by time; arrivals at the same time keep the order of the scenario.

    ``rng`` must be the generator of the component "arrivals", which is used for nothing else. Then the same
    seed gives the same arrivals under every policy and on every platform.
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
    """Yield the arrivals of a series; order and intervals are random if the series requires it.

    A random order contains each workflow once (docs/papers/many-workflows.md, section 6). Random intervals
    are exponentially distributed.
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
