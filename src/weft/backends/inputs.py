"""Inputs: the files a task wants in its directory, and which tasks of the run make them.

A file that several iterations of a loop make is the one made last; before any was made it is the user's own
(the first guess of a calculation). So who makes a file is known before the run, and which one it is only when
the task starts.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass

from weft.backends.said import refuse_astray
from weft.engine.state.known import Known
from weft.expressions import Value
from weft.platform.machine import Machine
from weft.workflow.records.data import Input
from weft.workflow.templates import fill
from weft.workflow.unfolding.task_graph import TaskGraph

__all__ = ["Inputs", "Makers", "Wanted", "late_names", "names_for", "outputs_of"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One declared input of a task."""

    name: str
    """In the task's directory; may be a wildcard or a folder."""
    makers: tuple[int, ...] = ()
    """The tasks that write it."""
    source: str = ""
    """Where the user keeps it; "": under the same name beside the workflow."""
    shared: bool = False
    compressed: bool = False


def names_for(known: Known, task: int, machine: Machine, iteration: int = 1) -> dict[str, Value]:
    """Give what file names may speak of once a machine was chosen."""
    return {
        **late_names(known, task, iteration),
        "machine.name": machine.name,
        "machine.arch": machine.arch or "",
        "machine.os": machine.os or "",
    }


def late_names(known: Known, task: int, iteration: int) -> dict[str, Value]:
    """Give what file names may speak of when a task begins."""
    return {**known.graph.context(task), "iteration": iteration, "task": known.names[task]}


def outputs_of(known: Known, task: int, iteration: int = 1) -> list[str]:
    """List the names of the files a task writes; wildcards and folders as they were declared."""
    outputs = known.description(task).outputs
    if not outputs:
        return []
    names = late_names(known, task, iteration)
    return [fill(output.file, names) for output in outputs]


class Makers:
    """Who makes which file of one workflow."""

    def __init__(self, graph: TaskGraph) -> None:
        self._makers: dict[str, list[int]] = {}
        self._patterns: list[tuple[str, int]] = []
        tasks = graph.workflow.tasks
        for task, template in enumerate(graph.template.tolist()):
            outputs = tasks[template].outputs
            context = graph.context(task) if outputs else {}
            for output in outputs:
                self._note(fill(output.file, context, last=False), task)

    def _note(self, name: str, task: int) -> None:
        self._makers.setdefault(name, []).append(task)
        if _is_pattern(name):
            self._patterns.append((name + "*" if name.endswith("/") else name, task))

    def of(self, name: str) -> list[int]:
        """List the tasks that make a file, or what a wildcard or a folder holds, as known before a run."""
        found = self._makers.get(name)
        if found is not None:
            return found
        if _is_pattern(name):
            return [maker for made, makers in self._makers.items() if _holds(name, made) for maker in makers]
        return [task for pattern, task in self._patterns if fnmatch.fnmatchcase(name, pattern)]


class Inputs:
    """What the tasks of one workflow read, and who makes it."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._makers = Makers(known.graph)

    def of(self, task: int, machine: Machine, iteration: int = 1) -> Iterator[Wanted]:
        """List the inputs of a task, in the order in which they were declared; raises StagingProblem."""
        inputs = self._known.description(task).inputs
        if not inputs:
            return
        names = names_for(self._known, task, machine, iteration)
        context = self._known.graph.context(task)
        for item in inputs:
            if item.source:
                refuse_astray(self._known.description(task), item.source, names)
            yield self._wanted(item, names, context)

    def _wanted(self, item: Input, names: dict[str, Value], context: dict[str, Value]) -> Wanted:
        name = fill(item.file, names)
        source = fill(item.source, names) if item.source else ""
        declared = fill(item.file, context, last=False)
        makers = () if source else tuple(self._makers.of(declared))
        return Wanted(name, makers, source, item.shared, item.compressed)


def _holds(pattern: str, name: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern + "*" if pattern.endswith("/") else pattern)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name or name.endswith("/")
