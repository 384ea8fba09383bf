"""Pictures of a workflow for Graphviz and Mermaid: one box per task description, not per subtask."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from weft.errors import InvalidInput
from weft.formats.format import SourceFile
from weft.workflow.quantity import is_growing, list_points
from weft.workflow.task import Task, TaskKind
from weft.workflow.workflow import Workflow, evaluate_params

_FIELD = re.compile(r"\{\{|\}\}|\{[^{}]*\}|\*")
_ANY = "\0"
"""Character that stands for any text in a pattern; file names cannot contain it."""


def find_description_edges(workflow: Workflow) -> dict[tuple[int, int], str]:
    """Return the edges between task descriptions that ``after`` and files imply, without back edges of loops.

    The result maps (position of the source, position of the target) to the condition; "" if there is none.
    """
    index_of = {task.name: index for index, task in enumerate(workflow.tasks)}
    index_of = {loop.name: index_of[loop.last] for loop in workflow.loops if loop.last in index_of} | index_of
    edges: dict[tuple[int, int], str] = {}
    writers = _WriterIndex(workflow)
    carriers = {
        (_file_pattern(task.transfer.file), task.transfer.target): index
        for index, task in enumerate(workflow.tasks)
        if task.transfer is not None
    }
    for index, task in enumerate(workflow.tasks):
        for dependency in task.after:
            if (source := index_of.get(dependency.task)) is not None:
                condition = "" if dependency.condition is None else str(dependency.condition)
                edges[source, index] = condition or edges.get((source, index), "")
        for pattern in map(_file_pattern, _read_names(task)):
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


def _file_pattern(name: str) -> str:
    """Return a file name as a pattern: ``{name}`` and ``*`` become ``_ANY``, doubled braces become single."""
    return _FIELD.sub(lambda match: {"{{": "{", "}}": "}"}.get(match[0], _ANY), name)


class _WriterIndex:
    """Index of the task descriptions that may write a file, by the text before the first wildcard."""

    def __init__(self, workflow: Workflow) -> None:
        named = [
            (_file_pattern(output.file), index)
            for index, task in enumerate(workflow.tasks)
            for output in task.outputs
        ]
        self.exact: dict[str, list[int]] = {}
        self.open: dict[str, list[tuple[str, int]]] = {}
        for pattern, index in named:
            self.exact.setdefault(pattern, []).append(index)
            if _ANY in pattern:
                self.open.setdefault(_fixed_prefix(pattern), []).append((pattern, index))
        self.lengths = sorted({len(beginning) for beginning in self.open})
        self.sorted = sorted((_fixed_prefix(pattern), pattern, index) for pattern, index in named)

    def find(self, pattern: str) -> list[int]:
        """Return the ascending positions of the tasks that may write a file matching a pattern."""
        found = set(self.exact.get(pattern, ()))
        found.update(index for other, index in self._candidates(pattern) if _patterns_overlap(pattern, other))
        return sorted(found)

    def _candidates(self, pattern: str) -> Iterator[tuple[str, int]]:
        """Yield (pattern, position of the writer) for each output whose prefix may match ``pattern``."""
        beginning = _fixed_prefix(pattern)
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


def _fixed_prefix(pattern: str) -> str:
    return pattern.partition(_ANY)[0]


def _patterns_overlap(one: str, other: str) -> bool:
    """Return whether any text matches both patterns.

    ``one`` is processed character by character. ``reached`` holds the positions in ``other`` up to which
    ``other`` can match the same text.
    """
    reached = _skip_wildcards({0}, other)
    for sign in one:
        if sign == _ANY:
            reached = set(range(min(reached), len(other) + 1)) if reached else reached
        else:
            ahead = {at + 1 for at in reached if at < len(other) and other[at] == sign}
            ahead |= {at for at in reached if at < len(other) and other[at] == _ANY}
            reached = _skip_wildcards(ahead, other)
        if not reached:
            return False
    return len(other) in reached


def _skip_wildcards(reached: set[int], other: str) -> set[int]:
    """Return the positions, and the positions after wildcards that directly follow them.

    A wildcard can be skipped, because it may match no text.
    """
    grown = set(reached)
    for at in reached:
        while at < len(other) and other[at] == _ANY:
            at += 1
            grown.add(at)
    return grown


_DOT_SHAPES = {TaskKind.COMPUTE: "box", TaskKind.TRANSFER: "ellipse", TaskKind.VIRTUAL: "diamond"}
_MERMAID_SHAPES = {
    TaskKind.COMPUTE: ("[", "]"),
    TaskKind.TRANSFER: ("([", "])"),
    TaskKind.VIRTUAL: ("{", "}"),
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_NOT_IN_MERMAID = re.compile(r"[^\w \-.,:/×?=+*()\[\]]")


class _PictureFormat:
    """Base of the formats for pictures, which are written, not read.

    A sweep is one box with its number of points, a transfer an ellipse, a virtual task a diamond. The back
    edge of a loop is dashed and has the condition of the loop as its label. An edge means that subtasks *may*
    depend on each other: ``{name}`` in a file name stands for any text, so ``vector.{k}`` matches
    ``vector.{j}`` and ``vector.7``. A transfer has edges from the writer of its file and to the readers on
    its target machine.
    """

    reads = False
    writes = True

    def recognises(self, source: SourceFile) -> bool:  # noqa: ARG002 -- no file is recognised
        """Return False: pictures are not read."""
        return False

    def read(self, source: SourceFile) -> Workflow:
        """Raise InvalidInput: pictures are not read."""
        what = f"{source.name} cannot be read as a picture"
        raise InvalidInput(what, rule="pictures are written, not read", advice="name another format")


class DotPicture(_PictureFormat):
    """A picture for Graphviz: ``dot -Tsvg``."""

    name = "dot-picture"
    title = "picture of the workflow for Graphviz"
    extensions: tuple[str, ...] = (".gv",)

    def write(self, workflow: Workflow) -> str:
        """Return the picture in DOT."""
        lines = [f"digraph {_dot_text(workflow.name)} {{", "    node [shape=box];"]
        for index, (task, label) in enumerate(_task_labels(workflow)):
            shape = "" if task.kind is TaskKind.COMPUTE else f", shape={_DOT_SHAPES[task.kind]}"
            lines.append(f"    n{index} [label={_dot_text(label)}{shape}];")
        for edge in _picture_edges(workflow):
            label = f"label={_dot_text(edge.label)}" if edge.label else ""
            style = "style=dashed, constraint=false" if edge.back else ""
            attributes = ", ".join(part for part in (label, style) if part)
            tail = f" [{attributes}]" if attributes else ""
            lines.append(f"    n{edge.source} -> n{edge.target}{tail};")
        return "\n".join([*lines, "}", ""])


class MermaidPicture(_PictureFormat):
    """A picture for Mermaid, which Markdown viewers display."""

    name = "mermaid"
    title = "picture of the workflow for Mermaid (Markdown)"
    extensions: tuple[str, ...] = (".mmd",)

    def write(self, workflow: Workflow) -> str:
        """Return the picture in Mermaid."""
        lines = ["flowchart TD"]
        for index, (task, label) in enumerate(_task_labels(workflow)):
            opening, closing = _MERMAID_SHAPES[task.kind]
            lines.append(f"    n{index}{opening}{_mermaid_text(label)}{closing}")
        for edge in _picture_edges(workflow):
            arrow = "-.->" if edge.back else "-->"
            label = f"|{_mermaid_text(edge.label)}|" if edge.label else ""
            lines.append(f"    n{edge.source} {arrow}{label} n{edge.target}")
        return "\n".join([*lines, ""])


@dataclass(frozen=True, slots=True, kw_only=True)
class _PictureEdge:
    """An edge of the picture, between positions in ``workflow.tasks``."""

    source: int
    target: int
    label: str = ""
    back: bool = False


def _task_labels(workflow: Workflow) -> Iterator[tuple[Task, str]]:
    params, problems = evaluate_params(workflow.params)
    if problems:
        raise InvalidInput(problems)
    for task in workflow.tasks:
        label = task.name
        if task.sweep is not None:
            unknown = any(is_growing(values) for _, values in task.sweep.variables)
            label += " ×?" if unknown else f" ×{len(list_points(task.sweep, params))}"
        yield task, label


def _picture_edges(workflow: Workflow) -> Iterator[_PictureEdge]:
    """Yield the edges between descriptions, then the back edges of the loops."""
    for (source, target), condition in find_description_edges(workflow).items():
        yield _PictureEdge(source=source, target=target, label=f"if {condition}" if condition else "")
    index_of = {task.name: index for index, task in enumerate(workflow.tasks)}
    for loop in workflow.loops:
        if loop.last in index_of and loop.first in index_of:
            label = f"at most {loop.max_iterations} times" if loop.until is None else f"until {loop.until}"
            source, target = index_of[loop.last], index_of[loop.first]
            yield _PictureEdge(source=source, target=target, label=label, back=True)


def _dot_text(text: str) -> str:
    """Return a quoted text for Graphviz."""
    return '"' + _CONTROL.sub(" ", text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mermaid_text(text: str) -> str:
    """Return a quoted text for Mermaid; characters that Mermaid interprets become character codes."""
    plain = _CONTROL.sub(" ", text)
    return '"' + _NOT_IN_MERMAID.sub(lambda match: f"#{ord(match[0])};", plain) + '"'
