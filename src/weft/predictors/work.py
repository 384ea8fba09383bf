"""Estimates from work: work / (machine's rate) / (speed-up of the nodes)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.predictor import Estimate, Flags, PredictorInputs, TaskFeatures, impossible
from weft.predictors.seconds import RelatedSeconds
from weft.predictors.speedups import evaluate_law, relate_work
from weft.records import dataclass
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph


def _estimate_work(work: float, features: TaskFeatures, rate: float, nodes: int, source: str) -> Estimate:
    """Return the estimate work / rate / speed-up; "impossible" if the law is undefined for ``nodes``."""
    seconds = work / rate / evaluate_law(features.law, nodes)
    return impossible(source) if math.isnan(seconds) else Estimate(p50_s=seconds, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOverSpeed:
    """Estimates every task with known work; the estimates count as exact.

    With a measured speed-up law, ``work`` is the time on the first measured node count.
    """

    name: ClassVar[str] = "work"
    source: ClassVar[str] = "work/speed"
    reads: ClassVar[PredictorInputs] = PredictorInputs()
    final: ClassVar[bool] = True
    rated: ClassVar[bool] = True

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the tasks with known work."""
        return np.asarray((graph.kind == COMPUTE) & ~np.isnan(graph.work))

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the estimate work / rate / speed-up; None if the work is unknown."""
        if math.isnan(features.work):
            return None
        return _estimate_work(features.work, features, machine.rate(features.service), nodes, self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Return the work of each task as stated in the workflow; nan if it is unknown."""
        return graph.work

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> RelatedSeconds:
        """Return the estimates of all modes in the layout ``related``."""
        return relate_work(
            graph,
            machines,
            work=self.works(graph),
            rated=np.ones(len(graph), dtype=np.bool_),
            sources=(self.source,),
            source=np.zeros(len(graph), dtype=np.uint8),
        )


_ASSUMED_WORK = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedWork(WorkOverSpeed):
    """Estimates every task as if its work were 1 second."""

    name: ClassVar[str] = "assumed"
    source: ClassVar[str] = "assumed"

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the compute tasks."""
        return np.asarray(graph.kind == COMPUTE)

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the estimate 1 second / rate / speed-up."""
        return _estimate_work(_ASSUMED_WORK, features, machine.rate(features.service), nodes, self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Return the assumed work of each task: 1 second."""
        return np.full(len(graph), _ASSUMED_WORK)
