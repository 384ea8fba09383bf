"""Pictures of a workflow as its author described it: one box per description, not per subtask.

A sweep is one box with its number of points, a transfer an ellipse, a virtual task a diamond, and the
back edge of a loop is dashed and carries its condition. Written for Graphviz and for Mermaid; nothing is
read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from weft.errors import InvalidInput, Problem
from weft.formats.description_edges import description_edges
from weft.formats.format import Source
from weft.workflow.records.sweep import growing, points_of
from weft.workflow.records.task import Kind, Task
from weft.workflow.records.workflow import Workflow
from weft.workflow.unfolding.parameters import evaluate_params

__all__ = ["DotPicture", "MermaidPicture", "description_edges"]

_DOT_SHAPES = {Kind.COMPUTE: "box", Kind.TRANSFER: "ellipse", Kind.VIRTUAL: "diamond"}
_MERMAID_SHAPES = {Kind.COMPUTE: ("[", "]"), Kind.TRANSFER: ("([", "])"), Kind.VIRTUAL: ("{", "}")}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_NOT_IN_MERMAID = re.compile(r"[^\w \-.,:/×?=+*()\[\]]")


class _Picture:
    """What is drawn, not read."""

    reads = False
    writes = True

    def recognises(self, source: Source) -> bool:  # noqa: ARG002 -- every file is refused alike
        """Never: a picture is not a workflow."""
        return False

    def read(self, source: Source) -> Workflow:
        """Refuse: a picture is not a workflow."""
        raise _not_read(source)


class DotPicture(_Picture):
    """A picture for Graphviz: ``dot -Tsvg``."""

    name = "dot-picture"
    title = "picture of the workflow for Graphviz"
    extensions: tuple[str, ...] = (".gv",)

    def write(self, workflow: Workflow) -> str:
        """Draw the descriptions and the edges between them."""
        lines = [f"digraph {_dot_text(workflow.name)} {{", "    node [shape=box];"]
        for index, (task, label) in enumerate(_labels(workflow)):
            shape = "" if task.kind is Kind.COMPUTE else f", shape={_DOT_SHAPES[task.kind]}"
            lines.append(f"    n{index} [label={_dot_text(label)}{shape}];")
        for edge in _edges(workflow):
            label = f"label={_dot_text(edge.label)}" if edge.label else ""
            style = "style=dashed, constraint=false" if edge.back else ""
            attributes = ", ".join(part for part in (label, style) if part)
            tail = f" [{attributes}]" if attributes else ""
            lines.append(f"    n{edge.source} -> n{edge.target}{tail};")
        return "\n".join([*lines, "}", ""])


class MermaidPicture(_Picture):
    """A picture for Mermaid, which Markdown viewers draw."""

    name = "mermaid"
    title = "picture of the workflow for Mermaid (Markdown)"
    extensions: tuple[str, ...] = (".mmd",)

    def write(self, workflow: Workflow) -> str:
        """Draw the descriptions and the edges between them."""
        lines = ["flowchart TD"]
        for index, (task, label) in enumerate(_labels(workflow)):
            opening, closing = _MERMAID_SHAPES[task.kind]
            lines.append(f"    n{index}{opening}{_mermaid_text(label)}{closing}")
        for edge in _edges(workflow):
            arrow = "-.->" if edge.back else "-->"
            label = f"|{_mermaid_text(edge.label)}|" if edge.label else ""
            lines.append(f"    n{edge.source} {arrow}{label} n{edge.target}")
        return "\n".join([*lines, ""])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrow:
    """An edge of the picture, between positions in ``workflow.tasks``."""

    source: int
    target: int
    label: str = ""
    back: bool = False


def _not_read(source: Source) -> InvalidInput:
    what = f"{source.name} would be read as a picture"
    return InvalidInput(Problem(what=what, rule="pictures are only written", advice="name another format"))


def _labels(workflow: Workflow) -> Iterator[tuple[Task, str]]:
    params, problems = evaluate_params(workflow.params)
    if problems:
        raise InvalidInput(problems)
    for task in workflow.tasks:
        label = task.name
        if task.sweep is not None:
            unknown = any(growing(values) for _, values in task.sweep.variables)
            label += " ×?" if unknown else f" ×{len(points_of(task.sweep, params))}"
        yield task, label


def _edges(workflow: Workflow) -> Iterator[_Arrow]:
    """List the edges between descriptions, then the back edges of the loops."""
    for (source, target), condition in description_edges(workflow).items():
        yield _Arrow(source=source, target=target, label=f"if {condition}" if condition else "")
    index_of = {task.name: index for index, task in enumerate(workflow.tasks)}
    for loop in workflow.loops:
        if loop.last in index_of and loop.first in index_of:
            label = (
                f"until {loop.until}" if loop.until is not None else f"at most {loop.max_iterations} times"
            )
            yield _Arrow(source=index_of[loop.last], target=index_of[loop.first], label=label, back=True)


def _dot_text(text: str) -> str:
    """Write a text for Graphviz: its quotes and backslashes mean themselves."""
    plain = _CONTROL.sub(" ", text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _mermaid_text(text: str) -> str:
    """Write a text for Mermaid: whatever could mean something to it becomes a character code."""
    plain = _CONTROL.sub(" ", text)
    return '"' + _NOT_IN_MERMAID.sub(lambda match: f"#{ord(match[0])};", plain) + '"'
