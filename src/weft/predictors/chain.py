"""A chain of predictors: for each mode the first estimate that is not None is used."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.platform.machine import Machine
from weft.platform.platform import Platform
from weft.predictions import unresolved_files
from weft.predictors.explicit import ExplicitSeconds
from weft.predictors.predictor import Estimate, Flags, Predictor, PredictorInputs, TaskFeatures, WorkModel
from weft.predictors.seconds import RelatedSeconds, Seconds
from weft.predictors.speedups import relate_work
from weft.predictors.tabulation import tabulate
from weft.predictors.work import AssumedWork, WorkOverSpeed
from weft.records import dataclass
from weft.workflow.task_graph import COMPUTE, TaskGraph
from weft.workflow.workflow import Workflow


@dataclass(frozen=True, slots=True)
class PredictorChain:
    """Returns the estimate of the first predictor that has one; "impossible" counts as an estimate."""

    predictors: tuple[Predictor, ...]

    name: ClassVar[str] = "chain"

    @property
    def reads(self) -> PredictorInputs:
        """Return the union of the inputs that the predictors read."""
        each = (predictor.reads for predictor in self.predictors)
        return functools.reduce(operator.or_, each, PredictorInputs(rate=False))

    @property
    def final(self) -> bool:
        """Return whether no predictor of the chain returns None for a task to which it applies."""
        return all(predictor.final for predictor in self.predictors)

    def applies(self, graph: TaskGraph) -> Flags:
        """Return a mask of the tasks to which at least one predictor applies."""
        return np.asarray(self._owner(graph) < len(self.predictors))

    def predict(self, features: TaskFeatures, machine: Machine, nodes: int) -> Estimate | None:
        """Return the first estimate of a predictor that is not None; None if there is none."""
        estimates = (predictor.predict(features, machine, nodes) for predictor in self.predictors)
        return next((estimate for estimate in estimates if estimate is not None), None)

    def table(self, graph: TaskGraph, machines: Sequence[Machine]) -> Seconds:
        """Return all estimates: as ``RelatedSeconds`` if all are work over speed, otherwise as a table."""
        owner = self._owner(graph)
        if (related := self._related(graph, machines, owner)) is not None:
            return related
        for index, predictor in enumerate(self.predictors):
            if predictor.final and (owner[graph.kind == COMPUTE] == index).all():
                return predictor.table(graph, machines)
        return tabulate(self, graph, machines)

    def _owner(self, graph: TaskGraph) -> NDArray[np.int64]:
        """Return per task the index of the first predictor that applies; their number if none applies."""
        owner = np.full(len(graph), len(self.predictors), dtype=np.int64)
        for index in range(len(self.predictors) - 1, -1, -1):
            owner[self.predictors[index].applies(graph)] = index
        return owner

    def _related(
        self, graph: TaskGraph, machines: Sequence[Machine], owner: NDArray[np.int64]
    ) -> RelatedSeconds | None:
        work = np.full(len(graph), np.nan)
        rated = np.ones(len(graph), dtype=np.bool_)
        source = np.zeros(len(graph), dtype=np.uint8)
        sources: list[str] = []
        for index, predictor in enumerate(self.predictors):
            mine = owner == index
            if isinstance(predictor, WorkModel) and mine.any():
                work[mine] = predictor.works(graph)[mine]
                rated[mine] = predictor.rated
                source[mine] = len(sources)
                sources.append(predictor.source)
        if np.isnan(work[graph.kind == COMPUTE]).any():
            return None
        return relate_work(graph, machines, work=work, rated=rated, sources=tuple(sources), source=source)


def default_chain() -> PredictorChain:
    """Return the default chain: explicit seconds, then work over speed, then an assumed work of 1 second."""
    return PredictorChain((ExplicitSeconds(), WorkOverSpeed(), AssumedWork()))


def chain_for(workflow: Workflow, platform: Platform, first: Predictor | None = None) -> PredictorChain:
    """Return the chain of predictors for a workflow on a platform.

    The order is: ``first``, the predictions of the workflow, the predictions of the platform, and the default
    chain.
    """
    before: list[Predictor] = [] if first is None else [first]
    for rows in (workflow.predictions, platform.predictions):
        if files := unresolved_files(rows):
            raise InvalidInput(f"the predictions in {files[0]!r} have not been read")
        if rows:
            from weft.predictors.measurements import Measurements

            before.append(Measurements([row for row in rows if not isinstance(row, str)]))
    return PredictorChain((*before, *default_chain().predictors))
