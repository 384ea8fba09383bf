"""A predictor for tests whose estimates have a stated spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weft.predictors.predictor import Estimate, PredictorInputs
from weft.predictors.tabulation import tabulate
from weft.predictors.work import AssumedWork
from weft.workflow.task_graph import COMPUTE

__all__ = ["Unsure"]


@dataclass(frozen=True)
class Unsure:
    """Estimate the work of a task as P50 and a multiple of it as P90; no P90 if the ratio is None."""

    ratios: dict[str, float | None] = field(default_factory=dict)
    other: float | None = 1.5

    name = "unsure"
    final = True
    reads = PredictorInputs(kind=True)

    def applies(self, graph):
        return graph.kind == COMPUTE

    def predict(self, features, machine, nodes):
        if math.isnan(features.work):
            return AssumedWork().predict(features, machine, nodes)
        seconds = features.work / machine.speed / (1 if features.law is None else features.law.speedup(nodes))
        ratio = self.ratios.get(features.kind, self.other)
        return Estimate(p50_s=seconds, p90_s=None if ratio is None else ratio * seconds, source="believed")

    def table(self, graph, machines):
        return tabulate(self, graph, machines)
