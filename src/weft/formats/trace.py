"""A recorded workflow on its way from a foreign file: columns over tasks, and the rules that make a workflow
of them.

WfFormat and DAX list edges *and* files, and the two need not agree; in weft a file that one task writes
and another reads is an edge by itself. The rules, so that every recorded workflow is valid:

- edges come from the listed parents (and children); files add the edges that the lists lack;
- a file has one writer: the first task in file order that writes it without reading it, else the first
  that updates it in place; other tasks that write it keep their edges but don't declare the file;
- a task that updates a file another task writes only reads it; the only writer of a file doesn't read it;
- where files would close a cycle, the listed edges win: inputs that stand before their writer in the
  order the listed edges give are left out. A cycle of listed edges is an error.

Complexity: linear in tasks, edges and files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from weft.documents import Document
from weft.formats.format import Source
from weft.formats.ordering import find_order, refuse_cycle
from weft.workflow.records.data import Input, Output
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.job import Job
from weft.workflow.records.task import NodeCounts, Task
from weft.workflow.records.workflow import Workflow

__all__ = ["Trace", "literal"]

_BRACES = re.compile(r"(\$\{[^}]*\})|([{}])")
_ONE: NodeCounts = (1,)
_T = TypeVar("_T")


def literal(text: str) -> str:
    """Write a foreign text so that no part of it is taken for a ``{name}`` of ours."""
    if "{" not in text and "}" not in text:
        return text
    return _BRACES.sub(lambda match: match[1] or match[2] * 2, text)


@dataclass(slots=True, kw_only=True)
class Trace:
    """Columns over the tasks of a file, filled by its reader. File names are as the file has them."""

    names: list[str] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    """Indices of the tasks each waits for; repetitions allowed."""
    reads: list[Sequence[str]] = field(default_factory=list)
    writes: list[Sequence[str]] = field(default_factory=list)
    sizes: dict[str, float] = field(default_factory=dict)
    """Bytes per file, where known."""
    work: list[float | None] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)
    """Tasks that take another number of nodes than one."""
    jobs: list[Job | None] = field(default_factory=list)
    attributes: list[Mapping[str, object]] = field(default_factory=list)

    def workflow(
        self, source: Source, *, name: str | None = None, description: str | None = None
    ) -> Workflow:
        """Build the workflow. Raises InvalidInput when the listed edges close a cycle."""
        writers = self._settle_writers()
        self._drop_cyclic_inputs(source, writers)
        return Workflow(
            name=name or source.stem,
            tasks=tuple(self._tasks(writers)),
            description=description,
            document=Document(file=source.name),
        )

    def _settle_writers(self) -> dict[str, int]:
        """Find the one writer of every file."""
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

    def _drop_cyclic_inputs(self, source: Source, writers: Mapping[str, int]) -> None:
        """Leave out the inputs that would close a cycle."""
        order = refuse_cycle(source, self.names, self.parents)
        if self._orders(order, writers):
            return
        find = writers.get
        edges = [
            [*above, *(maker for file in files if (maker := find(file, index)) != index)]
            for index, (above, files) in enumerate(zip(self.parents, self.reads, strict=True))
        ]
        if len(find_order(edges)) == len(edges):
            return
        position = _inverse(order)
        for index, files in enumerate(self.reads):
            here = position[index]
            self.reads[index] = [file for file in files if position[find(file, index)] <= here]

    def _orders(self, order: Sequence[int], writers: Mapping[str, int]) -> bool:
        """Say whether every file is written before it is read in this order."""
        position = _inverse(order)
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
        # One Input serves all readers of a file; most files are read more than once.
        inputs: dict[str, Input] = {}
        tasks = []
        for index, name in enumerate(names):
            taken = []
            for file in _once(self.reads[index]):
                if find(file) == index:
                    continue
                known = inputs.get(file)
                if known is None:
                    known = inputs[file] = Input(file=literal(file), size=sizes.get(file))
                taken.append(known)
            given = [
                Output(file=literal(file), size=sizes.get(file))
                for file in _once(self.writes[index])
                if writers[file] == index
            ]
            count = self.nodes.get(index)
            tasks.append(
                Task(
                    name=name,
                    after=tuple([edges[parent] for parent in _once(self.parents[index])]),
                    inputs=tuple(taken),
                    outputs=tuple(given),
                    work=self.work[index],
                    nodes=_ONE if count is None else (count,),
                    job=self.jobs[index],
                    attributes=self.attributes[index],
                )
            )
        return tasks


def _once(items: Sequence[_T]) -> Iterable[_T]:
    return dict.fromkeys(items) if len(items) > 1 else items


def _inverse(order: Sequence[int]) -> list[int]:
    position = [0] * len(order)
    for place, index in enumerate(order):
        position[index] = place
    return position
