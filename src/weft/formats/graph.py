"""Task graphs that are exchanged with other systems: cycle check, import of recorded workflows, export."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from weft.documents import Document, locate_problems
from weft.errors import InvalidInput, Problem, shorten
from weft.formats.format import SourceFile, file_error
from weft.records import dataclass
from weft.workflow.task import Dependency, Input, JobSpec, NodeCounts, Output, Task
from weft.workflow.task_graph import EVERYWHERE, TRANSFER, VIRTUAL, TaskGraph
from weft.workflow.unfold import unfold
from weft.workflow.workflow import Workflow

_MAX_CYCLE_NAMES = 8
"""Maximum number of tasks of a cycle that a message names."""


def _sort_topologically(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the tasks in topological order, without the tasks on a cycle and their descendants."""
    children: list[list[int]] = [[] for _ in parents]
    missing = [len(above) for above in parents]
    for index, above in enumerate(parents):
        for parent in above:
            children[parent].append(index)
    order = [index for index, count in enumerate(missing) if count == 0]
    for index in order:  # the list grows during the iteration
        for child in children[index]:
            missing[child] -= 1
            if missing[child] == 0:
                order.append(child)
    return order


def check_acyclic(source: SourceFile, names: Sequence[str], parents: Sequence[Sequence[int]]) -> list[int]:
    """Return a topological order of the tasks; raise InvalidInput that names a cycle if there is one."""
    if all(not above or max(above) < index for index, above in enumerate(parents)):
        return list(range(len(parents)))
    order = _sort_topologically(parents)
    if len(order) == len(parents):
        return order
    cycle = [shorten(names[index], 30) for index in _find_cycle(parents, order)]
    shown = cycle if len(cycle) <= _MAX_CYCLE_NAMES else [*cycle[:_MAX_CYCLE_NAMES], "…"]
    what = f"tasks wait for each other: {' -> '.join([*shown, cycle[0]])}"
    raise file_error(source, what, rule="a task graph has no cycle", advice="remove one of these edges")


