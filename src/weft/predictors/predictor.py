"""The interface of the predictors, which estimate how long a task takes on a machine with some nodes."""

from __future__ import annotations

import functools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from weft.expressions import Value
from weft.platform.machine import Machine
from weft.predictions import INPUT_BYTES
from weft.predictors.seconds import Seconds
from weft.records import dataclass
from weft.workflow.quantity import evaluate_quantity
from weft.workflow.task import SpeedUp, Task
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimated seconds of one mode, with their source."""

    p50_s: float
    """Median of the seconds; infinite if the mode is impossible."""
    p90_s: float | None = None
    """90th percentile of the seconds; None if the estimate counts as exact."""
    source: str

    @property
    def possible(self) -> bool:
        """Return whether the task can run in this mode."""
        return math.isfinite(self.p50_s)

    @property
    def spread(self) -> float:
        """Return P90 divided by P50; nan without a P90."""
        return math.nan if self.p90_s is None or self.p50_s <= 0 else self.p90_s / self.p50_s


def impossible(source: str) -> Estimate:
    """Return the estimate of an impossible mode; unlike None it ends the search in a chain of predictors."""
    return Estimate(p50_s=math.inf, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFeatures:
    """The features of one task that predictors use. Transfers and virtual tasks have no work."""

    name: str
    kind: str
    """Name of the task description, which all its subtasks share."""
    work: float = math.nan
    """Seconds on a machine of speed 1 with one node (or the law's first node count); nan if unknown."""
    explicit: Mapping[str, float] = field(default_factory=dict)
    """Seconds given by the user, by machine name or ``"*"``."""
    law: SpeedUp | None = None
    counts: tuple[int, ...] = (1,)
    """Allowed node counts, ascending."""
    service: str | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    """Parameters of the workflow and the values of the task's sweep variables."""


@functools.lru_cache(maxsize=1)
def measure_inputs(graph: TaskGraph) -> Floats:
    """Return the total stated bytes of the inputs of each task; nan if none are stated. O(v + e), cached."""
    sizes = np.zeros(len(graph))
    target = np.repeat(np.arange(len(graph)), np.diff(graph.predecessor_pointer))
    np.add.at(sizes, target, graph.edge_bytes)
    for task in range(len(graph)):
        inputs = graph.description(task).inputs
        stated = [item.size for item in inputs if item.size is not None and item.source is not None]
        if stated:
            context = graph.context(task)
            sizes[task] += sum(float(evaluate_quantity(size, context)) for size in stated)
    return np.where(sizes > 0, sizes, np.nan)


def task_features(graph: TaskGraph, task: int, reads: PredictorInputs | None = None) -> TaskFeatures:
    """Return the features of one task; the total input bytes only if they are among ``reads.parameters``."""
    description = graph.description(task)
    parameters: dict[str, Value] = graph.context(task)
    if reads is not None and INPUT_BYTES in reads.parameters:
        parameters.setdefault(INPUT_BYTES, float(measure_inputs(graph)[task]))
    if graph.kind[task] != COMPUTE:
        return TaskFeatures(name=graph.names[task], kind=description.name, work=0.0, parameters=parameters)
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
        parameters=parameters,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorInputs:
    """The inputs on which the estimates of a predictor depend.

    Work, explicit seconds, speed-up law and node counts of the task are always inputs. A predictor is queried
    once for all tasks and machines that agree in all inputs.
    """

    kind: bool = False
    """Whether estimates depend on the kind of the task."""
    parameters: tuple[str, ...] = ()
    """Names of the task parameters on which estimates depend."""
    rate: bool = True
    """Whether estimates depend on the rate of the machine for the service of the task."""
    machine: bool = False
    """Whether estimates depend on other properties of the machine, such as its name or architecture."""

    def __or__(self, other: PredictorInputs) -> PredictorInputs:
        return PredictorInputs(
            kind=self.kind or other.kind,
            parameters=tuple(dict.fromkeys((*self.parameters, *other.parameters))),
            rate=self.rate or other.rate,
            machine=self.machine or other.machine,
        )


class Predictor(Protocol):
    """Estimates the run times of tasks.

    A predictor returns an estimate; ``impossible(...)``, an estimate of infinite seconds (the task cannot run
    in this mode, and no other predictor is used); or None (unknown, the next predictor is used).
    """

    @property
    def name(self) -> str:
        """Return the name in the registry."""
        ...

    @property
    def reads(self) -> PredictorInputs:
        """Return the inputs on which the estimates depend."""
        ...

    @property
    def final(self) -> bool:
        """Return whether ``predict`` never returns None for the tasks to which the predictor applies."""
        ...

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the compute tasks for which ``predict`` may return an estimate instead of None."""
        ...

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the estimate of one mode; None if it is unknown."""
        ...

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Seconds:
        """Return the estimates of all tasks on all machines, for node counts that a machine has.

        Transfers and virtual tasks take 0 seconds on one node of every machine; a compute task without an
        estimate has no mode.
        """
        ...


@runtime_checkable
class WorkModel(Protocol):
    """A predictor whose estimates are work / speed-up; if ``rated``, also divided by the machine's rate.

    ``predict`` never returns None for tasks to which such a predictor applies (``Predictor.final``).
    """

    @property
    def name(self) -> str:
        """Return the name in the registry."""
        ...

    @property
    def source(self) -> str:
        """Return the name of the source that the estimates state."""
        ...

    @property
    def rated(self) -> bool:
        """Return whether the estimates depend on the rate of the machine."""
        ...

    def works(self, graph: TaskGraph) -> Floats:
        """Return the work of each task; nan where the estimate is not work / speed-up."""
        ...


def select_tasks(graph: TaskGraph, kinds: Container[str], parameter: str | None) -> Flags:
    """Return a mask of the compute tasks of these kinds that have the parameter.

    If ``parameter`` is None, all tasks of these kinds are selected.
    """

    def known(task: Task) -> bool:
        swept = task.sweep is not None and parameter in task.sweep.names
        return task.name in kinds and (parameter is None or swept or parameter in graph.params)

    by_template = np.array([known(task) for task in graph.workflow.tasks], dtype=np.bool_)
    return np.asarray(by_template[graph.template] & (graph.kind == COMPUTE))


def numeric_parameter(features: TaskFeatures, parameter: str) -> float | None:
    """Return the value of a task's parameter; None if it is missing or not a finite number."""
    value = features.parameters.get(parameter)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
