"""The contract of the registry ``predictors``: read it first.

A predictor says how long a task takes on a machine with some nodes, and where that belief comes from. It
answers in one of three ways: an estimate; ``impossible(...)``, an estimate of infinitely many seconds (the
task cannot run in this mode, and nobody else is to be asked); or None (it knows nothing, ask the next one).

Kinds of tasks known by a number, such as the input size: which tasks are theirs, and the number.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from weft.expressions import Value
from weft.platform.machine import Machine
from weft.predictors.seconds import Seconds
from weft.workflow.task import SpeedUp, Task
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph

__all__ = [
    "Estimate",
    "Flags",
    "Predictor",
    "PredictorInputs",
    "TaskFeatures",
    "WorkModel",
    "impossible",
    "numeric_parameter",
    "select_tasks",
    "task_features",
]


Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A belief about the seconds of one mode, and where it comes from."""

    p50_s: float
    """Seconds that are exceeded half of the time; infinite: the mode is impossible."""
    p90_s: float | None = None
    """Seconds that are exceeded one time in ten; None: the estimate counts as exact."""
    source: str

    @property
    def possible(self) -> bool:
        """Say whether the task can run in this mode."""
        return math.isfinite(self.p50_s)

    @property
    def spread(self) -> float:
        """Give P90/P50; nan when no P90 is known."""
        return math.nan if self.p90_s is None or self.p50_s <= 0 else self.p90_s / self.p50_s


def impossible(source: str) -> Estimate:
    """Say that a task cannot run in a mode; unlike None it keeps the next predictor from being asked."""
    return Estimate(p50_s=math.inf, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFeatures:
    """What a predictor may know of one task. Transfers and virtual tasks are subjects of no work."""

    name: str
    kind: str
    """Name of the description: what tasks of one kind have in common."""
    work: float = math.nan
    """Seconds on a machine of speed 1 with one node (or the law's first count); nan: unknown."""
    explicit: Mapping[str, float] = field(default_factory=dict)
    """Seconds given by the user, by machine name or ``"*"``."""
    law: SpeedUp | None = None
    counts: tuple[int, ...] = (1,)
    """Allowed node counts, ascending."""
    service: str | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """Parameters of the workflow and the values of the task's sweep variables."""


def task_features(graph: TaskGraph, task: int) -> TaskFeatures:
    """Collect what may be known of one task of a graph."""
    description = graph.description(task)
    if graph.kind[task] != COMPUTE:
        return TaskFeatures(
            name=graph.names[task], kind=description.name, work=0.0, parameters=graph.context(task)
        )
    row = slice(graph.explicit_pointer[task], graph.explicit_pointer[task + 1])
    named = zip(graph.explicit_machine[row].tolist(), graph.explicit_seconds[row].tolist(), strict=True)
    return TaskFeatures(
        name=graph.names[task],
        kind=description.name,
        work=float(graph.work[task]),
        explicit={graph.explicit_names[machine]: seconds for machine, seconds in named},
        law=description.speedup,
        counts=graph.count_sets[graph.counts[task]],
        service=description.service,
        parameters=graph.context(task),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorInputs:
    """What an answer depends on, beside work, explicit seconds, law and counts of the subject.

    Tasks and machines that agree in all of it are asked about once.
    """

    kind: bool = False
    """The subject's kind."""
    parameters: tuple[str, ...] = ()
    """These parameters of the subject."""
    rate: bool = True
    """How fast the machine offers the subject's service."""
    machine: bool = False
    """Anything else about the machine, such as its name or architecture."""

    def __or__(self, other: PredictorInputs) -> PredictorInputs:
        return PredictorInputs(
            kind=self.kind or other.kind,
            parameters=tuple(dict.fromkeys((*self.parameters, *other.parameters))),
            rate=self.rate or other.rate,
            machine=self.machine or other.machine,
        )


class Predictor(Protocol):
    """Something that says how long tasks take."""

    @property
    def name(self) -> str:
        """Its name on the registry."""
        ...

    @property
    def reads(self) -> PredictorInputs:
        """What its answers depend on."""
        ...

    @property
    def final(self) -> bool:
        """Whether it always answers (perhaps "impossible") for the tasks to which it applies."""
        ...

    def applies(self, graph: TaskGraph) -> Flags:
        """Say for which compute tasks it may have an answer; for all others it has none."""
        ...

    def predict(self, subject: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Estimate one mode; None: nothing is known."""
        ...

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Seconds:
        """Estimate all modes of all tasks that fit the machines' nodes.

        Transfers and virtual tasks take 0 seconds on one node everywhere; a compute task about which nothing
        is known has no mode.
        """
        ...


@runtime_checkable
class WorkModel(Protocol):
    """A final predictor whose answer is work over speed-up (and over the machine's rate, if ``rated``)."""

    @property
    def name(self) -> str:
        """Its name on the registry."""
        ...

    @property
    def source(self) -> str:
        """Where its estimates come from."""
        ...

    @property
    def rated(self) -> bool:
        """Whether faster machines are faster."""
        ...

    def works(self, graph: TaskGraph) -> Floats:
        """Give the work per task; nan where the answer is not of this form or there is none."""
        ...


def select_tasks(graph: TaskGraph, kinds: Container[str], parameter: str | None) -> Flags:
    """Take the compute tasks of these kinds that have the parameter, by their sweep or by the workflow."""

    def known(task: Task) -> bool:
        swept = task.sweep is not None and parameter in task.sweep.names
        return task.name in kinds and (parameter is None or swept or parameter in graph.params)

    by_template = np.array([known(task) for task in graph.workflow.tasks], dtype=np.bool_)
    return np.asarray(by_template[graph.template] & (graph.kind == COMPUTE))


def numeric_parameter(subject: TaskFeatures, parameter: str) -> float | None:
    """Give the value of a parameter if it is a finite number."""
    value = subject.parameters.get(parameter)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