def _find_cycle(parents: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Return a cycle, in the direction of its edges, among the tasks that are not in ``order``."""
    stuck = [True] * len(parents)
    for index in order:
        stuck[index] = False
    # Every missing task has a missing parent, so following parents ends in a cycle.
    index = stuck.index(True)
    trail: dict[int, int] = {}
    while index not in trail:
        trail[index] = len(trail)
        index = next(parent for parent in parents[index] if stuck[parent])
    return list(trail)[trail[index] :][::-1]


_BRACES = re.compile(r"(\$\{[^}]*\})|([{}])")
_ONE_NODE: NodeCounts = (1,)
_T = TypeVar("_T")


def escape_braces(text: str) -> str:
    """Return a text with braces doubled, so that ``{name}`` from another format is not read as a field."""
    if "{" not in text and "}" not in text:
        return text
    return _BRACES.sub(lambda match: match[1] or match[2] * 2, text)


@dataclass(slots=True, kw_only=True)
class RecordedWorkflow:
    """Tasks of a file as columns (one list per property), filled by the reader of a format.

    WfFormat and DAX list edges *and* files, and the two need not agree; in weft a file that one task writes
    and another reads implies an edge. These rules make every recorded workflow valid:

    - edges come from the listed parents (and children); files add the edges that the lists lack;
    - a file has one writer: the first task in file order that writes it without reading it, else the first
      that updates it in place; other tasks that write it keep their edges but do not declare the file;
    - a task that updates a file of another task counts as a reader only; the writer of a file does not read
      it;
    - where files would close a cycle, the listed edges take precedence: inputs that precede their writer in
      the order of the listed edges are left out. A cycle of listed edges is an error.

    Complexity: linear in tasks, edges and files.
    """

    names: list[str] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    """Indices of the parents of each task, possibly repeated."""
    reads: list[Sequence[str]] = field(default_factory=list)
    writes: list[Sequence[str]] = field(default_factory=list)
    sizes: dict[str, float] = field(default_factory=dict)
    """Bytes per file, where known."""
    sources: dict[str, str] = field(default_factory=dict)
    """Path or URL of files that no task writes, where stated, by file name."""
    work: list[float | None] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)
    """Node counts of the tasks that use more than one node."""
    jobs: list[JobSpec | None] = field(default_factory=list)
    attributes: list[Mapping[str, object]] = field(default_factory=list)

    def workflow(
        self, source: SourceFile, *, name: str | None = None, description: str | None = None
    ) -> Workflow:
        """Return the workflow. Raises InvalidInput if the listed edges close a cycle."""
        writers = self._settle_writers()
        self._drop_cyclic_inputs(source, writers)
        return Workflow(
            name=name or source.stem,
            tasks=tuple(self._tasks(writers)),
            description=description,
            document=Document(file=source.name),
        )

    def _settle_writers(self) -> dict[str, int]:
        """Return the index of the only writer of every file, by file name."""
        writers: dict[str, int] = {}
        updates: list[tuple[str, int]] = []
        for index, files in enumerate(self.writes):
            if not files:
                continue
            own = self.reads[index] if len(files) == 1 else frozenset(self.reads[index])
            for file in files:
                if file in own:
                    updates.append((file, index))
                else:
                    writers.setdefault(file, index)
        for file, index in updates:
            writers.setdefault(file, index)
        return writers

    def _drop_cyclic_inputs(self, source: SourceFile, writers: Mapping[str, int]) -> None:
        """Remove the inputs that would close a cycle."""
        order = check_acyclic(source, self.names, self.parents)
        if self._orders(order, writers):
            return
        find = writers.get
        edges = [
            [*above, *(maker for file in files if (maker := find(file, index)) != index)]
            for index, (above, files) in enumerate(zip(self.parents, self.reads, strict=True))
        ]
        if len(_sort_topologically(edges)) == len(edges):
            return
        position = _invert(order)
        for index, files in enumerate(self.reads):
            here = position[index]
            self.reads[index] = [file for file in files if position[find(file, index)] <= here]

    def _orders(self, order: Sequence[int], writers: Mapping[str, int]) -> bool:
        """Return whether, in this order of tasks, no file is read before it is written."""
        position = _invert(order)
        find = writers.get
        for index, files in enumerate(self.reads):
            here = position[index]
            for file in files:
                if position[find(file, index)] > here:
                    return False
        return True

    def _tasks(self, writers: Mapping[str, int]) -> list[Task]:
        names = self.names
        edges = [Dependency(task=name) for name in names]
        sizes, find = self.sizes, writers.get
        # All readers of a file share one Input: most files have several readers.
        inputs: dict[str, Input] = {}
        tasks = []
        for index, name in enumerate(names):
            taken = []
            for file in _distinct(self.reads[index]):
                if find(file) == index:
                    continue
                if (known := inputs.get(file)) is None:
                    source = self.sources.get(file) if file not in writers else None
                    known = inputs[file] = Input(
                        file=escape_braces(file),
                        source=None if source is None else escape_braces(source),
                        size=sizes.get(file),
                    )
                taken.append(known)
            given = [
                Output(file=escape_braces(file), size=sizes.get(file))
                for file in _distinct(self.writes[index])
                if writers[file] == index
            ]
            count = self.nodes.get(index)
            tasks.append(
                Task(
                    name=name,
                    after=tuple([edges[parent] for parent in _distinct(self.parents[index])]),
                    inputs=tuple(taken),
                    outputs=tuple(given),
                    work=self.work[index],
                    nodes=_ONE_NODE if count is None else (count,),
                    job=self.jobs[index],
                    attributes=self.attributes[index],
                )
            )
        return tasks


def _distinct(items: Sequence[_T]) -> Iterable[_T]:
    return dict.fromkeys(items) if len(items) > 1 else items


def _invert(order: Sequence[int]) -> list[int]:
    position = [0] * len(order)
    for place, index in enumerate(order):
        position[index] = place
    return position


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExportEdge:
    source: int
    size: float
    """Bytes of all files that the edge carries."""
    seconds: float
    """Fixed transfer time in seconds between two different machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportGraph:
    """An unfolded workflow with times and edges, by index of the task in topological order."""

    graph: TaskGraph
    seconds: tuple[float, ...]
    """Seconds on a machine of speed 1; nan where unknown."""
    edges: tuple[tuple[_ExportEdge, ...], ...]
    """Incoming edges of each task, sorted by source."""


def export_graph(workflow: Workflow, title: str) -> ExportGraph:
    """Return an unfolded workflow; raise InvalidInput if the format called ``title`` cannot express it."""
    graph = unfold(workflow)
    if problems := list(_find_unsupported(graph, title)):
        raise InvalidInput(list(locate_problems(problems, workflow.document)))
    pointer = graph.predecessor_pointer.tolist()
    columns = (graph.predecessor.tolist(), graph.edge_bytes.tolist(), graph.edge_seconds.tolist())
    edges = [
        _ExportEdge(source=source, size=size, seconds=fixed)
        for source, size, fixed in zip(*columns, strict=True)
    ]
    return ExportGraph(
        graph=graph,
        seconds=tuple(_export_seconds(graph)),
        edges=tuple(tuple(edges[start:end]) for start, end in itertools.pairwise(pointer)),
    )


def _export_seconds(graph: TaskGraph) -> Iterator[float]:
    pointer = graph.explicit_pointer.tolist()
    for task, (kind, work) in enumerate(zip(graph.kind.tolist(), graph.work.tolist(), strict=True)):
        if kind == VIRTUAL:
            yield 0.0
        elif pointer[task] < pointer[task + 1]:
            yield float(graph.explicit_seconds[pointer[task]])
        else:
            yield work


def _find_unsupported(graph: TaskGraph, title: str) -> Iterator[Problem]:
    advice = "write yaml instead, or a picture: dot-picture, mermaid"
    for body in graph.loops:
        what, path = f"the workflow has the loop {body.loop.name}", ("loops", body.loop.name)
        yield Problem(what=what, rule=f"{title} cannot express loops", advice=advice, path=path)
    described = graph.workflow.tasks
    if graph.edge_condition:
        conditional = [task for task in described if any(edge.condition is not None for edge in task.after)]
        for task in conditional:
            what, path = f"task {task.name} depends on a condition", ("tasks", task.name)
            yield Problem(what=what, rule=f"{title} cannot express conditions", advice=advice, path=path)
    for index in sorted(set(graph.template[graph.kind == TRANSFER].tolist())):
        name = described[index].name
        rule = f"{title} cannot express transfer tasks"
        yield Problem(
            what=f"{shorten(name)} is a transfer task", rule=rule, advice=advice, path=("tasks", name)
        )
    machines = [name for name in graph.explicit_names if name != EVERYWHERE]
    if machines:
        what = f"the seconds of tasks differ by machine ({shorten(', '.join(machines))})"
        yield Problem(what=what, rule=f"{title} has only one time per task", advice=advice)
