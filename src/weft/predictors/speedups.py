"""Speed-up laws of tasks as an array (laws x node counts), and estimates in the layout ``related``."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.platform.machine import Machine
from weft.predictors.predictor import Flags
from weft.predictors.seconds import RelatedSeconds, check_entries
from weft.records import dataclass
from weft.workflow.task import MeasuredSeconds, SpeedUp
from weft.workflow.task_graph import COMPUTE, Floats, Indices, TaskGraph

_NO_LAW = 0
"""Row for tasks without a law; their time is the same for every node count."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Speedups:
    """Speed-up law and allowed node counts of each task, and the speed-ups of all laws."""

    law: Indices
    speedup: Floats
    """Laws x node counts from 0: speed-up; nan where a law is undefined."""
    counts: Indices
    count_sets: tuple[tuple[int, ...], ...]
    capacity: Indices


def evaluate_law(law: SpeedUp | None, nodes: int) -> float:
    """Return the speed-up of a law on ``nodes`` nodes (1 without a law); nan where it is undefined."""
    return 1.0 if law is None else law.speedup(nodes)


def reference_speedup(law: SpeedUp | None, counts: Sequence[int]) -> float:
    """Return the speed-up on the smallest count for which the law is defined; nan if there is none.

    Explicit seconds refer to this count.
    """
    known = (evaluate_law(law, count) for count in counts)
    return next((value for value in known if not math.isnan(value)), math.nan)


def law_key(law: SpeedUp | None) -> Hashable:
    """Return a hashable key of a law; equal laws have equal keys."""
    return tuple(sorted(law.seconds.items())) if isinstance(law, MeasuredSeconds) else law


def largest_count(graph: TaskGraph, machines: Sequence[Machine]) -> int:
    """Return the largest node count that some task may use and some machine has."""
    largest = max((counts[-1] for counts in graph.count_sets), default=1)
    return min(max(largest, 1), max((machine.nodes for machine in machines), default=1))


def evaluate_laws(graph: TaskGraph, machines: Sequence[Machine]) -> Speedups:
    """Return the speed-ups of all laws for allowed node counts; transfers and virtual tasks have count 1."""
    compute = graph.kind == COMPUTE
    law, laws = _laws(graph)
    law = np.where(compute, law[graph.template], _NO_LAW).astype(np.uint32)
    counts, count_sets = _counts(graph)
    width = largest_count(graph, machines) + 1
    check_entries(len(laws) * width, f"{len(laws):,} speed-up laws on up to {width - 1:,} nodes")
    speedup = np.full((len(laws), width), np.nan)
    speedup[_NO_LAW, 1:] = 1.0
    pairs = np.unique(law.astype(np.int64) * len(count_sets) + counts)
    for row, column in zip(*(part.tolist() for part in divmod(pairs, len(count_sets))), strict=True):
        if row != _NO_LAW:
            known = [count for count in count_sets[column] if count < width]
            speedup[row, known] = [evaluate_law(laws[row], count) for count in known]
    capacity = np.array([machine.nodes for machine in machines], dtype=np.uint32)
    return Speedups(law=law, speedup=speedup, counts=counts, count_sets=count_sets, capacity=capacity)


def _laws(graph: TaskGraph) -> tuple[Indices, list[SpeedUp | None]]:
    """Return the index of the law of each task description, and the distinct laws."""
    rows: dict[Hashable, int] = {None: _NO_LAW}
    laws: list[SpeedUp | None] = [None]
    column = np.zeros(len(graph.workflow.tasks), dtype=np.uint32)
    for index, task in enumerate(graph.workflow.tasks):
        if task.speedup is not None:
            column[index] = row = rows.setdefault(law_key(task.speedup), len(rows))
            if row == len(laws):
                laws.append(task.speedup)
    return column, laws


def _counts(graph: TaskGraph) -> tuple[Indices, tuple[tuple[int, ...], ...]]:
    compute = graph.kind == COMPUTE
    count_sets = graph.count_sets
    if (1,) not in count_sets and not compute.all():
        count_sets = (*count_sets, (1,))
    single = count_sets.index((1,)) if (1,) in count_sets else 0
    return np.where(compute, graph.counts, single).astype(np.uint32), count_sets


NO_WORK = "no work"
"""Name of the source of the estimate 0 seconds, which transfers and virtual tasks have."""
UNKNOWN = "unknown"
"""Name of the source for compute tasks without an estimate."""


def relate_work(
    graph: TaskGraph,
    machines: Sequence[Machine],
    *,
    work: Floats,
    rated: Flags,
    sources: tuple[str, ...],
    source: NDArray[np.uint8],
) -> RelatedSeconds:
    """Return the seconds of all modes from work (nan if unknown), rates (1 unless ``rated``) and laws."""
    compute = graph.kind == COMPUTE
    unknown = compute & np.isnan(work)
    extra = [(NO_WORK, ~compute), (UNKNOWN, unknown)]
    for label, tasks in extra:
        if tasks.any():
            source = np.where(tasks, len(sources), source).astype(np.uint8)
            sources = (*sources, label)
    service, rate = _rates(graph, machines, compute & ~rated & ~unknown)
    laws = evaluate_laws(graph, machines)
    return RelatedSeconds(
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
