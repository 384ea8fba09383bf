"""Work over speed: the seconds of a task are its work over the machine's rate and the speed-up of its nodes.

A measured law says how much faster than on its first count; ``work`` is then the time on that count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.predictor import Estimate, Flags, PredictorInputs, TaskFeatures, impossible
from weft.predictors.seconds import RelatedSeconds
from weft.predictors.speedups import evaluate_law, relate_work
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph

__all__ = ["WorkOverSpeed", "divide"]


def divide(work: float, subject: TaskFeatures, rate: float, nodes: int, source: str) -> Estimate:
    """Divide work by rate and speed-up; where the law knows nothing, the mode is impossible."""
    seconds = work / rate / evaluate_law(subject.law, nodes)
    return impossible(source) if math.isnan(seconds) else Estimate(p50_s=seconds, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOverSpeed:
    """Answers for every task whose work is known; its estimates count as exact."""

    name: ClassVar[str] = "work"
    source: ClassVar[str] = "work/speed"
    reads: ClassVar[PredictorInputs] = PredictorInputs()
    final: ClassVar[bool] = True
    rated: ClassVar[bool] = True

    def applies(self, graph: TaskGraph) -> Flags:
        """Take the tasks whose work is known."""
        return np.asarray((graph.kind == COMPUTE) & ~np.isnan(graph.work))

    def predict(self, subject: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Divide work by rate and speed-up."""
        if math.isnan(subject.work):
            return None
        return divide(subject.work, subject, machine.rate(subject.service), nodes, self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Give the work as it was described."""
        return graph.work

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> RelatedSeconds:
        """Keep work, rates and laws as they are."""
        return relate_work(
            graph,
            machines,
            work=graph.work,
            rated=np.ones(len(graph), dtype=np.bool_),
            sources=(self.source,),
            source=np.zeros(len(graph), dtype=np.uint8),
        )
