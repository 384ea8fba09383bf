"""Edges between task descriptions: what a reader of the file sees, before sweeps are unfolded.

File names may hold ``{names}``; here each stands for any text, so ``vector.{k}`` meets ``vector.{j}`` and
``vector.7``. An edge of the picture thus says that subtasks *may* depend on each other. A transfer stands
between the writer of its file and the readers on the machine it goes to.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow

__all__ = ["description_edges"]

_FIELD = re.compile(r"\{\{|\}\}|\{[^{}]*\}|\*")
_ANY = "\0"
"""Stands for any text in a pattern; no file name holds it."""


def description_edges(workflow: Workflow) -> dict[tuple[int, int], str]:
    """Find the edges by ``after`` and by files: positions in ``workflow.tasks``, and a condition as text."""
    index_of = {task.name: index for index, task in enumerate(workflow.tasks)}
    index_of = {loop.name: index_of[loop.last] for loop in workflow.loops if loop.last in index_of} | index_of
    edges: dict[tuple[int, int], str] = {}
    writers = _Writers(workflow)
    carriers = {
        (_pattern(task.transfer.file), task.transfer.target): index
        for index, task in enumerate(workflow.tasks)
        if task.transfer is not None
    }
    for index, task in enumerate(workflow.tasks):
        for dependency in task.after:
            source = index_of.get(dependency.task)
            if source is not None:
                condition = "" if dependency.condition is None else str(dependency.condition)
                edges[source, index] = condition or edges.get((source, index), "")
        for pattern in map(_pattern, _read_names(task)):
            carrier = carriers.get((pattern, task.machine or ""))
            for writer in writers.find(pattern) if carrier is None else [carrier]:
                if writer != index:
                    edges.setdefault((writer, index), "")
    backward = {(index_of[loop.last], index_of[loop.first]) for loop in workflow.loops
                if loop.last in index_of and loop.first in index_of}  # fmt: skip
    return {ends: label for ends, label in edges.items() if ends not in backward}


def _read_names(task: Task) -> Iterator[str]:
    for given in task.inputs:
        yield given.file
    if task.transfer is not None:
        yield task.transfer.file


def _pattern(name: str) -> str:
    """Replace every placeholder by the sign for any text, and doubled braces by single ones."""
    return _FIELD.sub(lambda match: {"{{": "{", "}}": "}"}.get(match[0], _ANY), name)


class _Writers:
    """Finds the descriptions that may write a file, by the fixed beginnings of names."""

    def __init__(self, workflow: Workflow) -> None:
        named = [
            (_pattern(output.file), index)
            for index, task in enumerate(workflow.tasks)
            for output in task.outputs
        ]
        self.exact: dict[str, list[int]] = {}
        self.open: dict[str, list[tuple[str, int]]] = {}
        for pattern, index in named:
            self.exact.setdefault(pattern, []).append(index)
            if _ANY in pattern:
                self.open.setdefault(_beginning(pattern), []).append((pattern, index))
        self.lengths = sorted({len(beginning) for beginning in self.open})
        self.sorted = sorted((_beginning(pattern), pattern, index) for pattern, index in named)

    def find(self, pattern: str) -> list[int]:
        """Give the writers of a name, in the order of the file."""
        found = set(self.exact.get(pattern, ()))
        found.update(index for other, index in self._candidates(pattern) if _meet(pattern, other))
        return sorted(found)

    def _candidates(self, pattern: str) -> Iterator[tuple[str, int]]:
        """List the names whose fixed beginning agrees as far as both go."""
        beginning = _beginning(pattern)
        for length in self.lengths:
            if length <= len(beginning):
                yield from self.open.get(beginning[:length], ())
        if _ANY not in pattern:
            return
        for at in range(bisect.bisect_left(self.sorted, (beginning,)), len(self.sorted)):
            longer, other, index = self.sorted[at]
            if not longer.startswith(beginning):
                return
            yield other, index


def _beginning(pattern: str) -> str:
    return pattern.partition(_ANY)[0]


def _meet(one: str, other: str) -> bool:
    """Say whether some text fits both patterns.

    Walks over one pattern and keeps the positions in the other that the text so far may have reached.
    """
    reached = _skip_open({0}, other)
    for sign in one:
        if sign == _ANY:
            reached = set(range(min(reached), len(other) + 1)) if reached else reached
        else:
            ahead = {at + 1 for at in reached if at < len(other) and other[at] == sign}
            ahead |= {at for at in reached if at < len(other) and other[at] == _ANY}
            reached = _skip_open(ahead, other)
        if not reached:
            return False
    return len(other) in reached


def _skip_open(reached: set[int], other: str) -> set[int]:
    """An open place may stand for no text at all."""
    grown = set(reached)
    for at in reached:
        while at < len(other) and other[at] == _ANY:
            at += 1
            grown.add(at)
    return grown
