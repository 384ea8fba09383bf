"""The dialect of DOT in which small task graphs with communication delays are published.

``a [Weight=3];`` is a task of 3 seconds on a machine of speed 1; ``a -> b [Weight=2];`` a transfer that
takes 2 seconds between any two different machines. An edge with a weight becomes a file ``a->b`` of the
source, read by the target; one without is a plain dependency. Written back, both give the same graph.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from weft.documents import Document
from weft.errors import InvalidInput, Problem, nearest, shorten
from weft.formats.complaints import Complaints
from weft.formats.dot_syntax import DotGraph, parse_dot, quoted
from weft.formats.format import Source
from weft.formats.ordering import refuse_cycle
from weft.formats.trace import literal
from weft.workflow.records.data import Input, Output
from weft.workflow.records.dependency import Dependency
from weft.workflow.records.task import Task
from weft.workflow.records.workflow import Workflow

__all__ = ["Dot"]

_GRAPH = re.compile(
    r"(?>\s+|//[^\n]*\n|/\*.*?\*/|^\#[^\n]*\n)*+(?:strict\s+)?digraph\b",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,4})?")


class Dot:
    """Task graphs with weights, as DOT."""

    name = "dot"
    title = "Graphviz DOT with Weight attributes (task graphs of the literature)"
    extensions: tuple[str, ...] = (".dot",)
    reads = True
    writes = True

    def recognises(self, source: Source) -> bool:
        """Say whether the file starts with ``digraph``."""
        return _GRAPH.match(source.head) is not None

    def read(self, source: Source) -> Workflow:
        """Read a task graph. Raises InvalidInput."""
        parsed = parse_dot(source)
        complaints = Complaints(source)
        tasks = _tasks(source, parsed, complaints)
        complaints.finish()
        name = parsed.name or source.stem
        return Workflow(name=name, tasks=tasks, document=Document(file=source.name))

    def write(self, workflow: Workflow) -> str:
        """Write the unfolded workflow. Raises InvalidInput for what the dialect cannot say."""
        from weft.formats.plain_graph import plain_graph

        plain = plain_graph(workflow, "this dialect of DOT")
        names = [quoted(_checked(name)) for name in plain.graph.names]
        lines = [f"digraph {quoted(_checked(workflow.name))} {{"]
        for index, seconds in enumerate(plain.seconds):
            if math.isnan(seconds):
                what = f"task {plain.graph.names[index]} has no known time"
                raise InvalidInput(
                    Problem(what=what, rule="every node needs a Weight", advice="give it work")
                )
            lines.append(f"    {names[index]} [Weight={_weight(seconds)}];")
        for index, edges in enumerate(plain.edges):
            for edge in edges:
                if edge.size > 0:
                    _refuse_bytes(plain.graph.names[edge.source], plain.graph.names[index], edge.size)
                weight = f" [Weight={_weight(edge.seconds)}]"
                lines.append(f"    {names[edge.source]} -> {names[index]}{weight};")
        return "\n".join([*lines, "}", ""])


def _tasks(source: Source, graph: DotGraph, complaints: Complaints) -> tuple[Task, ...]:
    index_of = {name: index for index, name in enumerate(graph.nodes)}
    weights = _edge_weights(graph, complaints)
    work = [_read_weight(node.attributes, f"node {shorten(name)!r}", node.line, complaints, required=True)
            for name, node in graph.nodes.items()]  # fmt: skip
    if not graph.nodes:
        complaints.add("no nodes", rule="a task graph has at least one task")
    if "" in graph.nodes:
        complaints.add("a node with an empty name", line=graph.nodes[""].line)
    complaints.finish()
    parents: list[list[int]] = [[] for _ in index_of]
    for start, end in weights:
        parents[index_of[end]].append(index_of[start])
    refuse_cycle(source, list(index_of), parents)
    after: dict[str, list[Dependency]] = {name: [] for name in index_of}
    inputs: dict[str, list[Input]] = {name: [] for name in index_of}
    outputs: dict[str, list[Output]] = {name: [] for name in index_of}
    taken: set[str] = set()
    for (start, end), seconds in weights.items():
        if seconds == 0:
            after[end].append(Dependency(task=start))
            continue
        file = f"{start}->{end}"
        while file in taken:  # a node may itself be called x->y
            file += "'"
        taken.add(file)
        outputs[start].append(Output(file=literal(file), seconds=seconds))
        inputs[end].append(Input(file=literal(file)))
    return tuple(
        Task(
            name=name, after=tuple(after[name]), inputs=tuple(inputs[name]),
            outputs=tuple(outputs[name]), work=seconds,
        )
        for name, seconds in zip(index_of, work, strict=True)
    )  # fmt: skip


def _edge_weights(graph: DotGraph, complaints: Complaints) -> dict[tuple[str, str], float]:
    weights: dict[tuple[str, str], float] = {}
    lines: dict[tuple[str, str], int] = {}
    for edge in graph.edges:
        ends = (edge.source, edge.target)
        label = f"edge {shorten(edge.source, 30)} -> {shorten(edge.target, 30)}"
        if ends in lines and not graph.strict:
            rule = "two tasks have one edge (write strict digraph if the last one counts)"
            complaints.add(f"{label} again, first in line {lines[ends]}", rule=rule, line=edge.line)
        lines[ends] = edge.line
        weights[ends] = _read_weight(edge.attributes, label, edge.line, complaints) or 0.0
    return weights


def _read_weight(
    attributes: Mapping[str, str], label: str, line: int, complaints: Complaints, *, required: bool = False
) -> float | None:
    text = attributes.get("Weight")
    if text is None:
        if required:
            close = nearest("Weight", attributes)
            advice = f"did you mean Weight instead of {close!r}?" if close else "write [Weight=SECONDS]"
            complaints.add(f"{label} has no Weight", rule="every task has a time", advice=advice, line=line)
        return None
    number = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if 0 <= number < math.inf:
        return number
    complaints.add(f"{label} has Weight={shorten(text)!r}", rule="must be a number, at least 0", line=line)
    return None


def _weight(seconds: float) -> str:
    text = str(int(seconds)) if seconds == int(seconds) and abs(seconds) < 1e15 else repr(seconds)
    return f'"{text}"' if "e" in text else text


def _checked(name: str) -> str:
    """Refuse the names DOT cannot write: with a backslash at the end, or before a quote or line break."""
    if name.endswith("\\") or '\\"' in name or "\\\n" in name:
        raise InvalidInput(
            Problem(
                what=f"name {shorten(name)!r}",
                rule="DOT cannot write a backslash before a quote, a line break or the end",
                advice="rename the task",
            )
        )
    return name


def _refuse_bytes(source: str, target: str, size: float) -> None:
    raise InvalidInput(
        Problem(
            what=f"edge {shorten(source, 40)} -> {shorten(target, 40)} carries {size:g} bytes",
            rule="this dialect of DOT has only seconds on its edges",
            advice="write wfformat, or dot-picture for a picture",
        )
    )
