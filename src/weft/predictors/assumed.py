"""The fallback: one second of work for every task. Promises of run times leave such tasks out."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from weft.platform.machine import Machine
from weft.predictors.predictor import Estimate, Flags, TaskFeatures
from weft.predictors.work import WorkOverSpeed, estimate_work
from weft.records import dataclass
from weft.workflow.task_graph import COMPUTE, Floats, TaskGraph

__all__ = ["ASSUMED_WORK", "AssumedWork"]

ASSUMED_WORK = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedWork(WorkOverSpeed):
    """Estimates every task from an assumed work."""

    name: ClassVar[str] = "assumed"
    source: ClassVar[str] = "assumed"

    def applies(self, graph: TaskGraph) -> Flags:
        """Return all compute tasks."""
        return np.asarray(graph.kind == COMPUTE)

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the assumed work / rate / speed-up."""
        return estimate_work(ASSUMED_WORK, features, machine.rate(features.service), nodes, self.source)

    def works(self, graph: TaskGraph) -> Floats:
        """Return the assumed work per task."""
        return np.full(len(graph), ASSUMED_WORK)
