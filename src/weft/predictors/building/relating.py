"""From work per task to the layout ``related``, without a loop over tasks or modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.platform.machine import Machine
from weft.predictors.building.laws import speedups
from weft.predictors.layouts.related import Related
from weft.predictors.layouts.sizes import check_entries
from weft.predictors.predictor import Flags
from weft.workflow.unfolding.task_graph import COMPUTE, Floats, Indices, TaskGraph

__all__ = ["NO_WORK", "UNKNOWN", "relate"]

NO_WORK = "no work"
"""Source of the 0 seconds of transfers and virtual tasks."""
UNKNOWN = "unknown"
"""Source of a compute task about which nobody said anything."""


def relate(
    graph: TaskGraph,
    machines: Sequence[Machine],
    *,
    work: Floats,
    rated: Flags,
    sources: tuple[str, ...],
    source: NDArray[np.uint8],
) -> Related:
    """Combine work (nan: unknown) with rates and laws; where not ``rated`` every machine has rate 1."""
    compute = graph.kind == COMPUTE
    unknown = compute & np.isnan(work)
    extra = [(NO_WORK, ~compute), (UNKNOWN, unknown)]
    for label, tasks in extra:
        if tasks.any():
            source = np.where(tasks, len(sources), source).astype(np.uint8)
            sources = (*sources, label)
    service, rate = _rates(graph, machines, compute & ~rated & ~unknown)
    laws = speedups(graph, machines)
    return Related(
        sources=sources,
        source=source,
        spread=np.full(len(graph), np.nan),
        work=np.where(compute, work, 0.0),
        service=service,
        rate=rate,
        law=laws.law,
        speedup=laws.speedup,
        counts=laws.counts,
        count_sets=laws.count_sets,
        capacity=laws.capacity,
    )


def _rates(graph: TaskGraph, machines: Sequence[Machine], unrated: Flags) -> tuple[Indices, Floats]:
    services: dict[str | None, int] = {}
    column = [services.setdefault(task.service, len(services)) for task in graph.workflow.tasks]
    check_entries(len(services) * len(machines), f"{len(services):,} services on {len(machines):,} machines")
    rows = [[machine.rate(service) for machine in machines] for service in services]
    service = np.array(column, dtype=np.uint32)[graph.template]
    if unrated.any():
        service = np.where(unrated, len(rows), service).astype(np.uint32)
        rows.append([1.0] * len(machines))
    return service, np.array(rows, dtype=np.float64).reshape(len(rows), len(machines))
