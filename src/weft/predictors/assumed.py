"""The last resort: where nothing is known, a placeholder of one second of work, which promises leave out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.predictor import Estimate, Flags, PredictorInputs, TaskFeatures
from weft.predictors.seconds import RelatedSeconds
from weft.predictors.speedups import relate_work
from weft.predictors.work import divide
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph

__all__ = ["ASSUMED_WORK", "AssumedWork"]

ASSUMED_WORK = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedWork:
    """Answers for every task."""

    name: ClassVar[str] = "assumed"
    source: ClassVar[str] = "assumed"
    reads: ClassVar[PredictorInputs] = PredictorInputs()
    final: ClassVar[bool] = True
    rated: ClassVar[bool] = True

    def applies(self, graph: TaskGraph) -> Flags:
        """Take every compute task."""
        return np.asarray(graph.kind == COMPUTE)

    def predict(self, subject: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Divide one second of work by rate and speed-up."""
        return divide(ASSUMED_WORK, subject, machine.rate(subject.service), nodes, self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Give one second of work per task."""
        return np.full(len(graph), ASSUMED_WORK)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> RelatedSeconds:
        """Keep work, rates and laws as they are."""
        return relate_work(
            graph,
            machines,
            work=self.works(graph),
            rated=np.ones(len(graph), dtype=np.bool_),
            sources=(self.source,),
            source=np.zeros(len(graph), dtype=np.uint8),
        )
