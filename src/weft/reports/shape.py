"""Shape of a workflow: number of tasks, width, depth, work, critical path, and a picture by levels."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from weft.units import format_bytes, format_count, format_seconds
from weft.workflow.task_graph import COMPUTE, TRANSFER, VIRTUAL, TaskGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Measures of a task graph."""

    name: str
    descriptions: int
    tasks: int
    compute_tasks: int
    transfer_tasks: int
    virtual_tasks: int
    moldable_tasks: int
    edges: int
    depth: int
    """Number of tasks on the longest path."""
    width: int
    """Maximal number of tasks on one level."""
    work_s: float
    """Seconds of all tasks on one machine of speed 1; tasks of unknown work count 0."""
    unknown_work: int
    """Number of compute tasks without stated work or seconds."""
    critical_path_s: float
    """Length of the longest path in seconds, on machines of speed 1 with one node per task."""
    critical_path: tuple[str, ...]
    data_bytes: float
    loops: tuple[str, ...]
    abstract_machines: int

    def as_record(self) -> dict[str, object]:
        """Return the measures as plain data for JSON."""
        return asdict(self)


def measure_shape(graph: TaskGraph) -> Shape:
    """Return the measures of a task graph."""
    work = _work(graph)
    level = _levels(graph)
    path, length = _critical(graph, np.nan_to_num(work))
    members = np.bincount(graph.variable, minlength=len(graph.variables))
    moldable = np.array([len(counts) > 1 for counts in graph.count_sets], dtype=bool)
    return Shape(
        name=graph.workflow.name,
        descriptions=len(graph.workflow.tasks),
        tasks=len(graph),
        compute_tasks=int((graph.kind == COMPUTE).sum()),
        transfer_tasks=int((graph.kind == TRANSFER).sum()),
        virtual_tasks=int((graph.kind == VIRTUAL).sum()),
        moldable_tasks=int(moldable[graph.counts].sum()),
        edges=graph.edge_count,
        depth=int(level.max(initial=-1)) + 1,
        width=int(np.bincount(level).max(initial=0)) if len(level) else 0,
        work_s=float(np.nansum(work)),
        unknown_work=int(np.isnan(work[graph.kind == COMPUTE]).sum()),
        critical_path_s=length,
        critical_path=tuple(graph.names[task] for task in path),
        data_bytes=float(graph.edge_bytes.sum() + graph.transfer_bytes.sum()),
        loops=tuple(body.loop.name for body in graph.loops),
        abstract_machines=int((members > 1).sum()),
    )


def _work(graph: TaskGraph) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the work of each task; the minimum of its seconds per machine if these are stated."""
    work = np.where(graph.kind == COMPUTE, graph.work, 0.0)
    for task in np.flatnonzero(np.diff(graph.explicit_pointer)).tolist():
        row = slice(graph.explicit_pointer[task], graph.explicit_pointer[task + 1])
        work[task] = graph.explicit_seconds[row].min()
    return work


def _levels(graph: TaskGraph) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    pointer, before = graph.predecessor_pointer.tolist(), graph.predecessor.tolist()
    level = [0] * len(graph)
    for task in range(len(graph)):
        if pointer[task] < pointer[task + 1]:
            level[task] = 1 + max(level[other] for other in before[pointer[task] : pointer[task + 1]])
    return np.asarray(level, dtype=np.int64)


def _critical(
    graph: TaskGraph, work: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> tuple[list[int], float]:
    end = [0.0] * len(graph)
    via = [-1] * len(graph)
    for task in range(len(graph)):
        start = 0.0
        for other in graph.predecessors(task).tolist():
            if end[other] > start:
                start, via[task] = end[other], other
        end[task] = start + float(work[task])
    if not end:
        return [], 0.0
    task = int(np.argmax(end))
    path = [task]
    while via[path[-1]] >= 0:
        path.append(via[path[-1]])
    return path[::-1], end[task]


_LEVELS, _PER_LEVEL = 30, 6
"""Number of levels, and of kinds per level or tasks of the critical path, that are shown."""


def shape_lines(shape: Shape, *, verbose: bool = False) -> list[str]:
    """Return a shape as lines of text; ``verbose``: with all tasks of the critical path."""
    kinds = [
        f"{count} {word}"
        for count, word in (
            (shape.compute_tasks, "compute"),
            (shape.transfer_tasks, "transfer"),
            (shape.virtual_tasks, "virtual"),
        )
        if count
    ]
    named = shape.critical_path[: None if verbose else _PER_LEVEL]
    path = " → ".join(named) + (" → …" if len(named) < len(shape.critical_path) else "")
    origin = f"from {format_count(shape.descriptions, 'description')}, {format_count(shape.edges, 'edge')}"
    lines = [
        f"{shape.name}: {format_count(shape.tasks, 'task')} ({', '.join(kinds)}) {origin}",
        f"  depth          {format_count(shape.depth, 'task')}",
        f"  width          {format_count(shape.width, 'task')}",
        f"  work           {format_seconds(shape.work_s)} on one machine of speed 1",
        f"  critical path  {format_seconds(shape.critical_path_s)}: {path}",
        f"  data           {format_bytes(shape.data_bytes)} between tasks",
    ]
    if shape.unknown_work:
        lines.append(f"  unknown work   {format_count(shape.unknown_work, 'task')} without a stated time")
    if shape.moldable_tasks:
        lines.append(f"  moldable       {shape.moldable_tasks} tasks can run on several node counts")
    if shape.abstract_machines:
        count = format_count(shape.abstract_machines, "abstract machine")
        lines.append(f"  bound together {count} with several tasks")
    if shape.loops:
        lines.append(f"  loops          {', '.join(shape.loops)}; the numbers are those of one iteration")
    return lines


def draw_levels(graph: TaskGraph, *, verbose: bool = False) -> str:
    """Return a picture with one line per level: the kinds of its tasks, and the number of each kind.

    Without ``verbose``, further levels and further kinds of a level are only counted.
    """
    levels, per_level = (None, None) if verbose else (_LEVELS, _PER_LEVEL)
    level = _levels(graph)
    kinds = [task.program for task in graph.workflow.tasks]
    rows: dict[int, dict[str, int]] = {}
    for task, template in enumerate(graph.template.tolist()):
        at = rows.setdefault(int(level[task]), {})
        at[kinds[template]] = at.get(kinds[template], 0) + 1
    heads = {body.loop.first: body.loop for body in graph.loops}
    tails = {body.loop.last: body.loop for body in graph.loops}
    lines = []
    for depth in sorted(rows)[:levels]:
        boxes = []
        for name, count in list(rows[depth].items())[:per_level]:
            mark = ("↺ " if name in heads else "") + name + (f" ×{count}" if count > 1 else "")
            if name in tails:
                loop = tails[name]
                mark += f" ↩ {loop.name}" + (f" until {loop.until}" if loop.until is not None else "")
            boxes.append(f"[{mark}]")
        rest = len(rows[depth]) - len(boxes)
        lines.append(f"  {depth + 1:>3}  " + "  ".join(boxes) + (f"  … {rest} more" if rest > 0 else ""))
    if rest := len(rows) - len(lines):
        lines.append(f"       … {format_count(rest, 'more level')}")
    return "\n".join(lines)
